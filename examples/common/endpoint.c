/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See endpoint.h.
 */
#include "endpoint.h"

#include <hmreg/hmreg.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <stdbool.h>
#include <string.h>
#include <time.h>

#define PATIENCE 600 /* seconds; a working operation takes microseconds */

/* ---- opening ---------------------------------------------------------------------------- */

/* Requests this libfabric's newest API version: dmabufs need 1.20. */
static uint32_t version(void)
{
    uint32_t newest = FI_VERSION(1, 20), here = fi_version();

    return FI_VERSION_LT(here, newest) ? here : newest;
}

static int find(const struct endpoint_hints *wanted, uint64_t caps, struct fi_info **out)
{
    const char *address = wanted->address ? wanted->address : "127.0.0.1";
    const char *node = strcmp(wanted->provider, "shm") ? address : NULL;
    struct fi_info *hints = fi_allocinfo();
    int rc = -FI_ENOMEM;

    if (!hints)
        return rc;
    hints->fabric_attr->prov_name = strdup(wanted->provider);
    hints->ep_attr->type = FI_EP_RDM;
    hints->caps = FI_RMA | wanted->caps | caps;
    hints->tx_attr->msg_order = wanted->msg_order;
    hints->tx_attr->op_flags =
        FI_DELIVERY_COMPLETE; /* a completion means that the bytes are at the target */
    hints->domain_attr->threading = wanted->threading;
    if (wanted->threading) /* rxm grants a model with manual progress only */
        hints->domain_attr->data_progress = FI_PROGRESS_MANUAL;
    hints->domain_attr->mr_mode =
        FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_RAW | FI_MR_HMEM;
    if (wanted->old_mr_mode)
        hints->domain_attr->mr_mode = wanted->old_mr_mode;
    if (hints->fabric_attr->prov_name)
        rc = fi_getinfo(version(), node, NULL, node ? FI_SOURCE : 0, hints, out);
    fi_freeinfo(hints);
    return rc;
}

static int open_ep(struct endpoint *e)
{
    struct fi_av_attr av = {.type = FI_AV_TABLE};
    struct fi_cq_attr cq = {.format = FI_CQ_FORMAT_CONTEXT};
    int rc = fi_fabric(e->info->fabric_attr, &e->fabric, NULL);

    rc = rc ? rc : fi_domain(e->fabric, e->info, &e->domain, NULL);
    rc = rc ? rc : fi_av_open(e->domain, &av, &e->av, NULL);
    rc = rc ? rc : fi_cq_open(e->domain, &cq, &e->cq, NULL);
    rc = rc ? rc : fi_endpoint(e->domain, e->info, &e->ep, NULL);
    rc = rc ? rc : fi_ep_bind(e->ep, &e->av->fid, 0);
    rc = rc ? rc : fi_ep_bind(e->ep, &e->cq->fid, FI_TRANSMIT | FI_RECV);
    return rc ? rc : fi_enable(e->ep);
}

int endpoint_open(const struct endpoint_hints *hints, struct endpoint *out)
{
    struct endpoint e = {.peer = FI_ADDR_UNSPEC, .patience = PATIENCE};
    int rc = find(hints, hints->wishes, &e.info);

    if (rc == -FI_ENODATA && hints->wishes)
        rc = find(hints, 0, &e.info);
    rc = rc ? rc : open_ep(&e);
    if (rc)
        endpoint_close(&e);
    else
        *out = e;
    return rc;
}

static void close_fid(struct fid *fid)
{
    if (fid)
        fi_close(fid);
}

void endpoint_close(struct endpoint *e)
{
    close_fid(e->ep ? &e->ep->fid : NULL);
    close_fid(e->cq ? &e->cq->fid : NULL);
    close_fid(e->av ? &e->av->fid : NULL);
    close_fid(e->domain ? &e->domain->fid : NULL);
    close_fid(e->fabric ? &e->fabric->fid : NULL);
    if (e->info)
        fi_freeinfo(e->info);
    memset(e, 0, sizeof(*e));
}

/* ---- the peer --------------------------------------------------------------------------- */

int endpoint_address(struct endpoint *e, void *address, size_t *size)
{
    return fi_getname(&e->ep->fid, address, size);
}

int endpoint_connect(struct endpoint *e, const void *address)
{
    int inserted = fi_av_insert(e->av, address, 1, &e->peer, 0, NULL);

    return inserted == 1 ? 0 : inserted < 0 ? inserted : -FI_EADDRNOTAVAIL;
}

int endpoint_connect_self(struct endpoint *e)
{
    char address[ENDPOINT_ADDRESS_BYTES];
    size_t size = sizeof(address);
    int rc = endpoint_address(e, address, &size);

    return rc ? rc : endpoint_connect(e, address);
}

/* ---- operations ------------------------------------------------------------------------- */

/* Reads one completion: 1, 0 if there is none, or its error. */
static int poll_cq(struct endpoint *e)
{
    struct fi_cq_entry done;
    struct fi_cq_err_entry failed = {0};
    ssize_t got = fi_cq_read(e->cq, &done, 1);

    if (got != -FI_EAVAIL)
        return got == -FI_EAGAIN ? 0 : (int)got;
    fi_cq_readerr(e->cq, &failed, 0);
    return failed.err ? -failed.err : -FI_EOTHER;
}

void endpoint_progress(struct endpoint *e)
{
    (void)fi_cq_read(e->cq, NULL, 0);
}

static bool is_over(const struct endpoint *e, const struct timespec *start)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec - start->tv_sec > e->patience;
}

/* Starts the operation on one rail, if *started is not set yet, or reads its completion. 1: it is
 * done; 0: not yet. */
static int step(struct endpoint *e, const struct endpoint_part *part, bool write, bool *started)
{
    ssize_t rc;

    if (*started)
        return poll_cq(e);
    rc = write ? fi_write(e->ep, part->local, part->len, part->desc, e->peer, part->addr, part->key,
                          NULL)
               : fi_read(e->ep, part->local, part->len, part->desc, e->peer, part->addr, part->key,
                         NULL);
    *started = rc == 0;
    endpoint_progress(e);
    return rc == -FI_EAGAIN ? 0 : (int)rc;
}

static int operate(struct endpoint *endpoints, const struct endpoint_part *parts, int count,
                   bool write)
{
    bool started[ENDPOINT_RAILS] = {false}, done[ENDPOINT_RAILS] = {false};
    struct timespec start;
    int left = count;

    clock_gettime(CLOCK_MONOTONIC, &start);
    for (int i = 0; left; i = (i + 1) % count) {
        int rc = done[i] ? 0 : step(&endpoints[i], &parts[i], write, &started[i]);

        if (rc < 0)
            return rc;
        if (rc > 0)
            done[i] = left--;
        else if (is_over(&endpoints[i], &start))
            return -FI_ETIMEDOUT;
        else if (done[i])
            endpoint_progress(&endpoints[i]);
    }
    return 0;
}

int endpoint_write_parts(struct endpoint *endpoints, const struct endpoint_part *parts, int count)
{
    return operate(endpoints, parts, count, true);
}

int endpoint_write(struct endpoint *e, const void *local, size_t len, void *desc, uint64_t addr,
                   uint64_t key)
{
    struct endpoint_part part = {(void *)(uintptr_t)local, len, desc, addr, key};

    return operate(e, &part, 1, true);
}

int endpoint_read(struct endpoint *e, void *local, size_t len, void *desc, uint64_t addr,
                  uint64_t key)
{
    struct endpoint_part part = {local, len, desc, addr, key};

    return operate(e, &part, 1, false);
}

const char *failure_text(int code)
{
    return hmreg_last_error()->code == code ? hmreg_last_error()->text : fi_strerror(-code);
}
