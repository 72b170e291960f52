/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * In the guest: a plain program of verbs that posts a receive, deregisters its buffer, or moves the
 * region elsewhere by ibv_rereg_mr(), and is sent a message then. Prints what became of each.
 */
#include "tests/rdma/bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LEN 4096

static struct bench bench;

static void expect(bool good, const char *what)
{
    if (good)
        return;
    fprintf(stderr, "%s\n", what);
    exit(1);
}

static struct ibv_mr *reg(void *addr, int access)
{
    struct ibv_mr *mr = ibv_reg_mr(bench.pd, addr, LEN, access);

    expect(mr, "a registration failed");
    return mr;
}

static void post_receive(const struct ibv_mr *mr)
{
    struct ibv_sge sge = {(uintptr_t)mr->addr, LEN, mr->lkey};
    struct ibv_recv_wr *bad, wr = {.sg_list = &sge, .num_sge = 1};

    expect(!ibv_post_recv(bench.qp[1], &wr, &bad), "no receive is posted");
}

/* Returns the receive's status; the sender's comes on the same queue, before or after. */
static enum ibv_wc_status send_message(struct ibv_mr *mr)
{
    struct ibv_sge sge = {(uintptr_t)mr->addr, LEN, mr->lkey};
    struct ibv_send_wr *bad,
        wr = {
            .opcode = IBV_WR_SEND, .sg_list = &sge, .num_sge = 1, .send_flags = IBV_SEND_SIGNALED};
    enum ibv_wc_status status = IBV_WC_SUCCESS;
    struct ibv_wc wc;

    expect(!ibv_post_send(bench.qp[0], &wr, &bad), "no message is sent");
    for (int done = 0; done < 2;) {
        int polled = ibv_poll_cq(bench.cq, 1, &wc);

        expect(polled >= 0, "the completion queue failed");
        done += polled;
        if (polled && wc.qp_num == bench.qp[1]->qp_num)
            status = wc.status;
    }
    return status;
}

static void deliver(const char *what, const char *buffer, struct ibv_mr *message)
{
    enum ibv_wc_status status = send_message(message);

    printf("%s: %s, %s\n", what, ibv_wc_status_str(status),
           buffer[0] == 'm' || buffer[LEN - 1] == 'm' ? "overwritten" : "intact");
    bench_reconnect(&bench);
}

int main(void)
{
    char *pages = aligned_alloc(LEN, 4 * LEN);
    struct ibv_mr *message, *mr;
    int result;

    expect(pages && bench_begin(&bench), "no memory, or no RDMA device");
    memset(pages, 'b', 4 * LEN);
    memset(pages, 'm', LEN);
    message = reg(pages, 0);

    mr = reg(pages + LEN, IBV_ACCESS_LOCAL_WRITE);
    post_receive(mr);
    expect(!ibv_dereg_mr(mr), "a deregistration failed");
    deliver("deregistered", pages + LEN, message);

    mr = reg(pages + 2 * LEN, IBV_ACCESS_LOCAL_WRITE);
    post_receive(mr);
    result = ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, pages + 3 * LEN, LEN, 0);
    if (result)
        printf("moved: %d, %m\n", result);
    deliver("moved", pages + 2 * LEN, message);
    expect(!ibv_dereg_mr(mr) && !ibv_dereg_mr(message), "a deregistration failed");
    bench_end(&bench);
    free(pages);
    return 0;
}
