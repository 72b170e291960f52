/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The simulated HSA runtime's memory: pools' allocations, deallocation callbacks, pointer_info,
 * copies.
 */
#include "simulated/rocr/rocr_fake.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

struct memory *memories;

/* A test's function, called when a callback is registered: what another thread might do then. */
__attribute__((visibility("default"))) void (*hmreg_fake_hsa_on_register)(void *ptr);

/* ---- the list of memory -------------------------------------------------------------- */

struct memory *memory_at(uint64_t addr)
{
    struct memory *found = NULL;

    for (struct memory *m = memories; m; m = m->next)
        if (contains(m->base, m->len, addr) || (m->host && contains(m->host, m->len, addr)))
            if (!found || found->type == ROCR_POINTER_RESERVED)
                found = m;
    return found;
}

struct memory *memory_from(uint64_t base, unsigned type)
{
    for (struct memory *m = memories; m; m = m->next)
        if (m->base == base && m->type == type)
            return m;
    return NULL;
}

struct memory *note(struct memory what)
{
    struct memory *noted = malloc(sizeof(*noted));

    if (!noted)
        return NULL;
    *noted = what;
    noted->next = memories;
    memories = noted;
    return noted;
}

void unlink_memory(const struct memory *gone)
{
    struct memory **link = &memories;

    while (*link != gone)
        link = &(*link)->next;
    *link = gone->next;
}

/* ---- allocation ---------------------------------------------------------------------- */

/* With a large BAR the CPU can access device memory. */
static void open_window(const struct fake_block *block)
{
    if (block->fd >= 0 && has_large_bar())
        mmap(pointer(block->addr), block->len, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
             block->fd, 0);
}

static void close_window(const struct fake_block *block)
{
    if (block->fd >= 0 && block->users == 1)
        mmap(pointer(block->addr), block->len, PROT_NONE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
}

hsa_status_t hsa_amd_memory_pool_allocate(hsa_amd_memory_pool_t id, size_t size, uint32_t flags,
                                          void **ptr)
{
    const struct pool *pool;
    struct fake_alloc *made;

    ENTER();
    pool = pool_of(id);
    if (!pool)
        return (hsa_status_t)HSA_STATUS_ERROR_INVALID_MEMORY_POOL;
    if (!ptr || !size || !pool->alloc || flags)
        return HSA_STATUS_ERROR_INVALID_ARGUMENT;
    fake_lock();
    made = fake_alloc(pool->agent->index ? (int)pool->agent->index - 1 : 0,
                      pool->agent->index ? FAKE_DEVICE : FAKE_HOST, size, 0);
    if (made && !note((struct memory){.type = ROCR_POINTER_HSA,
                                      .base = made->addr,
                                      .len = size,
                                      .owner = pool->agent,
                                      .access = bit(pool->agent),
                                      .flags = pool->flags})) {
        fake_free(made->addr);
        made = NULL;
    }
    if (made) {
        open_window(made->block);
        *ptr = pointer(made->addr);
    }
    fake_unlock();
    return made ? HSA_STATUS_SUCCESS : HSA_STATUS_ERROR_OUT_OF_RESOURCES;
}

static void notify(struct notifier *notifiers)
{
    while (notifiers) {
        struct notifier *next = notifiers->next;

        notifiers->callback(notifiers->ptr, notifiers->data);
        free(notifiers);
        notifiers = next;
    }
}

/* Removes it from the list, then calls the callbacks, then frees the address for reuse. */
hsa_status_t hsa_amd_memory_pool_free(void *ptr)
{
    struct memory *memory;

    ENTER();
    if (!ptr)
        return HSA_STATUS_SUCCESS;
    fake_lock();
    memory = memory_from(address(ptr), ROCR_POINTER_HSA);
    if (memory)
        unlink_memory(memory);
    fake_unlock();
    if (!memory)
        return HSA_STATUS_ERROR_INVALID_ALLOCATION;
    notify(memory->notifiers);
    fake_lock();
    close_window(fake_find(address(ptr))->block);
    fake_free(address(ptr));
    fake_unlock();
    free(memory);
    return HSA_STATUS_SUCCESS;
}

hsa_status_t hsa_amd_agents_allow_access(uint32_t count, const hsa_agent_t *list,
                                         const uint32_t *flags, const void *ptr)
{
    struct memory *memory;

    ENTER();
    if (!count || !list || flags || !ptr)
        return HSA_STATUS_ERROR_INVALID_ARGUMENT;
    fake_lock();
    memory = memory_from(address(ptr), ROCR_POINTER_HSA);
    if (memory)
        memory->access = access_bits(count, list) | bit(memory->owner);
    fake_unlock();
    return memory ? HSA_STATUS_SUCCESS : HSA_STATUS_ERROR_INVALID_ALLOCATION;
}

/* Callbacks exist only for memory that the runtime allocated. */
hsa_status_t hsa_amd_register_deallocation_callback(void *ptr,
                                                    hsa_amd_deallocation_callback_t callback,
                                                    void *data)
{
    struct notifier *made;
    struct memory *memory;

    ENTER();
    if (!ptr || !callback)
        return HSA_STATUS_ERROR_INVALID_ARGUMENT;
    if (hmreg_fake_hsa_on_register)
        hmreg_fake_hsa_on_register(ptr);
    made = malloc(sizeof(*made));
    if (!made)
        return HSA_STATUS_ERROR_OUT_OF_RESOURCES;
    fake_lock();
    memory = memory_at(address(ptr));
    if (memory && memory->type == ROCR_POINTER_HSA) {
        *made = (struct notifier){memory->notifiers, ptr, callback, data};
        memory->notifiers = made;
        made = NULL;
    }
    fake_unlock();
    free(made);
    return made ? HSA_STATUS_ERROR_INVALID_ALLOCATION : HSA_STATUS_SUCCESS;
}

hsa_status_t hsa_amd_deregister_deallocation_callback(void *ptr,
                                                      hsa_amd_deallocation_callback_t callback)
{
    hsa_status_t status = HSA_STATUS_ERROR_INVALID_ARGUMENT;
    struct notifier **link = NULL;
    struct memory *memory;

    ENTER();
    fake_lock();
    memory = memory_at(address(ptr));
    link = memory ? &memory->notifiers : NULL;
    while (link && *link) {
        struct notifier *gone = *link;

        if (gone->ptr != ptr || gone->callback != callback) {
            link = &gone->next;
            continue;
        }
        *link = gone->next;
        free(gone);
        status = HSA_STATUS_SUCCESS;
    }
    fake_unlock();
    return status;
}

/* ---- pointer queries ----------------------------------------------------------------- */

/* Newer runtimes write `registered` into the padding of the older struct. */
#define REGISTERED_AT 52

static bool is_imported(const struct memory *memory)
{
    return memory->type == ROCR_POINTER_IPC || memory->type == ROCR_POINTER_GRAPHICS;
}

static void describe(const struct memory *memory, uint64_t addr, hsa_amd_pointer_info_t *out)
{
    bool reserved = memory->type == ROCR_POINTER_RESERVED;
    bool vmem = memory->type == ROCR_POINTER_VMEM;
    bool as_reserved = fake_env("HMREG_FAKE_HSA_VMEM_RESERVED", 0);
    bool hidden = is_imported(memory) && fake_env("HMREG_FAKE_HSA_HIDDEN", 0);
    uint8_t registered = !as_reserved && (!reserved || memory->registered);

    if (as_reserved && vmem) {
        out->type = (hsa_amd_pointer_type_t)ROCR_POINTER_RESERVED;
        return;
    }
    out->type = (hsa_amd_pointer_type_t)memory->type;
    out->agentBaseAddress = reserved ? NULL : pointer(vmem ? addr : memory->base);
    out->hostBaseAddress = memory->host ? pointer(memory->host)
                           : vmem       ? pointer(addr)
                                        : pointer(memory->base);
    out->sizeInBytes = memory->len;
    out->global_flags = memory->flags;
    if (!reserved && !hidden)
        out->agentOwner = agent_id(memory->owner);
    memcpy((char *)out + REGISTERED_AT, &registered, 1);
}

static hsa_status_t list_agents(const struct memory *memory, void *(*alloc)(size_t),
                                uint32_t *count, hsa_agent_t **list)
{
    unsigned access = memory->access;
    long hidden = is_imported(memory) ? fake_env("HMREG_FAKE_HSA_HIDDEN", 0) : 0;

    *count = 0;
    *list = alloc((MAX_GPUS + 1) * sizeof(**list));
    if (!*list)
        return HSA_STATUS_ERROR_OUT_OF_RESOURCES;
    for (unsigned i = 0; i <= gpu_count() && hidden != 2; i++)
        if (access & bit(&agents[i]))
            (*list)[(*count)++] = agent_id(&agents[i]);
    return HSA_STATUS_SUCCESS;
}

/* As in the real runtime, the address at which a reservation ends is of it, too. */
static struct memory *memory_of(uint64_t addr)
{
    struct memory *found = memory_at(addr);

    for (struct memory *m = memories; m && !found; m = m->next)
        if (m->type == ROCR_POINTER_RESERVED && addr == m->base + m->len)
            found = m;
    return found;
}

hsa_status_t hsa_amd_pointer_info(const void *ptr, hsa_amd_pointer_info_t *info,
                                  void *(*alloc)(size_t), uint32_t *count, hsa_agent_t **list)
{
    hsa_amd_pointer_info_t answer = {0};
    hsa_status_t status = HSA_STATUS_SUCCESS;
    struct memory *memory;

    ENTER();
    if (!ptr || !info || !info->size)
        return HSA_STATUS_ERROR_INVALID_ARGUMENT;
    answer.size = info->size < sizeof(answer) ? info->size : sizeof(answer);
    fake_lock();
    memory = memory_of(address(ptr));
    if (memory)
        describe(memory, address(ptr), &answer);
    if (memory && alloc && count && list)
        status = list_agents(memory, alloc, count, list);
    fake_unlock();
    memcpy(info, &answer, answer.size);
    return status;
}

/* ---- copies -------------------------------------------------------------------------- */

/* One side of a copy, as the real runtime treats it: memory of an agent if the list has all of the
 * range, else memory of the CPU, which it locks for the copy. */
struct side {
    uint64_t addr;
    uint64_t host; /* the CPU's address of locked memory */
    const struct agent *agent;
    bool mapped;
    unsigned access;
    bool closed; /* mapped virtual memory that its own device may not access */
};

static bool look_at(uint64_t addr, size_t len, struct side *out)
{
    const struct memory *memory = memory_at(addr);

    *out = (struct side){.addr = addr, .agent = &agents[0]};
    if (!memory)
        return true;
    if (!contains(memory->base, memory->len, addr) || len > memory->base + memory->len - addr)
        return memory->owner == &agents[0]; /* device memory cannot be locked */
    if (memory->host)
        out->host = memory->host + (addr - memory->base);
    out->agent = memory->owner;
    out->access = memory->access;
    out->closed = memory->type == ROCR_POINTER_VMEM && !(memory->access & bit(memory->owner));
    out->mapped = true;
    return true;
}

/* Only a GPU can use the GPUs' address of locked memory. */
static uint64_t place_of(const struct side *side, const struct side *other)
{
    return side->host && other->agent->index ? side->host : side->addr;
}

hsa_status_t hsa_memory_copy(void *dst, const void *src, size_t size)
{
    struct side to, from;
    bool ok, reachable;

    ENTER();
    if (!dst || !src)
        return HSA_STATUS_ERROR_INVALID_ARGUMENT;
    fake_lock();
    ok = look_at(address(dst), size, &to) && look_at(address(src), size, &from);
    reachable =
        ok && !to.closed && !from.closed &&
        (to.agent->index || !to.mapped || !from.agent->index || to.access & bit(from.agent)) &&
        (from.agent->index || !from.mapped || !to.agent->index || from.access & bit(to.agent));
    if (ok && reachable)
        ok = !fake_copy(place_of(&to, &from), place_of(&from, &to), size);
    fake_unlock();
    if (ok && !reachable)
        return (hsa_status_t)HSA_STATUS_ERROR_MEMORY_FAULT;
    return ok ? HSA_STATUS_SUCCESS : HSA_STATUS_ERROR_INVALID_ALLOCATION;
}
