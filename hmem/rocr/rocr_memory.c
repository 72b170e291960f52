/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Copies, allocates and frees ROCm memory.
 */
#include "hmem/rocr/rocr.h"

#include <stdlib.h>

/* ---- copy ---------------------------------------------------------------------------- */

#define BOUNCE_BYTES (256u << 10)

/* One side of a copy as the runtime treats it. */
struct side {
    uint64_t addr;                /* the CPU address of locked memory: the runtime may use memcpy */
    const struct rocr_agent *gpu; /* the owner, NULL: host memory */
    bool known;                   /* host memory that the runtime assumes is mapped on the GPU */
    size_t room;                  /* bytes to the end of a mapping, which a copy may not cross */
};

static int side_at(struct rocr_hmem *self, uint64_t addr, struct side *out)
{
    const struct rocr_agent *owner = NULL;
    struct rocr_pointer_info info;
    int rc = rocr_lookup(self, addr, &info);

    *out = (struct side){.addr = addr, .room = SIZE_MAX};
    if (rc == -HMEM_NOT_MINE)
        return 0;
    rc = rc ? rc : rocr_owner(self, addr, &info, &owner);
    if (rc)
        return rc;
    if (info.type == ROCR_POINTER_LOCKED)
        out->addr = rocr_host_address(&info, addr);
    else if (owner->type == HSA_DEVICE_TYPE_GPU)
        out->gpu = owner;
    if (info.type == ROCR_POINTER_VMEM)
        out->room = info.len - (addr - rocr_address(info.agent_base));
    out->known = !out->gpu && out->addr - rocr_address(info.agent_base) < info.len;
    return 0;
}

/* For a copy the runtime locks host memory that it does not know. It assumes that known memory is
 * mapped on the GPU; if that is wrong, the GPU's access faults and the process is killed. */
static int is_unreachable(struct rocr_hmem *self, const struct side *host,
                          const struct rocr_agent *gpu, bool *out)
{
    hsa_agent_t *agents;
    uint32_t count;
    int rc;

    *out = false;
    if (!gpu || !host->known)
        return 0;
    rc = rocr_ask_agents(self, host->addr, &agents, &count);
    if (rc)
        return rc;
    *out = true;
    for (uint32_t i = 0; i < count; i++)
        if (agents[i].handle == gpu->id.handle)
            *out = false;
    free(agents);
    return 0;
}

static int copy_directly(struct rocr_hmem *self, uint64_t dst, uint64_t src, size_t len)
{
    hsa_status_t status =
        self->api.memory_copy((void *)(uintptr_t)dst, (void *)(uintptr_t)src, len);

    if (status)
        return rocr_fail(self, -EIO, status,
                         "ROCm could not copy %zu bytes from %#" PRIx64 " to %#" PRIx64, len, src,
                         dst);
    return 0;
}

static int copy_bounced(struct rocr_hmem *self, uint64_t dst, uint64_t src, size_t len)
{
    size_t room = len < BOUNCE_BYTES ? len : BOUNCE_BYTES;
    char *bounce = malloc(room);
    int rc = 0;

    if (!bounce)
        return hmreg_fail(-ENOMEM, "hmreg has no memory to copy through the host");
    for (size_t done = 0; done < len && !rc; done += room) {
        size_t piece = len - done < room ? len - done : room;

        rc = copy_directly(self, rocr_address(bounce), src + done, piece);
        rc = rc ? rc : copy_directly(self, dst + done, rocr_address(bounce), piece);
    }
    free(bounce);
    return rc;
}

/* Copies as much as the runtime can in one call. */
static int copy_some(struct rocr_hmem *self, uint64_t dst, uint64_t src, size_t *len)
{
    struct side to, from;
    bool bad_to = false, bad_from = false;
    int rc = side_at(self, dst, &to);

    rc = rc ? rc : side_at(self, src, &from);
    rc = rc ? rc : is_unreachable(self, &to, from.gpu, &bad_to);
    rc = rc ? rc : is_unreachable(self, &from, to.gpu, &bad_from);
    if (rc)
        return rc;
    *len = *len < to.room ? *len : to.room;
    *len = *len < from.room ? *len : from.room;
    return bad_to || bad_from ? copy_bounced(self, to.addr, from.addr, *len)
                              : copy_directly(self, to.addr, from.addr, *len);
}

int rocr_copy(struct hmem *self, uint64_t dst, uint64_t src, size_t len)
{
    int rc = 0;

    for (size_t done = 0, some; !rc && done < len; done += some) {
        some = len - done;
        rc = copy_some((struct rocr_hmem *)self, dst + done, src + done, &some);
    }
    return vendor_result(self, rc, dst);
}

/* ---- memory for tools and tests ------------------------------------------------------ */

static int allocate(struct rocr_hmem *self, const struct rocr_agent *agent, size_t len, void **out)
{
    void *made = NULL;
    hsa_status_t status;

    if (!agent || !agent->pool.valid)
        return hmreg_fail(-EOPNOTSUPP, "this ROCm device has no pool to allocate from");
    status = self->api.pool_allocate(agent->pool.id, len, 0, &made);
    if (status == HSA_STATUS_ERROR_OUT_OF_RESOURCES ||
        status == HSA_STATUS_ERROR_INVALID_ALLOCATION)
        return rocr_fail(self, -ENOMEM, status, "ROCm has no %zu bytes left", len);
    if (status)
        return rocr_fail(self, -EIO, status, "ROCm could not allocate %zu bytes", len);
    *out = made;
    return 0;
}

/* Gives every GPU access to pinned memory that we allocated. */
static int allow_all(struct rocr_hmem *self, void *addr)
{
    hsa_agent_t *gpus = calloc((size_t)self->base.device_count, sizeof(*gpus));
    hsa_status_t status;

    if (!gpus)
        return hmreg_fail(-ENOMEM, "hmreg has no memory to list the GPUs");
    for (int i = 0; i < self->base.device_count; i++)
        gpus[i] = rocr_gpu(self, i)->id;
    status = self->api.allow_access((uint32_t)self->base.device_count, gpus, NULL, addr);
    free(gpus);
    if (status)
        return rocr_fail(self, -EIO, status, "ROCm could not map host memory on the GPUs");
    return 0;
}

static int alloc_pinned(struct rocr_hmem *self, size_t len, void **out)
{
    void *made = NULL;
    int rc = allocate(self, rocr_next_agent(self, HSA_DEVICE_TYPE_CPU, NULL), len, &made);

    if (rc)
        return rc;
    rc = allow_all(self, made);
    if (rc)
        self->api.pool_free(made);
    else
        *out = made;
    return rc;
}

int rocr_alloc(struct hmem *hmem, int index, enum hmreg_mem_kind kind, size_t len, void **out)
{
    struct rocr_hmem *self = (struct rocr_hmem *)hmem;
    int rc = -ESHUTDOWN;

    if (kind != HMREG_MEM_DEVICE && kind != HMREG_MEM_HOST_PINNED)
        return hmreg_fail(-EOPNOTSUPP, "ROCm's runtime allocates device and pinned memory, not %s",
                          hmreg_mem_kind_name(kind));
    if (!atomic_load(&hmem->shut_down))
        rc = kind == HMREG_MEM_DEVICE ? allocate(self, rocr_gpu(self, index), len, out)
                                      : alloc_pinned(self, len, out);
    return vendor_result(hmem, rc, 0);
}

int rocr_free(struct hmem *self, void *addr, enum hmreg_mem_kind kind)
{
    hsa_status_t status = HSA_STATUS_ERROR_NOT_INITIALIZED;
    int rc = 0;

    if (!atomic_load(&self->shut_down))
        status = ((struct rocr_hmem *)self)->api.pool_free(addr);
    if (status)
        rc = vendor_fail(self, status == HSA_STATUS_ERROR_INVALID_ALLOCATION ? -EFAULT : -EIO,
                         status, "ROCm could not free the memory at %p", addr);
    return vendor_result(self, rc, 0);
}
