/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * CUDA for the cases that all vendors have (tests/gpu/gpu.h).
 */
#include "core/patch/entry_hook.h"
#include "tests/gpu/gpu.h"
#include "tests/gpu/cuda/driver.h"

#include <dlfcn.h>

static struct bench bench;
static struct cuda_context *contexts[2];
static int device_count;

static struct hmem *begin(void)
{
    bench = bench_begin();
    contexts[0] = bench.context;
    CU(cu.device_count(&device_count));
    if (device_count > 1)
        CU(cu.primary_retain(&contexts[1], 1));
    return bench.hmem;
}

static void end(struct hmem *self)
{
    if (device_count > 1)
        CU(cu.primary_release(1));
    bench_end(&bench);
}

static int devices(void)
{
    return device_count > 1 ? 2 : 1;
}

static const struct fake_control *fake(void)
{
    return cu.fake;
}

static uint64_t alloc(int device, enum hmreg_mem_kind kind, size_t len)
{
    unsigned long long addr = 0;
    void *host = NULL;

    CU(cu.context_push(contexts[device]));
    if (kind == HMREG_MEM_DEVICE)
        CU(cu.alloc(&addr, len));
    else if (kind == HMREG_MEM_MANAGED)
        CU(cu.alloc_managed(&addr, len, CUDA_ATTACH_GLOBAL));
    else
        CU(cu.alloc_host(&host, len, CUDA_HOSTALLOC_PORTABLE));
    CU(cu.context_pop(NULL));
    return host ? (uintptr_t)host : addr;
}

/* On a thread that may have no context. */
static void free_it(uint64_t addr, enum hmreg_mem_kind kind)
{
    CU(cu.context_push(contexts[0]));
    if (kind == HMREG_MEM_HOST_PINNED)
        CU(cu.free_host(as_pointer(addr)));
    else
        CU(cu.free(addr));
    CU(cu.context_pop(NULL));
}

/* ---- memory of rarer kinds, for failing calls ------------------------------------------- */

static unsigned long long pool, pieces;
static void *pinned;
static size_t granule;
static struct hmem_range range_of_pieces;

static void prepare(struct hmem *self)
{
    struct cuda_memory_prop prop = prop_on(0);

    granule = cu_granule();
    CU(cu.alloc_host(&pinned, MIB, 0));
    CU(cu.alloc_async(&pool, MIB, NULL));
    pieces = cu_reserve(2 * granule);
    cu_map(pieces, granule, &prop);
    cu_map(pieces + granule, granule, &prop);
    range_of_pieces = gpu_resolve(self, pieces, 2 * granule);
}

static void clean_up(void)
{
    CU(cu.free_async(pool, NULL));
    CU(cu.free_host(pinned));
    CU(cu.unmap(pieces, 2 * granule));
    CU(cu.unreserve(pieces, 2 * granule));
}

/* Releases memory whose release the fake had refused. */
static void after_clean_up(struct hmem *self)
{
    for (int i = 0; i < 2; i++) {
        unsigned long long handle = 0;

        CU(cu.handle_retain(&handle, as_pointer(pieces + i * granule)));
        while (cu.handle_release(handle) == CUDA_OK)
            continue;
    }
    clean_up();
    CU(cu.context_pop(NULL));
    for (int device = 0; device < 2; device++)
        while (cu.primary_release(device) == CUDA_OK)
            continue;
    assert_int_equal(cu.fake->allocations(), 0);
    assert_int_equal(cu.virtuals(), 0);
    assert_int_equal(cu.contexts(), 0);
    hmem_cuda_ops.close(self);
    bench_ended();
}

static unsigned long objects(void)
{
    return cu.virtuals() + cu.contexts();
}

static int run_resolve_pool(struct hmem *self, union gpu_output *out)
{
    return hmem_cuda_ops.resolve(self, pool, MIB, &out->range);
}

static int run_resolve_pinned(struct hmem *self, union gpu_output *out)
{
    return hmem_cuda_ops.resolve(self, (uintptr_t)pinned, MIB, &out->range);
}

static int run_resolve_pieces(struct hmem *self, union gpu_output *out)
{
    return hmem_cuda_ops.resolve(self, pieces, 2 * granule, &out->range);
}

static int run_identity_pieces(struct hmem *self, union gpu_output *out)
{
    return hmem_cuda_ops.identity(self, pieces, 2 * granule, &out->identity);
}

static int run_export_pieces(struct hmem *self, union gpu_output *out)
{
    return hmem_cuda_ops.export_dmabuf(self, pieces, 2 * granule, &range_of_pieces, 0,
                                       &out->dmabuf);
}

static void undo_export_pieces(struct hmem *self, union gpu_output *out)
{
    close(out->dmabuf.fd);
}

static int run_copy_pieces(struct hmem *self, union gpu_output *out)
{
    char byte = 1;

    return hmem_cuda_ops.copy(self, (uintptr_t)&byte, pieces, 1);
}

static int run_sync_pieces(struct hmem *self, union gpu_output *out)
{
    return hmem_cuda_ops.sync_memops(self, pieces, 0);
}

/* The next attempt sets it again. */
static void undo_sync_pieces(struct hmem *self, union gpu_output *out)
{
    CU(cu.set_context_flags(0));
}

static const struct gpu_operation operations[] = {
    {"resolve pool", run_resolve_pool, NULL},
    {"resolve pinned", run_resolve_pinned, NULL},
    {"resolve pieces", run_resolve_pieces, NULL},
    {"identity of pieces", run_identity_pieces, NULL},
    {"export pieces", run_export_pieces, undo_export_pieces},
    {"copy pieces", run_copy_pieces, NULL},
    {"sync_memops of pieces", run_sync_pieces, undo_sync_pieces},
    {0},
};

static const struct gpu_survival survives[] = {
    {"open", "cuDriverGetVersion cuDeviceGetName cuDeviceGetAttribute cuDeviceTotalMem_v2", NULL},
    {"resolve pinned", "cuMemHostGetFlags cuCtxPushCurrent_v2", NULL}, /* it may be the program's */
    {"resolve pool", "cuDeviceGetGraphMemAttribute", NULL},            /* it may be a graph's */
    {"sync_memops of pieces", "cuCtxGetDevice", NULL},
    {0},
};

static const char *const calls[] = {
#define NAME(member, name, parameters) #name,
    CUDA_ENTRIES(NAME, NAME)
#undef NAME
        NULL,
};

static bool reports(enum hmreg_mem_kind kind)
{
    return !entry_hooks_refusal();
}

static void *unused_end(const char **name)
{
    void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);

    assert_non_null(driver);
    *name = "cuIpcCloseMemHandle";
    return dlsym(driver, *name);
}

extern const struct gpu_maker cuda_makers[];

const struct gpu gpu = {
    .makers = cuda_makers,
    .reports = reports,
    .unused_end = unused_end,
    .ops = &hmem_cuda_ops,
    .kinds = 3,
    .begin = begin,
    .end = end,
    .devices = devices,
    .alloc = alloc,
    .free = free_it,
    .fake = fake,
    .version = "13.0",
    .library = "/libcuda.so",
    .device_names = {"simulated CUDA device 0", "simulated CUDA device 1"},
    .pci = {"0000:41:00.0", "0001:81:01.0"},
    .no_device = "has no device",
    .copy_fails = "CUDA cannot copy",
    .queries = "cuPointerGetAttribute cuPointerGetAttributes cuMemGetAddressRange_v2 "
               "cuMemRetainAllocationHandle cuMemGetAllocationPropertiesFromHandle cuMemGetAccess",
    .export_queries = 0,
    .calls = calls,
    .uncalled = "cuGetErrorName cuMemFreeHost cuMemGetAccess",
    .cleans_up = "cuCtxPopCurrent_v2 cuDevicePrimaryCtxRelease_v2 cuMemRelease "
                 "cuStreamDestroy_v2 cuThreadExchangeStreamCaptureMode",
    .after_clean_up = after_clean_up,
    .failure = CUDA_UNKNOWN_ERROR,
    .failure_name = "CUDA_ERROR_UNKNOWN",
    .shut_down = CUDA_DEINITIALIZED,
    .objects = objects,
    .operations = operations,
    .survives = survives,
    .prepare = prepare,
    .clean_up = clean_up,
};
