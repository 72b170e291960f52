/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See rereg.h. What a driver refuses stays refused, with its own answer: it is asked about host
 * memory in place of the device's.
 *
 * Where one of libibverbs' own becomes one of hmreg's, or the other way round, the public fields of
 * the two structs are exchanged, key and handle among them: then the program's names the new
 * registration and the other one the old, which is deregistered. What libibverbs keeps behind the
 * public fields differs only in whether it withholds the pages from children; so while
 * ibv_fork_init() is in force the call is passed on.
 */
#include "preload/verbs/rereg.h"

#include "preload/verbs/below.h"
#include "preload/verbs/gpu.h"
#include "preload/verbs/known.h"

#include <errno.h>

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
    error = gpu_dereg(fresh);
    if (error) {
        exchange(known->mr, fresh);
        gpu_dereg(fresh);
        return fail(error);
    }
    known->device = device;
    known->asked = *asked;
    return 0;
}

/* What the driver answers where the memory, old and new, is the host's: 0, or its error. */
static int ask_driver(const struct rereg *call, const struct asked *old)
{
    static char byte;
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
    const struct asked asked = changed(call, &known->asked);
    const struct verbs_request request = request_of(&asked);
    int result = ask_driver(call, &known->asked);
    struct ibv_mr *fresh;

    if (result)
        return result;
    fresh = gpu_reg(&request, made);
    return fresh ? replace(known, fresh, &asked) : IBV_REREG_MR_ERR_CMD; /* errno is set */
}

/* Is either the old or the new memory a device's? */
static bool is_of_device(const struct rereg *call, const struct known *known)
{
    return known->device ||
           (moves(call) && call->addr && call->length && gpu_is_device(call->addr, call->length));
}

int rereg(const struct rereg *call, struct made *made)
{
    struct known known;
    int result;

    if (!known_take(call->mr, &known))
        return below(call, call->mr);
    if (is_of_device(call, &known) && !pd_keeps_pages_from_children()) {
        result = rereg_device(call, &known, made);
    } else {
        result = below(call, call->mr);
        if (is_new(result))
            known.asked = changed(call, &known.asked);
    }
    known_add(&known);
    return result;
}
