/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See rereg.h. A change that the driver refuses fails with the driver's error: ask_driver() tries
 * it on host memory first.
 *
 * To replace a registration of libibverbs by one of hmreg, or the reverse, exchange() swaps the
 * public fields of both structs, key and handle among them. Then the program's struct names the new
 * registration, and the other struct the old one, which is deregistered. Behind the public fields
 * libibverbs records only whether it withholds the pages from children, so the call is passed on
 * while ibv_fork_init() is in force.
 */
#include "preload/verbs/rereg.h"

#include "preload/verbs/pass_on.h"
#include "preload/verbs/gpu.h"
#include "preload/verbs/native_table.h"

#include <errno.h>

static int pass_on(const struct rereg *call, struct ibv_mr *mr)
{
    return verbs_target()->rereg_mr(mr, call->flags, call->pd, call->addr, call->length,
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

/* Did the region change? ERR_DO_FORK_OLD: it did, but the old pages stay withheld from children.
 * After any other error of the driver the program may only deregister the region. */
static bool is_new(int result)
{
    return !result || result == IBV_REREG_MR_ERR_DO_FORK_OLD;
}

/* The region after the call; old: before it. */
static struct addr_request changed(const struct rereg *call, const struct addr_request *old)
{
    struct addr_request wanted = *old;

    if (moves(call)) {
        wanted.addr = call->addr;
        wanted.length = call->length;
        wanted.iova = (uint64_t)(uintptr_t)call->addr;
    }
    if (call->flags & IBV_REREG_MR_CHANGE_PD)
        wanted.pd = call->pd;
    if (call->flags & IBV_REREG_MR_CHANGE_ACCESS)
        wanted.access = (unsigned)call->access;
    return wanted;
}

static struct verbs_request request_of(const struct addr_request *wanted)
{
    return (struct verbs_request){.kind = RECORD_REG_MR_IOVA2,
                                  .pd = wanted->pd,
                                  .addr = wanted->addr,
                                  .length = wanted->length,
                                  .iova = wanted->iova,
                                  .access = wanted->access,
                                  .fd = -1};
}

static void exchange(struct ibv_mr *a, struct ibv_mr *b)
{
    struct ibv_mr of_a = *a;

    *a = *b;
    *b = of_a;
}

/* Gives entry->mr the registration of `fresh`, and ends its old one. *entry was taken out of the
 * table. */
static int replace(struct native_entry *entry, struct ibv_mr *fresh,
                   const struct addr_request *wanted)
{
    struct native_entry other = {.mr = fresh};
    bool device = native_table_take(fresh, &other) && other.device;
    int error;

    other.device = entry->device;
    native_table_add(&other);
    exchange(entry->mr, fresh);
    error = gpu_dereg(fresh);
    if (error) {
        exchange(entry->mr, fresh);
        gpu_dereg(fresh);
        return fail(error);
    }
    entry->device = device;
    entry->wanted = *wanted;
    return 0;
}

/* Tries the change on host memory, old and new: 0, or the driver's error. */
static int ask_driver(const struct rereg *call, const struct addr_request *old)
{
    static char byte;
    const struct addr_request wanted = {.pd = old->pd,
                                        .addr = &byte,
                                        .length = 1,
                                        .iova = (uint64_t)(uintptr_t)&byte,
                                        .access = old->access};
    const struct rereg of_host = {.flags = call->flags,
                                  .pd = call->pd,
                                  .addr = call->addr ? &byte : NULL,
                                  .length = call->length ? 1 : 0,
                                  .access = call->access};
    const struct verbs_request request = request_of(&wanted);
    struct ibv_mr *mr = verbs_pass_on(&request);
    int result, error;

    if (!mr)
        return fail(errno);
    result = pass_on(&of_host, mr);
    error = errno;
    verbs_target()->dereg_mr(mr, NULL);
    errno = error;
    return result;
}

static int rereg_device(const struct rereg *call, struct native_entry *entry, struct made *made)
{
    const struct addr_request wanted = changed(call, &entry->wanted);
    const struct verbs_request request = request_of(&wanted);
    int result = ask_driver(call, &entry->wanted);
    struct ibv_mr *fresh;

    if (result)
        return result;
    fresh = gpu_reg(&request, made);
    return fresh ? replace(entry, fresh, &wanted) : IBV_REREG_MR_ERR_CMD; /* errno is set */
}

/* Is the old or the new memory a device's? */
static bool is_of_device(const struct rereg *call, const struct native_entry *entry)
{
    return entry->device ||
           (moves(call) && call->addr && call->length && gpu_is_device(call->addr, call->length));
}

int rereg(const struct rereg *call, struct made *made)
{
    struct native_entry entry;
    int result;

    if (!native_table_take(call->mr, &entry))
        return pass_on(call, call->mr);
    if (is_of_device(call, &entry) && !pd_keeps_pages_from_children()) {
        result = rereg_device(call, &entry, made);
    } else {
        result = pass_on(call, call->mr);
        if (is_new(result))
            entry.wanted = changed(call, &entry.wanted);
    }
    native_table_add(&entry);
    return result;
}
