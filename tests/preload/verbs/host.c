/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A program that registers host memory and knows nothing of hmreg, under `hmreg run`: in every mode
 * the simulated NIC sees what it sees without.
 */
#include "tests/preload/verbs/bench.h"

#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>

#define PAGE 65536 /* at least one of every machine */

static char *reach(uint32_t key, const void *addr, size_t len, unsigned access)
{
    return ib.fake->reach(key, (uint64_t)(uintptr_t)addr, len, access);
}

/* ---- one after the other ------------------------------------------------------------------ */

TEST(reg__again__each_time)
{
    static const int rights[] = {READ, IBV_ACCESS_RELAXED_ORDERING, LOCAL, REMOTE};

    for (unsigned i = 0; i < sizeof(rights) / sizeof(rights[0]); i++) {
        struct bench bench = bench_open();
        char *memory = bench_map(NULL, PAGE);

        for (int j = 0; j < 10; j++) {
            struct ibv_mr *mr = bench_reg(&bench, memory + 3, 1000, rights[i]);

            assert_ptr_equal(reach(mr->lkey, memory + 3, 1000, (unsigned)rights[i]), memory + 3);
            bench_dereg(mr);
        }
        assert_int_equal(bench_regs(&bench), 10);
        assert_int_equal(atomic_load(&ib.fake->live), 0);
        munmap(memory, PAGE);
        bench_close(&bench);
    }
}

/* A receive that the program has posted names its buffer by the key alone: the NIC looks the key up
 * when the message comes. A peer does so as well. */
TEST(dereg__access_pending__refused)
{
    static const struct {
        int rights;
        unsigned access;
    } pending[] = {{LOCAL, IBV_ACCESS_LOCAL_WRITE},
                   {LOCAL | IBV_ACCESS_RELAXED_ORDERING, IBV_ACCESS_LOCAL_WRITE},
                   {IBV_ACCESS_REMOTE_READ, IBV_ACCESS_REMOTE_READ},
                   {REMOTE, IBV_ACCESS_LOCAL_WRITE},
                   {REMOTE, IBV_ACCESS_REMOTE_WRITE}};

    for (unsigned i = 0; i < sizeof(pending) / sizeof(pending[0]); i++) {
        struct bench bench = bench_open();
        char *memory = bench_map(NULL, PAGE);
        struct ibv_mr *mr = bench_reg(&bench, memory, PAGE, pending[i].rights);
        uint32_t key = pending[i].access == IBV_ACCESS_LOCAL_WRITE ? mr->lkey : mr->rkey;

        assert_ptr_equal(reach(key, memory, PAGE, pending[i].access), memory);
        bench_dereg(mr);
        assert_null(reach(key, memory, PAGE, pending[i].access));
        munmap(memory, PAGE);
        bench_close(&bench);
    }
}

TEST(reg__twice_at_once__two_objects)
{
    struct bench bench = bench_open();
    char *memory = bench_map(NULL, PAGE);
    struct ibv_mr *a = bench_reg(&bench, memory, PAGE, LOCAL);
    struct ibv_mr *b = bench_reg(&bench, memory, PAGE, LOCAL);

    assert_ptr_not_equal(a, b);
    bench_dereg(a);
    assert_ptr_equal(reach(b->lkey, memory, PAGE, LOCAL), memory);
    assert_ptr_equal(b->addr, memory);
    bench_dereg(b);
    munmap(memory, PAGE);
}

TEST(reg__read_only__no_more_rights)
{
    struct bench bench = bench_open();
    char *memory = bench_map(NULL, PAGE);
    struct ibv_mr *writable, *mr;

    writable = bench_reg(&bench, memory, PAGE, LOCAL);
    mr = bench_reg(&bench, memory, PAGE, 0);
    assert_ptr_equal(reach(mr->lkey, memory, PAGE, 0), memory);
    assert_null(reach(mr->lkey, memory, PAGE, LOCAL));
    bench_dereg(mr);
    bench_dereg(writable);
    munmap(memory, PAGE);
}

TEST(reg__iova__device_uses_it)
{
    struct bench bench = bench_open();
    char *memory = bench_map(NULL, PAGE);

    for (int i = 0; i < 2; i++) {
        struct ibv_mr *a = ib.reg_mr_iova(bench.pd, memory, PAGE, 0x40000000, LOCAL);
        struct ibv_mr *b = ib.reg_mr_iova2(bench.pd, memory, PAGE, 0x50000000,
                                           LOCAL | IBV_ACCESS_RELAXED_ORDERING);

        assert_ptr_equal(a->addr, memory);
        assert_ptr_equal(ib.fake->reach(a->lkey, 0x40000000, PAGE, LOCAL), memory);
        assert_ptr_equal(ib.fake->reach(b->lkey, 0x50000000, PAGE, LOCAL), memory);
        assert_null(ib.fake->reach(b->lkey, 0x40000000, PAGE, LOCAL));
        bench_dereg(a);
        bench_dereg(b);
    }
    munmap(memory, PAGE);
}

/* ---- what is passed on --------------------------------------------------------------------- */

TEST(reg__probes_and_rare_access__as_without_us)
{
    static const unsigned access[] = {IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_ON_DEMAND,
                                      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND,
                                      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_ATOMIC};
    struct bench bench = bench_open();
    char *memory = bench_map(NULL, PAGE);

    for (unsigned i = 0; i < 2 * sizeof(access) / sizeof(access[0]); i++)
        bench_dereg(bench_reg(&bench, memory, PAGE, (int)access[i / 2]));
    bench_dereg(bench_reg(&bench, memory, 0, LOCAL));
    bench_dereg(bench_reg(&bench, NULL, SIZE_MAX, LOCAL | IBV_ACCESS_ON_DEMAND));
    assert_int_equal(bench_regs(&bench), 8);
    errno = 0;
    assert_null(ib.reg_mr(bench.pd, memory, PAGE, LOCAL | 1 << 15)); /* an unknown bit */
    assert_int_equal(errno, EINVAL);
    assert_null(ib.reg_mr(bench.pd, memory, PAGE, IBV_ACCESS_REMOTE_WRITE));
    assert_int_equal(errno, EINVAL);
    assert_null(ib.reg_mr(bench.pd, (char *)PAGE, PAGE, LOCAL)); /* unmapped */
    assert_int_equal(errno, EFAULT);
    assert_null(ib.reg_dmabuf_mr(bench.pd, 0, PAGE, 0, -1, LOCAL));
    assert_int_equal(errno, EBADF);
    munmap(memory, PAGE);
}

/* Its address may be of no host memory. */
TEST(reg__buffer_of_libibverbs__the_drivers_each_time)
{
    struct bench bench = bench_open();
    char *memory = bench_map(NULL, PAGE);

    for (int i = 0; i < 2; i++)
        bench_dereg(ib.reg_buf_mr(bench.pd, NULL, memory, PAGE, LOCAL));
    assert_int_equal(bench_regs(&bench), 2);
    assert_null(ib.reg_buf_mr(bench.pd, NULL, (char *)PAGE, PAGE, LOCAL)); /* unmapped */
    assert_int_equal(errno, EFAULT);
    munmap(memory, PAGE);
}

TEST(dereg__bound_window__busy)
{
    struct bench bench = bench_open();
    char *memory = bench_map(NULL, PAGE);
    struct ibv_mr *mr = bench_reg(&bench, memory, PAGE, LOCAL | IBV_ACCESS_MW_BIND);
    struct ibv_mw *window = ibv_alloc_mw(bench.pd, IBV_MW_TYPE_1);
    struct ibv_mw_bind bind = {.bind_info = {.mr = mr, .addr = (uintptr_t)memory, .length = 100}};

    assert_int_equal(ibv_bind_mw(NULL, window, &bind), 0);
    assert_int_equal(ib.dereg_mr(mr), EBUSY);
    assert_int_equal(ib.dealloc_pd(bench.pd), EBUSY);
    assert_int_equal(ibv_dealloc_mw(window), 0);
    bench_dereg(mr);
    munmap(memory, PAGE);
}

TEST(bind__region_without_the_right__refused)
{
    struct bench bench = bench_open();
    char *memory = bench_map(NULL, PAGE);
    struct ibv_mr *mr = bench_reg(&bench, memory, PAGE, LOCAL);
    struct ibv_mw *window = ibv_alloc_mw(bench.pd, IBV_MW_TYPE_1);
    struct ibv_mw_bind bind = {.bind_info = {.mr = mr, .addr = (uintptr_t)memory, .length = 100}};

    assert_int_equal(ibv_bind_mw(NULL, window, &bind), EINVAL);
    assert_int_equal(ibv_dealloc_mw(window), 0);
    bench_dereg(mr);
    munmap(memory, PAGE);
}

/* ---- the memory changes -------------------------------------------------------------------- */

TEST(reg__freed_and_mapped_again__registered_anew)
{
    struct bench bench = bench_open();
    /* The hole between is too small for what a thread that starts meanwhile maps. */
    char *room = mmap(NULL, 3 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *memory = room + PAGE;

    assert_true(room != MAP_FAILED);
    assert_ptr_equal(bench_map(memory, PAGE), memory);
    for (unsigned i = 1; i <= 20; i++) {
        bench_dereg(bench_reg(&bench, memory, PAGE, LOCAL));
        assert_int_equal(bench_regs(&bench), i);
        munmap(memory, PAGE);
        assert_ptr_equal(bench_map(memory, PAGE), memory);
    }
    munmap(room, 3 * PAGE);
}

static const int each_rights[] = {READ, LOCAL, REMOTE};

/* The program may have freed the old memory. What it has posted with the old key fails. */
TEST(rereg__host_memory__moves)
{
    for (int i = 0; i < 6; i++) {
        int rights = each_rights[i % 3];
        struct bench bench = bench_open();
        char *first = bench_map(NULL, PAGE), *second = bench_map(NULL, PAGE);
        struct ibv_mr *mr = bench_reg(&bench, first, PAGE, rights);
        uint32_t old = mr->lkey;

        if (i >= 3)
            munmap(first, PAGE);
        assert_int_equal(
            ib.rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, second, PAGE / 2, 0), 0);
        assert_ptr_equal(reach(mr->lkey, second, PAGE / 2, (unsigned)rights), second);
        assert_null(reach(old, first, PAGE, 0));
        assert_int_equal(atomic_load(&ib.fake->live), 1);
        bench_dereg(mr);
        if (i < 3)
            munmap(first, PAGE);
        munmap(second, PAGE);
        bench_close(&bench);
    }
}

TEST(rereg__protection_domain__moves)
{
    for (int i = 0; i < 3; i++) {
        struct bench bench = bench_open();
        char *memory = bench_map(NULL, PAGE);
        struct ibv_mr *mr = bench_reg(&bench, memory, PAGE, each_rights[i]);
        struct ibv_pd *other = ib.alloc_pd(bench.device);

        assert_int_equal(ib.rereg_mr(mr, IBV_REREG_MR_CHANGE_PD, other, NULL, 0, 0), 0);
        assert_ptr_equal(mr->pd, other);
        assert_int_equal(ib.dealloc_pd(bench.pd), 0);
        assert_ptr_equal(reach(mr->lkey, memory, PAGE, (unsigned)each_rights[i]), memory);
        assert_int_equal(ib.dealloc_pd(other), EBUSY);
        bench_dereg(mr);
        bench.pd = other;
        munmap(memory, PAGE);
        bench_close(&bench);
    }
}

/* Others have registered the same memory. */
TEST(rereg__one_of_two__the_other_stays)
{
    struct bench bench = bench_open();
    char *memory = bench_map(NULL, PAGE), *second = bench_map(NULL, PAGE);
    struct ibv_mr *a = bench_reg(&bench, memory, PAGE, READ);
    struct ibv_mr *b = bench_reg(&bench, memory, PAGE, READ);

    assert_int_equal(ib.rereg_mr(a, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, second, PAGE, 0), 0);
    assert_ptr_equal(reach(a->lkey, second, PAGE, 0), second);
    assert_ptr_equal(reach(b->lkey, memory, PAGE, 0), memory);
    bench_dereg(b);
    assert_int_equal(atomic_load(&ib.fake->live), 1);
    bench_dereg(a);
    munmap(memory, PAGE);
    munmap(second, PAGE);
}

/* What a driver or libibverbs refuses: the same answer, and the region as it was. */
TEST(rereg__refused__its_answer_and_the_old_region)
{
    static const struct {
        int flags, access, result, error;
        bool no_rereg;
    } calls[] = {
        {IBV_REREG_MR_CHANGE_TRANSLATION, 0, IBV_REREG_MR_ERR_CMD, EOPNOTSUPP, true},
        {IBV_REREG_MR_CHANGE_ACCESS, LOCAL, IBV_REREG_MR_ERR_CMD, EOPNOTSUPP, true},
        {IBV_REREG_MR_CHANGE_PD, 0, IBV_REREG_MR_ERR_CMD, EOPNOTSUPP, true},
        {0, 0, IBV_REREG_MR_ERR_CMD, EINVAL, false},
        {1 << 20, 0, IBV_REREG_MR_ERR_INPUT, EINVAL, false},
        {IBV_REREG_MR_CHANGE_TRANSLATION, LOCAL, IBV_REREG_MR_ERR_INPUT, EINVAL, false},
        {IBV_REREG_MR_CHANGE_ACCESS, IBV_ACCESS_REMOTE_WRITE, IBV_REREG_MR_ERR_CMD, EINVAL, false},
    };

    for (unsigned i = 0; i < 3 * sizeof(calls) / sizeof(calls[0]); i++) {
        struct bench bench = bench_open();
        char *memory = bench_map(NULL, PAGE);
        struct ibv_mr *mr = bench_reg(&bench, memory, PAGE, each_rights[i % 3]), before = *mr;

        atomic_store(&ib.fake->no_rereg, calls[i / 3].no_rereg);
        errno = 0;
        assert_int_equal(
            ib.rereg_mr(mr, calls[i / 3].flags, bench.pd, memory, PAGE, calls[i / 3].access),
            calls[i / 3].result);
        assert_int_equal(errno, calls[i / 3].error);
        atomic_store(&ib.fake->no_rereg, 0);
        assert_memory_equal(mr, &before, sizeof(before));
        assert_ptr_equal(reach(mr->lkey, memory, PAGE, (unsigned)each_rights[i % 3]), memory);
        assert_int_equal(atomic_load(&ib.fake->live), 1);
        bench_dereg(mr);
        assert_int_equal(atomic_load(&ib.fake->live), 0);
        munmap(memory, PAGE);
        bench_close(&bench);
    }
}

/* Drivers read the rights that they keep behind the struct ibv_mr. */
TEST(rereg__right_to_bind__windows_and_busy)
{
    struct bench bench = bench_open();
    char *memory = bench_map(NULL, PAGE);
    struct ibv_mr *mr = bench_reg(&bench, memory, PAGE, READ);
    struct ibv_mw *window = ibv_alloc_mw(bench.pd, IBV_MW_TYPE_1);
    struct ibv_mw_bind bind = {.bind_info = {.mr = mr, .addr = (uintptr_t)memory, .length = 100}};

    assert_int_equal(ibv_bind_mw(NULL, window, &bind), EINVAL);
    assert_int_equal(ib.rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, IBV_ACCESS_MW_BIND),
                     0);
    assert_int_equal(ibv_bind_mw(NULL, window, &bind), 0);
    assert_int_equal(ib.dereg_mr(mr), EBUSY);
    assert_int_equal(ibv_dealloc_mw(window), 0);
    bench_dereg(mr);
    munmap(memory, PAGE);
}

TEST(rereg__twice__moves_and_changes)
{
    struct bench bench = bench_open();
    char *first = bench_map(NULL, PAGE), *second = bench_map(NULL, PAGE);
    struct ibv_mr *mr = bench_reg(&bench, first, PAGE, LOCAL);

    assert_int_equal(ib.rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, second, PAGE / 2, 0),
                     0);
    assert_ptr_equal(mr->addr, second);
    assert_int_equal(mr->length, PAGE / 2);
    assert_ptr_equal(reach(mr->lkey, second, PAGE / 2, LOCAL), second);
    assert_null(reach(mr->lkey, first, PAGE, LOCAL));
    assert_int_equal(ib.rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, REMOTE), 0);
    assert_ptr_equal(reach(mr->lkey, second, PAGE / 2, IBV_ACCESS_REMOTE_READ), second);
    assert_int_not_equal(ib.rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, NULL, 0, 0), 0);
    bench_dereg(mr);
    munmap(first, PAGE);
    munmap(second, PAGE);
}

/* ---- ends ---------------------------------------------------------------------------------- */

TEST(dealloc_pd__region_in_use__busy_until_it_ends)
{
    struct bench bench = bench_open();
    char *memory = bench_map(NULL, PAGE);
    struct ibv_mr *mr = bench_reg(&bench, memory, PAGE, LOCAL);

    assert_int_equal(ib.dealloc_pd(bench.pd), EBUSY);
    assert_ptr_equal(reach(mr->lkey, memory, PAGE, LOCAL), memory);
    bench_dereg(mr);
    bench_dereg(bench_reg(&bench, memory, PAGE, LOCAL));
    bench_close(&bench);
    munmap(memory, PAGE);
}

TEST(unimport_pd__next_at_its_address__registers_anew)
{
    struct bench bench = bench_open();
    char *memory = bench_map(NULL, 2 * PAGE);
    struct ibv_mr *held = bench_reg(&bench, memory, PAGE, READ), *mr;
    struct ibv_pd *pd = bench.pd;

    bench_dereg(bench_reg(&bench, memory + PAGE, PAGE, READ));
    ib.unimport_pd(pd);
    bench.pd = ib.alloc_pd(bench.device);
    assert_ptr_equal(bench.pd, pd);
    for (int i = 0; i < 2; i++) {
        bench.regs = atomic_load(&ib.fake->regs);
        mr = bench_reg(&bench, memory + i * PAGE, PAGE, READ);
        assert_int_equal(bench_regs(&bench), 1);
        bench_dereg(mr);
    }
    bench_dereg(held);
    assert_int_equal(ib.dealloc_pd(bench.pd), 0);
    assert_int_equal(ib.close_device(bench.device), 0);
    assert_int_equal(atomic_load(&ib.fake->live), 0);
    bench_closed();
    munmap(memory, 2 * PAGE);
}

TEST(close_device__with_protection_domains__nothing_is_left)
{
    char *memory = bench_map(NULL, PAGE);

    for (int i = 0; i < 3; i++) {
        struct bench bench = bench_open();
        struct ibv_pd *other = ib.alloc_pd(bench.device);

        bench_dereg(bench_reg(&bench, memory, PAGE, LOCAL));
        bench_dereg(ib.reg_mr(other, memory, PAGE, LOCAL));
        assert_int_equal(ib.close_device(bench.device), 0); /* protection domains are left */
        bench_closed();
        assert_int_equal(atomic_load(&ib.fake->live), 0);
        free(bench.pd);
        free(other);
    }
    munmap(memory, PAGE);
}

/* ---- threads and processes ------------------------------------------------------------------ */

#define THREADS 8
#define RANGES  16

struct work {
    struct bench *bench;
    char *memory;
    unsigned seed;
};

static void *register_at_random(void *arg)
{
    struct work *work = arg;

    for (unsigned long i = 0; i < test_times(5000); i++) {
        size_t at = (size_t)(rand_r(&work->seed) % RANGES) * PAGE, len = PAGE;
        int access = rand_r(&work->seed) % 4 ? LOCAL : REMOTE;
        struct ibv_mr *mr = ib.reg_mr(work->bench->pd, work->memory + at, len, access);

        if (!mr || mr->addr != work->memory + at || mr->length != len ||
            reach(mr->lkey, work->memory + at, len, LOCAL) != work->memory + at || ib.dereg_mr(mr))
            return work;
    }
    return NULL;
}

TEST(reg__on_eight_threads__each_gets_its_memory)
{
    struct bench bench = bench_open();
    char *memory = bench_map(NULL, RANGES * PAGE);
    struct work works[THREADS];
    pthread_t threads[THREADS];
    void *failed = NULL, *result;

    for (unsigned i = 0; i < THREADS; i++) {
        works[i] = (struct work){&bench, memory, i + 1};
        assert_int_equal(pthread_create(&threads[i], NULL, register_at_random, &works[i]), 0);
    }
    for (unsigned i = 0; i < THREADS; i++) {
        pthread_join(threads[i], &result);
        failed = failed ? failed : result;
    }
    assert_null(failed);
    munmap(memory, RANGES * PAGE);
}

static atomic_bool requested;

/* Returns NULL if its calls had no cancellation point. */
static void *register_when_cancelled(void *arg)
{
    struct work *work = arg;
    struct ibv_mr *mr;

    while (!atomic_load(&requested)) /* no cancellation point */
        sched_yield();
    mr = ib.reg_mr(work->bench->pd, work->memory, PAGE, LOCAL);
    return mr && !ib.dereg_mr(mr) ? NULL : work;
}

/* libibverbs' calls are no cancellation points: the region ends, and other threads go on. */
TEST(reg__thread_that_was_cancelled__done_first)
{
    struct bench bench = bench_open();
    struct work work = {&bench, bench_map(NULL, PAGE), 0};
    pthread_t thread;
    void *result;

    atomic_store(&requested, false);
    assert_int_equal(pthread_create(&thread, NULL, register_when_cancelled, &work), 0);
    assert_int_equal(pthread_cancel(thread), 0);
    atomic_store(&requested, true);
    assert_int_equal(pthread_join(thread, &result), 0);
    assert_null(result);
    bench_dereg(bench_reg(&bench, work.memory, PAGE, LOCAL));
    munmap(work.memory, PAGE);
}

/* The child ends its copy of the parent's region, and has a NIC of its own. */
static int child(struct bench *parents, struct ibv_mr *mr, char *memory)
{
    unsigned ended = atomic_load(&ib.fake->deregs);
    struct ibv_context *device;
    struct ibv_device **list = ib.get_device_list(NULL);
    struct ibv_pd *pd;

    if (ib.dereg_mr(mr) || atomic_load(&ib.fake->deregs) != ended + 1)
        return 1;
    device = ib.open_device(list[0]);
    pd = ib.alloc_pd(device);
    for (int i = 0; i < 3; i++) {
        mr = ib.reg_mr(pd, memory, PAGE, LOCAL);
        if (!mr || reach(mr->lkey, memory, PAGE, LOCAL) != memory || ib.dereg_mr(mr))
            return 2;
    }
    return ib.dealloc_pd(pd) || ib.close_device(device) ? 3 : 0;
}

TEST(fork__child_registers__the_parents_are_untouched)
{
    struct bench bench;
    struct ibv_mr *mr;
    char *memory;

    test_forks_with_threads();
    test_forks_wipe();
    bench = bench_open();
    memory = bench_map(NULL, PAGE);
    mr = bench_reg(&bench, memory, PAGE, LOCAL);
    test_in_child(child(&bench, mr, memory));
    assert_ptr_equal(reach(mr->lkey, memory, PAGE, LOCAL), memory);
    bench_dereg(mr);
    munmap(memory, PAGE);
}

/* A child has one thread at first, whatever other cases have started. */
static int count_tasks(char *memory)
{
    struct ibv_device **list = ib.get_device_list(NULL);
    struct ibv_context *device = ib.open_device(list[0]);
    struct ibv_pd *pd = ib.alloc_pd(device);
    struct ibv_mr *mr;

    mr = ib.reg_mr(pd, memory, PAGE, REMOTE);
    return mr && !ib.dereg_mr(mr) && test_threads() == 1 ? 0 : 2;
}

/* A program that makes a user namespace must have one thread. */
TEST(reg__the_first__the_process_has_one_thread)
{
    char *memory;

    test_forks_with_threads();
    test_forks_wipe();
    if (getenv("FI_MR_CACHE_MONITOR") || TEST_ASAN || TEST_TSAN)
        test_skip("a monitor may have a thread of its own");
    memory = bench_map(NULL, PAGE);
    test_in_child(count_tasks(memory));
    munmap(memory, PAGE);
}

TEST_MAIN()
