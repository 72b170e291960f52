/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * ROCm's rarer kinds of memory, for tests/gpu/fuzz.c.
 */
#include "tests/gpu/gpu.h"
#include "tests/gpu/makers.h"
#include "tests/gpu/rocr/app.h"

#include <sys/mman.h>

#define PAGE ((size_t)4096)

static size_t whole_pages(size_t len)
{
    return (len + PAGE - 1) & ~(PAGE - 1);
}

/* ---- pools ------------------------------------------------------------------------------- */

static uint64_t make_fine(size_t *len)
{
    void *made = NULL;
    hsa_amd_memory_pool_t pool =
        app_pool(app.gpus[0], HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_FINE_GRAINED);

    return app.hsa_amd_memory_pool_allocate(pool, *len, 0, &made) ? 0 : at(made);
}

static void end_pooled(uint64_t addr)
{
    app_free((void *)(uintptr_t)addr);
}

/* ---- virtual memory ---------------------------------------------------------------------- */

static struct makers_table mappings;

static uint64_t make_mapped(size_t *len)
{
    hsa_amd_memory_access_desc_t access = {HSA_ACCESS_PERMISSION_RW, app.gpus[0]};
    hsa_amd_vmem_alloc_handle_t handle;
    hsa_amd_memory_pool_t pool =
        app_pool(app.gpus[0], HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_COARSE_GRAINED);
    void *addr = NULL;

    *len = whole_pages(*len);
    if (app.hsa_amd_vmem_address_reserve(&addr, *len, 0, 0))
        return 0;
    if (app.hsa_amd_vmem_handle_create(pool, *len, MEMORY_TYPE_NONE, 0, &handle)) {
        app.hsa_amd_vmem_address_free(addr, *len);
        return 0;
    }
    app.hsa_amd_vmem_map(addr, *len, 0, handle, 0);
    app.hsa_amd_vmem_handle_release(handle);
    app.hsa_amd_vmem_set_access(addr, *len, &access, 1);
    makers_put(&mappings, at(addr), *len);
    return at(addr);
}

static void end_mapped(uint64_t addr)
{
    size_t len = makers_take(&mappings, addr);

    app.hsa_amd_vmem_unmap((void *)(uintptr_t)addr, len);
    app.hsa_amd_vmem_address_free((void *)(uintptr_t)addr, len);
}

/* ---- locked memory of the process -------------------------------------------------------- */

static struct makers_table locked;

static uint64_t make_locked(size_t *len)
{
    void *host, *unused;

    *len = whole_pages(*len);
    host = mmap(NULL, *len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (host == MAP_FAILED)
        return 0;
    app.hsa_amd_memory_lock(host, *len, NULL, 0, &unused);
    makers_put(&locked, at(host), *len);
    return at(host);
}

static void end_locked(uint64_t addr)
{
    app.hsa_amd_memory_unlock((void *)(uintptr_t)addr);
    munmap((void *)(uintptr_t)addr, makers_take(&locked, addr));
}

/* Imported memory has no path that loopback can take: kinds.c has it. */
const struct gpu_maker rocr_makers[] = {
    {"fine-grained pool", make_fine, end_pooled, false},
    {"mapped", make_mapped, end_mapped, true},
    {"locked", make_locked, end_locked, false},
    {0},
};
