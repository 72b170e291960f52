/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A program that registers device memory and knows nothing of hmreg, under `hmreg run --gpu`: the
 * simulated NIC reaches the right bytes by the address and the keys that the program has. Without
 * --gpu the same calls fail, as they do on a machine without a driver for peer memory.
 */
#include "tests/preload/verbs/bench.h"
#include "tests/preload/verbs/vendor.h"

#include <sys/mman.h>

#define LEN  200000
#define SKEW 4099 /* where the registered range begins in its allocation */
#define PART 100003

struct memory {
    char *device, *expected; /* LEN bytes */
};

static struct memory memory_open(void)
{
    struct memory memory = {.expected = malloc(LEN)};

    if (!vendor_begin())
        test_skip("of a vendor");
    memory.device = vendor_alloc(LEN);
    assert_non_null(memory.expected);
    for (int i = 0; i < LEN; i++)
        memory.expected[i] = (char)(i * 7 + i / 251);
    vendor_copy(memory.device, memory.expected, LEN);
    return memory;
}

static void memory_close(struct memory *memory)
{
    vendor_free(memory->device);
    free(memory->expected);
}

/* The NIC reads and writes what the key reaches, and so does the vendor. */
static void assert_moves(struct memory *memory, uint32_t key, const char *addr, size_t len)
{
    char *bytes = ib.fake->reach(key, (uint64_t)(uintptr_t)addr, len, IBV_ACCESS_LOCAL_WRITE);
    char *copy = malloc(LEN);

    assert_non_null(bytes);
    assert_non_null(copy);
    assert_memory_equal(bytes, memory->expected + (addr - memory->device), len);
    for (size_t i = 0; i < len; i++)
        bytes[i] = memory->expected[(addr - memory->device) + (ptrdiff_t)i] ^= 0x55;
    vendor_copy(copy, memory->device, LEN);
    assert_memory_equal(copy, memory->expected, LEN);
    free(copy);
}

static bool begun_early, other_begun;

/* Before descriptors are counted: the runtime's, and libhmreg's. */
__attribute__((constructor)) static void start_all(void)
{
    static char host[4096];
    struct bench bench;
    struct memory memory;
    struct ibv_mr *mr;

    if (!vendor_load())
        return;
    bench = bench_open();
    if (getenv("PRELOAD_COLD"))
        ib.fork_init();
    other_begun = vendor_other_is_begun();
    bench_dereg(bench_reg(&bench, host, sizeof(host), LOCAL));
    bench_dereg(bench_reg(&bench, host, sizeof(host), REMOTE));
    begun_early = vendor_is_begun();
    memory = memory_open();
    mr = ib.reg_mr(bench.pd, memory.device, LEN, LOCAL);
    if (mr)
        bench_dereg(mr);
    memory_close(&memory);
    bench_close(&bench);
}

/* A runtime that is only loaded: after a start, children could not use it. */
TEST(reg__runtime_is_not_started__stays_so)
{
    if (!vendor_load())
        test_skip("of a vendor");
    assert_false(begun_early);
}

TEST(reg__another_runtime_is_only_loaded__stays_so)
{
    if (!getenv("OTHER"))
        test_skip("of two vendors");
    assert_false(other_begun);
    assert_false(vendor_other_is_begun());
}

TEST(reg__device_memory__without_gpu_as_before)
{
    struct bench bench = bench_open();
    struct memory memory = memory_open();

    if (bench_mode("gpu"))
        test_skip("of the other modes");
    assert_null(ib.reg_mr(bench.pd, memory.device, LEN, REMOTE));
    assert_int_equal(errno, EFAULT);
    assert_null(ib.reg_mr(bench.pd, memory.device, LEN, LOCAL));
    assert_int_equal(errno, EFAULT);
    memory_close(&memory);
}

TEST(reg__device_memory__nic_reaches_its_bytes)
{
    struct bench bench = bench_open();
    struct memory memory = memory_open();

    bench_need("gpu");
    for (int i = 0; i < 3; i++) {
        char *addr = memory.device + i * SKEW;
        struct ibv_mr *mr = bench_reg(&bench, addr, PART, i ? REMOTE : LOCAL);

        assert_moves(&memory, mr->lkey, addr, PART);
        if (i)
            assert_moves(&memory, mr->rkey, addr, PART);
        assert_null(ib.fake->reach(mr->lkey, (uintptr_t)addr - 1, 1, 0));
        bench_dereg(mr);
    }
    memory_close(&memory);
}

TEST(reg__device_memory_at_an_iova__nic_uses_it)
{
    struct bench bench = bench_open();
    struct memory memory = memory_open();
    uint64_t iova = UINT64_C(0x7000000000) + SKEW % 4096;
    struct ibv_mr *mr;

    bench_need("gpu");
    mr = ib.reg_mr_iova2(bench.pd, memory.device + SKEW, PART, iova,
                         REMOTE | IBV_ACCESS_RELAXED_ORDERING);
    assert_non_null(mr);
    assert_ptr_equal(mr->addr, memory.device + SKEW);
    assert_memory_equal(ib.fake->reach(mr->rkey, iova, PART, IBV_ACCESS_REMOTE_READ),
                        memory.expected + SKEW, PART);
    bench_dereg(mr);
    memory_close(&memory);
}

TEST(reg__rights__those_asked_for)
{
    struct bench bench = bench_open();
    struct memory memory = memory_open();
    struct ibv_mr *mr;

    bench_need("gpu");
    mr = bench_reg(&bench, memory.device, LEN, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ);
    assert_non_null(
        ib.fake->reach(mr->rkey, (uintptr_t)memory.device, LEN, IBV_ACCESS_REMOTE_READ));
    assert_null(ib.fake->reach(mr->rkey, (uintptr_t)memory.device, LEN, IBV_ACCESS_REMOTE_WRITE));
    assert_null(ib.fake->reach(mr->rkey, (uintptr_t)memory.device, LEN, IBV_ACCESS_REMOTE_ATOMIC));
    bench_dereg(mr);
    memory_close(&memory);
}

/* As without us: what hmreg cannot do, and what is wrong. */
TEST(reg__windows_or_past_the_end__fails_as_before)
{
    struct bench bench = bench_open();
    struct memory memory = memory_open();

    assert_null(ib.reg_mr(bench.pd, memory.device, LEN, REMOTE | IBV_ACCESS_MW_BIND));
    assert_int_equal(errno, EFAULT);
    assert_null(ib.reg_mr(bench.pd, memory.device, (size_t)1 << 40, LOCAL));
    assert_int_equal(errno, EFAULT);
    assert_null(ib.reg_mr(bench.pd, memory.device, LEN, IBV_ACCESS_REMOTE_WRITE));
    assert_int_equal(errno, EINVAL);
    memory_close(&memory);
}

TEST(dealloc_pd__device_region__busy_until_it_ends)
{
    struct bench bench = bench_open();
    struct memory memory = memory_open();
    struct ibv_mr *mr;

    bench_need("gpu");
    mr = bench_reg(&bench, memory.device, LEN, REMOTE);
    assert_int_equal(ib.dealloc_pd(bench.pd), EBUSY);
    assert_moves(&memory, mr->rkey, memory.device, LEN);
    bench_dereg(mr);
    memory_close(&memory);
}

/* The kernel keeps what is registered in the protection domain. */
TEST(unimport_pd__device_region__next_at_its_address_registers)
{
    struct bench bench = bench_open();
    struct memory memory = memory_open();
    struct ibv_pd *pd = bench.pd;
    struct ibv_mr *held, *mr;

    bench_need("gpu");
    held = bench_reg(&bench, memory.device, LEN, REMOTE);
    ib.unimport_pd(pd);
    bench.pd = ib.alloc_pd(bench.device);
    assert_ptr_equal(bench.pd, pd);
    mr = bench_reg(&bench, memory.device + SKEW, PART, REMOTE);
    assert_moves(&memory, mr->rkey, memory.device + SKEW, PART);
    assert_moves(&memory, held->rkey, memory.device, LEN);
    bench_dereg(mr);
    assert_int_equal(ib.dealloc_pd(bench.pd), 0);
    bench_dereg(held);
    assert_int_equal(atomic_load(&ib.fake->live), 0);
    assert_int_equal(ib.close_device(bench.device), 0);
    bench_closed();
    memory_close(&memory);
}

/* Device and host memory, in the same ibv_mr. */
TEST(rereg__each_way__the_new_memory_by_the_new_key)
{
    struct bench bench = bench_open();
    struct memory memory = memory_open();
    char *host = bench_map(NULL, LEN);
    struct ibv_mr *mr;
    uint32_t old;

    bench_need("gpu");
    mr = bench_reg(&bench, host, LEN, REMOTE);
    for (int i = 0; i < 4; i++) {
        bool to_device = !(i % 2);
        char *to = to_device ? memory.device + SKEW : host;

        old = mr->rkey;
        assert_int_equal(ib.rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, to, PART, 0), 0);
        assert_ptr_equal(mr->addr, to);
        assert_int_equal(mr->length, PART);
        if (to_device)
            assert_moves(&memory, mr->rkey, to, PART);
        else
            assert_ptr_equal(ib.fake->reach(mr->rkey, (uintptr_t)to, PART, IBV_ACCESS_REMOTE_READ),
                             to);
        assert_int_equal(atomic_load(&ib.fake->live), 1);
        if (old != mr->rkey)
            assert_null(ib.fake->reach(old, (uintptr_t)host, 1, 0));
    }
    bench_dereg(mr);
    munmap(host, LEN);
    memory_close(&memory);
}

/* A driver without the call: its answer, of device memory too. */
TEST(rereg__driver_has_none__its_answer_and_the_old_region)
{
    static const int flags[] = {IBV_REREG_MR_CHANGE_TRANSLATION, IBV_REREG_MR_CHANGE_ACCESS};
    struct bench bench = bench_open();
    struct memory memory = memory_open();
    char *host = bench_map(NULL, LEN);
    struct ibv_mr *mr;

    bench_need("gpu");
    atomic_store(&ib.fake->no_rereg, 1);
    for (int i = 0; i < 4; i++) {
        char *from = i % 2 ? host : memory.device, *to = i % 2 ? memory.device : host;

        mr = bench_reg(&bench, from, PART, REMOTE);
        errno = 0;
        assert_int_equal(ib.rereg_mr(mr, flags[i / 2], NULL, to, PART, i / 2 ? LOCAL : 0),
                         IBV_REREG_MR_ERR_CMD);
        assert_int_equal(errno, EOPNOTSUPP);
        assert_ptr_equal(mr->addr, from);
        if (from == host)
            assert_ptr_equal(
                ib.fake->reach(mr->rkey, (uintptr_t)host, PART, IBV_ACCESS_REMOTE_READ), host);
        else
            assert_moves(&memory, mr->rkey, memory.device, PART);
        bench_dereg(mr);
    }
    atomic_store(&ib.fake->no_rereg, 0);
    munmap(host, LEN);
    memory_close(&memory);
}

/* In a process of its own, since it is decided once. */
TEST(rereg__to_device_memory_under_fork_init__the_drivers_answer)
{
    struct bench bench;
    struct memory memory;
    struct ibv_mr *mr;
    char *host;
    pid_t pid;

    bench_need("gpu");
    if (!getenv("PRELOAD_COLD")) {
        pid = fork();
        if (!pid) {
            setenv("PRELOAD_COLD", "1", 1);
            execl("/proc/self/exe", "preload", "rereg__to_device_memory_under_fork_init", NULL);
            _exit(1);
        }
        test_await(pid);
        return;
    }
    bench = bench_open();
    memory = memory_open();
    host = bench_map(NULL, LEN);
    mr = bench_reg(&bench, host, LEN, REMOTE);
    assert_int_equal(ib.rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, memory.device, PART, 0),
                     IBV_REREG_MR_ERR_CMD);
    assert_int_equal(errno, EFAULT);
    assert_ptr_equal(mr->addr, host);
    bench_dereg(mr);
    munmap(host, LEN);
    memory_close(&memory);
}

TEST(rereg__wrong_arguments__old_region_stays)
{
    struct bench bench = bench_open();
    struct memory memory = memory_open();
    struct ibv_mr *mr;

    bench_need("gpu");
    mr = bench_reg(&bench, memory.device, PART, REMOTE);
    assert_int_equal(ib.rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, NULL, 0, 0),
                     IBV_REREG_MR_ERR_INPUT);
    assert_int_equal(
        ib.rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, memory.device, (size_t)1 << 40, 0),
        IBV_REREG_MR_ERR_CMD);
    assert_moves(&memory, mr->rkey, memory.device, PART);
    bench_dereg(mr);
    memory_close(&memory);
}

/* The next allocation has the same address. */
TEST(reg__freed_and_allocated_again__the_new_bytes)
{
    struct bench bench = bench_open();

    bench_need("gpu");
    for (int i = 0; i < 20; i++) {
        struct memory memory = memory_open();
        struct ibv_mr *mr = bench_reg(&bench, memory.device, LEN, LOCAL);

        assert_moves(&memory, mr->lkey, memory.device, LEN);
        bench_dereg(mr);
        memory_close(&memory);
    }
}

/* The child's copies are libibverbs' own objects, with which it does what it did without us. */
TEST(fork__child_ends_and_registers__the_parents_are_untouched)
{
    struct bench bench;
    struct memory memory;
    struct ibv_mr *mr;
    char *host;
    pid_t pid;

    test_forks_with_threads();
    test_forks_wipe();
    bench = bench_open();
    memory = memory_open();
    bench_need("gpu");
    host = bench_map(NULL, LEN);
    mr = bench_reg(&bench, memory.device, PART, REMOTE);
    pid = fork();
    if (!pid) {
        struct ibv_mr *own = ib.reg_mr(bench.pd, host, LEN, LOCAL);

        _exit(!own || ib.dereg_mr(own) || ib.dereg_mr(mr));
    }
    test_await(pid);
    assert_moves(&memory, mr->rkey, memory.device, PART);
    bench_dereg(mr);
    munmap(host, LEN);
    memory_close(&memory);
}

TEST_MAIN()
