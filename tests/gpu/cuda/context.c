/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The caller's context: after every library call the thread has the context that it had before, and
 * no device has gained a context.
 */
#include "tests/gpu/cuda/driver.h"

#define MIB 1048576ul

/* Memory of every kind on device 0, and a source for copies. */
struct sorts {
    unsigned long long plain, pool, virtual_memory, managed;
    void *host;
    size_t granule;
};
#define SORT_COUNT 5

static struct sorts sorts_begin(void)
{
    struct cuda_memory_prop prop = prop_on(0);
    struct sorts sorts = {.plain = cu_alloc(MIB), .granule = cu_granule()};

    CU(cu.alloc_async(&sorts.pool, MIB, NULL));
    CU(cu.stream_wait(NULL));
    CU(cu.alloc_managed(&sorts.managed, MIB, CUDA_ATTACH_GLOBAL));
    CU(cu.alloc_host(&sorts.host, MIB, CUDA_HOSTALLOC_PORTABLE));
    sorts.virtual_memory = cu_reserve(sorts.granule);
    cu_map(sorts.virtual_memory, sorts.granule, &prop);
    return sorts;
}

static void sorts_end(const struct sorts *sorts)
{
    CU(cu.free(sorts->plain));
    CU(cu.free_async(sorts->pool, NULL));
    CU(cu.stream_wait(NULL));
    CU(cu.free(sorts->managed));
    CU(cu.free_host(sorts->host));
    CU(cu.unmap(sorts->virtual_memory, sorts->granule));
    CU(cu.unreserve(sorts->virtual_memory, sorts->granule));
}

static uint64_t sort_at(const struct sorts *sorts, unsigned i)
{
    const uint64_t all[SORT_COUNT] = {sorts->plain, sorts->pool, sorts->virtual_memory,
                                      sorts->managed, (uintptr_t)sorts->host};

    return all[i];
}

/* Every operation on every kind of memory, copies included. */
static void use_everything(struct hmem *hmem, const struct sorts *sorts)
{
    char bytes[100] = {0};

    for (unsigned i = 0; i < SORT_COUNT; i++) {
        uint64_t addr = sort_at(sorts, i), identity;
        struct hmreg_dmabuf dmabuf;
        struct hmem_range range;

        assert_ok(hmem_cuda_ops.resolve(hmem, addr + 1, 99, &range));
        assert_ok(hmem_cuda_ops.identity(hmem, addr + 1, 99, &identity));
        if (hmem_cuda_ops.export_dmabuf(hmem, addr + 1, 99, &range, 0, &dmabuf) == 0)
            close(dmabuf.fd);
        assert_ok(hmem_cuda_ops.copy(hmem, addr + 1, (uintptr_t)bytes, 99));
        assert_ok(hmem_cuda_ops.copy(hmem, (uintptr_t)bytes, addr + 1, 99));
        (void)hmem_cuda_ops.resolve(hmem, addr, SIZE_MAX / 4, &range);
    }
}

static void allocate_everything(struct hmem *hmem, int device)
{
    static const enum hmreg_mem_kind kinds[] = {HMREG_MEM_DEVICE, HMREG_MEM_HOST_PINNED,
                                                HMREG_MEM_MANAGED};
    void *addrs[3];

    for (int i = 0; i < 3; i++)
        assert_ok(hmem_cuda_ops.alloc(hmem, device, kinds[i], 1000, &addrs[i]));
    for (int i = 0; i < 3; i++)
        assert_ok(hmem_cuda_ops.free(hmem, addrs[i], kinds[i]));
}

static struct cuda_context *current(void)
{
    struct cuda_context *found = NULL;

    CU(cu.context_current(&found));
    return found;
}

static bool is_active(int device)
{
    unsigned flags = 0;
    int active = 0;

    CU(cu.primary_state(device, &flags, &active));
    return active;
}

struct job {
    struct hmem *hmem;
    const struct sorts *sorts;
    struct cuda_context *with; /* current during the job, NULL: none */
    int device;                /* to allocate on */
};

static void *do_job(void *arg)
{
    const struct job *job = arg;

    if (job->with)
        CU(cu.context_push(job->with));
    use_everything(job->hmem, job->sorts);
    assert_ptr_equal(current(), job->with);
    allocate_everything(job->hmem, job->device);
    assert_ptr_equal(current(), job->with);
    if (job->with)
        CU(cu.context_pop(NULL));
    assert_null(current());
    return NULL;
}

TEST(any_call__thread_without_context__has_none_after)
{
    struct bench bench = bench_begin();
    struct sorts sorts = sorts_begin();
    struct job job = {bench.hmem, &sorts, NULL, 0};

    test_on_a_thread(do_job, &job);
    sorts_end(&sorts);
}

TEST(any_call__other_devices_context__has_it_after)
{
    struct cuda_context *second = NULL;
    struct bench bench;
    struct sorts sorts;
    struct job job;

    driver_need_devices(2);
    bench = bench_begin();
    sorts = sorts_begin();
    CU(cu.primary_retain(&second, 1));
    job = (struct job){bench.hmem, &sorts, second, 0};
    test_on_a_thread(do_job, &job);
    CU(cu.primary_release(1));
    sorts_end(&sorts);
}

/* Queries create no context: not on the memory's device, and not on device 0. */
TEST(open_and_resolve__no_context_anywhere__makes_none)
{
    struct hmem_device device;
    struct hmem_runtime runtime;
    struct hmem_range range;
    struct hmem *hmem;
    int local = 0;

    driver_load();
    hmem = vendor_open();
    hmem_cuda_ops.runtime(hmem, &runtime);
    for (int i = 0; i < hmem_cuda_ops.device_count(hmem); i++)
        hmem_cuda_ops.device(hmem, i, &device);
    assert_int_equal(hmem_cuda_ops.resolve(hmem, (uintptr_t)&local, 1, &range), -HMEM_NOT_MINE);
    assert_null(current());
    for (int i = 0; i < hmem_cuda_ops.device_count(hmem); i++)
        assert_false(is_active(i));
    if (cu.contexts)
        assert_int_equal(cu.contexts(), 0);
    hmem_cuda_ops.close(hmem);
}

/* Memory that the library allocated retains the primary context of its device, and of no other. */
TEST(alloc__on_a_device__its_context_until_free)
{
    void *first = NULL, *second = NULL;
    struct hmem *hmem;

    driver_need_devices(2);
    hmem = vendor_open();
    assert_ok(hmem_cuda_ops.alloc(hmem, 1, HMREG_MEM_DEVICE, 1000, &first));
    assert_ok(hmem_cuda_ops.alloc(hmem, 1, HMREG_MEM_HOST_PINNED, 1000, &second));
    assert_false(is_active(0));
    assert_true(is_active(1));
    assert_ok(hmem_cuda_ops.free(hmem, first, HMREG_MEM_DEVICE));
    assert_true(is_active(1));
    assert_ok(hmem_cuda_ops.free(hmem, second, HMREG_MEM_HOST_PINNED));
    assert_false(is_active(1));
    assert_null(current());
    hmem_cuda_ops.close(hmem);
}

/* Copies of memory without a context retain the primary one for their duration. */
TEST(copy__virtual_memory__context_only_meanwhile)
{
    struct cuda_memory_prop prop = prop_on(0);
    unsigned long long addr;
    struct hmem *hmem;
    size_t granule;
    char byte = 3;

    driver_load();
    hmem = vendor_open();
    granule = cu_granule();
    addr = cu_reserve(granule);
    cu_map(addr, granule, &prop);
    assert_ok(hmem_cuda_ops.copy(hmem, addr + 5, (uintptr_t)&byte, 1));
    byte = 0;
    assert_ok(hmem_cuda_ops.copy(hmem, (uintptr_t)&byte, addr + 5, 1));
    assert_int_equal(byte, 3);
    assert_false(is_active(0));
    assert_null(current());
    CU(cu.unmap(addr, granule));
    CU(cu.unreserve(addr, granule));
    hmem_cuda_ops.close(hmem);
}

static void *resolve_all_there(void *arg)
{
    const struct job *job = arg;
    struct hmem_range range;

    for (unsigned i = 0; i < SORT_COUNT; i++)
        assert_ok(hmem_cuda_ops.resolve(job->hmem, sort_at(job->sorts, i), 99, &range));
    assert_null(current());
    return NULL;
}

static void export_there_with(const struct job *job, const struct cuda_context *with)
{
    struct hmreg_dmabuf dmabuf;
    struct hmem_range range;

    assert_ok(hmem_cuda_ops.resolve(job->hmem, job->sorts->plain, 10, &range));
    assert_ok(hmem_cuda_ops.export_dmabuf(job->hmem, job->sorts->plain, 10, &range, 0, &dmabuf));
    close(dmabuf.fd);
    assert_ok(hmem_cuda_ops.resolve(job->hmem, job->sorts->virtual_memory, 10, &range));
    assert_ok(
        hmem_cuda_ops.export_dmabuf(job->hmem, job->sorts->virtual_memory, 10, &range, 0, &dmabuf));
    close(dmabuf.fd);
    assert_ptr_equal(current(), with);
}

static void *export_there(void *arg)
{
    export_there_with(arg, NULL);
    return NULL;
}

/* What a job needs, on the simulated driver. */
struct stage {
    struct bench bench;
    struct sorts sorts;
    struct job job;
};

static void stage_begin(struct stage *stage)
{
    driver_need_fake();
    stage->bench = bench_begin();
    stage->sorts = sorts_begin();
    stage->job = (struct job){stage->bench.hmem, &stage->sorts, NULL, 0};
}

static void stage_end(struct stage *stage)
{
    sorts_end(&stage->sorts);
    bench_end(&stage->bench);
}

/* The export needs a current context of the memory's device. */
TEST(export__driver_wants_a_context__lent)
{
    struct stage stage;

    stage_begin(&stage);
    for (unsigned i = 0; i < 3; i++) /* each result by which a driver may say so */
        test_on_a_thread(export_there, &stage.job);
    stage_end(&stage);
}

TEST(export__other_devices_context__the_memorys_is_lent)
{
    struct cuda_context *second = NULL;
    struct stage stage;

    driver_need_devices(2);
    stage_begin(&stage);
    CU(cu.primary_retain(&second, 1));
    CU(cu.context_push(second));
    for (unsigned i = 0; i < 3; i++)
        export_there_with(&stage.job, second);
    CU(cu.context_pop(NULL));
    CU(cu.primary_release(1));
    stage_end(&stage);
}

/* ---- queries that want a context -------------------------------------------------------- */

static void *query_there(void *arg)
{
    const struct job *job = arg;
    static const enum hmreg_mem_kind kinds[SORT_COUNT] = {HMREG_MEM_DEVICE, HMREG_MEM_DEVICE,
                                                          HMREG_MEM_DEVICE, HMREG_MEM_MANAGED,
                                                          HMREG_MEM_HOST_PINNED};
    struct hmem_range range;
    uint64_t identity;
    int local = 0;

    for (unsigned i = 0; i < SORT_COUNT; i++) {
        uint64_t addr = sort_at(job->sorts, i);

        assert_ok(hmem_cuda_ops.resolve(job->hmem, addr + 1, 99, &range));
        assert_int_equal(range.kind, kinds[i]);
        assert_ok(hmem_cuda_ops.identity(job->hmem, addr + 1, 99, &identity));
        assert_int_equal(identity, range.identity);
    }
    assert_int_equal(hmem_cuda_ops.resolve(job->hmem, (uintptr_t)&local, 1, &range),
                     -HMEM_NOT_MINE);
    assert_null(current());
    return NULL;
}

/* Without a context such a driver says nothing about any address, and nothing is the host's. */
TEST(query__driver_wants_a_context__asked_in_an_active_one)
{
    struct stage stage;

    stage_begin(&stage);
    test_setenv("HMREG_FAKE_CUDA_QUERY_CONTEXT", "1");
    test_on_a_thread(query_there, &stage.job);
    test_setenv("HMREG_FAKE_CUDA_NO_MAPPING", "1");
    test_on_a_thread(resolve_all_there, &stage.job);
    stage_end(&stage);
}

static void *expect_no_answer(void *arg)
{
    const struct job *job = arg;
    struct hmem_range range;
    uint64_t identity;
    int local = 0;

    assert_fails(hmem_cuda_ops.resolve(job->hmem, job->sorts->plain, 1, &range), -EIO,
                 "make the memory's context current");
    assert_fails(hmem_cuda_ops.identity(job->hmem, job->sorts->plain, 1, &identity), -EIO,
                 "no device has an active primary context");
    assert_int_equal(hmem_cuda_ops.resolve(job->hmem, (uintptr_t)&local, 1, &range),
                     -HMEM_NOT_MINE);
    return NULL;
}

/* Memory of a context that cannot be found is not taken for the host's. */
TEST(query__wants_a_context_and_none_is_active__eio)
{
    struct cuda_context *made = NULL;
    struct sorts sorts = {0};
    struct job job;

    driver_need_fake();
    driver_load();
    job = (struct job){vendor_open(), &sorts, NULL, 0};
    CU(cu.context_create(&made, 0, 0));
    sorts.plain = cu_alloc(MIB);
    setenv("HMREG_FAKE_CUDA_QUERY_CONTEXT", "1", 1);
    test_on_a_thread(expect_no_answer, &job);
    unsetenv("HMREG_FAKE_CUDA_QUERY_CONTEXT");
    assert_int_equal(cu.contexts(), 1);
    CU(cu.free(sorts.plain));
    CU(cu.context_destroy(made));
    hmem_cuda_ops.close(job.hmem);
}

/* ---- unusual contexts ------------------------------------------------------------------- */

/* All operations on memory of device 1: creating a context on device 0 would abort the process. */
TEST(any_call__memory_of_device_1__no_context_on_device_0)
{
    struct cuda_memory_prop prop = prop_on(1);
    struct cuda_context *second = NULL;
    struct sorts sorts = {0};
    struct hmem *hmem;
    struct job job;

    driver_need_fake();
    test_setenv("HMREG_FAKE_CUDA_FORBID", "1");
    hmem = vendor_open();
    sorts.granule = cu_granule();
    CU(cu.primary_retain(&second, 1));
    CU(cu.context_push(second));
    sorts.plain = cu_alloc(MIB);
    CU(cu.alloc_async(&sorts.pool, MIB, NULL));
    CU(cu.alloc_managed(&sorts.managed, MIB, CUDA_ATTACH_GLOBAL));
    CU(cu.alloc_host(&sorts.host, MIB, CUDA_HOSTALLOC_PORTABLE));
    sorts.virtual_memory = cu_reserve(sorts.granule);
    cu_map(sorts.virtual_memory, sorts.granule, &prop);
    use_everything(hmem, &sorts);
    allocate_everything(hmem, 1);
    job = (struct job){hmem, &sorts, NULL, 1};
    test_on_a_thread(do_job, &job);
    sorts_end(&sorts);
    CU(cu.context_pop(NULL));
    CU(cu.primary_release(1));
    assert_int_equal(cu.contexts(), 0);
    hmem_cuda_ops.close(hmem);
}

struct asked {
    struct hmem *hmem;
    uint64_t addr;
    struct hmem_range range;
    struct hmreg_dmabuf dmabuf;
    int resolve, identity, export, copy;
    char words[768];
};

static void ask_there(void *arg)
{
    struct asked *asked = arg;
    uint64_t identity;
    char byte = 0;

    asked->resolve = hmem_cuda_ops.resolve(asked->hmem, asked->addr, 10, &asked->range);
    snprintf(asked->words, sizeof(asked->words), "%s", hmreg_last_error()->text);
    asked->identity = hmem_cuda_ops.identity(asked->hmem, asked->addr, 10, &identity);
    asked->export =
        hmem_cuda_ops.export_dmabuf(asked->hmem, asked->addr, 10, &asked->range, 0, &asked->dmabuf);
    asked->copy = hmem_cuda_ops.copy(asked->hmem, asked->addr, (uintptr_t)&byte, 1);
}

/* In a stream's host function CUDA permits no call: the error says so, and the library never takes
 * the memory for the system's. */
TEST(any_call__in_a_host_function__eio_in_words)
{
    struct bench bench = bench_begin();
    struct asked asked = {.hmem = bench.hmem, .addr = cu_alloc(MIB), .dmabuf = {.fd = -1}};

    assert_ok(bench_resolve(&bench, asked.addr, 10, &asked.range));
    CU(cu.host_function(NULL, ask_there, &asked));
    CU(cu.stream_wait(NULL));
    if (asked.resolve && asked.identity) { /* some drivers permit queries */
        assert_int_equal(asked.resolve, -EIO);
        assert_non_null(strstr(asked.words, "host function"));
        assert_int_equal(asked.identity, -EIO);
    } else {
        assert_null(cu.fake);
    }
    assert_int_equal(asked.copy, -EIO);
    if (asked.dmabuf.fd >= 0)
        close(asked.dmabuf.fd);
    CU(cu.free(asked.addr));
}

/* Its contents are gone; an allocation at the same address afterwards has another identity. */
TEST(primary_context__reset__memory_gone_and_fresh_after)
{
    struct bench bench = bench_begin();
    unsigned long long addr = cu_alloc_large();
    uint64_t before = identity_of(&bench, addr, 100);
    struct hmem_range range;
    uint64_t identity = 0;

    CU(cu.primary_reset(0));
    assert_int_equal(bench_resolve(&bench, addr, 100, &range), -HMEM_NOT_MINE);
    assert_int_equal(hmem_cuda_ops.identity(bench.hmem, addr, 100, &identity), -HMEM_NOT_MINE);
    CU(cu.context_pop(NULL));
    CU(cu.primary_release(0)); /* a reset context cannot be allocated from */
    CU(cu.primary_retain(&bench.context, 0));
    CU(cu.context_push(bench.context));
    addr = cu_alloc_large();
    assert_true(identity_of(&bench, addr, 100) != before);
    CU(cu.free(addr));
    bench_end(&bench);
}

TEST_MAIN()
