/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The calls of libibverbs, recorded. Each is passed on with its arguments, unless the mode answers
 * it (verbs_mode.h), and returns with the result and the errno of the real one. What the recorder
 * asks about the memory it asks afterwards.
 *
 * Not recorded: calls that libibverbs or hmreg makes itself, and probes for dmabuf support, which
 * pass an invalid descriptor and are meant to fail.
 */
#include "preload/guard.h"
#include "preload/memory.h"
#include "preload/shadow.h"
#include "preload/verbs/asked.h"
#include "preload/verbs/origin.h"
#include "preload/verbs/verbs_mode.h"

#include <hmreg/hmreg.h>

#include <errno.h>

#undef ibv_reg_mr
#undef ibv_reg_mr_iova

/* ---- begin and end of a call --------------------------------------------------------------- */

/* A signal handler may leave something behind at any moment, also between the two. */
static void leave(const struct guard *guard)
{
    const struct verbs_mode *mode = verbs_mode();

    do {
        if (mode && mode->is_behind())
            mode->catch_up();
        record_leave();
    } while (mode && mode->is_behind() && record_enter());
    guard_leave(guard);
}

/* ---- registrations ----------------------------------------------------------------------- */

static const char *nic_of(const struct ibv_context *context)
{
    return context && context->device ? context->device->name : NULL;
}

/* Which memory it was, and by which path: of a region that libibverbs registered as asked. */
static void find_path(const struct verbs_request *request, struct record_call *call)
{
    uint64_t addr = request->fd >= 0 ? request->iova : (uint64_t)(uintptr_t)request->addr;
    bool found = memory_find(addr, request->length, call->error, &call->iface, &call->device);

    if (request->fd >= 0) {
        /* A dmabuf's iova is its address by custom only; host memory has no dmabuf of ours. */
        bool device = found && call->iface != HMREG_IFACE_SYSTEM;

        call->iface = device ? call->iface : RECORD_IFACE_UNKNOWN;
        call->device = (int16_t)(device ? call->device : -1);
        call->addr = device ? addr : 0;
        call->path = HMREG_PATH_DMABUF;
    } else if (found) {
        call->path = call->iface == HMREG_IFACE_SYSTEM ? HMREG_PATH_SYSTEM : HMREG_PATH_PEERMEM;
    }
    if (call->error)
        call->path = HMREG_PATH_NONE;
}

static struct record_call new_call(const struct verbs_request *request, const void *caller)
{
    return (struct record_call){
        .kind = request->kind,
        .how = RECORD_PASSED,
        .scope = request->pd,
        .addr = (uint64_t)(uintptr_t)request->addr,
        .len = request->length,
        .access = request->access,
        .rights = asked_remote(request->access)    ? RECORD_REMOTE
                  : asked_written(request->access) ? RECORD_WRITTEN
                                                   : RECORD_READ,
        .iface = RECORD_IFACE_UNKNOWN,
        .device = -1,
        .nic = nic_of(request->pd->context),
        .caller = caller,
    };
}

static struct ibv_mr *register_recorded(const struct verbs_request *request, const void *caller)
{
    struct record_call call = new_call(request, caller);
    const struct verbs_mode *mode = verbs_mode();
    uint64_t began = record_now();
    struct ibv_mr *mr = mode ? mode->reg(request, &call) : verbs_pass_on(request);
    int error;

    call.ns = record_now() - began;
    error = errno;
    call.handle = mr;
    call.error = mr ? 0 : error ? error : EIO;
    if (call.how == RECORD_PASSED)
        find_path(request, &call);
    if (mr && call.how != RECORD_HIT)
        call.memory = shadow_memory(call.addr, call.len);
    record_registered(&call);
    errno = error;
    return mr;
}

/* False: the call is passed on and not recorded. */
static bool is_of_program(const void *caller)
{
    switch (origin_of(caller)) {
    case ORIGIN_PROGRAM:
        return true;
    case ORIGIN_LIBIBVERBS:
        record_passed_on(
            "looked-up",
            "the program looks libibverbs' functions up on a handle (dlsym), past "
            "LD_PRELOAD: its registrations are neither seen nor changed. Use hmreg run "
            "--by audit, or have it load libhmreg-ibverbs.so in libibverbs' place");
        return false;
    default:
        /* hmreg's: with a mode they are our own, of any thread; without, a program's with hmreg. */
        return !verbs_mode();
    }
}

static struct ibv_mr *reg(const struct verbs_request *request, const void *caller)
{
    bool probe = request->kind == RECORD_REG_DMABUF_MR && request->fd < 0;
    struct guard guard;
    struct ibv_mr *mr;

    if (probe || !request->pd || !guard_enter(&guard))
        return verbs_pass_on(request);
    mr = is_of_program(caller) ? register_recorded(request, caller) : verbs_pass_on(request);
    leave(&guard);
    return mr;
}

static struct ibv_mr *reg_host(enum record_call_kind kind, struct ibv_pd *pd, void *addr,
                               size_t length, uint64_t iova, unsigned access, const void *caller)
{
    const struct verbs_request request = {.kind = kind,
                                          .pd = pd,
                                          .addr = addr,
                                          .length = length,
                                          .iova = iova,
                                          .access = access,
                                          .fd = -1};

    return reg(&request, caller);
}

static struct ibv_mr *reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access,
                             const void *caller)
{
    return reg_host(RECORD_REG_MR, pd, addr, length, (uintptr_t)addr, (unsigned)access, caller);
}

static struct ibv_mr *reg_mr_iova(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
                                  int access, const void *caller)
{
    return reg_host(RECORD_REG_MR_IOVA, pd, addr, length, iova, (unsigned)access, caller);
}

static struct ibv_mr *reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
                                   unsigned access, const void *caller)
{
    return reg_host(RECORD_REG_MR_IOVA2, pd, addr, length, iova, access, caller);
}

static struct ibv_mr *reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length,
                                    uint64_t iova, int fd, int access, const void *caller)
{
    const struct verbs_request request = {.kind = RECORD_REG_DMABUF_MR,
                                          .pd = pd,
                                          .length = length,
                                          .iova = iova,
                                          .access = (unsigned)access,
                                          .fd = fd,
                                          .offset = offset};

    return reg(&request, caller);
}

/* The fields of struct ibv_mr_init_attr (rdma-core 59) that say what is registered; comp_mask names
 * those that are set. */
struct init_attr {
    size_t length;
    int access;
    uint64_t comp_mask;
    uint64_t iova;
    void *addr;
    int fd;
    uint64_t fd_offset;
};
#define MASK_IOVA      (1u << 0)
#define MASK_ADDR      (1u << 1)
#define MASK_FD        (1u << 2)
#define MASK_FD_OFFSET (1u << 3)
#define MASK_ALL       (MASK_IOVA | MASK_ADDR | MASK_FD | MASK_FD_OFFSET)

static struct ibv_mr *reg_mr_ex(struct ibv_pd *pd, struct ibv_mr_init_attr *attr,
                                const void *caller)
{
    struct verbs_request request = {.kind = RECORD_REG_MR_EX, .pd = pd, .fd = -1, .attr = attr};
    const struct init_attr *asked = (const void *)attr;

    if (!attr)
        return verbs_below()->reg_mr_ex(pd, attr, caller);
    request.length = asked->length;
    request.access = (unsigned)asked->access;
    request.addr = asked->comp_mask & MASK_ADDR ? asked->addr : NULL;
    request.iova = asked->comp_mask & MASK_IOVA ? asked->iova : (uintptr_t)request.addr;
    request.fd = asked->comp_mask & MASK_FD ? asked->fd : -1;
    request.offset = asked->comp_mask & MASK_FD_OFFSET ? asked->fd_offset : 0;
    request.more = asked->comp_mask & ~(uint64_t)MASK_ALL;
    if (asked->comp_mask & MASK_FD && asked->fd < 0) /* a probe */
        return verbs_below()->reg_mr_ex(pd, attr, caller);
    return reg(&request, caller);
}

/* A buffer of libibverbs', whose address may be of no host memory: hmreg registers none of them. */
static struct ibv_mr *reg_buf_mr(struct ibv_pd *pd, struct ibv_buf *buf, void *addr, size_t length,
                                 int access, const void *caller)
{
    const struct verbs_request request = {.kind = RECORD_REG_BUF_MR,
                                          .pd = pd,
                                          .addr = addr,
                                          .length = length,
                                          .iova = (uintptr_t)addr,
                                          .access = (unsigned)access,
                                          .fd = -1,
                                          .attr = buf,
                                          .more = true};

    return reg(&request, caller);
}

/* ---- changes and ends -------------------------------------------------------------------- */

/* The region as ibv_rereg_mr() is asked to make it. */
static struct verbs_request rereg_request(const struct ibv_mr *mr, int flags, struct ibv_pd *pd,
                                          void *addr, size_t length, int access)
{
    bool moves = flags & IBV_REREG_MR_CHANGE_TRANSLATION;

    return (struct verbs_request){
        .kind = RECORD_REREG_MR,
        .pd = flags & IBV_REREG_MR_CHANGE_PD ? pd : mr->pd,
        .addr = moves ? addr : mr->addr,
        .length = moves ? length : mr->length,
        .access = flags & IBV_REREG_MR_CHANGE_ACCESS ? (unsigned)access : 0,
        .fd = -1,
    };
}

static int rereg_recorded(struct ibv_mr *mr, int flags, struct ibv_pd *pd, void *addr,
                          size_t length, int access, const void *caller)
{
    struct verbs_request request = rereg_request(mr, flags, pd, addr, length, access);
    struct record_call call = new_call(&request, caller);
    const struct verbs_mode *mode = verbs_mode();
    struct record_dereg end;
    uint64_t began;
    int result, error;

    record_dereg_begin(mr, &end);
    began = record_now();
    if (mode)
        result = mode->rereg(mr, flags, pd, addr, length, access, &call);
    else
        result = verbs_below()->rereg_mr(mr, flags, pd, addr, length, access, NULL);
    call.ns = record_now() - began;
    error = errno;
    call.handle = result ? NULL : mr;
    call.error = result ? error ? error : EINVAL : 0;
    if (result)
        record_dereg_cancel(&end);
    else
        record_dereg_done(&end, 0, 0);
    if (call.how == RECORD_PASSED)
        find_path(&request, &call);
    record_registered(&call);
    errno = error;
    return result;
}

/* Is it hmreg's object, which libibverbs must not get? */
static bool is_ours(struct ibv_mr *mr)
{
    const struct verbs_mode *mode = verbs_mode();

    return mode && mode->is_ours(mr);
}

static int rereg_mr(struct ibv_mr *mr, int flags, struct ibv_pd *pd, void *addr, size_t length,
                    int access, const void *caller)
{
    struct guard guard;
    int result;

    if (!mr || (flags & IBV_REREG_MR_CHANGE_PD && !pd))
        return verbs_below()->rereg_mr(mr, flags, pd, addr, length, access, caller);
    if (!guard_enter(&guard))
        return is_ours(mr) ? verbs_mode()->rereg_inside(mr, flags, pd, addr, length, access)
                           : verbs_below()->rereg_mr(mr, flags, pd, addr, length, access, caller);
    result = rereg_recorded(mr, flags, pd, addr, length, access, caller);
    leave(&guard);
    return result;
}

/* Deregisters, by the mode or the library below, and records the call. What is recorded of the
 * handle is taken before, since another thread's registration may get the handle after. */
static int dereg_recorded(struct ibv_mr *mr)
{
    const struct verbs_mode *mode = verbs_mode();
    struct record_dereg end;
    uint64_t began;
    int result;

    record_dereg_begin(mr, &end);
    began = record_now();
    result = mode ? mode->dereg(mr) : verbs_below()->dereg_mr(mr, NULL);
    record_dereg_done(&end, result, record_now() - began);
    return result;
}

/* On a thread that is inside a call already. */
static int dereg_inside(struct ibv_mr *mr, const void *caller)
{
    struct record_dereg end;
    int result;

    if (!is_ours(mr))
        return verbs_below()->dereg_mr(mr, caller);
    record_dereg_begin(mr, &end);
    result = verbs_mode()->dereg_inside(mr);
    record_dereg_done(&end, result, 0);
    return result;
}

static int dereg_mr(struct ibv_mr *mr, const void *caller)
{
    struct guard guard;
    int result;

    if (!mr)
        return verbs_below()->dereg_mr(mr, caller);
    if (!guard_enter(&guard))
        return dereg_inside(mr, caller);
    result = is_of_program(caller) ? dereg_recorded(mr) : verbs_below()->dereg_mr(mr, caller);
    leave(&guard);
    return result;
}

static int dealloc_pd(struct ibv_pd *pd)
{
    const struct verbs_mode *mode = verbs_mode();
    struct guard guard;
    int result;

    if (!mode || !guard_enter(&guard))
        return verbs_below()->dealloc_pd(pd);
    mode->closing_pd(pd);
    result = verbs_below()->dealloc_pd(pd);
    if (!result)
        mode->closed_pd(pd);
    leave(&guard);
    return result;
}

/* The kernel keeps the protection domain and what is registered in it, but another may be at its
 * address next. */
static void unimport_pd(struct ibv_pd *pd)
{
    const struct verbs_mode *mode = verbs_mode();
    struct guard guard;

    if (!mode || !guard_enter(&guard)) {
        verbs_below()->unimport_pd(pd);
        return;
    }
    mode->closing_pd(pd);
    mode->unimporting_pd(pd);
    verbs_below()->unimport_pd(pd);
    leave(&guard);
}

static int close_device(struct ibv_context *context)
{
    const struct verbs_mode *mode = verbs_mode();
    struct guard guard;
    int result;

    if (!mode || !guard_enter(&guard))
        return verbs_below()->close_device(context);
    mode->closing_device(context);
    result = verbs_below()->close_device(context);
    if (!result)
        mode->closed_device(context);
    leave(&guard);
    return result;
}

/* ---- the table --------------------------------------------------------------------------- */

const struct verbs_calls *hmreg_preload_verbs(const struct verbs_calls *real)
{
    static const struct verbs_calls calls = {
        .reg_mr = reg_mr,
        .reg_mr_iova = reg_mr_iova,
        .reg_mr_iova2 = reg_mr_iova2,
        .reg_mr_ex = reg_mr_ex,
        .reg_buf_mr = reg_buf_mr,
        .reg_dmabuf_mr = reg_dmabuf_mr,
        .rereg_mr = rereg_mr,
        .dereg_mr = dereg_mr,
        .dealloc_pd = dealloc_pd,
        .unimport_pd = unimport_pd,
        .close_device = close_device,
    };

    verbs_set_below(real);
    return &calls;
}
