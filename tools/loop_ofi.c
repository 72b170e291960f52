/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The loop of a libfabric domain: one reliable datagram endpoint, whose peer is itself or another
 * node's. Fabrics with connected endpoints only (FI_EP_MSG) are skipped: the libibverbs loop proves
 * their NICs.
 */
#include "tools/fabric.h"
#include "tools/loop.h"

#include <hmreg/ofi.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <stdlib.h>

struct loop {
    struct fid_av *av;
    struct fid_cq *cq;
    struct fid_ep *ep;
    fi_addr_t peer;
};

/* ---- connecting ------------------------------------------------------------------------- */

/* Requests completions that mean delivery at the target. */
static struct fi_info *wanted_info(const struct fi_info *info)
{
    struct fi_info *wanted = fi_dupinfo(info);

    if (wanted)
        wanted->tx_attr->op_flags |= FI_DELIVERY_COMPLETE;
    return wanted;
}

static int open_endpoint(struct loop *loop, struct fid_domain *domain, struct fi_info *info)
{
    struct fi_av_attr av = {.type = FI_AV_TABLE};
    struct fi_cq_attr cq = {.format = FI_CQ_FORMAT_CONTEXT};
    int rc = fi_av_open(domain, &av, &loop->av, NULL);

    rc = rc ? rc : fi_cq_open(domain, &cq, &loop->cq, NULL);
    rc = rc ? rc : fi_endpoint(domain, info, &loop->ep, NULL);
    rc = rc ? rc : fi_ep_bind(loop->ep, &loop->av->fid, 0);
    rc = rc ? rc : fi_ep_bind(loop->ep, &loop->cq->fid, FI_TRANSMIT | FI_RECV);
    return rc ? rc : fi_enable(loop->ep);
}

static int address(struct loop *loop, struct loop_address *out, struct loop_why *why)
{
    int rc;

    out->size = sizeof(out->bytes);
    rc = fi_getname(&loop->ep->fid, out->bytes, &out->size);
    return rc ? loop_fail(why, "its endpoint has no address: %s", fi_strerror(-rc)) : 0;
}

/* The address vector reads as many bytes as an address of this fabric has. */
static int connect_to(struct loop *loop, const struct loop_address *peer, struct loop_why *why)
{
    struct loop_address own;
    int rc = address(loop, &own, why);

    if (rc)
        return rc;
    if (peer->size != own.size)
        return loop_fail(why, "its peer has another kind of address");
    rc = fi_av_insert(loop->av, peer->bytes, 1, &loop->peer, 0, NULL);
    rc = rc == 1 ? 0 : rc < 0 ? rc : -FI_EADDRNOTAVAIL;
    return rc ? loop_fail(why, "its peer's address was refused: %s", fi_strerror(-rc)) : 0;
}

static void close_fid(struct fid *fid)
{
    if (fid)
        fi_close(fid);
}

static void close_loop(struct loop *loop)
{
    if (!loop)
        return;
    close_fid(loop->ep ? &loop->ep->fid : NULL);
    close_fid(loop->cq ? &loop->cq->fid : NULL);
    close_fid(loop->av ? &loop->av->fid : NULL);
    free(loop);
}

static int open_loop(const struct fabric *fabric, struct hmreg_domain *domain, struct loop **out,
                     struct loop_why *why)
{
    const struct fi_info *info = fabric->info;
    struct fi_info *wanted;
    struct loop *loop;
    int rc;

    if (info->ep_attr->type != FI_EP_RDM)
        return loop_fail(why, "it has no reliable datagram endpoints, which could reach themselves "
                              "without a connection");
    wanted = wanted_info(info);
    loop = calloc(1, sizeof(*loop));
    rc = wanted && loop ? open_endpoint(loop, fabric->native, wanted) : -FI_ENOMEM;
    fi_freeinfo(wanted);
    if (rc) {
        close_loop(loop);
        return loop_fail(why, "no endpoint: %s", fi_strerror(-rc));
    }
    *out = loop;
    return 0;
}

static int tie(struct loop *loop, struct hmreg_mr *mr, struct loop_why *why)
{
    int rc = hmreg_mr_bind(mr, &loop->ep->fid, 0);

    rc = rc ? rc : hmreg_mr_enable(mr);
    return rc ? loop_fail(why, "%s", hmreg_last_error()->text) : 0;
}

/* ---- operations ------------------------------------------------------------------------- */

/* Reads one completion: 1, 0 if there is none, or its error. */
static int poll_cq(struct loop *loop)
{
    struct fi_cq_entry done;
    struct fi_cq_err_entry failed = {0};
    ssize_t got = fi_cq_read(loop->cq, &done, 1);

    if (got != -FI_EAVAIL)
        return got == -FI_EAGAIN ? 0 : (int)got;
    fi_cq_readerr(loop->cq, &failed, 0);
    return failed.err ? -failed.err : -FI_EOTHER;
}

static ssize_t post(struct loop *loop, const struct loop_move *move)
{
    void *desc = hmreg_mr_desc(move->mr);
    void *local = (void *)(uintptr_t)hmreg_mr_local_addr(move->mr, 0, move->local);

    return move->write
               ? fi_write(loop->ep, local, move->len, desc, loop->peer, move->addr, move->key, NULL)
               : fi_read(loop->ep, local, move->len, desc, loop->peer, move->addr, move->key, NULL);
}

static void serve(struct loop *loop)
{
    (void)fi_cq_read(loop->cq, NULL, 0);
}

static int move(struct loop *loop, const struct loop_move *move, struct loop_why *why)
{
    int64_t deadline = loop_deadline();
    ssize_t posted;
    int rc = 0;

    while ((posted = post(loop, move)) == -FI_EAGAIN && !loop_is_over(deadline))
        serve(loop);
    if (posted == -FI_EAGAIN)
        return loop_fail_as(why, LOOP_TIMED_OUT, "it has no connection after %d s", LOOP_TIMEOUT);
    if (posted)
        return loop_fail_as(why, loop_fault_of((int)-posted), "it did not accept the operation: %s",
                            fi_strerror((int)-posted));
    while (!rc && !loop_is_over(deadline))
        rc = poll_cq(loop);
    if (rc < 0)
        return loop_fail_as(why, loop_fault_of(-rc), "the operation failed: %s", fi_strerror(-rc));
    return rc ? 0
              : loop_fail_as(why, LOOP_TIMED_OUT, "no completion came within %d s", LOOP_TIMEOUT);
}

const struct loop_ops loop_ofi_ops = {
    .open = open_loop,
    .address = address,
    .connect = connect_to,
    .serve = serve,
    .move = move,
    .tie = tie,
    .close = close_loop,
};
