/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See rereg.h. Of two regions of libibverbs' own the public fields are exchanged, key and handle
 * among them: then the program's struct names the new registration and the other one the old, which
 * is deregistered. What libibverbs keeps behind the public fields differs only in whether it
 * withholds the pages from children; so while ibv_fork_init() is in force the call is passed on.
 */
#include "preload/verbs/rereg.h"

#include "preload/engine.h"
#include "preload/mode.h"
#include "preload/verbs/below.h"
#include "preload/verbs/gpu.h"
#include "preload/verbs/handle.h"
#include "preload/verbs/known.h"
#include "preload/verbs/native.h"

#include <errno.h>

static int below(const struct rereg *call)
{
    return verbs_below()->rereg_mr(call->mr, call->flags, call->pd, call->addr, call->length,
                                   call->access, NULL);
}

static int fail(int error)
{
    errno = error;
    return IBV_REREG_MR_ERR_INPUT; /* the old region is valid */
}

/* What libibverbs itself refuses. */
static bool is_valid(const struct rereg *call)
{
    bool moves = call->flags & IBV_REREG_MR_CHANGE_TRANSLATION;

    return !(call->flags & ~IBV_REREG_MR_FLAGS_SUPPORTED) && call->flags &&
           !(moves && (!call->addr || !call->length)) &&
           !(call->access && !(call->flags & IBV_REREG_MR_CHANGE_ACCESS));
}

/* The region that the call asks for, where it is now as `old`. */
static struct asked changed(const struct rereg *call, const struct asked *old)
{
    struct asked asked = *old;

    if (call->flags & IBV_REREG_MR_CHANGE_TRANSLATION) {
        asked.addr = call->addr;
        asked.length = call->length;
        asked.iova = (uint64_t)(uintptr_t)call->addr;
    }
    if (call->flags & IBV_REREG_MR_CHANGE_PD)
        asked.pd = call->pd;
    if (call->flags & IBV_REREG_MR_CHANGE_ACCESS)
        asked.access = (unsigned)call->access;
    return asked;
}

static struct verbs_request request_of(const struct asked *asked)
{
    return (struct verbs_request){.kind = RECORD_REG_MR_IOVA2,
                                  .pd = asked->pd,
                                  .addr = asked->addr,
                                  .length = asked->length,
                                  .iova = asked->iova,
                                  .access = asked->access,
                                  .fd = -1};
}

static struct ibv_mr *register_anew(const struct asked *asked, struct made *made)
{
    const struct verbs_request request = request_of(asked);

    return native_reg(&request, made);
}

/* ---- a handle of ours -------------------------------------------------------------------- */

static int end_of(const struct handle *handle)
{
    if (handle->real)
        return native_dereg(handle->real);
    hmreg_mr_put(handle->region);
    return 0;
}

/* Makes the handle stand for a registration of libibverbs. */
static void put_real(struct handle *handle, struct ibv_mr *real, const struct asked *asked)
{
    handle->mr = *real;
    handle->region = NULL;
    handle->real = real;
    handle->asked = *asked;
}

/* The new region is not cached: it is the program's alone, like one that was not ours before. */
static int rereg_handle(const struct rereg *call, struct handle *handle, struct made *made)
{
    struct asked asked = changed(call, &handle->asked);
    bool valid = is_valid(call) && atomic_load(&handle->live);
    struct ibv_mr *fresh = valid ? register_anew(&asked, made) : NULL;
    int error;

    if (!fresh)
        return fail(valid ? errno : EINVAL);
    error = end_of(handle);
    if (error) {
        native_dereg(fresh);
        return fail(error);
    }
    put_real(handle, fresh, &asked);
    return 0;
}

int rereg_inside(const struct rereg *call)
{
    struct handle *handle = handle_of(call->mr), *old = NULL;
    struct asked asked = changed(call, &handle->asked);
    const struct verbs_request request = request_of(&asked);
    struct ibv_mr *fresh;

    if (!is_valid(call) || !atomic_load(&handle->live))
        return fail(EINVAL);
    old = handle_new();
    fresh = old ? verbs_pass_on(&request) : NULL;
    if (!fresh) {
        if (old)
            handle_free(old);
        return fail(old ? errno : ENOMEM);
    }
    old->region = handle->region;
    old->real = handle->real;
    put_real(handle, fresh, &asked);
    handle_take(old);
    handle_end_later(old);
    return 0;
}

/* ---- libibverbs' own --------------------------------------------------------------------- */

static void exchange(struct ibv_mr *a, struct ibv_mr *b)
{
    struct ibv_mr of_a = *a;

    *a = *b;
    *b = of_a;
}

/* Gives mr, which *known is of and which is in no table, the registration of `fresh`, and ends its
 * own. */
static int replace(struct known *known, struct ibv_mr *fresh, const struct asked *asked)
{
    struct known other = {.mr = fresh};
    bool device = known_take(fresh, &other) && other.device;
    int error;

    other.device = known->device;
    known_add(&other);
    exchange(known->mr, fresh);
    error = native_dereg(fresh);
    if (error) {
        exchange(known->mr, fresh);
        native_dereg(fresh);
        return fail(error);
    }
    known->device = device;
    known->asked = *asked;
    return 0;
}

static int rereg_device(const struct rereg *call, struct known *known, struct made *made)
{
    struct asked asked = changed(call, &known->asked);
    struct ibv_mr *fresh = is_valid(call) ? register_anew(&asked, made) : NULL;

    if (!fresh)
        return fail(is_valid(call) ? errno : EINVAL);
    return replace(known, fresh, &asked);
}

/* Is either the old or the new memory a device's? */
static bool is_of_device(const struct rereg *call, const struct known *known)
{
    return known->device || (call->flags & IBV_REREG_MR_CHANGE_TRANSLATION && call->addr &&
                             call->length && gpu_is_device(call->addr, call->length));
}

static int rereg_native(const struct rereg *call, struct made *made)
{
    struct known known;
    int result;

    if (!preload_mode()->gpu || !known_take(call->mr, &known))
        return below(call);
    if (is_of_device(call, &known) && !pd_keeps_pages_from_children()) {
        result = rereg_device(call, &known, made);
    } else {
        result = below(call);
        if (!result)
            known.asked = changed(call, &known.asked);
    }
    known_add(&known);
    return result;
}

int rereg(const struct rereg *call, struct made *made)
{
    struct handle *handle = handle_of(call->mr);

    return handle ? rereg_handle(call, handle, made) : rereg_native(call, made);
}
