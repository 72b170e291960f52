/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Saves a process for restoring it, elsewhere or more than once (libhmreg). All fabric objects of
 * the library end, so that a checkpoint (CRIU) finds none. Later they are made anew, on the NICs
 * present then. hmreg.h's conventions hold here.
 *
 * hmreg_suspend() deregisters one range, and the NIC stays open; hmreg_hibernate() deregisters all,
 * so that the caller can close the NIC.
 * Both may be in force at once, and begin and end in either order: a region is registered again by
 * whichever ends last. The struct hmreg_mr of each region stays the same; its keys do not.
 */
#ifndef HMREG_HIBERNATE_H
#define HMREG_HIBERNATE_H

#include <hmreg/hmreg.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/*
 * Ends every registration of the library, on all domains: explicit and cached regions, held or not.
 * Also ends all else that a checkpoint refuses: the memory monitor (userfaultfd, /dev/hmreg) and
 * its thread, the thread that deregisters, dmabufs and mappings of device memory, and the page of
 * hmreg stats. On success the caller closes its own fabric objects, fid_domains and ibv_pds too,
 * and the process may be saved. Until hmreg_thaw():
 * - a region that is open or held is suspended, as by hmreg_suspend(). It keeps the request's
 *   range, access, key and options. A cached region without a holder has ended.
 * - calls that register, get, or need the fabric of libfabric or libibverbs return -EAGAIN.
 * - hmreg calls no fabric and no vendor's runtime for regions.
 *
 * The following work: hmreg_mr_put(), hmreg_mr_close(), hmreg_domain_close(), queries,
 * hmreg_suspend(), hmreg_resume() and hmreg_domain_lost(). Domains may be opened.
 *
 * Before the call the application ends all transfers. During it and during hmreg_thaw() other
 * threads may call only hmreg_mr_put() and hmreg_mr_close(). Each library of the process
 * (hmreg_open()) hibernates by itself.
 *
 * If the library hibernates already: 0.
 * -EINVAL: lib is NULL.
 * -ENOMEM.
 * -EPERM: in a forked child.
 * -EBUSY (the text names the domain and the obstacle): a member's replacement, jobs, mapped keys
 *   (hmreg_domain_map_raw()), remotes and key tables of a domain with HMREG_MR_RAW, objects of
 *   hmreg (memory windows, loopback's endpoints, counters and queues), or a region that an endpoint
 *   or counter is bound to.
 * -EOPNOTSUPP: a region of a domain whose registrations complete in an event queue that the caller
 *   reads.
 *
 * After these nothing has changed.
 * -EBUSY also: the fabric refused to deregister a region, because of a memory window that the
 *   caller has bound itself; or a lost domain has not deregistered all its regions. Then the other
 *   regions are suspended, but nothing else has ended: call again, or hmreg_thaw().
 *
 * Any other error is a fabric's, and the registration counts as ended: the library hibernates.
 */
int hmreg_hibernate(struct hmreg *lib);

struct hmreg_thaw_config {
    size_t size; /* sizeof(struct hmreg_thaw_config) */
    /* As in struct hmreg_resume_config (<hmreg/suspend.h>). */
    void (*resumed)(struct hmreg_mr *mr, void *context);
    int (*dmabuf)(struct hmreg_mr *mr, size_t index, struct hmreg_mr_dmabuf *dmabuf, void *context);
    /* Called for each region that cannot be registered now. why: valid during the call. NULL: none.
     * Must not register, get, release, suspend or resume. */
    void (*failed)(struct hmreg_mr *mr, const struct hmreg_error *why, void *context);
    void *context;
};

/*
 * Ends the hibernation, in the process that hibernated or in one restored from its image. First the
 * application calls one of these for each open domain of libfabric or libibverbs.
 *
 * hmreg_domain_renew_ofi() (<hmreg/ofi.h>) or hmreg_domain_renew_verbs() (<hmreg/verbs.h>): with a
 * new object, or with the old one if it was not closed.
 *
 * hmreg_domain_lost(): if the NIC is absent.
 *
 * A group continues with the members that are not lost.
 *
 * Then hmreg_thaw() begins a new incarnation of the process: hmreg_remote_check() detects older
 * tokens. It chooses the memory monitor anew, as hmreg_open() and the first get do.
 *
 * It registers each region anew, with the arguments of its first registration and the memory that
 * is there now. The region has new keys, a new generation in the public head and a new token.
 * Requested keys are requested again, except on domains that choose keys.
 *
 * A region of memory that hmreg_suspend() suspended stays suspended until hmreg_resume(). If a
 * monitor that was chosen by name is not available, host memory is not cached;
 * hmreg_monitor_query() says so.
 *
 * config: NULL: no callbacks.
 * -EINVAL: lib is NULL, config's size is wrong, or a domain has no fabric, as the text says:
 *   nothing has changed.
 * -ENOENT: the library does not hibernate.
 *
 * Any other error, such as an error of hmreg_mr_regattr(), is the error of the first region that is
 * still suspended. The text names it, and says how many there are.
 *
 * The others are registered and may be used, but calls that register or get still return -EAGAIN.
 * Call again when the cause is gone, or once you have closed or put the regions for which `failed`
 * was called. hmreg_hibernate() ends all again.
 */
int hmreg_thaw(struct hmreg *lib, const struct hmreg_thaw_config *config);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
