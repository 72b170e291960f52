/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 * Effects of a device on regions: it keeps one for a memory window, imports no dmabufs, is removed.
 */
#include "tests/rdma/device.h"
#include "tests/support/softgpu.h"
#include "tests/support/test.h"

/* ---- memory windows --------------------------------------------------------------------- */

static void wait_for(struct ibv_cq *cq)
{
    struct ibv_wc wc;
    int polled;

    do {
        polled = ibv_poll_cq(cq, 1, &wc);
    } while (!polled);
    assert_int_equal(polled, 1);
    assert_int_equal(wc.status, IBV_WC_SUCCESS);
}

static struct ibv_mw *bind_window(struct bench *bench, struct target *target)
{
    struct ibv_mw *window = ibv_alloc_mw(bench->pd, IBV_MW_TYPE_1);
    struct ibv_mw_bind bind = {
        .send_flags = IBV_SEND_SIGNALED,
        .bind_info = {.mr = hmreg_mr_head_of(target->mr)->keys->native,
                      .addr = (uintptr_t)target->memory + TARGET_SKEW,
                      .length = 100,
                      .mw_access_flags = IBV_ACCESS_REMOTE_WRITE},
    };

    assert_non_null(window);
    assert_int_equal(ibv_bind_mw(bench->qp[1], window, &bind), 0);
    wait_for(bench->cq);
    return window;
}

TEST(close__window_bound__busy_until_it_is_gone)
{
    struct hmreg_domain_config config = {
        .size = sizeof(config), .flags = HMREG_VERBS_MEMORY_WINDOWS, .order = {HMREG_PATH_PEERMEM}};
    struct target target;
    struct ibv_mw *window;
    struct bench bench;

    softgpu_need();
    softgpu_peermem(true);
    bench_open_with(&bench, &config);
    target_open(&bench, &target, HMREG_REMOTE_WRITE);
    window = bind_window(&bench, &target);
    assert_fails(hmreg_mr_close(target.mr), -EBUSY, "memory window");
    assert_int_equal(target_rdma(&bench, &target, IBV_WR_RDMA_WRITE, 0, 100), IBV_WC_SUCCESS);
    assert_fails(hmreg_domain_close(bench.domain), -EBUSY, "2 regions");
    assert_int_equal(ibv_dealloc_mw(window), 0);
    target_close(&bench, &target);
    device_close(&bench);
}

TEST(relaxed_ordering__region_works)
{
    struct hmreg_domain_config config = {.size = sizeof(config),
                                         .flags = HMREG_VERBS_RELAXED_ORDERING};
    struct target target;
    struct bench bench;

    softgpu_need();
    bench_open_with(&bench, &config);
    target_open(&bench, &target, HMREG_REMOTE_WRITE);
    memcpy(target.expected + TARGET_SKEW, target.source, 5000);
    assert_int_equal(target_rdma(&bench, &target, IBV_WR_RDMA_WRITE, 0, 5000), IBV_WC_SUCCESS);
    target_assert_expected(&bench, &target);
    target_close(&bench, &target);
    device_close(&bench);
}

/* ---- removal of the device -------------------------------------------------------------- */

static void run(const char *command)
{
    if (system(command))
        fail_msg("%s failed", command);
}

static void unplug_under(enum hmreg_path path)
{
    struct hmreg_mr *mr = (void *)1;
    struct target target;
    struct bench bench;

    device_open(&bench, path);
    target_open(&bench, &target, HMREG_REMOTE_WRITE);
    run("rdma link del rxe0");
    assert_int_equal(softgpu_stat(-1).regions, 0);
    assert_fails(hmreg_mr_reg(bench.domain, target.memory, 64, HMREG_SEND, 0, 0, 0, &mr, NULL),
                 -ENODEV, "/sys/class/infiniband/rxe0 is gone");
    assert_fails(hmreg_mr_reg(bench.domain, target.source, 64, HMREG_SEND, 0, 0, 0, &mr, NULL),
                 -ENODEV, "the domain is lost");
    assert_ptr_equal(mr, (void *)1);
    target_assert_expected(&bench, &target);
    target_close(&bench, &target);
    while (hmreg_domain_close(bench.domain) == -EBUSY) /* its own thread deregisters */
        sched_yield();
    bench.domain = NULL;
    bench_close(&bench);
    run(RDMA_UP);
    softgpu_peermem(false);
    softgpu_assert_clean();
}

TEST(unplugged__regions_close_and_new_ones_say_why)
{
    unplug_under(HMREG_PATH_DMABUF);
    unplug_under(HMREG_PATH_PEERMEM);
}

TEST(plugged_in_again__works)
{
    struct target target;
    struct bench bench;

    device_open(&bench, HMREG_PATH_DMABUF);
    target_open(&bench, &target, HMREG_REMOTE_WRITE);
    assert_int_equal(target_rdma(&bench, &target, IBV_WR_RDMA_WRITE, 0, 64), IBV_WC_SUCCESS);
    target_close(&bench, &target);
    device_close(&bench);
}

TEST_MAIN()
