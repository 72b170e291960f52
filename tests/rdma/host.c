/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 * Host memory on a real RDMA device, beyond what the conformance suite shows there: memory without
 * the right, the limit of locked memory, and memory windows. */
#include "tests/rdma/bench.h"
#include "tests/support/lock_limit.h"
#include "tests/support/test.h"

#include <hmreg/suspend.h>
#include <sys/mman.h>

/* ---- refusals of the kernel ------------------------------------------------------------- */

TEST(reg__read_only_memory_for_receives__efault)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    struct hmreg_mr *mr = (void *)1;
    struct bench bench;
    void *text;

    bench_open(&bench);
    text = mmap(NULL, page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_fails(hmreg_mr_reg(bench.domain, text, page, HMREG_RECV, 0, 0, 0, &mr, NULL), -EFAULT,
                 "read-only");
    assert_ptr_equal(mr, (void *)1);
    assert_ok(hmreg_mr_reg(bench.domain, text, page, HMREG_SEND, 0, 0, 0, &mr, NULL));
    assert_ok(hmreg_mr_close(mr));
    munmap(text, page);
    bench_close(&bench);
}

static int get_one(struct bench *bench, char *page, uint64_t access)
{
    struct hmreg_mr *mr = NULL;
    int rc = hmreg_mr_get(bench->domain, page, (size_t)sysconf(_SC_PAGESIZE), access, &mr);

    hmreg_mr_put(mr);
    return rc;
}

/* In a mapping that the thread knows, where before Linux 6.11 the kernel's pin is left to refuse.
 */
TEST(get__right_taken_by_mprotect__efault)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *memory = mmap(NULL, 8 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct bench bench;

    bench_open(&bench);
    assert_ok(get_one(&bench, memory, HMREG_RECV));
    assert_ok(get_one(&bench, memory + page, HMREG_RECV));
    assert_int_equal(mprotect(memory + 2 * page, page, PROT_READ), 0);
    assert_int_equal(mprotect(memory + 4 * page, page, PROT_NONE), 0);
    assert_fails(get_one(&bench, memory + 2 * page, HMREG_RECV), -EFAULT, "read-only");
    assert_ok(get_one(&bench, memory + 2 * page, HMREG_SEND));
    assert_fails(get_one(&bench, memory + 4 * page, HMREG_RECV), -EFAULT, "not mapped");
    assert_fails(get_one(&bench, memory + 4 * page, HMREG_SEND), -EFAULT, "not mapped");
    assert_ok(get_one(&bench, memory + 6 * page, HMREG_RECV));
    bench_close(&bench);
    munmap(memory, 8 * page);
}

/* The device's own results, which loopback and the argument checks of every provider imitate.
 * Kernels before 6.2 register memory that the process may not read; hmreg refuses it. */
TEST(reg__memory_without_the_right__as_the_device_answers)
{
    static const struct {
        int protection, access;
        uint64_t right;
    } cases[] = {
        {PROT_NONE, 0, HMREG_SEND},
        {PROT_NONE, IBV_ACCESS_REMOTE_READ, HMREG_REMOTE_READ},
        {PROT_READ, 0, HMREG_SEND},
        {PROT_READ, IBV_ACCESS_REMOTE_READ, HMREG_REMOTE_READ},
        {PROT_READ, IBV_ACCESS_LOCAL_WRITE, HMREG_RECV},
        {PROT_READ, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE, HMREG_REMOTE_WRITE},
        {PROT_READ | PROT_WRITE, IBV_ACCESS_LOCAL_WRITE, HMREG_RECV},
    };
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    struct bench bench;

    bench_open(&bench);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        void *memory =
            mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        struct hmreg_mr *mr = NULL;
        struct ibv_mr *raw;
        int rc;

        memset(memory, 0, 2 * page);
        assert_int_equal(mprotect(memory, page, cases[i].protection), 0);
        raw = ibv_reg_mr(bench.pd, memory, 2 * page, cases[i].access);
        rc = raw ? 0 : -errno;
        if (raw)
            assert_int_equal(ibv_dereg_mr(raw), 0);
        if (!rc && cases[i].protection == PROT_NONE) {
            print_message("taken by force: memory that the process may not read\n");
            rc = -EFAULT;
        }
        if (hmreg_mr_reg(bench.domain, memory, 2 * page, cases[i].right, 0, 0, 0, &mr, NULL) != rc)
            fail_msg("case %zu: the device says %d, hmreg %d", i, rc, hmreg_last_error()->code);
        assert_ok(hmreg_mr_close(mr));
        munmap(memory, 2 * page);
    }
    bench_close(&bench);
}

TEST(reg__beyond_the_limit_of_locked_memory__enomem)
{
    size_t len = 8u << 20;
    struct hmreg_mr *mr = (void *)1;
    struct bench bench;
    char *memory;

    bench_open(&bench);
    memory = calloc(1, len);
    lock_limit_begin(1u << 20);
    assert_fails(hmreg_mr_reg(bench.domain, memory, len, HMREG_SEND, 0, 0, 0, &mr, NULL), -ENOMEM,
                 "ulimit -l) is 1048576 bytes");
    assert_ptr_equal(mr, (void *)1);
    lock_limit_end();
    assert_ok(hmreg_mr_reg(bench.domain, memory, len, HMREG_SEND, 0, 0, 0, &mr, NULL));
    assert_ok(hmreg_mr_close(mr));
    free(memory);
    bench_close(&bench);
}

/* ---- memory windows --------------------------------------------------------------------- */

#define WINDOW_BYTES 1000

/* A target and a source, each a byte longer than a window. */
struct pair {
    char target[WINDOW_BYTES + 1], source[WINDOW_BYTES + 1];
    struct hmreg_mr *target_mr, *source_mr;
};

static void open_pair(struct bench *bench, struct pair *pair, int seed)
{
    memset(pair, 0, sizeof(*pair));
    memset(pair->source, 'a' + seed, sizeof(pair->source));
    assert_ok(hmreg_mr_reg(bench->domain, pair->target, sizeof(pair->target), HMREG_REMOTE_READ, 0,
                           0, 0, &pair->target_mr, NULL));
    assert_ok(hmreg_mr_reg(bench->domain, pair->source, sizeof(pair->source),
                           HMREG_READ | HMREG_WRITE, 0, 0, 0, &pair->source_mr, NULL));
}

/* By the target's own key. */
static enum ibv_wc_status read_all(struct bench *bench, struct pair *pair)
{
    return bench_rdma(bench, IBV_WR_RDMA_READ, pair->source, sizeof(pair->source), pair->source_mr,
                      (uintptr_t)pair->target, (uint32_t)hmreg_mr_key(pair->target_mr));
}

static void close_pair(struct pair *pair)
{
    assert_ok(hmreg_mr_close(pair->target_mr));
    assert_ok(hmreg_mr_close(pair->source_mr));
}

static void need_windows(void)
{
    struct ibv_device_attr limits = {.device_cap_flags = 0};
    struct bench bench;

    bench_open(&bench);
    assert_int_equal(ibv_query_device(bench.device, &limits), 0);
    bench_close(&bench);
    if (!(limits.device_cap_flags & IBV_DEVICE_MEM_WINDOW) ||
        !(limits.device_cap_flags &
          (IBV_DEVICE_MEM_WINDOW_TYPE_2A | IBV_DEVICE_MEM_WINDOW_TYPE_2B)))
        test_skip("the device has no memory windows of both types");
}

/* Of the target's first bytes, bound on this queue pair. */
static struct hmreg_window *open_window(struct bench *bench, const struct pair *pair,
                                        enum ibv_mw_type type, struct ibv_qp *qp)
{
    struct hmreg_window *window;
    struct ibv_wc wc;
    int polled;

    assert_ok(hmreg_window_open(pair->target_mr, pair->target, WINDOW_BYTES, HMREG_REMOTE_WRITE, qp,
                                type, 4711, &window));
    do {
        polled = ibv_poll_cq(bench->cq, 1, &wc);
    } while (!polled);
    assert_int_equal(polled, 1);
    assert_int_equal(wc.status, IBV_WC_SUCCESS);
    assert_int_equal(wc.wr_id, 4711);
    return window;
}

static enum ibv_wc_status write_by(struct bench *bench, struct pair *pair, uint32_t key,
                                   uint32_t len)
{
    return bench_rdma(bench, IBV_WR_RDMA_WRITE, pair->source, len, pair->source_mr,
                      (uintptr_t)pair->target, key);
}

/* Prints what a device makes of a write that ends beyond the window: Soft-RoCE permits it. Refused:
 * the queue pairs have stopped. */
static bool permits_beyond(struct bench *bench, struct pair *pair, uint32_t key)
{
    enum ibv_wc_status status = write_by(bench, pair, key, WINDOW_BYTES + 1);

    printf("one byte beyond a window: %s\n", ibv_wc_status_str(status));
    assert_true(status == IBV_WC_SUCCESS || status == IBV_WC_REM_ACCESS_ERR);
    return status == IBV_WC_SUCCESS;
}

static const struct window_case {
    enum ibv_mw_type type;
    int binder; /* writes arrive at the second queue pair */
    enum ibv_wc_status status;
} window_cases[] = {
    {IBV_MW_TYPE_1, 1, IBV_WC_SUCCESS},
    {IBV_MW_TYPE_1, 0, IBV_WC_SUCCESS},
    {IBV_MW_TYPE_2, 1, IBV_WC_SUCCESS},
    {IBV_MW_TYPE_2, 0, IBV_WC_REM_ACCESS_ERR},
};

static void try_window(struct bench *bench, struct pair *pair, const struct window_case *as)
{
    struct hmreg_window *window = open_window(bench, pair, as->type, bench->qp[as->binder]);
    uint32_t key = hmreg_window_rkey(window);
    bool works = as->status == IBV_WC_SUCCESS;

    assert_int_equal(write_by(bench, pair, key, WINDOW_BYTES), as->status);
    assert_int_equal(memcmp(pair->target, pair->source, WINDOW_BYTES) == 0, works);
    works = works && permits_beyond(bench, pair, key);
    assert_fails(hmreg_suspend(bench->lib, pair->target, 1), -EBUSY, "memory window");
    assert_fails(hmreg_mr_close(pair->target_mr), -EBUSY, "memory window");
    assert_ok(hmreg_window_close(window));
    if (!works)
        bench_reconnect(bench); /* a refused operation has stopped them */
    assert_int_equal(read_all(bench, pair), IBV_WC_SUCCESS);
    assert_int_equal(write_by(bench, pair, key, WINDOW_BYTES), IBV_WC_REM_ACCESS_ERR);
}

/* The region's own key, which peers may read by, serves before and after. */
TEST(memory_window__type_1_serves_the_domain_and_type_2_one_queue_pair)
{
    struct hmreg_domain_config config = {.size = sizeof(config),
                                         .flags = HMREG_VERBS_MEMORY_WINDOWS};

    need_windows();
    for (size_t i = 0; i < 4; i++) {
        struct bench bench;
        struct pair pair;

        bench_open_with(&bench, &config);
        open_pair(&bench, &pair, (int)i);
        try_window(&bench, &pair, &window_cases[i]);
        close_pair(&pair);
        bench_close(&bench);
    }
}

TEST_MAIN()
