/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See bench.h: the hmreg domain.
 */
#include "tests/rdma/bench.h"

#include "tests/support/test.h"

void bench_open(struct bench *bench)
{
    bench_open_with(bench, NULL);
}

void bench_open_with(struct bench *bench, const struct hmreg_domain_config *config)
{
    if (!bench_begin(bench))
        test_skip("no RDMA device with an active port; modprobe rdma_rxe and rdma link add make "
                  "one");
    assert_ok(hmreg_open(NULL, &bench->lib));
    assert_ok(hmreg_domain_open_verbs(bench->lib, bench->pd, config, &bench->domain));
}

void bench_close(struct bench *bench)
{
    assert_ok(hmreg_domain_close(bench->domain));
    assert_ok(hmreg_close(bench->lib));
    bench_end(bench);
}

enum ibv_wc_status bench_rdma(struct bench *bench, enum ibv_wr_opcode opcode, void *local,
                              size_t len, const struct hmreg_mr *mr, uint64_t raddr, uint32_t rkey)
{
    struct ibv_sge sge = {(uintptr_t)local, (uint32_t)len, hmreg_mr_head_of(mr)->keys->lkey};
    struct ibv_send_wr wr = {.sg_list = &sge,
                             .num_sge = 1,
                             .opcode = opcode,
                             .wr.rdma = {.remote_addr = raddr, .rkey = rkey}};

    return bench_post(bench, &wr);
}
