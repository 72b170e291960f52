/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A NIC that is gone: unplugged, reset, or failed for good (libhmreg). hmreg.h's conventions hold
 * here.
 */
#ifndef HMREG_LOST_H
#define HMREG_LOST_H

#include <hmreg/hmreg.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/*
 * Says that a domain's NIC is gone, as an event tells (IBV_EVENT_DEVICE_FATAL, a port error that
 * lasts, libfabric's errors); hmreg finds out by itself where a registration fails and the NIC's
 * folder in /sys is gone. That is final: open another domain on the NIC that comes back. From the
 * return on:
 *  - no get hits on the domain; registering and getting there returns -ENODEV, with `why`, and so
 *    do the parts of a job that are not registered yet, binding, enabling, refreshing, packing, raw
 *    keys, new memory windows, and new objects of loopback.
 *  - its idle cached regions have ended. A region that is held or explicit ends with its last
 *    hmreg_mr_put() or its hmreg_mr_close(), by which the caller says that no work request uses it
 *    any more. These return at once.
 *  - no later call but, with FI_THREAD_DOMAIN, hmreg_domain_close() waits for the device. A thread
 *    of the domain's own ("hmreg-lost") deregisters what has ended, with its closed memory windows;
 *    with a fabric that permits one thread at a time (FI_THREAD_DOMAIN) hmreg_domain_close() does.
 *    While a call there does not return, hmreg_domain_close() returns -EBUSY.
 *  - each group that the domain is a member of goes on without it, as after hmreg_group_withdraw(),
 *    for which the call waits for no other thread.
 * Calls that began before are the exception: a thread that is inside the fabric stays there, and so
 * does a thread that waits until that one ends a hmreg_suspend(), hmreg_resume() or job. A get that
 * waits for another thread's registration returns. A second call, on another thread, may return
 * while the first one ends regions. why: NUL-terminated, copied, at most 255 bytes of it; NULL or
 * empty: a text of hmreg's. A domain that is lost already keeps its first reason: 0. Any thread.
 * -EINVAL: domain is NULL or a group (name its member). -ENOMEM: the domain is lost, but some
 * regions of its groups still have its keys: call again. -EPERM: in a forked child.
 */
int hmreg_domain_lost(struct hmreg_domain *domain, const char *why);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
