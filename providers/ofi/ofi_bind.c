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
#include <stdlib.h>

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

/* A region of a domain that is not STATEFUL has a state only once it is bound, to a counter. */
static int make_state(struct hmreg_mr_keys *mr)
{
    if (!mr->priv)
        mr->priv = calloc(1, sizeof(struct state));
    return mr->priv ? 0 : hmreg_fail(-ENOMEM, "hmreg has no memory for a region's state");
}

int ofi_bind(void *self, struct hmreg_mr_keys *mr, void *object, uint64_t flags)
{
    struct ofi *ofi = self;
    struct fid *fid = object;
    struct state *state;
    int rc;

    pthread_mutex_lock(&ofi->lock);
    rc = check_object(ofi, mr->priv, fid, flags);
    rc = rc ? rc : make_state(mr);
    state = mr->priv;
    rc = rc ? rc : CALL(ofi, fi_mr_bind(mr->native, fid, flags), "fi_mr_bind()");
    if (!rc && fid->fclass == FI_CLASS_CNTR)
        state->counted = true;
    else if (!rc)
        state->bound = true;
    pthread_mutex_unlock(&ofi->lock);
    return rc;
}

bool ofi_is_bound(void *self, const struct hmreg_mr_keys *mr)
{
    struct ofi *ofi = self;
    const struct state *state = mr->priv;
    bool bound;

    pthread_mutex_lock(&ofi->lock);
    bound = state && (state->bound || state->counted);
    pthread_mutex_unlock(&ofi->lock);
    return bound;
}

static int enable_now(const struct ofi *ofi, struct hmreg_mr_keys *mr, struct state *state)
{
    int rc;

    if (state->enabled)
        return hmreg_fail(-HMREG_EOPBADSTATE, "the region is enabled already");
    if ((ofi->mr_mode & HMREG_MR_ENDPOINT) && !state->bound)
        return hmreg_fail(-HMREG_EOPBADSTATE, "no endpoint is bound to the region yet");
    rc = CALL(ofi, fi_mr_enable(mr->native), "fi_mr_enable()");
    state->enabled = !rc;
    return rc;
}

/* Does nothing for regions that never were disabled. */
int ofi_enable(void *self, struct hmreg_mr_keys *mr)
{
    struct ofi *ofi = self;
    struct state *state = mr->priv;
    int rc;

    if (!(ofi->mr_mode & STATEFUL) || (!(ofi->mr_mode & HMREG_MR_ENDPOINT) && !state->event))
        return 0;
    pthread_mutex_lock(&ofi->lock);
    rc = enable_now(ofi, mr, state);
    pthread_mutex_unlock(&ofi->lock);
    return rc;
}

int ofi_refresh(void *self, struct hmreg_mr_keys *mr, const struct iovec *iov, size_t count,
                uint64_t flags)
{
    const struct ofi *ofi = self;

    if (!(ofi->mr_mode & HMREG_MR_MMU_NOTIFY))
        return 0;
    return CALL(ofi, fi_mr_refresh(mr->native, iov, count, flags), "fi_mr_refresh()");
}
