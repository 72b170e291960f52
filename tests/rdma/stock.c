/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 * A device that imports no dmabufs: Soft-RoCE with Debian's libibverbs alone. */
#include "tests/rdma/device.h"
#include "tests/support/softgpu.h"
#include "tests/support/test.h"

static struct hmreg_explanation explain(struct bench *bench)
{
    struct hmreg_explanation why = {.size = sizeof(why)};

    assert_ok(hmreg_domain_explain(bench->domain, device_iface(), 0, &why));
    return why;
}

TEST(no_dmabufs__peer_memory_is_taken)
{
    struct hmreg_explanation why;
    struct target target;
    struct bench bench;

    softgpu_need();
    softgpu_peermem(true);
    bench_open(&bench);
    why = explain(&bench);
    assert_int_equal(why.path, HMREG_PATH_PEERMEM);
    assert_string_equal(why.reasons[0].slug, "nic-imports-no-dmabuf");
    assert_int_equal(why.reasons[0].vendor_code, EOPNOTSUPP);
    target_open(&bench, &target, HMREG_REMOTE_WRITE);
    assert_int_equal(target_rdma(&bench, &target, IBV_WR_RDMA_WRITE, 0, 64), IBV_WC_SUCCESS);
    target_close(&bench, &target);
    device_close(&bench);
}

TEST(no_dmabufs_no_peer_memory__all_refused)
{
    struct hmreg_mr *mr = (void *)1;
    struct hmreg_explanation why;
    struct target target;
    struct bench bench;

    softgpu_need();
    bench_open(&bench);
    why = explain(&bench);
    assert_int_equal(why.path, HMREG_PATH_NONE);
    assert_int_equal(why.refused, 3);
    target_alloc(&bench, &target);
    assert_fails(hmreg_mr_reg(bench.domain, target.memory, 64, HMREG_SEND, 0, 0, 0, &mr, NULL),
                 -EOPNOTSUPP, "on rxe0");
    assert_ptr_equal(mr, (void *)1);
    target_close(&bench, &target);
    device_close(&bench);
}

TEST_MAIN()
