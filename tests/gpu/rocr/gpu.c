/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * ROCm for the cases that all vendors have (tests/gpu/gpu.h).
 */
#include "tests/gpu/gpu.h"
#include "tests/gpu/rocr/app.h"

static int devices(void)
{
    return 2;
}

static const struct fake_control *fake(void)
{
    return app.fake;
}

static uint64_t alloc(int device, enum hmreg_mem_kind kind, size_t len)
{
    return at(kind == HMREG_MEM_DEVICE ? app_alloc((unsigned)device, len) : app_alloc_host(len));
}

static void free_it(uint64_t addr, enum hmreg_mem_kind kind)
{
    app_free((void *)(uintptr_t)addr);
}

/* After the shutdown the vendor has no reference to release; the application's is left. */
static void after_shut_down(void)
{
    assert_int_equal(app.hsa_shut_down(), HSA_STATUS_SUCCESS);
}

/* ---- memory of rarer kinds, for failing calls ------------------------------------------- */

#define LEN 8192

static char *device, *pinned;
static void *imported;

static void prepare(struct hmem *self)
{
    hsa_amd_ipc_memory_t handle;

    device = app_alloc(0, LEN);
    pinned = app_alloc_host(LEN);
    assert_int_equal(app.hsa_amd_ipc_memory_create(device, LEN, &handle), 0);
    assert_int_equal(app.hsa_amd_ipc_memory_attach(&handle, LEN, 0, NULL, &imported), 0);
}

static void clean_up(void)
{
    assert_int_equal(app.hsa_amd_ipc_memory_detach(imported), 0);
    app_free(device);
    app_free(pinned);
}

static int run_resolve_hidden(struct hmem *self, union gpu_output *out)
{
    int rc;

    setenv("HMREG_FAKE_HSA_HIDDEN", "1", 1);
    rc = hmem_rocr_ops.resolve(self, at(imported), LEN, &out->range);
    unsetenv("HMREG_FAKE_HSA_HIDDEN");
    return rc;
}

static int run_bounced_copy(struct hmem *self, union gpu_output *out)
{
    return hmem_rocr_ops.copy(self, at(device), at(pinned), LEN);
}

static const struct gpu_operation operations[] = {
    {"resolve hidden", run_resolve_hidden, NULL},
    {"copy pinned memory without access", run_bounced_copy, NULL},
    {0},
};

/* The second query only confirms the identity: without it there is none. */
static const struct gpu_survival survives[] = {
    {"open", "hsa_system_get_info hsa_agent_get_info:3+ hsa_amd_agent_memory_pool_get_info", NULL},
    {"resolve new memory", "hsa_amd_pointer_info:1 hsa_amd_register_deallocation_callback", NULL},
    {"identity of new memory", "hsa_amd_pointer_info:1 hsa_amd_register_deallocation_callback",
     NULL},
    {0},
};

static const char *const calls[] = {
    "hsa_init",
    "hsa_system_get_info",
    "hsa_iterate_agents",
    "hsa_agent_get_info",
    "hsa_memory_copy",
    "hsa_amd_agent_iterate_memory_pools",
    "hsa_amd_memory_pool_get_info",
    "hsa_amd_agent_memory_pool_get_info",
    "hsa_amd_memory_pool_allocate",
    "hsa_amd_memory_pool_free",
    "hsa_amd_agents_allow_access",
    "hsa_amd_register_deallocation_callback",
    "hsa_amd_pointer_info",
    "hsa_amd_portable_export_dmabuf",
    "hsa_amd_portable_close_dmabuf",
    NULL,
};

static bool reports(enum hmreg_mem_kind kind)
{
    return kind != HMREG_MEM_MANAGED;
}

extern const struct gpu_maker rocr_makers[];

const struct gpu gpu = {
    .ops = &hmem_rocr_ops,
    .kinds = 2,
    .reports = reports,
    .pinned_device = -1,
    .begin = app_open,
    .end = app_close,
    .devices = devices,
    .alloc = alloc,
    .free = free_it,
    .fake = fake,
    .version = "HSA 1.1, build simulated",
    .library = "/libhsa-runtime64.so.1",
    .device_names = {"AMD GPU (simulated)", "AMD GPU (simulated)"},
    .pci = {"0000:23:00.0", "0001:63:1f.1"},
    .no_device = "lists no GPU",
    .copy_fails = "ROCm could not copy",
    .queries = "hsa_amd_pointer_info hsa_amd_vmem_retain_alloc_handle hsa_amd_vmem_get_access",
    .export_queries = 1,
    .calls = calls,
    .failure = HSA_STATUS_ERROR,
    .failure_name = "HSA_STATUS_ERROR (simulated)",
    .shut_down = HSA_STATUS_ERROR_NOT_INITIALIZED,
    .after_shut_down = after_shut_down,
    .operations = operations,
    .survives = survives,
    .makers = rocr_makers,
    .prepare = prepare,
    .clean_up = clean_up,
};
