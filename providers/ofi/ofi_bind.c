/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Binds, enables and refreshes regions of libfabric, as fi_mr_bind(), _enable() and _refresh() do.
 */
#include "core/base/error.h"
#include "providers/ofi/ofi.h"

#include <errno.h>
#include <inttypes.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_errno.h>

static int check_ep(const struct ofi *ofi, const struct state *state, uint64_t flags)
{
    if (flags)
        return hmreg_fail(-HMREG_EBADFLAGS, "flags are %#" PRIx64 "; for an endpoint they are 0",
                          flags);
    if (!(ofi->mr_mode & HMREG_MR_ENDPOINT))
        return hmreg_fail(-EINVAL, "object: this domain binds no endpoints (no FI_MR_ENDPOINT)");
    if (state->enabled)
        return hmreg_fail(-HMREG_EOPBADSTATE,
                          "the region is enabled already: bind before hmreg_mr_enable()");
    if (state->bound)
        return hmreg_fail(-EBUSY, "the region is bound to an endpoint already");
    return 0;
}

static int check_counter(const struct ofi *ofi, const struct state *state, uint64_t flags)
{
    if (flags != HMREG_REMOTE_WRITE)
        return hmreg_fail(-HMREG_EBADFLAGS,
                          "flags are %#" PRIx64 "; for a counter they are HMREG_REMOTE_WRITE",
                          flags);
    if ((ofi->mr_mode & HMREG_MR_RMA_EVENT) && !state->event)
        return hmreg_fail(-EINVAL, "the region was registered without HMREG_RMA_EVENT, which this "
                                   "domain needs for a counter");
    if ((ofi->mr_mode & STATEFUL) && state->enabled)
        return hmreg_fail(-HMREG_EOPBADSTATE,
                          "the region is enabled already: bind before hmreg_mr_enable()");
    return 0;
}

static int check_object(const struct ofi *ofi, const struct state *state, const struct fid *object,
                        uint64_t flags)
{
    switch (object->fclass) {
    case FI_CLASS_EP:
    case FI_CLASS_SEP:
        return check_ep(ofi, state, flags);
    case FI_CLASS_CNTR:
        return check_counter(ofi, state, flags);
    default:
        return hmreg_fail(-EINVAL,
                          "object is no endpoint or counter of libfabric: its class is %zu",
                          object->fclass);
    }
}

/* The lock is not held during libfabric's call, which may not return: the state says before it what
 * the call does, so that a second one is refused meanwhile. */
int ofi_bind(void *self, const struct hmreg_mr_keys *mr, void *object, uint64_t flags)
{
    struct ofi *ofi = self;
    struct fid *fid = object;
    struct state *state = mr->priv;
    atomic_bool *done = NULL;
    bool before = false;
    int rc;

    pthread_mutex_lock(&ofi->lock);
    rc = check_object(ofi, state, fid, flags);
    if (!rc) {
        done = fid->fclass == FI_CLASS_CNTR ? &state->counted : &state->bound;
        before = atomic_exchange(done, true);
    }
    pthread_mutex_unlock(&ofi->lock);
    if (rc)
        return rc;
    rc = CALL(ofi, fi_mr_bind(mr->native, fid, flags), "fi_mr_bind()");
    if (rc)
        atomic_store(done, before);
    return rc;
}

bool ofi_is_bound(void *self, const struct hmreg_mr_keys *mr)
{
    struct ofi *ofi = self;
    const struct state *state = mr->priv;
    bool bound;

    pthread_mutex_lock(&ofi->lock);
    bound = state->bound || state->counted;
    pthread_mutex_unlock(&ofi->lock);
    return bound;
}

/* Does nothing for regions that never were disabled. */
int ofi_enable(void *self, const struct hmreg_mr_keys *mr)
{
    const struct ofi *ofi = self;
    struct state *state = mr->priv;
    int rc;

    if (!(ofi->mr_mode & STATEFUL) || (!(ofi->mr_mode & HMREG_MR_ENDPOINT) && !state->event))
        return 0;
    if ((ofi->mr_mode & HMREG_MR_ENDPOINT) && !state->bound)
        return hmreg_fail(-HMREG_EOPBADSTATE, "no endpoint is bound to the region yet");
    if (atomic_exchange(&state->enabled, true))
        return hmreg_fail(-HMREG_EOPBADSTATE, "the region is enabled already");
    rc = CALL(ofi, fi_mr_enable(mr->native), "fi_mr_enable()");
    if (rc)
        atomic_store(&state->enabled, false);
    return rc;
}

int ofi_refresh(void *self, const struct hmreg_mr_keys *mr, const struct iovec *iov, size_t count,
                uint64_t flags)
{
    const struct ofi *ofi = self;

    if (!(ofi->mr_mode & HMREG_MR_MMU_NOTIFY))
        return 0;
    return CALL(ofi, fi_mr_refresh(mr->native, iov, count, flags), "fi_mr_refresh()");
}
