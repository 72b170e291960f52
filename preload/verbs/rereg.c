/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See rereg.h. What a driver refuses stays refused, with its own answer. A cached region may serve
 * others too, so the driver is asked about a registration of the program's alone: if it accepts the
 * change that registration becomes the program's, else the region stays as it was.
 *
 * Where one of libibverbs' own becomes one of hmreg's, or the other way round, the public fields of
 * the two structs are exchanged, key and handle among them: then the program's names the new
 * registration and the other one the old, which is deregistered. What libibverbs keeps behind the
 * public fields differs only in whether it withholds the pages from children; so while
 * ibv_fork_init() is in force the call is passed on.
 */
#include "preload/verbs/rereg.h"

#include "preload/engine.h"
#include "preload/mode.h"
#include "preload/verbs/below.h"
#include "preload/verbs/cache.h"
#include "preload/verbs/gpu.h"
#include "preload/verbs/handle.h"
#include "preload/verbs/known.h"
#include "preload/verbs/native.h"

#include <errno.h>
#include <string.h>

static int below(const struct rereg *call, struct ibv_mr *mr)
{
    return verbs_below()->rereg_mr(mr, call->flags, call->pd, call->addr, call->length,
                                   call->access, NULL);
}

static int fail(int error)
{
    errno = error;
    return IBV_REREG_MR_ERR_INPUT; /* the old region is valid */
}

static bool moves(const struct rereg *call)
{
    return call->flags & IBV_REREG_MR_CHANGE_TRANSLATION;
}

/* Has the region become the new one? With ERR_DO_FORK_OLD only the old pages were not given back to
 * children. After any other error of the driver the program may only deregister the region. */
static bool is_new(int result)
{
    return !result || result == IBV_REREG_MR_ERR_DO_FORK_OLD;
}

/* The region that the call asks for, where it is now as `old`. */
static struct asked changed(const struct rereg *call, const struct asked *old)
{
    struct asked asked = *old;

    if (moves(call)) {
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

static char byte; /* of host memory */

/* What the driver is asked to change in place of a region: one with its rights, in its protection
 * domain. If the call moves it the old memory, which the program may have freed, does not matter.
 */
static struct asked stand_in(const struct rereg *call, const struct asked *old)
{
    struct asked asked = *old;

    if (moves(call)) {
        asked.addr = &byte;
        asked.length = 1;
        asked.iova = (uint64_t)(uintptr_t)&byte;
    }
    return asked;
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

/* What the driver answers where the memory, old and new, is the host's: 0, or its error. */
static int ask_driver(const struct rereg *call, const struct asked *old)
{
    const struct asked asked = {.pd = old->pd,
                                .addr = &byte,
                                .length = 1,
                                .iova = (uint64_t)(uintptr_t)&byte,
                                .access = old->access};
    const struct rereg of_host = {.flags = call->flags,
                                  .pd = call->pd,
                                  .addr = call->addr ? &byte : NULL,
                                  .length = call->length ? 1 : 0,
                                  .access = call->access};
    const struct verbs_request request = request_of(&asked);
    struct ibv_mr *mr = verbs_pass_on(&request);
    int result, error;

    if (!mr)
        return fail(errno);
    result = below(&of_host, mr);
    error = errno;
    verbs_below()->dereg_mr(mr, NULL);
    errno = error;
    return result;
}

static int rereg_device(const struct rereg *call, struct known *known, struct made *made)
{
    struct asked asked = changed(call, &known->asked);
    int result = ask_driver(call, &known->asked);
    struct ibv_mr *fresh;

    if (result)
        return result;
    fresh = register_anew(&asked, made);
    return fresh ? replace(known, fresh, &asked) : IBV_REREG_MR_ERR_CMD; /* errno is set */
}

/* Is either the old or the new memory a device's? */
static bool is_of_device(const struct rereg *call, const struct known *known)
{
    return known->device ||
           (moves(call) && call->addr && call->length && gpu_is_device(call->addr, call->length));
}

static int rereg_native(const struct rereg *call, struct ibv_mr *mr, struct made *made)
{
    struct known known;
    int result;

    if (!preload_mode()->gpu || !known_take(mr, &known))
        return below(call, mr);
    if (is_of_device(call, &known) && !pd_keeps_pages_from_children()) {
        result = rereg_device(call, &known, made);
    } else {
        result = below(call, mr);
        if (is_new(result))
            known.asked = changed(call, &known.asked);
    }
    known_add(&known);
    return result;
}

/* ---- a handle of ours -------------------------------------------------------------------- */

/* Makes the handle stand for a registration of libibverbs. What drivers read behind it comes too:
 * its type, and its rights, such as that to bind memory windows. */
static void put_real(struct handle *handle, struct ibv_mr *real, const struct asked *asked)
{
    handle->mr = *real;
    memcpy(handle->of_drivers, real + 1, sizeof(handle->of_drivers[0]));
    handle->region = NULL;
    handle->real = real;
    handle->asked = *asked;
}

/* The new region is not cached: it is the program's alone. The old one's keys end, as where the
 * driver changes it in place. */
static int rereg_cached(const struct rereg *call, struct handle *handle, struct made *made)
{
    const struct asked first = stand_in(call, &handle->asked), old = handle->asked;
    struct asked asked = changed(call, &old);
    struct ibv_mr *fresh = register_anew(&first, made);
    int result, error;

    made->path = HMREG_PATH_NONE;
    if (!fresh)
        return fail(errno);
    result = rereg_native(call, fresh, made);
    if (!is_new(result)) {
        error = errno;
        native_dereg(fresh);
        errno = error;
        return result;
    }
    cache_revoke(handle->region, &old);
    put_real(handle, fresh, &asked);
    return result;
}

static int rereg_handle(const struct rereg *call, struct handle *handle, struct made *made)
{
    struct asked asked = changed(call, &handle->asked);
    int result;

    if (!atomic_load(&handle->live))
        return fail(EINVAL);
    if (!handle->real)
        return rereg_cached(call, handle, made);
    result = rereg_native(call, handle->real, made);
    if (is_new(result))
        put_real(handle, handle->real, &asked);
    return result;
}

int rereg(const struct rereg *call, struct made *made)
{
    struct handle *handle = handle_of(call->mr);

    return handle ? rereg_handle(call, handle, made) : rereg_native(call, call->mr, made);
}

/* ---- inside another call ----------------------------------------------------------------- */

/* libibverbs' registration with the change made. NULL: *result is its answer. */
static struct ibv_mr *fresh_inside(const struct rereg *call, const struct asked *old, int *result)
{
    const struct asked first = stand_in(call, old);
    const struct verbs_request request = request_of(&first);
    struct ibv_mr *fresh = verbs_pass_on(&request);
    int error;

    *result = fresh ? below(call, fresh) : fail(errno);
    if (is_new(*result) || !fresh)
        return fresh;
    error = errno;
    verbs_below()->dereg_mr(fresh, NULL);
    errno = error;
    return NULL;
}

int rereg_inside(const struct rereg *call)
{
    struct handle *handle = handle_of(call->mr), *old;
    struct asked asked = changed(call, &handle->asked);
    struct ibv_mr *fresh;
    int result, error;

    if (!atomic_load(&handle->live))
        return fail(EINVAL);
    old = handle_new();
    if (!old)
        return fail(ENOMEM);
    fresh = fresh_inside(call, &handle->asked, &result);
    if (!fresh) {
        error = errno;
        handle_free(old);
        errno = error;
        return result;
    }
    old->region = handle->region;
    old->real = handle->real;
    old->asked = handle->asked;
    old->revoked = true;
    put_real(handle, fresh, &asked);
    handle_take(old);
    handle_end_later(old);
    return result;
}
