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
 * Reports to hmreg that a domain's NIC is gone. Call it when an event reports it:
 * IBV_EVENT_DEVICE_FATAL, a lasting port error, an error of libfabric. hmreg detects the loss
 * itself if a registration fails and the NIC's folder in /sys is gone.
 *
 * The loss is final: open another domain if the NIC comes back. From the return on:
 * - no get hits on the domain. Calls on the domain that register, get, bind, enable, refresh, pack,
 *   use raw keys, or open windows or loopback's objects return -ENODEV, with `why`; so do pieces of
 *   a job that are not registered yet.
 * - its idle cached regions have ended. A region that is held or explicit ends with its last
 *   hmreg_mr_put() or its hmreg_mr_close(): call it when no work request uses the region any more.
 *   Both return at once.
 * - no later call waits for the device, except hmreg_domain_close() with FI_THREAD_DOMAIN. The
 *   domain's thread "hmreg-lost" deregisters ended regions, and memory windows that
 *   hmreg_window_close() has closed. If the fabric permits one thread at a time (FI_THREAD_DOMAIN),
 *   hmreg_domain_close() does this. While a call into the fabric does not return,
 *   hmreg_domain_close() returns -EBUSY.
 * - each group of the domain continues without it, as after hmreg_group_withdraw(); the call waits
 *   for no other thread.
 *
 * Calls that began before the loss are the exception. A thread that is inside the fabric stays
 * there. A thread that waits for that thread's hmreg_suspend(), hmreg_resume() or job stays too. A
 * get that waits for another thread's registration returns.
 *
 * A second call, on another thread, may return while the first one ends regions.
 *
 * why: NUL-terminated, copied, at most 255 bytes of it; NULL or empty: hmreg's own text. A domain
 * that is lost already keeps its first reason, and the call returns 0. Any thread.
 * -EINVAL: domain is NULL or a group (name its member).
 * -ENOMEM: the domain is lost, but some regions of its groups still show its keys: call again.
 * -EPERM: in a forked child.
 */
int hmreg_domain_lost(struct hmreg_domain *domain, const char *why);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
