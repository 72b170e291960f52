/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Resolves a range of ROCm addresses.
 *
 * Kinds: pools of GPU agents hold device memory; pools of CPU agents, and process memory that was
 * locked, are pinned host memory. HIP's managed memory (SVM) is process memory with a policy: the
 * runtime does not know it, so it resolves as system memory, which is correct, since pinning its
 * pages first migrates them to the host.
 *
 * HSA has no allocation ids. We draw an id per allocation, and a deallocation callback ends it
 * (alloc_ids.h). The runtime refuses the callback for imported memory, whose identity is 0.
 */
#include "hmem/alloc_ids.h"
#include "hmem/rocr/rocr.h"

/* One per process, like the runtime: deregistering a callback removes it for every user. */
static struct alloc_ids allocations = ALLOC_IDS_INITIALIZER;

/* ---- identity ------------------------------------------------------------------------ */

/* The runtime has removed the allocation from its list, and frees the address for reuse after its
 * callbacks have returned. The id ends before the report. If a get finds the id alive, it publishes
 * its entry, or at least enters it as pending, before the report, which then ends it. */
static void on_end(void *addr, void *arg)
{
    struct alloc_id *slot = arg;
    uint64_t base = slot->base, end = base + slot->len;

    alloc_ids_end(slot);
    hmem_ended(base, end);
}

static bool allocation_is_unchanged(struct rocr_hmem *self, const struct rocr_pointer_info *before)
{
    struct rocr_pointer_info now;

    return !rocr_pointer_info(self, rocr_address(before->agent_base), &now) &&
           now.type == before->type && now.agent_base == before->agent_base &&
           now.len == before->len;
}

/* Draws an id for a new allocation. The runtime attaches the callback to whatever allocation is at
 * the base at that moment, so a query afterwards checks that it is still the same one. If not, the
 * slot is not entered, and is collected after its callback has run. */
static uint64_t draw_id(struct rocr_hmem *self, const struct rocr_pointer_info *info)
{
    struct alloc_id *slot = alloc_ids_draw(&allocations, rocr_address(info->agent_base), info->len);

    if (!slot)
        return 0;
    if (self->api.register_callback(info->agent_base, on_end, slot)) {
        alloc_ids_end(slot);
        return 0;
    }
    return allocation_is_unchanged(self, info) ? alloc_ids_enter(&allocations, slot) : 0;
}

static uint64_t id_of(struct rocr_hmem *self, const struct rocr_pointer_info *info, uint64_t addr,
                      size_t len)
{
    uint64_t number;

    /* Only the runtime's own allocations have callbacks. */
    if (info->type != ROCR_POINTER_HSA)
        return 0;
    number = alloc_ids_find(&allocations, addr, len);
    return number ? number : draw_id(self, info);
}

static void revoke_callbacks(void *arg, uint64_t base)
{
    struct rocr_hmem *self = arg;

    if (!atomic_load(&self->base.shut_down))
        self->api.deregister_callback((void *)(uintptr_t)base, on_end);
}

void rocr_forget(struct rocr_hmem *self)
{
    alloc_ids_forget(&allocations, revoke_callbacks, self);
}

/* ---- resolve ------------------------------------------------------------------------- */

/* Adjacent mappings form one range. It is device memory if any mapping is on a GPU; the CPU has
 * access only if it has access to all. */
static void walk_mappings(struct rocr_hmem *self, struct hmem_range *range, uint64_t addr,
                          size_t len, const struct rocr_agent **owner)
{
    struct rocr_pointer_info next;
    uint64_t end = range->alloc_base + range->alloc_len;

    while (addr + len > end && rocr_virtual_begins(self, end, &next)) {
        const struct rocr_agent *agent = rocr_agent(self, next.owner);

        if (agent && agent->type == HSA_DEVICE_TYPE_GPU && (*owner)->type != agent->type)
            *owner = agent;
        if (!agent || !rocr_cpu_address(self, &next, agent, end))
            range->host_addr = 0;
        range->segments++;
        range->alloc_len += next.len;
        end += next.len;
    }
}

static int resolve(struct rocr_hmem *self, uint64_t addr, size_t len, struct hmem_range *out)
{
    struct hmem_range range = {.device = -1, .kind = HMREG_MEM_HOST_PINNED, .segments = 1};
    const struct rocr_agent *owner = NULL;
    struct rocr_pointer_info info;
    uint64_t end;
    int rc = rocr_lookup(self, addr, &info);

    rc = rc ? rc : rocr_owner(self, addr, &info, &owner);
    if (rc)
        return rc;
    range.alloc_base = rocr_base_of(&info, addr);
    range.alloc_len = info.len;
    range.host_addr = rocr_cpu_address(self, &info, owner, addr);
    if (info.type == ROCR_POINTER_VMEM)
        walk_mappings(self, &range, addr, len, &owner);
    rc = vendor_check_contains(&self->base, addr, range.alloc_base, range.alloc_len);
    end = range.alloc_base + range.alloc_len;
    if (!rc && len > end - addr)
        rc = vendor_fail_leaves(addr, len, end, "the allocation ends there");
    if (rc)
        return rc;
    if (owner->type == HSA_DEVICE_TYPE_GPU && info.type != ROCR_POINTER_LOCKED) {
        range.device = owner->device;
        range.kind = HMREG_MEM_DEVICE;
        range.exportable = info.type == ROCR_POINTER_VMEM
                               ? self->api.vmem_export && range.segments == 1
                               : self->dmabuf && info.type == ROCR_POINTER_HSA;
    }
    range.allocated = range.kind == HMREG_MEM_HOST_PINNED && info.type == ROCR_POINTER_HSA;
    range.identity = id_of(self, &info, addr, len);
    *out = range;
    return 0;
}

int rocr_resolve(struct hmem *self, uint64_t addr, size_t len, struct hmem_range *out)
{
    return vendor_resolved(resolve((struct rocr_hmem *)self, addr, len, out));
}

/* No call into the runtime: until the callback runs, the allocation is unchanged. */
int rocr_identity(struct hmem *self, uint64_t addr, size_t len, uint64_t *out)
{
    struct hmem_range range;
    uint64_t number = atomic_load(&self->shut_down) ? 0 : alloc_ids_find(&allocations, addr, len);
    int rc = number ? 0 : rocr_resolve(self, addr, len, &range);

    if (!rc)
        *out = number ? number : range.identity;
    return rc;
}

/* An id that is alive has its callback, which only this file deregisters; see alloc_ids.h. The
 * runtime itself does not end while this vendor is open: hsa_init() is counted. */
bool rocr_watch(struct hmem *self, uint64_t addr, size_t len, const struct hmem_range *range,
                const char **why)
{
    bool watched = !atomic_load(&self->shut_down) && range->identity &&
                   alloc_ids_find(&allocations, addr, len) == range->identity;

    if (!watched && why)
        *why = "the runtime cannot report its end, or it was freed during the registration";
    return watched;
}
