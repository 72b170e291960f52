/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * NVIDIA's own driver library without a GPU: our functions are in it, each that ends memory can be
 * hooked, called through and restored, beside UCX's own way of hooking in either order. Its calls
 * fail without a GPU, by which we see that they reach it. Cases change code: each is in a process
 * of its own.
 */
#include "hmem/cuda/cuda.h"
#include "core/patch/entry_hook.h"
#include "tests/gpu/cuda/driver.h"
#include "tests/gpu/cuda/library.h"
#include "tests/support/patch.h"
#include "tests/support/plugin.h"

#define LOOKED_AT 64 /* bytes of a function */

typedef unsigned any_call(uint64_t a, uint64_t b, uint64_t c, uint64_t d);
typedef unsigned get_address(const char *name, void **out, int version, unsigned long long flags,
                             unsigned *status);

static void *library;

static any_call *call_at(const void *address)
{
    any_call *call;

    memcpy(&call, &address, sizeof(call));
    return call;
}

/* Functions that a driver without a device refuses. */
static void begin(void)
{
    unsigned (*init)(unsigned) = NULL;
    void *entry;

    library = library_need();
    entry = dlsym(library, "cuInit");
    memcpy(&init, &entry, sizeof(init));
    if (!init || init(0) == CUDA_OK)
        test_skip("this driver has a device: the calls would be carried out");
    driver_need_hooks();
}

static int version_of(void)
{
    void *entry = dlsym(library, "cuDriverGetVersion");
    unsigned (*ask)(int *) = NULL;
    int version = 0;

    memcpy(&ask, &entry, sizeof(ask));
    assert_non_null(ask);
    assert_int_equal(ask(&version), CUDA_OK);
    return version;
}

/* ---- entry points ------------------------------------------------------------------------ */

static const char *const ours[] = {
#define NAME(member, name, parameters) #name,
    CUDA_ENTRIES(NAME, NAME) CUDA_TEST_ENTRIES(NAME) CUDA_OTHER_ENTRIES(NAME)
#undef NAME
};
#define OURS (sizeof(ours) / sizeof(ours[0]))

/* Of CUDA 12.4. */
static bool is_too_new(const char *name)
{
    return version_of() < 12040 && (strstr(name, "GreenCtx") || strstr(name, "DevRes"));
}

TEST(library__each_entry_of_ours__is_a_symbol)
{
    library = library_need();
    if (version_of() < 12020)
        test_skip("this driver has CUDA %d", version_of());
    for (size_t i = 0; i < OURS; i++)
        if (!is_too_new(ours[i]) && !dlsym(library, ours[i]))
            fail_msg("no %s", ours[i]);
}

/* The symbol without its version, which cuGetProcAddress does not know. */
static void plain_name(const char *name, char *out, size_t size)
{
    char *suffix;

    snprintf(out, size, "%s", name);
    suffix = strstr(out, "_v2");
    if (suffix)
        *suffix = '\0';
}

/* The lowest version for which a program gets the symbol's function; 0: none. */
static int first_version(get_address *get, void *driver, const char *symbol)
{
    const void *function = dlsym(driver, symbol);
    char name[64];

    plain_name(symbol, name, sizeof(name));
    for (int version = 2000; version <= 12040; version += 10) {
        unsigned status = 0;
        void *address = NULL;

        if (!get(name, &address, version, 0, &status) && address == function)
            return version;
    }
    return 0;
}

static get_address *get_address_of(void *driver)
{
    void *entry = dlsym(driver, "cuGetProcAddress_v2");
    get_address *get;

    memcpy(&get, &entry, sizeof(get));
    assert_non_null(get);
    return get;
}

/* A name that there is not: no error, and no function. */
static void check_unknown(get_address *get)
{
    void *address = &library;
    unsigned status = 7;

    assert_int_equal(get("cuNoSuch", &address, 12000, 0, &status), CUDA_OK);
    assert_null(address);
    assert_int_equal(status, 1);
    address = &library;
    assert_int_equal(get("cuMemUnmap", &address, 2000, 0, &status), CUDA_OK);
    assert_null(address);
    assert_int_equal(status, 2);
}

TEST(library__each_entry_of_ours__answered_by_get_proc_address)
{
    library = library_need();
    if (version_of() < 12020)
        test_skip("this driver has CUDA %d", version_of());
    for (size_t i = 0; i < OURS; i++)
        if (!is_too_new(ours[i]) && !strstr(ours[i], "_ptsz") &&
            !first_version(get_address_of(library), library, ours[i]))
            fail_msg("cuGetProcAddress does not answer the symbol %s", ours[i]);
}

TEST(library__its_get_proc_address__as_the_simulated_one)
{
    const char *file = getenv("HMREG_TEST_FAKE_CUDA");
    void *fake;

    library = library_need();
    fake = file ? dlopen(file, RTLD_NOW | RTLD_LOCAL) : NULL;
    if (!fake || version_of() < 12020)
        test_skip("the simulated driver, or this one, is older");
    check_unknown(get_address_of(library));
    check_unknown(get_address_of(fake));
    for (size_t i = 0; i < OURS; i++) {
        int theirs = first_version(get_address_of(library), library, ours[i]);
        int simulated = first_version(get_address_of(fake), fake, ours[i]);

        /* flags choose the form _ptsz */
        if (theirs != simulated && !is_too_new(ours[i]) && !strstr(ours[i], "_ptsz"))
            fail_msg("%s is answered from %d on, by the simulated driver from %d on", ours[i],
                     theirs, simulated);
    }
}

/* ---- hooks ------------------------------------------------------------------------------- */

static const char *const ends[] = {
    "cuMemFree",
    "cuMemFree_v2",
    "cuMemFreeAsync",
    "cuMemFreeAsync_ptsz",
    "cuIpcCloseMemHandle",
    "cuMemFreeHost",
    "cuMemHostUnregister",
    "cuMemUnmap",
    "cuMemAddressFree",
    "cuCtxDestroy",
    "cuCtxDestroy_v2",
    "cuCtxDetach",
    "cuModuleUnload",
    "cuLibraryUnload",
    "cuDevicePrimaryCtxReset",
    "cuDevicePrimaryCtxReset_v2",
    "cuDevicePrimaryCtxRelease",
    "cuDevicePrimaryCtxRelease_v2",
    "cuDevicePrimaryCtxRetain",
};
#define ENDS          (sizeof(ends) / sizeof(ends[0]))
#define WITH_ALL_ENDS 12000 /* the first version that has all of them */

static struct entry_hook hook;
static unsigned our_calls;

static unsigned our_replacement(uint64_t a, uint64_t b, uint64_t c, uint64_t d)
{
    our_calls++;
    return call_at(atomic_load(&hook.original))(a, b, c, d);
}

static void hook_it(const char *name)
{
    if (entry_hooks_install(&hook, 1) != 1)
        fail_msg("%s is not hooked: %s", name, hook.why);
    assert_true(entry_hook_is_whole(&hook));
}

static void new_hook(const char *name, void *function)
{
    any_call *replacement = our_replacement;

    hook = (struct entry_hook){.function = function};
    memcpy(&hook.replacement, &replacement, sizeof(replacement));
    hook_it(name);
}

/* The call fails as before it was hooked, and each hook saw it. */
static void check_call(const char *name, const void *function, unsigned result, unsigned ours_once)
{
    our_calls = 0;
    assert_int_equal(call_at(function)(0, 0, 0, 0), result);
    if (our_calls != ours_once)
        fail_msg("our hook of %s was called %u times, not %u", name, our_calls, ours_once);
}

/* NULL: this driver is older. */
static void *function_of(const char *name, unsigned *result)
{
    void *function = dlsym(library, name);

    if (!function) {
        assert_in_range(version_of(), 11000, WITH_ALL_ENDS - 1);
        return NULL;
    }
    *result = call_at(function)(0, 0, 0, 0);
    assert_int_not_equal(*result, CUDA_OK);
    return function;
}

TEST(library__each_end_of_memory__hooked_called_and_restored)
{
    begin();
    for (size_t i = 0; i < ENDS; i++) {
        unsigned result = 0;
        uint8_t before[LOOKED_AT], *function = function_of(ends[i], &result);

        if (!function)
            continue;
        memcpy(before, function, sizeof(before));
        new_hook(ends[i], function);
        check_call(ends[i], function, result, 1);
        assert_true(entry_hook_is_whole(&hook));
        assert_true(entry_hook_remove(&hook));
        assert_memory_equal(function, before, sizeof(before));
        check_call(ends[i], function, result, 0);
        hook_it(ends[i]);
        check_call(ends[i], function, result, 1);
        assert_true(entry_hook_remove(&hook));
    }
}

/* ---- UCX --------------------------------------------------------------------------------- */

/* UCX's own code, as its CUDA memory hooks call it (UCX 1.12 and later). */
static struct {
    int (*patch)(void *function, void *hook, const char *symbol, void **original, void **restore);
    int (*restore)(void *restore);
} ucx;

static unsigned ucx_calls;
static void *ucx_original;

static unsigned ucx_replacement(uint64_t a, uint64_t b, uint64_t c, uint64_t d)
{
    ucx_calls++;
    return call_at(ucx_original)(a, b, c, d);
}

static void load_ucx(void)
{
    void *ucs = dlopen("libucs.so.0", RTLD_NOW | RTLD_GLOBAL), *ucm, *entry; /* in this order */

    ucm = ucs ? dlopen("libucm.so.0", RTLD_NOW) : NULL;
    if (!ucm)
        test_skip("no UCX: %s", dlerror());
    entry = dlsym(ucm, "ucm_bistro_patch");
    memcpy(&ucx.patch, &entry, sizeof(entry));
    entry = dlsym(ucm, "ucm_bistro_restore");
    memcpy(&ucx.restore, &entry, sizeof(entry));
    if (!ucx.patch || !ucx.restore)
        test_skip("this UCX exports no ucm_bistro_patch");
}

static void *patch_by_ucx(const char *name, void *function)
{
    any_call *replacement = ucx_replacement;
    void *place = NULL, *restore = NULL;
    int status;

    memcpy(&place, &replacement, sizeof(place));
    status = ucx.patch(function, place, name, &ucx_original, &restore);
#if defined(__aarch64__)
    if (status == -22) /* UCS_ERR_UNSUPPORTED */
        test_skip("on arm64 UCX patches no function whose original it calls");
#endif
    if (status)
        fail_msg("UCX does not patch %s: status %d", name, status);
    return restore;
}

static void check_both(const char *name, const void *function, unsigned result, unsigned ours_once)
{
    ucx_calls = 0;
    check_call(name, function, result, ours_once);
    assert_int_equal(ucx_calls, 1);
}

TEST(library__ucx_hooks_first_or_later__both_called)
{
    begin();
    load_ucx();
    for (size_t i = 0; i < ENDS; i++) {
        unsigned result = 0;
        uint8_t before[LOOKED_AT], *function = function_of(ends[i], &result);
        void *restore;

        if (!function)
            continue;
        memcpy(before, function, sizeof(before));
        restore = patch_by_ucx(ends[i], function);
        new_hook(ends[i], function);
        check_both(ends[i], function, result, 1);
        assert_true(entry_hook_remove(&hook));
        check_both(ends[i], function, result, 0);
        assert_int_equal(ucx.restore(restore), 0);
        assert_memory_equal(function, before, sizeof(before));
        check_call(ends[i], function, result, 0);
        new_hook(ends[i], function);
        restore = patch_by_ucx(ends[i], function);
        check_both(ends[i], function, result, 1);
        assert_int_equal(ucx.restore(restore), 0);
        assert_true(entry_hook_is_whole(&hook));
        check_call(ends[i], function, result, 1);
        assert_true(entry_hook_remove(&hook));
        assert_memory_equal(function, before, sizeof(before));
    }
}

/* ---- the vendor --------------------------------------------------------------------------- */

/* As cuda_watch() places them, with all that cuda_hooks.c looks up. */
TEST(vendor__its_hooks__all_kinds_reported)
{
    static struct cuda_hmem self;
    uint8_t before[ENDS][LOOKED_AT];
    unsigned results[ENDS];
    void *entry;

    begin();
    for (size_t i = 0; i < ENDS; i++) {
        const void *function = function_of(ends[i], &results[i]);

        if (function)
            memcpy(before[i], function, LOOKED_AT);
    }
    self.base.library = library;
    self.version = version_of();
    entry = dlsym(library, "cuDevicePrimaryCtxGetState");
    memcpy(&self.api.primary_state, &entry, sizeof(entry));
    entry = dlsym(library, "cuPointerGetAttributes");
    memcpy(&self.api.pointer_attributes, &entry, sizeof(entry));
    entry = dlsym(library, "cuPointerGetAttribute");
    memcpy(&self.api.pointer_attribute, &entry, sizeof(entry));
    cuda_complete(&self.base);
    assert_null(strstr(self.base.runtime.unreported, "device, "));
    assert_null(strstr(self.base.runtime.unreported, "hooked"));
    assert_false(cuda_watch(&self.base, 4096, 1, NULL, NULL)); /* places them; it is no memory */
    assert_null(strstr(self.base.runtime.unreported, "hooked"));
    for (size_t i = 0; i < ENDS; i++) {
        void *function = dlsym(library, ends[i]);

        if (!function)
            continue;
        if (!memcmp(before[i], function, LOOKED_AT))
            fail_msg("%s is not hooked", ends[i]);
        assert_int_equal(call_at(function)(0, 0, 0, 0), results[i]);
    }
}

/* ---- unloading ---------------------------------------------------------------------------- */

/* NVIDIA's functions lead to the simulated driver's, so that libhmreg finds a device; not those
 * that end memory, which fail as before, and not cuGetProcAddress, which answers them. */
static void simulate_device(void *fake)
{
    for (size_t i = 0; i < OURS; i++) {
        void *function = dlsym(library, ours[i]);
        bool kept = !function || strstr(ours[i], "cuGetProcAddress");

        for (size_t end = 0; end < ENDS; end++)
            kept = kept || !strcmp(ours[i], ends[end]);
        if (!kept && !patch_jump(function, dlsym(fake, ours[i])))
            test_skip("NVIDIA's functions cannot lead to the simulated driver's here");
    }
}

static unsigned in_fake(void *fake, const char *name, uint64_t a, uint64_t b)
{
    return call_at(dlsym(fake, name))(a, b, 0, 0);
}

static uint64_t alloc_in(void *fake, uint64_t len)
{
    uint64_t context = 0, addr = 0;

    assert_int_equal(in_fake(fake, "cuInit", 0, 0), CUDA_OK);
    assert_int_equal(in_fake(fake, "cuDevicePrimaryCtxRetain", (uintptr_t)&context, 0), CUDA_OK);
    assert_int_equal(in_fake(fake, "cuCtxSetCurrent", context, 0), CUDA_OK);
    assert_int_equal(in_fake(fake, "cuMemAlloc_v2", (uintptr_t)&addr, len), CUDA_OK);
    return addr;
}

static struct {
    void *function; /* NULL: this driver is older */
    unsigned result;
    uint8_t code[LOOKED_AT];
} each[ENDS];

/* The functions have the code that they had, and fail as they did. */
static void check_each(void)
{
    for (size_t i = 0; i < ENDS; i++) {
        if (!each[i].function)
            continue;
        if (memcmp(each[i].function, each[i].code, LOOKED_AT))
            fail_msg("%s has changed", ends[i]);
        assert_int_equal(call_at(each[i].function)(0, 0, 0, 0), each[i].result);
    }
}

static void copy_hooked(void)
{
    for (size_t i = 0; i < ENDS; i++) {
        if (each[i].function && !memcmp(each[i].function, each[i].code, LOOKED_AT))
            fail_msg("%s is not hooked", ends[i]);
        if (each[i].function)
            memcpy(each[i].code, each[i].function, LOOKED_AT);
    }
}

/* The application unloads the driver under hmreg, and then hmreg. Both stay, and hmreg's hooks. */
TEST(unload__the_driver_and_hmreg__hooks_go_on)
{
    const char *file = getenv("HMREG_TEST_FAKE_CUDA");
    void *fake, *handle = dlopen(TEST_CUDA_PLUGIN, RTLD_NOW | RTLD_LOCAL);
    const struct plugin *plugin = handle ? dlsym(handle, "plugin") : NULL;
    const size_t len = 100000;
    bool cached = false;
    uint64_t addr;

    assert_non_null(plugin);
    begin();
    fake = file ? dlopen(file, RTLD_NOW | RTLD_LOCAL) : NULL;
    if (!fake)
        test_skip("there is no simulated driver");
    simulate_device(fake);
    for (size_t i = 0; i < ENDS; i++) {
        each[i].function = function_of(ends[i], &each[i].result);
        if (each[i].function)
            memcpy(each[i].code, each[i].function, LOOKED_AT);
    }
    addr = alloc_in(fake, len);
    assert_int_equal(plugin->open(HMREG_MONITOR_DEFAULT), 0);
    check_each();
    assert_true(plugin->get((void *)(uintptr_t)addr, len, &cached));
    assert_true(cached);
    copy_hooked();
    call_at(dlsym(library, "cuMemFree_v2"))(addr, 0, 0, 0);
    assert_int_equal(plugin->invalidations(), 1);
    assert_int_equal(dlclose(library), 0);
    check_each();
    assert_int_equal(plugin->close(), 0);
    check_each();
    assert_int_equal(dlclose(handle), 0);
    assert_null(dlopen(TEST_CUDA_PLUGIN, RTLD_NOW | RTLD_NOLOAD));
    check_each();
    assert_int_equal(in_fake(fake, "cuMemFree_v2", addr, 0), CUDA_OK);
}

TEST_MAIN()
