/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See verbs_mode.h: --gpu and --cache. What the cache answers gets a struct ibv_mr of our own
 * (handle.h); everything else one of libibverbs' own (native.h).
 */
#include "preload/verbs/verbs_mode.h"

#include "preload/engine.h"
#include "preload/mode.h"
#include "preload/verbs/cache.h"
#include "preload/verbs/handle.h"
#include "preload/verbs/native.h"
#include "preload/verbs/rereg.h"

#include <errno.h>

/* ---- registrations ----------------------------------------------------------------------- */

static void tell(struct record_call *call, const struct made *made)
{
    call->how = made->hit ? RECORD_HIT : RECORD_MADE;
    call->iface = made->iface;
    call->device = made->device;
    call->path = made->path;
}

/* The program's ibv_mr of a cached region, whose own is `native`. */
static struct ibv_mr *hand_out(struct hmreg_mr *region, const struct asked *asked,
                               const struct ibv_mr *native)
{
    struct handle *handle = handle_new();

    if (!handle) {
        hmreg_mr_put(region);
        return NULL;
    }
    handle->region = region;
    handle->asked = *asked;
    handle->mr = (struct ibv_mr){.context = asked->pd->context,
                                 .pd = asked->pd,
                                 .addr = asked->addr,
                                 .length = asked->length,
                                 .handle = native->handle,
                                 .lkey = native->lkey,
                                 .rkey = native->rkey};
    return &handle->mr;
}

static struct ibv_mr *reg_cached(const struct verbs_request *request, struct made *made)
{
    struct asked asked = native_asked(request);
    struct ibv_mr *native = NULL, *mr = NULL;
    struct hmreg_mr *region;
    int error = errno;

    if (request->fd >= 0 || request->more)
        return NULL;
    region = cache_get(&asked, &native, made);
    if (region)
        mr = hand_out(region, &asked, native);
    errno = error;
    return mr;
}

static struct ibv_mr *reg(const struct verbs_request *request, struct record_call *call)
{
    struct made made = {.path = HMREG_PATH_NONE};
    struct ibv_mr *mr = preload_mode()->cache ? reg_cached(request, &made) : NULL;

    if (!mr) {
        made.path = HMREG_PATH_NONE;
        mr = native_reg(request, &made);
    }
    if (mr && made.path != HMREG_PATH_NONE)
        tell(call, &made);
    return mr;
}

/* ---- changes and ends -------------------------------------------------------------------- */

/* Of a handle that was taken. */
static int end(struct handle *handle)
{
    int error = 0;

    if (handle->real)
        error = native_dereg(handle->real);
    else if (handle->revoked)
        cache_revoke(handle->region, &handle->asked);
    else
        hmreg_mr_put(handle->region);
    if (error)
        handle_keep(handle);
    else
        handle_free(handle);
    return error;
}

static int dereg_handle(struct handle *handle)
{
    return handle_take(handle) ? end(handle) : EINVAL;
}

static int dereg(struct ibv_mr *mr)
{
    struct handle *handle = handle_of(mr);

    return handle ? dereg_handle(handle) : native_dereg(mr);
}

static int rereg_by_mode(struct ibv_mr *mr, int flags, struct ibv_pd *pd, void *addr, size_t length,
                         int access, struct record_call *call)
{
    struct made made = {.path = HMREG_PATH_NONE};
    int result = rereg(&(struct rereg){mr, flags, pd, addr, length, access}, &made);

    if (!result && made.path != HMREG_PATH_NONE)
        tell(call, &made);
    return result;
}

/* ---- inside another call ------------------------------------------------------------------ */

static bool is_ours(struct ibv_mr *mr)
{
    return handle_of(mr);
}

static int dereg_inside(struct ibv_mr *mr)
{
    struct handle *handle = handle_of(mr);

    if (!handle_take(handle))
        return EINVAL;
    handle_end_later(handle);
    return 0;
}

static int rereg_inside_by_mode(struct ibv_mr *mr, int flags, struct ibv_pd *pd, void *addr,
                                size_t length, int access)
{
    return rereg_inside(&(struct rereg){mr, flags, pd, addr, length, access});
}

static void catch_up(void)
{
    int error = errno;
    struct handle *next;

    for (struct handle *handle = handle_ended(); handle; handle = next) {
        next = handle->next_ended;
        end(handle);
    }
    errno = error;
}

/* ---- objects ----------------------------------------------------------------------------- */

static void closing_pd(struct ibv_pd *pd)
{
    catch_up();
    engine_flush(pd);
}

static void closed_pd(const struct ibv_pd *pd)
{
    engine_forget(pd);
}

static void unimporting_pd(const struct ibv_pd *pd)
{
    engine_detach(pd);
}

static void closing_device(struct ibv_context *context)
{
    catch_up();
    engine_flush_children(context);
}

static void closed_device(const struct ibv_context *context)
{
    engine_forget_children(context);
}

/* ---- the mode ---------------------------------------------------------------------------- */

const struct verbs_mode *verbs_mode(void)
{
    static const struct verbs_mode mode = {
        .reg = reg,
        .dereg = dereg,
        .rereg = rereg_by_mode,
        .is_ours = is_ours,
        .dereg_inside = dereg_inside,
        .rereg_inside = rereg_inside_by_mode,
        .is_behind = handle_any_ended,
        .catch_up = catch_up,
        .closing_pd = closing_pd,
        .closing_device = closing_device,
        .closed_pd = closed_pd,
        .unimporting_pd = unimporting_pd,
        .closed_device = closed_device,
    };

    return preload_mode()->gpu || preload_mode()->cache ? &mode : NULL;
}
