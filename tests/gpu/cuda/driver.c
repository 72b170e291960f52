/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See driver.h.
 */
#include "tests/gpu/cuda/driver.h"

#include "core/patch/entry_hook.h"

#include <dlfcn.h>
#include <sys/mman.h>

struct driver cu;

/* ---- loading ---------------------------------------------------------------------------- */

static void load_entry(void *library, const char *name, void *place)
{
    void *entry = dlsym(library, name);

    memcpy(place, &entry, sizeof(entry));
}

static void load_entries(void *library)
{
    const struct fake_control *(*control)(void) = NULL;

#define LOAD(member, name, parameters) load_entry(library, #name, &cu.member);
    CUDA_ENTRIES(LOAD, LOAD)
    CUDA_TEST_ENTRIES(LOAD)
    CUDA_OTHER_ENTRIES(LOAD)
#undef LOAD
    load_entry(library, "hmreg_fake_control", &control);
    load_entry(library, "hmreg_fake_cuda_contexts", &cu.contexts);
    load_entry(library, "hmreg_fake_cuda_virtual", &cu.virtuals);
    load_entry(library, "hmreg_fake_cuda_undefined", &cu.undefined);
    load_entry(library, "hmreg_fake_cuda_graphics", &cu.graphics);
    load_entry(library, "hmreg_fake_cuda_external", &cu.external);
    load_entry(library, "hmreg_fake_cuda_around", &cu.around);
    cu.fake = control ? control() : NULL;
}

void driver_load(void)
{
    const char *real = getenv("HMREG_TEST_REAL");
    void *library;

    if (cu.init)
        return;
    library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (!library)
        test_skip("no CUDA driver: %s", dlerror());
    load_entries(library);
    dlclose(library);
    if (!cu.fake && !getenv("HMREG_TEST_PLAIN"))
        test_count_dmabufs_only();
    if (!cu.fake && (!real || strcmp(real, "1")))
        test_skip("libcuda.so.1 is a real driver: HMREG_TEST_REAL=1 tests with it");
}

void driver_need_fake(void)
{
    driver_load();
    if (!cu.fake)
        test_skip("needs the simulated driver, to count calls or make them fail");
}

void driver_need_hooks(void)
{
    if (entry_hooks_refusal())
        test_skip("%s", entry_hooks_refusal());
    if (!code_start())
        test_skip("membarrier(2) does not synchronize code here");
}

void driver_need_devices(int count)
{
    int found = 0;

    driver_load();
    if (cu.init(0) || cu.device_count(&found) || found < count)
        test_skip("needs %d CUDA devices, there are %d", count, found);
}

struct hmem *vendor_open(void)
{
    struct hmem *hmem = NULL;
    int rc = hmem_cuda_ops.open(&hmem);

    if (rc && !cu.fake)
        test_skip("CUDA cannot be used here: %s", hmreg_last_error()->text);
    assert_ok(rc);
    return hmem;
}

static struct bench begun;

static void end_begun(void)
{
    if (begun.hmem)
        bench_end(&begun);
}

struct bench bench_begin(void)
{
    driver_load();
    begun.hmem = vendor_open();
    CU(cu.primary_retain(&begun.context, 0));
    CU(cu.context_push(begun.context));
    test_after(end_begun);
    return begun;
}

void bench_end(struct bench *bench)
{
    struct cuda_context *current = NULL;

    CU(cu.context_wait()); /* trims pools */
    CU(cu.context_pop(&current));
    assert_ptr_equal(current, bench->context);
    CU(cu.context_current(&current));
    assert_null(current);
    if (cu.fake) {
        assert_int_equal(cu.fake->allocations(), 0);
        assert_int_equal(cu.virtuals(), 0);
        cu.fake->reset();
    }
    CU(cu.primary_release(0));
    hmem_cuda_ops.close(bench->hmem);
    begun.hmem = NULL;
    if (cu.fake)
        assert_int_equal(cu.contexts(), 0);
}

void bench_ended(void)
{
    begun.hmem = NULL;
}

void cu_fail(const char *call, long code, int skip, int times)
{
    (cu.fake->fail)(call, code, skip, times); /* cmocka has a macro of that name */
}

/* ---- memory ----------------------------------------------------------------------------- */

unsigned long long cu_alloc(size_t len)
{
    unsigned long long addr = 0;

    CU(cu.alloc(&addr, len));
    return addr;
}

struct cuda_pool *cu_pool(const struct cuda_pool_prop *prop, size_t len, unsigned long long *addr)
{
    struct cuda_pool *pool = NULL, *found = NULL;
    unsigned long long types = 99;

    CU(cu.pool_create(&pool, prop));
    CU(cu.alloc_from_pool(addr, len, pool, NULL));
    CU(cu.stream_wait(NULL));
    CU(cu.pointer_attribute(&found, CUDA_PTR_MEMPOOL, *addr));
    assert_ptr_equal(found, pool);
    CU(cu.pointer_attribute(&types, CUDA_PTR_HANDLE_TYPES, *addr));
    assert_int_equal(types, prop->handle_types);
    return pool;
}

unsigned long long cu_alloc_large(void)
{
    return cu_alloc(cu.fake ? 1 << 20 : 64 << 20);
}

static const char *image(bool managed)
{
    static const char *const images[] = {
        ".version 6.0\n.target sm_50\n.address_size 64\n"
        ".visible .global .align 16 .b8 other[1000];\n"
        ".visible .global .align 16 .b8 variable[100000];\n",
        ".version 6.0\n.target sm_50\n.address_size 64\n"
        ".visible .global .attribute(.managed) .align 16 .b8 other[1000];\n"
        ".visible .global .attribute(.managed) .align 16 .b8 variable[100000];\n",
    };

    return images[managed];
}

struct cuda_module *cu_module(bool managed, unsigned long long *addr)
{
    struct cuda_module *module = NULL;
    size_t size = 0;

    CU(cu.module_load(&module, image(managed)));
    CU(cu.module_global(addr, &size, module, "variable"));
    assert_int_equal(size, 100000);
    return module;
}

struct cuda_library *cu_library(bool managed, unsigned long long *addr)
{
    struct cuda_library *library = NULL;
    size_t size = 0;

    if (!cu.library_load)
        test_skip("this driver has no libraries");
    CU(cu.library_load(&library, image(managed), NULL, NULL, 0, NULL, NULL, 0));
    CU((managed ? cu.library_managed : cu.library_global)(addr, &size, library, "variable"));
    assert_int_equal(size, 100000);
    return library;
}

struct cuda_green *cu_green(int device, struct cuda_context **context)
{
    struct cuda_resources *desc = NULL;
    struct cuda_resource resource = {.type = 0};
    struct cuda_green *green = NULL;

    if (!cu.green_create)
        test_skip("this driver has no green contexts");
    CU(cu.device_resource(device, &resource, CUDA_RESOURCE_SM));
    CU(cu.resource_desc(&desc, &resource, 1));
    CU(cu.green_create(&green, desc, device, CUDA_GREEN_DEFAULT_STREAM));
    CU(cu.green_context(context, green));
    return green;
}

unsigned long long cu_external(size_t len)
{
    struct cuda_external_handle handle = {.type = CUDA_EXTERNAL_OPAQUE_FD, .size = len};
    struct cuda_external_buffer buffer = {.size = len};
    struct cuda_external *external = NULL;
    unsigned long long addr = 0;

    handle.handle.fd = cu.external(len);
    assert_true(handle.handle.fd >= 0);
    CU(cu.external_import(&external, &handle));
    CU(cu.external_map(&addr, external, &buffer));
    CU(cu.external_destroy(external));
    return addr;
}

void *as_pointer(uint64_t addr)
{
    return (void *)(uintptr_t)addr;
}

int bench_resolve(const struct bench *bench, uint64_t addr, size_t len, struct hmem_range *out)
{
    return hmem_cuda_ops.resolve(bench->hmem, addr, len, out);
}

uint64_t identity_of(const struct bench *bench, uint64_t addr, size_t len)
{
    uint64_t identity = 0;

    assert_ok(hmem_cuda_ops.identity(bench->hmem, addr, len, &identity));
    assert_true(identity != 0);
    return identity;
}

/* ---- virtual memory --------------------------------------------------------------------- */

struct cuda_memory_prop prop_on(int device)
{
    return (struct cuda_memory_prop){
        .type = CUDA_MEMORY_PINNED,
        .location = {CUDA_LOCATION_DEVICE, device},
        .gpudirect = 1,
    };
}

size_t cu_granule(void)
{
    struct cuda_memory_prop prop = prop_on(0);
    size_t size = 0;

    CU(cu.granularity(&size, &prop, 0));
    return size;
}

void cu_map(uint64_t addr, size_t len, const struct cuda_memory_prop *prop)
{
    struct cuda_access access = {{CUDA_LOCATION_DEVICE, 0}, CUDA_ACCESS_READWRITE};
    unsigned long long handle = 0;

    if (prop->location.type == CUDA_LOCATION_DEVICE)
        access.location.id = prop->location.id;
    CU(cu.create(&handle, len, prop, 0));
    CU(cu.map(addr, len, 0, handle, 0));
    CU(cu.handle_release(handle));
    CU(cu.set_access(addr, len, &access, 1));
}

unsigned long long cu_reserve(size_t len)
{
    unsigned long long addr = 0;

    CU(cu.reserve(&addr, len, 0, 0, 0));
    return addr;
}

/* ---- descriptors ------------------------------------------------------------------------ */

unsigned char pattern(size_t i)
{
    return (unsigned char)(i * 167 + i / 251 + 13);
}

void cu_write_pattern(uint64_t addr, size_t len)
{
    unsigned char *bytes = malloc(len);

    assert_non_null(bytes);
    for (size_t i = 0; i < len; i++)
        bytes[i] = pattern(i);
    CU(cu.copy_to_device(addr, bytes, len));
    CU(cu.context_wait());
    free(bytes);
}

void check_dmabuf(const struct hmreg_dmabuf *dmabuf, size_t first)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t skip = dmabuf->offset % page;
    const unsigned char *view = mmap(NULL, skip + dmabuf->length, PROT_READ, MAP_SHARED, dmabuf->fd,
                                     (off_t)(dmabuf->offset - skip));

    if (view == MAP_FAILED) {
        assert_null(cu.fake); /* a real dmabuf may refuse the CPU */
        return;
    }
    for (size_t i = 0; i < dmabuf->length; i++)
        if (view[skip + i] != pattern(first + i))
            fail_msg("byte %zu of the descriptor is %#x, not %#x", i, view[skip + i],
                     pattern(first + i));
    munmap((void *)view, skip + dmabuf->length);
}
