/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Records the calls of libibverbs. Each is passed on with its arguments, or with --gpu perhaps made
 * by hmreg (gpu.h, rereg.h), and returns the real result and errno. Questions about the memory come
 * after the call.
 *
 * Not recorded: calls of libibverbs or hmreg themselves, and probes for dmabuf support, which pass
 * an invalid descriptor and are meant to fail.
 */
#include "preload/engine.h"
#include "preload/guard.h"
#include "preload/memory.h"
#include "preload/mode.h"
#include "preload/shadow.h"
#include "preload/verbs/request.h"
#include "preload/verbs/gpu.h"
#include "preload/verbs/origin.h"
#include "preload/verbs/rereg.h"

#include <hmreg/hmreg.h>

#include <errno.h>

#undef ibv_reg_mr
#undef ibv_reg_mr_iova

/* ---- registrations ----------------------------------------------------------------------- */

static const char *nic_of(const struct ibv_context *context)
{
    return context && context->device ? context->device->name : NULL;
}

/* Finds memory and path of a call that libibverbs made. */
static void find_path(const struct verbs_request *request, struct record_call *call)
{
    uint64_t addr = request->fd >= 0 ? request->iova : (uint64_t)(uintptr_t)request->addr;
    bool found = memory_find(addr, request->length, call->error, &call->iface, &call->device);

    if (request->fd >= 0) {
        /* A dmabuf's iova is its address by convention only: record it only if it is device memory.
         */
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
        .rights = request_remote(request->access)    ? RECORD_REMOTE
                  : request_written(request->access) ? RECORD_WRITTEN
                                                     : RECORD_READ,
        .iface = RECORD_IFACE_UNKNOWN,
        .device = -1,
        .nic = nic_of(request->pd->context),
        .caller = caller,
    };
}

/* Describes a registration that hmreg made. */
static void tell(struct record_call *call, const struct made *made)
{
    call->how = RECORD_MADE;
    call->iface = made->iface;
    call->device = made->device;
    call->path = made->path;
}

static struct ibv_mr *register_recorded(const struct verbs_request *request, const void *caller)
{
    struct record_call call = new_call(request, caller);
    struct made made = {.path = HMREG_PATH_NONE};
    uint64_t began = record_now();
    struct ibv_mr *mr = preload_mode()->gpu ? gpu_reg(request, &made) : verbs_pass_on(request);
    int error;

    call.ns = record_now() - began;
    error = errno;
    call.handle = mr;
    call.error = mr ? 0 : error ? error : EIO;
    if (mr && made.path != HMREG_PATH_NONE)
        tell(&call, &made);
    else
        find_path(request, &call);
    if (mr)
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
        /* A call of hmreg: with --gpu our own, on any thread; without, one of a program that uses
         * hmreg. */
        return !preload_mode()->gpu;
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
    guard_leave(&guard);
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
    const struct init_attr *wanted = (const void *)attr;

    if (!attr)
        return verbs_target()->reg_mr_ex(pd, attr, caller);
    request.length = wanted->length;
    request.access = (unsigned)wanted->access;
    request.addr = wanted->comp_mask & MASK_ADDR ? wanted->addr : NULL;
    request.iova = wanted->comp_mask & MASK_IOVA ? wanted->iova : (uintptr_t)request.addr;
    request.fd = wanted->comp_mask & MASK_FD ? wanted->fd : -1;
    request.offset = wanted->comp_mask & MASK_FD_OFFSET ? wanted->fd_offset : 0;
    request.more = wanted->comp_mask & ~(uint64_t)MASK_ALL;
    if (wanted->comp_mask & MASK_FD && wanted->fd < 0) /* a probe */
        return verbs_target()->reg_mr_ex(pd, attr, caller);
    return reg(&request, caller);
}

/* hmreg registers no ibv_buf: its address may not be host memory. */
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

/* The region that ibv_rereg_mr() is asked to make. */
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
    struct made made = {.path = HMREG_PATH_NONE};
    struct record_dereg end;
    uint64_t began;
    int result, error;

    record_dereg_begin(mr, &end);
    began = record_now();
    if (preload_mode()->gpu)
        result = rereg(&(struct rereg){mr, flags, pd, addr, length, access}, &made);
    else
        result = verbs_target()->rereg_mr(mr, flags, pd, addr, length, access, NULL);
    call.ns = record_now() - began;
    error = errno;
    call.handle = result ? NULL : mr;
    call.error = result ? error ? error : EINVAL : 0;
    if (result)
        record_dereg_cancel(&end);
    else
        record_dereg_done(&end, 0, 0);
    if (!result && made.path != HMREG_PATH_NONE)
        tell(&call, &made);
    else
        find_path(&request, &call);
    record_registered(&call);
    errno = error;
    return result;
}

static int rereg_mr(struct ibv_mr *mr, int flags, struct ibv_pd *pd, void *addr, size_t length,
                    int access, const void *caller)
{
    struct guard guard;
    int result;

    if (!mr || (flags & IBV_REREG_MR_CHANGE_PD && !pd) || !guard_enter(&guard))
        return verbs_target()->rereg_mr(mr, flags, pd, addr, length, access, caller);
    result = rereg_recorded(mr, flags, pd, addr, length, access, caller);
    guard_leave(&guard);
    return result;
}

/* Deregisters and records. The handle's record is taken before the call: after it another thread's
 * registration may get the handle. */
static int dereg_recorded(struct ibv_mr *mr)
{
    struct record_dereg end;
    uint64_t began;
    int result;

    record_dereg_begin(mr, &end);
    began = record_now();
    result = preload_mode()->gpu ? gpu_dereg(mr) : verbs_target()->dereg_mr(mr, NULL);
    record_dereg_done(&end, result, record_now() - began);
    return result;
}

static int dereg_mr(struct ibv_mr *mr, const void *caller)
{
    struct guard guard;
    int result;

    if (!mr || !guard_enter(&guard))
        return verbs_target()->dereg_mr(mr, caller);
    result = is_of_program(caller) ? dereg_recorded(mr) : verbs_target()->dereg_mr(mr, caller);
    guard_leave(&guard);
    return result;
}

static int dealloc_pd(struct ibv_pd *pd)
{
    struct guard guard;
    int result;

    if (!preload_mode()->gpu || !guard_enter(&guard))
        return verbs_target()->dealloc_pd(pd);
    engine_flush(pd);
    result = verbs_target()->dealloc_pd(pd);
    if (!result)
        engine_forget(pd);
    guard_leave(&guard);
    return result;
}

/* The kernel keeps the protection domain and its registrations, but a new ibv_pd may get its
 * address. */
static void unimport_pd(struct ibv_pd *pd)
{
    struct guard guard;

    if (!preload_mode()->gpu || !guard_enter(&guard)) {
        verbs_target()->unimport_pd(pd);
        return;
    }
    engine_flush(pd);
    engine_detach(pd);
    verbs_target()->unimport_pd(pd);
    guard_leave(&guard);
}

static int close_device(struct ibv_context *context)
{
    struct guard guard;
    int result;

    if (!preload_mode()->gpu || !guard_enter(&guard))
        return verbs_target()->close_device(context);
    engine_flush_children(context);
    result = verbs_target()->close_device(context);
    if (!result)
        engine_forget_children(context);
    guard_leave(&guard);
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

    verbs_set_target(real);
    return &calls;
}
