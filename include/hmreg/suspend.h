/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Sleep and wake (libhmreg). The registrations of a range end, so that its owner can free the
 * memory. Later they are made anew, for the memory then at these addresses. hmreg.h's conventions
 * hold here.
 *
 * An engine that releases device memory and maps other memory at the same addresses calls
 * hmreg_suspend() before the one and hmreg_resume() after the other. The struct hmreg_mr of each
 * region stays the same; its keys do not.
 */
#ifndef HMREG_SUSPEND_H
#define HMREG_SUSPEND_H

#include <hmreg/hmreg.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/*
 * Ends every registration that touches [addr, addr+len), on all domains of the library: explicit
 * and cached regions, held or not. On return no registration, export or mapping of the library
 * keeps the memory, and the fabric refuses peers that use the keys. Until hmreg_resume() of the
 * same range:
 * - a region that is open or held is suspended. Its keys, descriptors and native object are not
 *   valid. Calls with it return -EAGAIN, except hmreg_mr_query(), hmreg_mr_close() and
 *   hmreg_mr_put(), which work as before.
 * - a cached region without a holder has ended.
 * - registering or getting memory of the range returns -EAGAIN.
 * - the memory may be freed and unmapped, and other memory of the same iface mapped there.
 *
 * Before the call the application ends all transfers on these regions. During it, and during
 * hmreg_resume(), other threads may get, put, register and close, but must not use regions of the
 * range in any other way. The calls deregister and register on the calling thread.
 *
 * If the fabric permits one thread at a time (FI_THREAD_DOMAIN), the application must not call it
 * meanwhile.
 *
 * Ranges may overlap: a region is suspended while it touches any of them. A second call for a range
 * ends registrations that the first could not.
 * -EINVAL: lib is NULL, len is 0, or the range wraps.
 * -ENOMEM.
 * -EBUSY: an endpoint, counter (hmreg_mr_bind()) or memory window (hmreg_window_open()) is bound to
 *   a region, or a job registers in the range.
 * -EOPNOTSUPP: registrations of a region's domain complete in an event queue that the caller reads.
 *
 * After these nothing has changed.
 * -EBUSY also: the fabric refused to deregister a region, because of a memory window that the
 *   caller has bound itself; or a region of a lost domain or member has not ended yet. Then the
 *   range is suspended, except for that region: call again, or hmreg_resume().
 *
 * Any other error is the fabric's, and the registration counts as ended: the range is suspended.
 */
int hmreg_suspend(struct hmreg *lib, const void *addr, size_t len);

struct hmreg_resume_config {
    size_t size; /* sizeof(struct hmreg_resume_config) */
    /* Called for each region that is registered anew: the caller sends its new token. NULL: none.
     * Neither callback may register, get, release, suspend or resume. */
    void (*resumed)(struct hmreg_mr *mr, void *context);
    /* Called for each part of a region of the caller's dmabuf. *dmabuf has the part's base_addr,
     * offset and len. The callback sets fd to a descriptor of the memory that is there now, and may
     * change the offset. The descriptor stays the caller's, until hmreg_resume() returns. An error
     * ends hmreg_resume(). NULL: such regions cannot be resumed. */
    int (*dmabuf)(struct hmreg_mr *mr, size_t index, struct hmreg_mr_dmabuf *dmabuf, void *context);
    void *context;
};

/*
 * Ends the suspension of a range that was passed to hmreg_suspend(), and registers its regions
 * anew, with the arguments of their first registration and the memory that is there now.
 *
 * Each has new keys, a new generation in the public head (<hmreg/region.h>) and a new token, for
 * hmreg_remote_renew(). Requested keys are requested again, except on domains that choose keys.
 *
 * The rails of a group's region keep their struct hmreg_mr. If the region now lacks a rail, calls
 * with that rail return -EINVAL. The library uses the caller's hmem_data again, of which it has no
 * copy. A region that was disabled when it was registered is disabled again.
 *
 * A cached region stays valid until its last put but serves no later get: the next get registers a
 * new one.
 *
 * config: NULL: no callbacks.
 * -EINVAL: lib is NULL, the range is empty or wraps, config's size is wrong, a region of a caller's
 *   dmabuf has no config->dmabuf, or the memory there is of another iface or not mapped yet.
 * -ENOENT: no such range is suspended.
 *
 * Errors of hmreg_mr_regattr(), -EBUSY of hmreg_suspend(), and errors of config->dmabuf: the
 * region, the regions after it and the range are still suspended. Call again when the cause is
 * gone, release the region, or suspend the range again.
 */
int hmreg_resume(struct hmreg *lib, const void *addr, size_t len,
                 const struct hmreg_resume_config *config);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
