/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See rail.h.
 */
#include "rail.h"

#include "../common/queue_pair.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#define ATTEMPTS 1000 /* a hundred a second */

/* ---- opening ---------------------------------------------------------------------------- */

static struct ibv_context *open_device(const char *name)
{
    struct ibv_device **list = ibv_get_device_list(NULL);
    struct ibv_context *device = NULL;

    for (int i = 0; list && list[i] && !device; i++)
        if (!strcmp(ibv_get_device_name(list[i]), name))
            device = ibv_open_device(list[i]);
    if (list)
        ibv_free_device_list(list);
    return device;
}

/* Is the port active, and has it the GID of an address? */
static bool has_address(struct ibv_context *device, uint8_t port)
{
    struct ibv_port_attr attr;
    union ibv_gid gid;
    bool found = false;

    if (!port || ibv_query_port(device, port, &attr))
        return false;
    for (int i = 0; i < attr.gid_tbl_len && !found; i++)
        found = !ibv_query_gid(device, port, i, &gid) && gid.raw[10] == 0xff;
    return found;
}

/* A NIC that has just come back needs a moment for its device file and its addresses. */
static int wait_for_device(struct rail *rail, const char *name, uint8_t *port)
{
    for (int i = 0; i < ATTEMPTS; i++) {
        rail->device = open_device(name);
        *port = rail->device ? queue_pair_port(rail->device) : 0;
        if (rail->device && has_address(rail->device, *port))
            return 0;
        if (rail->device)
            ibv_close_device(rail->device);
        rail->device = NULL;
        usleep(10000);
    }
    return -ENODEV;
}

static struct ibv_qp *make_queue_pair(struct rail *rail)
{
    struct ibv_qp_init_attr init = {
        .send_cq = rail->cq,
        .recv_cq = rail->cq,
        .cap = {.max_send_wr = 4, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1},
        .qp_type = IBV_QPT_RC,
    };

    return ibv_create_qp(rail->pd, &init);
}

static int connect_pair(struct ibv_qp *one, struct ibv_qp *other, uint8_t port)
{
    struct queue_card card[2];
    int index, rc = queue_pair_card(one, port, &card[0], &index);

    rc = rc ? rc : queue_pair_card(other, port, &card[1], &index);
    rc = rc ? rc : queue_pair_connect(one, port, index, IBV_ACCESS_REMOTE_WRITE, &card[1]);
    return rc ? rc : queue_pair_connect(other, port, index, IBV_ACCESS_REMOTE_WRITE, &card[0]);
}

static int connect_ranks(struct rail *rail, uint8_t port)
{
    for (int i = 0; i < RANKS; i++) {
        rail->right[i] = make_queue_pair(rail);
        rail->left[i] = make_queue_pair(rail);
        if (!rail->right[i] || !rail->left[i])
            return -errno;
    }
    for (int i = 0; i < RANKS; i++) {
        int rc = connect_pair(rail->right[i], rail->left[(i + 1) % RANKS], port);

        if (rc)
            return rc;
    }
    return 0;
}

int rail_open(struct rail *rail, struct hmreg *lib, const char *name)
{
    uint8_t port = 0;
    int rc;

    *rail = (struct rail){.posted = 0};
    rc = wait_for_device(rail, name, &port);
    if (rc)
        return rc;
    fcntl(rail->device->async_fd, F_SETFL, O_NONBLOCK);
    rail->pd = ibv_alloc_pd(rail->device);
    rail->cq = ibv_create_cq(rail->device, 4 * RANKS, NULL, NULL, 0);
    if (!rail->pd || !rail->cq)
        return -errno;
    rc = connect_ranks(rail, port);
    return rc ? rc : hmreg_domain_open_verbs(lib, rail->pd, NULL, &rail->domain);
}

/* ---- closing ---------------------------------------------------------------------------- */

int rail_close(struct rail *rail)
{
    int rc = hmreg_domain_close(rail->domain);

    if (rc)
        return rc;
    for (int i = 0; i < RANKS; i++) {
        if (rail->right[i])
            ibv_destroy_qp(rail->right[i]);
        if (rail->left[i])
            ibv_destroy_qp(rail->left[i]);
    }
    if (rail->cq)
        ibv_destroy_cq(rail->cq);
    if (rail->pd)
        ibv_dealloc_pd(rail->pd);
    if (rail->device)
        ibv_close_device(rail->device);
    *rail = (struct rail){.posted = 0};
    return 0;
}

/* ---- writing ---------------------------------------------------------------------------- */

int rail_write(struct rail *rail, int rank, const struct ibv_sge *from, uint64_t addr,
               uint32_t rkey)
{
    struct ibv_sge sge = *from;
    struct ibv_send_wr *bad, wr = {.sg_list = &sge,
                                   .num_sge = 1,
                                   .opcode = IBV_WR_RDMA_WRITE,
                                   .send_flags = IBV_SEND_SIGNALED,
                                   .wr = {.rdma = {.remote_addr = addr, .rkey = rkey}}};
    int rc = ibv_post_send(rail->right[rank], &wr, &bad);

    rail->posted += !rc;
    return -rc;
}

/* Has the kernel said that the device is gone? */
static bool is_gone(struct rail *rail)
{
    struct ibv_async_event event;
    bool gone = false;

    while (!gone && !ibv_get_async_event(rail->device, &event)) {
        gone = event.event_type == IBV_EVENT_DEVICE_FATAL;
        ibv_ack_async_event(&event);
    }
    return gone;
}

int rail_wait(struct rail *rail)
{
    bool failed = false;

    while (rail->posted) {
        struct ibv_wc wc;
        int polled = ibv_poll_cq(rail->cq, 1, &wc);

        if (polled < 0 || (!polled && is_gone(rail))) {
            rail->posted = 0; /* the kernel has ended its queue pairs */
            return -ENODEV;
        }
        rail->posted -= (unsigned)polled;
        failed |= polled && wc.status != IBV_WC_SUCCESS;
    }
    if (is_gone(rail))
        return -ENODEV;
    return failed ? -EIO : 0;
}
