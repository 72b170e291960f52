/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Sleep and wake: the registrations of a range end, so that its owner can give the memory back, and
 * are made anew later, of whatever memory is at these addresses then (libhmreg). hmreg.h's
 * conventions hold here.
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
 * Ends every registration that touches [addr, addr+len), on all domains of the library, of explicit
 * and cached regions, held or not. On return no registration, export or mapping of the library
 * keeps the memory, and peers that use the keys are refused. Until hmreg_resume() of the same
 * range:
 *  - a region that is open or held is suspended. Its keys, descriptors and native object are not
 *    valid, and calls with it return -EAGAIN, but hmreg_mr_query(), and hmreg_mr_close() or
 *    hmreg_mr_put(), which release it as ever.
 *  - a cached region without a holder has ended.
 *  - registering or getting memory of the range returns -EAGAIN.
 *  - the memory may be freed and unmapped, and other memory of the same iface mapped there.
 * Before the call the application ends all transfers on these regions. During it, and during
 * hmreg_resume(), other threads may get, put, register and close, and must use no region of the
 * range for anything else. The calls deregister and register on the calling thread: a fabric that
 * permits one thread at a time (FI_THREAD_DOMAIN) must be left alone by the application's own
 * calls. Ranges may overlap: a region is suspended while it touches one of them. The same range
 * once more: ends what an earlier call could not. -EINVAL: lib is NULL, len is 0, or the range
 * wraps. -ENOMEM. -EBUSY: an endpoint, counter (hmreg_mr_bind()) or memory window
 * (hmreg_window_open()) is bound to a region, or a job registers one. -EOPNOTSUPP: registrations of
 * a region's domain complete in an event queue that the caller reads. After these nothing has
 * changed. -EBUSY also: the fabric does not deregister a region, which it says only when asked (a
 * memory window that the caller has bound itself), or a region of a lost domain, or of a group that
 * has lost a member, is not ended yet. Then the range is suspended, but for that
 * region: call again, or hmreg_resume(). Any other error is the fabric's, whose registration counts
 * as ended: the range is suspended.
 */
int hmreg_suspend(struct hmreg *lib, const void *addr, size_t len);

struct hmreg_resume_config {
    size_t size; /* sizeof(struct hmreg_resume_config) */
    /* Called for each region that is registered anew: the caller sends its new token. NULL: none.
     * Both callbacks must not register, get, release, suspend or resume. */
    void (*resumed)(struct hmreg_mr *mr, void *context);
    /* Called for each part of a region that was registered by the caller's dmabuf. *dmabuf has its
     * base_addr, offset and len; the callback sets fd to a descriptor of the memory that is there
     * now, and may change the offset. The descriptor stays the caller's, until hmreg_resume()
     * returns. An error ends hmreg_resume(). NULL: such regions cannot be resumed. */
    int (*dmabuf)(struct hmreg_mr *mr, size_t index, struct hmreg_mr_dmabuf *dmabuf, void *context);
    void *context;
};

/*
 * Ends the suspension of a range, which is one of hmreg_suspend(), and registers its regions anew,
 * as they were asked for, by the memory that is there now: with new keys (requested ones but for
 * the domains that choose keys are requested again), a new generation in the public head
 * (<hmreg/region.h>) and a new token, which hmreg_remote_renew() takes. The rails of a group's
 * region keep their struct hmreg_mr; calls with one that the region does without now return
 * -EINVAL. What the caller's attributes point to is used again as far as the library cannot copy
 * it: hmem_data. A region that begins disabled, does so again. A cached region stays valid until
 * its last put, and serves no later get, which registers its own. config: NULL: no callbacks.
 * -EINVAL: lib is NULL, the range is empty or wraps, config's size, a region of a caller's
 * dmabuf and no config->dmabuf, or the memory there is of another iface than before: nothing is
 * mapped yet. -ENOENT: no such range is suspended. Errors of hmreg_mr_regattr(),
 * -EBUSY of hmreg_suspend(), and errors of config->dmabuf: the region is still suspended, and so
 * are the regions behind it and the range; call again when the cause is gone, release the region,
 * or suspend the range again.
 */
int hmreg_resume(struct hmreg *lib, const void *addr, size_t len,
                 const struct hmreg_resume_config *config);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
