/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See pair.h.
 */
#include "pair.h"
#include "queue_pair.h"

#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define SERVICE       "18520"
#define CONNECT_TRIES 200 /* of 50 ms: the other process may start later */

/* ---- TCP -------------------------------------------------------------------------------- */

static int listen_once(const struct addrinfo *at)
{
    int listener = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0), socket, on = 1;

    if (listener < 0)
        return -errno;
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (bind(listener, at->ai_addr, at->ai_addrlen) || listen(listener, 1))
        socket = -1;
    else
        socket = accept(listener, NULL, NULL);
    if (socket < 0)
        socket = -errno;
    close(listener);
    return socket;
}

static int connect_to(const struct addrinfo *at)
{
    const struct timespec between_tries = {.tv_sec = 0, .tv_nsec = 50000000};
    int rc = -ECONNREFUSED;

    for (int i = 0; i < CONNECT_TRIES && rc == -ECONNREFUSED; i++) {
        int fd = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);

        if (fd < 0)
            return -errno;
        if (!connect(fd, at->ai_addr, at->ai_addrlen))
            return fd;
        rc = -errno;
        close(fd);
        nanosleep(&between_tries, NULL);
    }
    return rc;
}

static int meet(const char *host)
{
    struct addrinfo hints = {
        .ai_flags = host ? 0 : AI_PASSIVE, .ai_family = AF_INET, .ai_socktype = SOCK_STREAM};
    struct addrinfo *at;
    int rc;

    if (getaddrinfo(host, SERVICE, &hints, &at))
        return -EHOSTUNREACH;
    rc = host ? connect_to(at) : listen_once(at);
    freeaddrinfo(at);
    return rc;
}

int pair_send(struct pair *pair, const void *bytes, size_t len)
{
    ssize_t sent = send(pair->socket, bytes, len, MSG_NOSIGNAL);

    return sent == (ssize_t)len ? 0 : sent < 0 ? -errno : -EPIPE;
}

int pair_receive(struct pair *pair, void *bytes, size_t len)
{
    ssize_t received = recv(pair->socket, bytes, len, MSG_WAITALL);

    return received == (ssize_t)len ? 0 : received < 0 ? -errno : -EPIPE;
}

/* ---- the device ------------------------------------------------------------------------- */

static int find_device(struct pair *pair)
{
    struct ibv_device **list = ibv_get_device_list(NULL);

    for (int i = 0; list && list[i] && !pair->port; i++) {
        pair->device = ibv_open_device(list[i]);
        if (!pair->device)
            continue;
        pair->port = queue_pair_port(pair->device);
        if (pair->port)
            break;
        ibv_close_device(pair->device);
        pair->device = NULL;
    }
    if (list)
        ibv_free_device_list(list);
    if (!pair->port)
        fprintf(stderr,
                "no InfiniBand or RoCE device has an active port: see `rdma link`, or `hmreg "
                "doctor`; iWARP's are reached by 5-gpudirect-libfabric\n");
    return pair->port ? 0 : -ENODEV;
}

static int make_queue_pair(struct pair *pair)
{
    struct ibv_qp_init_attr init = {
        .cap = {.max_send_wr = 4, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1},
        .qp_type = IBV_QPT_RC,
    };

    pair->pd = ibv_alloc_pd(pair->device);
    pair->cq = ibv_create_cq(pair->device, 4, NULL, NULL, 0);
    if (!pair->pd || !pair->cq)
        return -errno;
    init.send_cq = init.recv_cq = pair->cq;
    pair->qp = ibv_create_qp(pair->pd, &init);
    return pair->qp ? 0 : -errno;
}

/* ---- the pair --------------------------------------------------------------------------- */

int pair_open(const char *host, struct pair *out)
{
    struct queue_card ours, peers;
    char ready;
    int rc;

    *out = (struct pair){.socket = -1};
    rc = find_device(out);
    rc = rc ? rc : make_queue_pair(out);
    rc = rc ? rc : queue_pair_card(out->qp, out->port, &ours, &out->gid_index);
    if (rc)
        return rc;
    out->socket = meet(host);
    if (out->socket < 0)
        return out->socket;
    rc = pair_send(out, &ours, sizeof(ours));
    rc = rc ? rc : pair_receive(out, &peers, sizeof(peers));
    rc = rc ? rc
            : queue_pair_connect(out->qp, out->port, out->gid_index,
                                 IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE, &peers);
    /* Neither side sends before both can receive. */
    rc = rc ? rc : pair_send(out, "!", 1);
    return rc ? rc : pair_receive(out, &ready, 1);
}

void pair_close(struct pair *pair)
{
    if (pair->qp)
        ibv_destroy_qp(pair->qp);
    if (pair->cq)
        ibv_destroy_cq(pair->cq);
    if (pair->pd)
        ibv_dealloc_pd(pair->pd);
    if (pair->device)
        ibv_close_device(pair->device);
    if (pair->socket >= 0)
        close(pair->socket);
}

int pair_complete(struct pair *pair)
{
    struct ibv_wc wc = {.status = IBV_WC_GENERAL_ERR};
    int polled;

    do {
        polled = ibv_poll_cq(pair->cq, 1, &wc);
    } while (!polled);
    return wc.status == IBV_WC_SUCCESS ? 0 : -EIO;
}

int pair_rdma(struct pair *pair, enum ibv_wr_opcode opcode, const void *local, size_t len,
              uint32_t lkey, uint64_t addr, uint32_t rkey)
{
    struct ibv_sge sge = {(uintptr_t)local, (uint32_t)len, lkey};
    struct ibv_send_wr *bad, wr = {.sg_list = &sge,
                                   .num_sge = 1,
                                   .opcode = opcode,
                                   .send_flags = IBV_SEND_SIGNALED,
                                   .wr = {.rdma = {.remote_addr = addr, .rkey = rkey}}};
    int rc = ibv_post_send(pair->qp, &wr, &bad);

    return rc ? -rc : pair_complete(pair);
}
