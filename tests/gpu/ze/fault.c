/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Every call of the driver made to fail, at each of its occurrences in every operation: no crash,
 * no descriptor or memory lost, outputs as they were, and the driver's code in the error.
 */
#include "tests/gpu/ze/bench.h"

#include <errno.h>
#include <sys/resource.h>
#include <unistd.h>

/* Failures with a code of no special meaning. */
#define CODE ZE_RESULT_ERROR_DEVICE_LOST

static const char *const calls[] = {
    "zeDriverGet",
    "zeDriverGetApiVersion",
    "zeDriverGetProperties",
    "zeDriverGetExtensionProperties",
    "zeDeviceGet",
    "zeDeviceGetProperties",
    "zeDeviceGetMemoryProperties",
    "zeDeviceGetExternalMemoryProperties",
    "zeDeviceGetCommandQueueGroupProperties",
    "zeDevicePciGetPropertiesExt",
    "zeContextCreate",
    "zeContextDestroy",
    "zeMemAllocDevice",
    "zeMemAllocHost",
    "zeMemAllocShared",
    "zeMemFree",
    "zeMemGetAllocProperties",
    "zeMemGetAddressRange",
    "zeCommandListCreateImmediate",
    "zeCommandListDestroy",
    "zeCommandListAppendMemoryCopy",
};
#define CALLS (sizeof(calls) / sizeof(calls[0]))

static struct hmem *self;
static const struct fake_control *fake;
static uint64_t here, there; /* memory of two devices */
static struct hmem_range resolved;
static void *spare; /* memory an operation made, or is to free */
static enum hmreg_mem_kind spare_kind;

/* An operation checks itself that a failure left its outputs alone. */
struct operation {
    const char *name;
    int (*run)(void);
    const char *fatal; /* the calls whose failure must fail it */
};

static int run_resolve(void)
{
    struct hmem_range range, before;
    int rc;

    memset(&range, 0x5a, sizeof(range));
    before = range;
    rc = ze->resolve(self, here, 4096, &range);
    if (rc)
        assert_memory_equal(&range, &before, sizeof(range));
    return rc;
}

static int run_identity(void)
{
    uint64_t id = 77;
    int rc = ze->identity(self, here, 4096, &id);

    assert_int_equal(id, rc ? 77 : resolved.identity);
    return rc;
}

static int run_export(void)
{
    struct hmreg_dmabuf dmabuf = {.fd = -7, .offset = 7, .length = 7};
    int rc = ze->export_dmabuf(self, here + 5, 4000, &resolved, &dmabuf);

    if (rc) {
        assert_int_equal(dmabuf.fd, -7);
        assert_int_equal(dmabuf.offset, 7);
        assert_int_equal(dmabuf.length, 7);
    } else {
        assert_int_equal(dmabuf.offset, 5);
        close(dmabuf.fd);
    }
    return rc;
}

static int run_copy(void)
{
    char host[128] = "";

    return ze->copy(self, here, (uintptr_t)host, sizeof(host));
}

static int run_copy_across(void)
{
    return ze->copy(self, here, there, 4096);
}

static int run_alloc(enum hmreg_mem_kind kind)
{
    void *made = (void *)7;
    int rc = ze->alloc(self, 1, kind, 5000, &made);

    if (rc)
        assert_ptr_equal(made, (void *)7);
    else
        spare = made;
    spare_kind = kind;
    return rc;
}

static int run_alloc_device(void)
{
    return run_alloc(HMREG_MEM_DEVICE);
}

static int run_alloc_host(void)
{
    return run_alloc(HMREG_MEM_HOST_PINNED);
}

static int run_alloc_shared(void)
{
    return run_alloc(HMREG_MEM_MANAGED);
}

static int run_free(void)
{
    int rc = ze->free(self, spare, HMREG_MEM_DEVICE);

    if (!rc)
        spare = NULL;
    return rc;
}

static int run_open(void)
{
    struct hmem *second = (struct hmem *)7;
    int rc = ze->open(&second);

    if (rc)
        assert_ptr_equal(second, (struct hmem *)7);
    else
        ze->close(second);
    return rc;
}

static const struct operation operations[] = {
    {"resolve", run_resolve, "zeMemGetAllocProperties zeMemGetAddressRange"},
    {"identity", run_identity, "zeMemGetAllocProperties zeMemGetAddressRange"},
    {"export", run_export, "zeMemGetAllocProperties zeMemGetAddressRange"},
    {"copy", run_copy,
     "zeMemGetAllocProperties zeMemGetAddressRange zeDeviceGetCommandQueueGroupProperties "
     "zeCommandListCreateImmediate zeCommandListAppendMemoryCopy zeCommandListDestroy"},
    {"copy across devices", run_copy_across,
     "zeMemGetAllocProperties zeMemGetAddressRange zeDeviceGetCommandQueueGroupProperties "
     "zeCommandListCreateImmediate zeCommandListAppendMemoryCopy zeCommandListDestroy"},
    {"alloc device", run_alloc_device, "zeMemAllocDevice"},
    {"alloc host", run_alloc_host, "zeMemAllocHost"},
    {"alloc shared", run_alloc_shared, "zeMemAllocShared"},
    {"free", run_free, "zeMemGetAllocProperties zeMemGetAddressRange zeMemFree"},
    {"open", run_open, "zeDriverGet zeDeviceGet zeContextCreate"},
};
#define OPERATIONS (sizeof(operations) / sizeof(operations[0]))

static void prepare(const struct operation *operation)
{
    if (operation->run != run_free)
        return;
    spare = (void *)(uintptr_t)bench_alloc(self, 0, HMREG_MEM_DEVICE, 5000);
    spare_kind = HMREG_MEM_DEVICE;
}

/* Memory that was not freed can still be, when the driver is well again. */
static void finish(void)
{
    if (spare)
        bench_free(self, (uintptr_t)spare, spare_kind);
    spare = NULL;
}

static void set_up(void)
{
    self = bench_open();
    fake = bench_control(0);
    here = bench_alloc(self, 0, HMREG_MEM_DEVICE, 8192);
    there = bench_alloc(self, 1, HMREG_MEM_DEVICE, 8192);
    assert_ok(ze->resolve(self, here, 4096, &resolved));
    assert_int_equal(run_export(), 0); /* the driver has its descriptor now */
    fake->reset();
}

static void tear_down(void)
{
    fake->reset();
    bench_free(self, here, HMREG_MEM_DEVICE);
    bench_free(self, there, HMREG_MEM_DEVICE);
    ze->close(self);
}

static bool names(const char *list, const char *call)
{
    const char *at = strstr(list, call);

    return at && (at[strlen(call)] == ' ' || !at[strlen(call)]);
}

static void check_error(const struct operation *operation, const char *call, int rc)
{
    const struct hmreg_error *error = hmreg_last_error();

    if (rc != -EIO)
        fail_msg("%s with %s failing gives %d", operation->name, call, rc);
    assert_int_equal(error->code, rc);
    assert_string_equal(error->source, "ze");
    assert_int_equal(error->vendor_code, CODE);
    assert_string_equal(error->vendor_text, "ZE_RESULT_ERROR_DEVICE_LOST");
    assert_string_not_equal(error->text, "");
}

/* One run with the call's nth occurrence failing. False: it does not occur that often. */
static bool fail_one(const struct operation *operation, const char *call, int nth)
{
    int fds = test_count_fds();
    unsigned long memory = fake->allocations();
    bool occurs;
    int rc;

    prepare(operation);
    fake->reset();
    bench_fail(fake, call, CODE, nth, 1);
    rc = operation->run();
    occurs = fake->calls(call) > (unsigned long)nth;
    fake->reset();
    finish();
    if (rc)
        check_error(operation, call, rc);
    if (!occurs)
        assert_int_equal(rc, 0);
    if (occurs && nth == 0 && !rc && names(operation->fatal, call))
        fail_msg("%s succeeds though %s failed", operation->name, call);
    assert_int_equal(test_count_fds(), fds);
    /* What open tried contexts with is the driver's if it will not take it back. */
    if (operation->run != run_open || strcmp(call, "zeMemFree") != 0)
        assert_int_equal(fake->allocations(), memory);
    return occurs;
}

static void every_operation__each_driver_call_failing__clean(void **state)
{
    bool reached[CALLS] = {false};

    set_up();
    for (size_t o = 0; o < OPERATIONS; o++) {
        for (size_t c = 0; c < CALLS; c++) {
            int nth = 0;

            while (fail_one(&operations[o], calls[c], nth))
                nth++;
            if (nth == 0 && names(operations[o].fatal, calls[c]))
                fail_msg("%s does not call %s", operations[o].name, calls[c]);
            reached[c] = reached[c] || nth;
        }
    }
    for (size_t c = 0; c < CALLS; c++)
        if (!reached[c])
            fail_msg("no operation calls %s", calls[c]);
    tear_down();
}

/* After any failure the next try works: nothing is remembered of it. */
static void every_operation__after_a_failure__works(void **state)
{
    set_up();
    for (size_t o = 0; o < OPERATIONS; o++) {
        for (size_t c = 0; c < CALLS; c++) {
            fail_one(&operations[o], calls[c], 0);
            prepare(&operations[o]);
            assert_ok(operations[o].run());
            finish();
        }
    }
    tear_down();
}

static void export__driver_gives_no_descriptor__eio(void **state)
{
    struct hmreg_dmabuf dmabuf = {.fd = -7};

    set_up();
    bench_fail(fake, "zeMemGetAllocProperties", ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY, 1, 1);
    assert_fails(ze->export_dmabuf(self, here, 4096, &resolved, &dmabuf), -EIO,
                 "gave no descriptor");
    assert_string_equal(hmreg_last_error()->vendor_text, "ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY");
    bench_fail(fake, "zeMemGetAllocProperties", ZE_RESULT_SUCCESS, 1, 1);
    assert_fails(ze->export_dmabuf(self, here, 4096, &resolved, &dmabuf), -EIO,
                 "gave no descriptor");
    assert_int_equal(dmabuf.fd, -7);
    tear_down();
}

static void export__driver_does_not_support_it__eopnotsupp(void **state)
{
    static const ze_result_t codes[] = {ZE_RESULT_ERROR_UNSUPPORTED_FEATURE,
                                        ZE_RESULT_ERROR_UNSUPPORTED_ENUMERATION};
    struct hmreg_dmabuf dmabuf = {.fd = -7};

    set_up();
    for (int i = 0; i < 2; i++) {
        bench_fail(fake, "zeMemGetAllocProperties", codes[i], 1, 1);
        assert_fails(ze->export_dmabuf(self, here, 4096, &resolved, &dmabuf), -EOPNOTSUPP,
                     "does not export");
        assert_int_equal(hmreg_last_error()->vendor_code, codes[i]);
    }
    tear_down();
}

static void alloc__codes_of_the_driver__are_told_apart(void **state)
{
    static const struct {
        ze_result_t code;
        int errnum;
        const char *words;
    } cases[] = {
        {ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY, -ENOMEM, "has no 5000 bytes of device memory"},
        {ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY, -ENOMEM, "has no 5000 bytes of device memory"},
        {ZE_RESULT_ERROR_UNSUPPORTED_SIZE, -ENOMEM, "has no 5000 bytes of device memory"},
        {ZE_RESULT_ERROR_UNSUPPORTED_FEATURE, -EOPNOTSUPP, "has no device memory"},
        {ZE_RESULT_ERROR_DEVICE_LOST, -EIO, "allocation of 5000 bytes"},
        {(ze_result_t)0x12345678, -EIO, "allocation of 5000 bytes"},
    };
    void *made = (void *)7;

    set_up();
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        bench_fail(fake, "zeMemAllocDevice", cases[i].code, 0, 1);
        assert_fails(ze->alloc(self, 0, HMREG_MEM_DEVICE, 5000, &made), cases[i].errnum,
                     cases[i].words);
        assert_int_equal(hmreg_last_error()->vendor_code, cases[i].code);
        assert_ptr_equal(made, (void *)7);
    }
    assert_string_equal(hmreg_last_error()->vendor_text, ""); /* a code without a name */
    tear_down();
}

/* No descriptor left to be had: the process's limit, not the driver's fault. */
static void export__no_descriptor_left__emfile(void **state)
{
    struct hmreg_dmabuf dmabuf = {.fd = -7};
    struct rlimit limit, less;
    int next = dup(1), rc;

    set_up();
    close(next);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    less = limit;
    less.rlim_cur = (rlim_t)next;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &less), 0);
    rc = ze->export_dmabuf(self, here, 4096, &resolved, &dmabuf);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    assert_int_equal(rc, -EMFILE);
    assert_int_equal(hmreg_last_error()->code, -EMFILE);
    assert_string_equal(hmreg_last_error()->source, "os");
    assert_int_equal(dmabuf.fd, -7);
    tear_down();
}

TEST_MAIN(TEST(every_operation__each_driver_call_failing__clean),
          TEST(every_operation__after_a_failure__works),
          TEST(export__driver_gives_no_descriptor__eio),
          TEST(export__driver_does_not_support_it__eopnotsupp),
          TEST(alloc__codes_of_the_driver__are_told_apart),
          TEST(export__no_descriptor_left__emfile))
