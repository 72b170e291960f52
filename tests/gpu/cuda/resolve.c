/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * What a pointer is, for memory in one piece: device, pinned, registered, managed, pool.
 */
#include "tests/gpu/cuda/driver.h"

#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define MIB 1048576ul

static void resolve__device_memory__says_all(void **state)
{
    struct bench bench = bench_begin();
    unsigned long long addr = cu_alloc(3 * MIB + 7);
    struct hmem_range range;

    assert_ok(bench_resolve(&bench, addr, 3 * MIB + 7, &range));
    assert_int_equal(range.device, 0);
    assert_int_equal(range.kind, HMREG_MEM_DEVICE);
    assert_int_equal(range.alloc_base, addr);
    assert_int_equal(range.alloc_len, 3 * MIB + 7);
    assert_int_equal(range.segments, 1);
    assert_int_equal(range.host_addr, 0);
    assert_true(range.identity != 0);
    CU(cu.free(addr));
    bench_end(&bench);
}

static void resolve__inside_an_allocation__names_the_whole(void **state)
{
    static const size_t cuts[][2] = {{0, 1}, {1, 1}, {4095, 2}, {12345, 54321}, {MIB - 1, 1}};
    struct bench bench = bench_begin();
    unsigned long long addr = cu_alloc(MIB);
    uint64_t identity = identity_of(&bench, addr, MIB);

    for (size_t i = 0; i < sizeof(cuts) / sizeof(cuts[0]); i++) {
        struct hmem_range range;

        assert_ok(bench_resolve(&bench, addr + cuts[i][0], cuts[i][1], &range));
        assert_int_equal(range.alloc_base, addr);
        assert_int_equal(range.alloc_len, MIB);
        assert_int_equal(range.identity, identity);
    }
    CU(cu.free(addr));
    bench_end(&bench);
}

static void resolve__second_device__says_so(void **state)
{
    struct cuda_context *second = NULL;
    struct hmem_range range;
    unsigned long long addr;
    struct bench bench;

    driver_need_devices(2);
    bench = bench_begin();
    CU(cu.primary_retain(&second, 1));
    CU(cu.context_push(second));
    addr = cu_alloc(MIB);
    CU(cu.context_pop(NULL));
    assert_ok(bench_resolve(&bench, addr, MIB, &range));
    assert_int_equal(range.device, 1);
    CU(cu.context_push(second));
    CU(cu.free(addr));
    CU(cu.context_pop(NULL));
    CU(cu.primary_release(1));
    bench_end(&bench);
}

/* A device that came after the library was opened is not one of its devices. */
static void resolve__device_nobody_counted__eio(void **state)
{
    struct cuda_context *second = NULL;
    struct hmem_range range;
    unsigned long long addr;
    struct bench bench;

    driver_need_fake();
    setenv("HMREG_FAKE_DEVICES", "1", 1);
    bench = bench_begin();
    unsetenv("HMREG_FAKE_DEVICES");
    CU(cu.primary_retain(&second, 1));
    CU(cu.context_push(second));
    addr = cu_alloc(MIB);
    assert_fails(bench_resolve(&bench, addr, MIB, &range), -EIO, "does not count");
    CU(cu.free(addr));
    CU(cu.context_pop(NULL));
    CU(cu.primary_release(1));
    bench_end(&bench);
}

static void resolve__memory_of_a_created_context__known(void **state)
{
    struct bench bench = bench_begin();
    struct cuda_context *created = NULL;
    struct hmem_range range;
    unsigned long long addr;

    CU(cu.context_create(&created, 0, 0));
    addr = cu_alloc(MIB);
    CU(cu.context_pop(NULL));
    assert_ok(bench_resolve(&bench, addr, MIB, &range));
    assert_int_equal(range.alloc_len, MIB);
    CU(cu.context_destroy(created));
    assert_int_equal(bench_resolve(&bench, addr, 1, &range), -HMEM_NOT_MINE);
    bench_end(&bench);
}

/* ---- not CUDA's ------------------------------------------------------------------------- */

static void resolve__host_memory__not_mine(void **state)
{
    struct bench bench = bench_begin();
    struct hmem_range range, before;
    char *heap = malloc(100);
    char stack[16] = {0};

    memset(&range, 0x5a, sizeof(range));
    before = range;
    assert_int_equal(bench_resolve(&bench, (uintptr_t)heap, 100, &range), -HMEM_NOT_MINE);
    assert_int_equal(bench_resolve(&bench, (uintptr_t)stack, 16, &range), -HMEM_NOT_MINE);
    assert_int_equal(bench_resolve(&bench, (uintptr_t)&resolve__host_memory__not_mine, 1, &range),
                     -HMEM_NOT_MINE);
    assert_int_equal(bench_resolve(&bench, 1, 1, &range), -HMEM_NOT_MINE);
    assert_int_equal(bench_resolve(&bench, UINT64_MAX - 1, 1, &range), -HMEM_NOT_MINE);
    assert_memory_equal(&range, &before, sizeof(range));
    free(heap);
    bench_end(&bench);
}

static void resolve__freed_memory__not_mine(void **state)
{
    struct bench bench = bench_begin();
    unsigned long long addr = cu_alloc_large();
    struct hmem_range range;
    uint64_t identity = 0x5a;

    CU(cu.free(addr));
    assert_int_equal(bench_resolve(&bench, addr, 64, &range), -HMEM_NOT_MINE);
    assert_int_equal(hmem_cuda_ops.identity(bench.hmem, addr, 64, &identity), -HMEM_NOT_MINE);
    assert_int_equal(identity, 0x5a);
    bench_end(&bench);
}

/* "Not mine" is an answer, not a failure: the last error stays. */
static void resolve__not_mine__leaves_the_last_error(void **state)
{
    struct bench bench = bench_begin();
    struct hmem_range range;
    int local = 0;

    hmreg_fail(-EUCLEAN, "before");
    assert_int_equal(bench_resolve(&bench, (uintptr_t)&local, 1, &range), -HMEM_NOT_MINE);
    assert_string_equal(hmreg_last_error()->text, "before");
    bench_end(&bench);
}

/* ---- ranges that leave ------------------------------------------------------------------ */

static void resolve__beyond_the_end__erange(void **state)
{
    struct bench bench = bench_begin();
    unsigned long long addr = cu_alloc(MIB);
    struct hmem_range range, before;
    uint64_t identity = 0x5a;
    char end[32];

    snprintf(end, sizeof(end), "at %#llx", addr + MIB);
    memset(&range, 0x5a, sizeof(range));
    before = range;
    assert_fails(bench_resolve(&bench, addr, MIB + 1, &range), -ERANGE, end);
    assert_fails(bench_resolve(&bench, addr + MIB - 1, 2, &range), -ERANGE, end);
    assert_memory_equal(&range, &before, sizeof(range));
    assert_fails(hmem_cuda_ops.identity(bench.hmem, addr, MIB + 1, &identity), -ERANGE, end);
    assert_int_equal(identity, 0x5a);
    CU(cu.free(addr));
    bench_end(&bench);
}

static void resolve__over_two_allocations__erange(void **state)
{
    struct bench bench = bench_begin();
    unsigned long long a = cu_alloc(2 * MIB), b = cu_alloc(2 * MIB);
    unsigned long long low = a < b ? a : b, high = a < b ? b : a;
    struct hmem_range range;
    char end[32];

    snprintf(end, sizeof(end), "at %#llx", low + 2 * MIB);
    assert_fails(bench_resolve(&bench, low, high - low + 1, &range), -ERANGE, end);
    CU(cu.free(a));
    CU(cu.free(b));
    bench_end(&bench);
}

static void resolve__over_two_small_neighbours__erange(void **state)
{
    struct bench bench = bench_begin();
    unsigned long long a = cu_alloc(512), b = cu_alloc(512);
    unsigned long long low = a < b ? a : b, high = a < b ? b : a;
    struct hmem_range range;

    assert_fails(bench_resolve(&bench, low, high - low + 1, &range), -ERANGE,
                 "the allocation ends");
    assert_ok(bench_resolve(&bench, low, 512, &range));
    assert_int_equal(range.alloc_base, low);
    assert_int_equal(range.alloc_len, 512);
    assert_true(identity_of(&bench, a, 512) != identity_of(&bench, b, 512));
    CU(cu.free(a));
    CU(cu.free(b));
    bench_end(&bench);
}

/* ---- host memory ------------------------------------------------------------------------ */

static void resolve__pinned_host_memory__pinned(void **state)
{
    struct bench bench = bench_begin();
    struct hmem_range range;
    void *host = NULL;

    CU(cu.alloc_host(&host, MIB, CUDA_HOSTALLOC_PORTABLE));
    assert_ok(bench_resolve(&bench, (uintptr_t)host + 100, 1000, &range));
    assert_int_equal(range.kind, HMREG_MEM_HOST_PINNED);
    assert_int_equal(range.host_addr, (uintptr_t)host + 100);
    assert_int_equal(range.alloc_base, (uintptr_t)host);
    assert_int_equal(range.alloc_len, MIB);
    assert_false(range.exportable);
    assert_fails(bench_resolve(&bench, (uintptr_t)host + 100, MIB, &range), -ERANGE, "leaves");
    CU(cu.free_host(host));
    bench_end(&bench);
}

/* Write-combined memory has two addresses; both mean the same bytes, by the CPU's address. */
static void resolve__device_address_of_host_memory__canonical(void **state)
{
    struct bench bench = bench_begin();
    unsigned long long device = 0;
    struct hmem_range range;
    void *host = NULL;

    CU(cu.alloc_host(&host, MIB, CUDA_HOSTALLOC_WRITECOMBINED));
    CU(cu.host_device_pointer(&device, host, 0));
    if (cu.fake)
        assert_true(device != (uintptr_t)host);
    assert_ok(bench_resolve(&bench, device + 5, 10, &range));
    assert_int_equal(range.kind, HMREG_MEM_HOST_PINNED);
    assert_int_equal(range.host_addr, (uintptr_t)host + 5);
    assert_int_equal(range.alloc_base, device);
    assert_ok(bench_resolve(&bench, (uintptr_t)host + 5, 10, &range));
    assert_int_equal(range.host_addr, (uintptr_t)host + 5);
    assert_int_equal(range.identity, identity_of(&bench, device, 1));
    CU(cu.free_host(host));
    bench_end(&bench);
}

static void resolve__registered_memory__pinned_until_unregistered(void **state)
{
    struct bench bench = bench_begin();
    char *host = mmap(NULL, 2 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    unsigned long long device = 0;
    struct hmem_range range;
    uint64_t first;

    CU(cu.host_register(host, MIB, 0));
    CU(cu.host_device_pointer(&device, host, 0));
    assert_ok(bench_resolve(&bench, (uintptr_t)host + 5, 10, &range));
    assert_int_equal(range.kind, HMREG_MEM_HOST_PINNED);
    assert_int_equal(range.host_addr, (uintptr_t)host + 5);
    first = range.identity;
    assert_ok(bench_resolve(&bench, device + 5, 10, &range));
    assert_int_equal(range.host_addr, (uintptr_t)host + 5);
    assert_fails(bench_resolve(&bench, (uintptr_t)host, 2 * MIB, &range), -ERANGE, "leaves");
    CU(cu.host_unregister(host));
    assert_int_equal(bench_resolve(&bench, (uintptr_t)host, 10, &range), -HMEM_NOT_MINE);
    CU(cu.host_register(host, MIB, 0));
    assert_true(identity_of(&bench, (uintptr_t)host, 10) != first);
    CU(cu.host_unregister(host));
    munmap(host, 2 * MIB);
    bench_end(&bench);
}

static void resolve__managed_memory__managed(void **state)
{
    struct bench bench = bench_begin();
    unsigned long long addr = 0;
    struct hmem_range range;

    CU(cu.alloc_managed(&addr, MIB, CUDA_ATTACH_GLOBAL));
    assert_ok(bench_resolve(&bench, addr + 1, 100, &range));
    assert_int_equal(range.kind, HMREG_MEM_MANAGED);
    assert_int_equal(range.host_addr, addr + 1);
    assert_int_equal(range.alloc_base, addr);
    assert_int_equal(range.alloc_len, MIB);
    assert_true(range.identity != 0);
    assert_false(range.exportable);
    CU(cu.free(addr));
    bench_end(&bench);
}

/* ---- pools ------------------------------------------------------------------------------ */

static void resolve__pool_memory__device_not_exportable(void **state)
{
    struct bench bench = bench_begin();
    unsigned long long addr = 0;
    struct hmem_range range;

    CU(cu.alloc_async(&addr, MIB, NULL));
    CU(cu.stream_wait(NULL));
    assert_ok(bench_resolve(&bench, addr + 10, 100, &range));
    assert_int_equal(range.kind, HMREG_MEM_DEVICE);
    assert_int_equal(range.device, 0);
    assert_int_equal(range.alloc_base, addr);
    assert_int_equal(range.alloc_len, MIB);
    assert_false(range.exportable);
    assert_fails(bench_resolve(&bench, addr, MIB + 1, &range), -ERANGE, "leaves");
    CU(cu.free_async(addr, NULL));
    CU(cu.stream_wait(NULL));
    bench_end(&bench);
}

struct other_thread {
    const struct bench *bench;
    uint64_t addr;
    size_t len;
    int inside, beyond;
    struct hmem_range range;
};

static void *resolve_there(void *arg)
{
    struct other_thread *there = arg;
    struct hmem_range ignored;

    there->inside = bench_resolve(there->bench, there->addr, there->len, &there->range);
    there->beyond = bench_resolve(there->bench, there->addr, there->len + 1, &ignored);
    return NULL;
}

/* Pool memory is of no context. A thread without one borrows the primary context to ask how far
 * it goes; where that is not alive either, both ends are compared instead. */
static void resolve__pool_memory__on_a_thread_without_context(void **state)
{
    struct bench bench = bench_begin();
    struct other_thread there = {.bench = &bench, .len = MIB};
    struct cuda_context *created = NULL;
    unsigned long long addr = 0;
    pthread_t thread;

    CU(cu.context_create(&created, 0, 0));
    CU(cu.alloc_async(&addr, MIB, NULL));
    CU(cu.stream_wait(NULL));
    there.addr = addr;
    assert_int_equal(pthread_create(&thread, NULL, resolve_there, &there), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(there.inside, 0);
    assert_int_equal(there.range.alloc_len, MIB);
    assert_int_equal(there.beyond, -ERANGE);
    CU(cu.free_async(addr, NULL));
    CU(cu.stream_wait(NULL));
    CU(cu.context_pop(NULL));
    CU(cu.context_destroy(created));
    bench_end(&bench);
}

static void resolve__pool_memory__no_context_anywhere(void **state)
{
    struct other_thread there = {.len = MIB};
    struct cuda_context *created = NULL;
    unsigned long long addr = 0;
    struct bench bench = {0};
    pthread_t thread;

    driver_need_fake();
    bench.hmem = vendor_open();
    CU(cu.context_create(&created, 0, 0));
    CU(cu.alloc_async(&addr, MIB, NULL));
    there.bench = &bench;
    there.addr = addr;
    assert_int_equal(pthread_create(&thread, NULL, resolve_there, &there), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(there.inside, 0);
    assert_int_equal(there.range.alloc_base, addr);
    assert_int_equal(there.beyond, -ERANGE);
    assert_int_equal(cu.contexts(), 1);
    CU(cu.free_async(addr, NULL));
    CU(cu.context_destroy(created));
    hmem_cuda_ops.close(bench.hmem);
}

/* ---- identity --------------------------------------------------------------------------- */

static void identity__is_what_resolve_says(void **state)
{
    struct bench bench = bench_begin();
    unsigned long long addr = cu_alloc(MIB);
    struct hmem_range range;

    assert_ok(bench_resolve(&bench, addr + 9, 99, &range));
    assert_int_equal(identity_of(&bench, addr + 9, 99), range.identity);
    CU(cu.free(addr));
    bench_end(&bench);
}

static void identity__address_used_again__differs(void **state)
{
    struct bench bench = bench_begin();
    unsigned long long before = cu_alloc(MIB), after;
    uint64_t identity = identity_of(&bench, before, MIB);

    CU(cu.free(before));
    after = cu_alloc(MIB);
    if (cu.fake)
        assert_int_equal(after, before);
    assert_true(identity_of(&bench, after, MIB) != identity);
    CU(cu.free(after));
    bench_end(&bench);
}

/* The base is memory again, but the tail is another's: what was there is gone. */
static void identity__smaller_allocation_in_its_place__erange(void **state)
{
    struct bench bench;
    unsigned long long addr, a, b;
    uint64_t identity;

    driver_need_fake();
    bench = bench_begin();
    addr = cu_alloc(2 * MIB);
    CU(cu.free(addr));
    a = cu_alloc(MIB);
    b = cu_alloc(MIB);
    assert_int_equal(a, addr);
    assert_int_equal(b, addr + MIB);
    assert_fails(hmem_cuda_ops.identity(bench.hmem, addr, 2 * MIB, &identity), -ERANGE, "leaves");
    CU(cu.free(a));
    CU(cu.free(b));
    bench_end(&bench);
}

/* ---- the CPU ---------------------------------------------------------------------------- */

static void touch(uint64_t addr)
{
    struct rlimit none = {0};

    setrlimit(RLIMIT_CORE, &none);
    signal(SIGSEGV, SIG_DFL); /* a sanitizer's handler would exit instead */
    signal(SIGBUS, SIG_DFL);
    _exit(*(volatile char *)(uintptr_t)addr == 0 ? 0 : 1);
}

static void device_memory__cpu_load__faults(void **state)
{
    struct bench bench = bench_begin();
    unsigned long long addr = cu_alloc(MIB);
    int status = 0;
    pid_t child = fork();

    if (!child)
        touch(addr);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
    assert_true(WTERMSIG(status) == SIGSEGV || WTERMSIG(status) == SIGBUS);
    CU(cu.free(addr));
    bench_end(&bench);
}

TEST_MAIN(TEST(resolve__device_memory__says_all),
          TEST(resolve__inside_an_allocation__names_the_whole),
          TEST(resolve__second_device__says_so), TEST(resolve__device_nobody_counted__eio),
          TEST(resolve__memory_of_a_created_context__known), TEST(resolve__host_memory__not_mine),
          TEST(resolve__freed_memory__not_mine), TEST(resolve__not_mine__leaves_the_last_error),
          TEST(resolve__beyond_the_end__erange), TEST(resolve__over_two_allocations__erange),
          TEST(resolve__over_two_small_neighbours__erange),
          TEST(resolve__pinned_host_memory__pinned),
          TEST(resolve__device_address_of_host_memory__canonical),
          TEST(resolve__registered_memory__pinned_until_unregistered),
          TEST(resolve__managed_memory__managed), TEST(resolve__pool_memory__device_not_exportable),
          TEST(resolve__pool_memory__on_a_thread_without_context),
          TEST(resolve__pool_memory__no_context_anywhere), TEST(identity__is_what_resolve_says),
          TEST(identity__address_used_again__differs),
          TEST(identity__smaller_allocation_in_its_place__erange),
          TEST(device_memory__cpu_load__faults))
