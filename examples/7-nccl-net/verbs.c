/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Verbs. The receiver grants: it sends address, size, tag and keys of the buffers of a request on
 * the first rail. The sender writes each message into the buffer of its tag, a part of it on each
 * rail, by RDMA WRITE with the buffer's number.
 */
#include "../common/queue_pair.h"
#include "plugin.h"

#include <arpa/inet.h>
#include <errno.h>
#include <hmreg/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct rail {
    struct ibv_cq *cq;
    struct ibv_qp *qp, *flush; /* flush: connected with itself, of a receiver */
    int gid_index;
};

struct grant {
    uint32_t count;
    struct {
        uint64_t addr, size;
        uint32_t rkey[RAILS];
        int32_t tag;
    } buffer[GROUPED];
};

struct endpoints {
    struct rail rail[RAILS];
    unsigned arrived, used;  /* grants, of a sender */
    unsigned taken;          /* bit i: buffer i of the oldest grant has its message */
    struct hmreg_mr *memory; /* the registration of what follows */
    struct grant grant[NCCL_REQUESTS];
    char flushed[RAILS];
};

/* ---- NICs --------------------------------------------------------------------------------- */

static void describe(struct ibv_context *context, uint8_t port, struct nic *out)
{
    static const int lanes[] = {1, 4, 8, 12, 2};
    static const int speeds[] = {2500, 5000, 10000, 10000, 14000, 25000, 50000, 100000};
    struct ibv_port_attr attr = {};
    char link[128];

    *out = (struct nic){.guid = ibv_get_device_guid(context->device), .port = port};
    snprintf(out->name, sizeof(out->name), "%s", ibv_get_device_name(context->device));
    snprintf(link, sizeof(link), "/sys/class/infiniband/%s/device", out->name);
    if (!realpath(link, out->pci_path))
        out->pci_path[0] = 0;
    if (!ibv_query_port(context, port, &attr) && attr.active_width && attr.active_speed)
        out->speed = lanes[__builtin_ctz(attr.active_width) % 5] *
                     speeds[__builtin_ctz(attr.active_speed) % 8];
}

static int find(struct nic *nics, int most)
{
    struct ibv_device **list = ibv_get_device_list(NULL);
    int count = 0;

    for (int i = 0; list && list[i] && count < most; i++) {
        struct ibv_context *context = ibv_open_device(list[i]);
        uint8_t port = context ? queue_pair_port(context) : 0;

        if (port)
            describe(context, port, &nics[count++]);
        if (context)
            ibv_close_device(context);
    }
    if (list)
        ibv_free_device_list(list);
    return count;
}

/* native: a protection domain, which knows its device. */
static int nic_open(const struct nic *nic, struct hmreg *lib, void **native,
                    struct hmreg_domain **domain)
{
    struct ibv_device **list = ibv_get_device_list(NULL);
    struct ibv_context *context = NULL;
    struct ibv_pd *pd;

    for (int i = 0; list && list[i] && !context; i++)
        if (!strcmp(ibv_get_device_name(list[i]), nic->name))
            context = ibv_open_device(list[i]);
    if (list)
        ibv_free_device_list(list);
    *native = pd = context ? ibv_alloc_pd(context) : NULL;
    if (context && !pd)
        ibv_close_device(context);
    return pd ? hmreg_domain_open_verbs(lib, pd, &reg_policy, domain) : -ENODEV;
}

static void nic_close(void *native)
{
    struct ibv_pd *pd = (struct ibv_pd *)native;
    struct ibv_context *context = pd ? pd->context : NULL;

    if (pd && !ibv_dealloc_pd(pd))
        ibv_close_device(context);
}

/* ---- opening and connecting ---------------------------------------------------------------- */

/* Makes a queue pair and its card. */
static int make_queue_pair(struct ibv_pd *pd, struct rail *rail, int port, struct ibv_qp **qp,
                           struct queue_card *card)
{
    struct ibv_qp_init_attr init = {
        .send_cq = rail->cq,
        .recv_cq = rail->cq,
        .cap = {.max_send_wr = SENDS, .max_recv_wr = SENDS, .max_send_sge = 1, .max_recv_sge = 1},
        .qp_type = IBV_QPT_RC,
    };

    *qp = rail->cq ? ibv_create_qp(pd, &init) : NULL;
    return *qp ? queue_pair_card(*qp, (uint8_t)port, card, &rail->gid_index) : -ENOMEM;
}

static int open_rail(struct comm *comm, struct rail *rail, struct ibv_pd *pd, int port,
                     char *address)
{
    struct queue_card card = {};
    int rc;

    rail->cq = ibv_create_cq(pd->context, 4 * SENDS, NULL, NULL, 0);
    rc = make_queue_pair(pd, rail, port, &rail->qp, &card);
    memcpy(address, &card, sizeof(card));
    if (rc || comm->sends)
        return rc;
    rc = make_queue_pair(pd, rail, port, &rail->flush, &card);
    return rc ? rc : queue_pair_connect(rail->flush, (uint8_t)port, rail->gid_index, 0, &card);
}

static int verbs_open(struct comm *comm)
{
    struct endpoints *our = (struct endpoints *)calloc(1, sizeof(*our));
    struct device *device = comm->device;
    int rc = -ENOMEM;

    comm->endpoints = our;
    if (our)
        rc = reg_get(device, our->grant, sizeof(our->grant) + sizeof(our->flushed),
                     HMREG_SEND | HMREG_RECV, -1, 0, &our->memory);
    for (int i = 0; i < device->rails && !rc; i++)
        rc = open_rail(comm, &our->rail[i], (struct ibv_pd *)device->native[i],
                       device->nic[i]->port, comm->ours.address[i]);
    return rc;
}

static void verbs_close(struct comm *comm)
{
    struct endpoints *our = (struct endpoints *)comm->endpoints;

    for (struct rail *rail = our->rail; rail < our->rail + comm->device->rails; rail++) {
        if (rail->flush)
            ibv_destroy_qp(rail->flush);
        if (rail->qp)
            ibv_destroy_qp(rail->qp);
        if (rail->cq)
            ibv_destroy_cq(rail->cq);
    }
    reg_put(our->memory);
    free(our);
}

/* ---- work requests ------------------------------------------------------------------------- */

/* Of memory that is registered: a range of it, on one rail. */
static struct ibv_sge range(const struct hmreg_mr *mr, int rail, const void *data, size_t len)
{
    struct ibv_sge sge = {(uintptr_t)data, (uint32_t)len, reg_keys(mr, rail)->lkey};

    return sge;
}

/* An empty list, not a length of 0, which to some NICs is 2 GiB. */
static int post_recv(struct ibv_qp *qp, struct ibv_sge sge, void *context)
{
    struct ibv_recv_wr *bad, wr = {(uintptr_t)context, NULL, &sge, sge.length > 0};

    return -ibv_post_recv(qp, &wr, &bad);
}

static int post_send(struct ibv_qp *qp, struct ibv_sge sge, struct ibv_send_wr wr, void *context)
{
    struct ibv_send_wr *bad;

    wr.wr_id = (uintptr_t)context;
    wr.sg_list = &sge;
    wr.num_sge = sge.length > 0;
    wr.send_flags = IBV_SEND_SIGNALED;
    return -ibv_post_send(qp, &wr, &bad);
}

static int await_grant(struct endpoints *our, unsigned number)
{
    struct grant *grant = &our->grant[number % NCCL_REQUESTS];

    return post_recv(our->rail[0].qp, range(our->memory, 0, grant, sizeof(*grant)), NULL);
}

static int verbs_connect(struct comm *comm)
{
    struct endpoints *our = (struct endpoints *)comm->endpoints;
    int access = comm->sends ? 0 : IBV_ACCESS_REMOTE_WRITE, rc = 0;

    for (int i = 0; i < comm->device->rails && !rc; i++) {
        struct queue_card peer;

        memcpy(&peer, comm->peers.address[i], sizeof(peer));
        rc = queue_pair_connect(our->rail[i].qp, (uint8_t)comm->device->nic[i]->port,
                                our->rail[i].gid_index, access, &peer);
    }
    for (unsigned i = 0; i < NCCL_REQUESTS && comm->sends && !rc; i++)
        rc = await_grant(our, i);
    return rc;
}

/* ---- requests ------------------------------------------------------------------------------ */

static int verbs_recv(struct comm *comm, struct request *request, const struct buffer *to)
{
    struct endpoints *our = (struct endpoints *)comm->endpoints;
    struct grant *grant = &our->grant[request - comm->request];
    int rails = comm->device->rails, rc = 0;

    request->left = request->count * rails;
    grant->count = (uint32_t)request->count;
    for (int i = 0; i < request->count; i++) {
        grant->buffer[i].addr = (uintptr_t)to[i].data;
        grant->buffer[i].size = to[i].size;
        grant->buffer[i].tag = to[i].tag;
        for (int r = 0; r < rails && !rc; r++) {
            grant->buffer[i].rkey[r] = reg_keys(to[i].mr, r)->rkey;
            rc = post_recv(our->rail[r].qp, (struct ibv_sge){}, NULL);
        }
    }
    return rc ? rc
              : post_send(our->rail[0].qp, range(our->memory, 0, grant, sizeof(*grant)),
                          (struct ibv_send_wr){.opcode = IBV_WR_SEND}, NULL);
}

/* The number of the buffer in the oldest grant that this tag's message goes to. */
static int find_buffer(const struct endpoints *our, const struct buffer *from)
{
    const struct grant *grant = &our->grant[our->used % NCCL_REQUESTS];

    if (our->used == our->arrived)
        return -EAGAIN;
    if (grant->count < 1 || grant->count > GROUPED)
        return -EBADMSG;
    for (int i = 0; i < (int)grant->count; i++)
        if (grant->buffer[i].tag == from->tag && !(our->taken & 1u << i))
            return grant->buffer[i].size < from->size ? -EMSGSIZE : i;
    return -EAGAIN;
}

static int verbs_send(struct comm *comm, struct request *request, const struct buffer *from)
{
    struct endpoints *our = (struct endpoints *)comm->endpoints;
    struct grant *grant = &our->grant[our->used % NCCL_REQUESTS];
    int rails = comm->device->rails, to = find_buffer(our, from), rc = 0;
    size_t share = from->size / (size_t)rails / 128 * 128 + 128, at = 0, len;
    struct ibv_send_wr wr = {.opcode = IBV_WR_RDMA_WRITE_WITH_IMM};

    if (to < 0)
        return to;
    request->left = rails;
    request->message[0].size = from->size;
    wr.imm_data = htonl(our->used % NCCL_REQUESTS * GROUPED + (unsigned)to);
    for (int i = 0; i < rails && !rc; i++, at += len) {
        len = from->size - at < share ? from->size - at : share;
        wr.wr.rdma.remote_addr = grant->buffer[to].addr + at;
        wr.wr.rdma.rkey = grant->buffer[to].rkey[i];
        rc = post_send(our->rail[i].qp, range(from->mr, i, from->data + at, len), wr, request);
    }
    our->taken |= 1u << to;
    if (our->taken != (1u << grant->count) - 1)
        return rc;
    our->taken = 0;
    return rc ? rc : await_grant(our, our->used++);
}

/* A NIC's read passes none of its writes: when each has read a byte of the buffer, the writes are
 * in memory. It reads what it sends to itself, for which no peer needs a right. */
static int verbs_flush(struct comm *comm, struct request *request, const struct buffer *of)
{
    struct endpoints *our = (struct endpoints *)comm->endpoints;
    int rc = 0;

    request->left = 2 * comm->device->rails;
    for (int i = 0; i < comm->device->rails && !rc; i++) {
        rc = post_recv(our->rail[i].flush, range(our->memory, i, &our->flushed[i], 1), request);
        rc = rc ? rc
                : post_send(our->rail[i].flush, range(of->mr, i, of->data, 1),
                            (struct ibv_send_wr){.opcode = IBV_WR_SEND}, request);
    }
    return rc;
}

/* A message has arrived in part, on one rail. */
static int count_message(struct comm *comm, unsigned number, uint32_t bytes)
{
    struct request *request = &comm->request[number / GROUPED % NCCL_REQUESTS];

    if (comm->sends || !request->comm || !request->left ||
        number % GROUPED >= (unsigned)request->count)
        return -EBADMSG;
    request->message[number % GROUPED].size += bytes;
    request->left--;
    return 0;
}

static int complete(struct comm *comm, const struct ibv_wc *done)
{
    struct request *request = (struct request *)(uintptr_t)done->wr_id;

    if (done->status != IBV_WC_SUCCESS)
        return -EIO;
    if (done->opcode == IBV_WC_RECV_RDMA_WITH_IMM)
        return count_message(comm, ntohl(done->imm_data), done->byte_len);
    if (request)
        request->left--;
    else if (done->opcode == IBV_WC_RECV)
        ((struct endpoints *)comm->endpoints)->arrived++;
    return 0;
}

static int verbs_progress(struct comm *comm)
{
    struct endpoints *our = (struct endpoints *)comm->endpoints;
    struct ibv_wc done[16];
    int events = 0, rc = 0;

    for (int i = 0; i < comm->device->rails && !rc; i++) {
        int count = ibv_poll_cq(our->rail[i].cq, 16, done);

        for (int k = 0; k < count && !rc; k++)
            rc = complete(comm, &done[k]);
        events += count;
    }
    return rc ? rc : events;
}

const struct transport verbs_transport = {
    "verbs",       RAILS,          HMREG_WRITE, HMREG_REMOTE_WRITE | HMREG_SEND,
    find,          nic_open,       nic_close,   verbs_open,
    verbs_connect, verbs_close,    verbs_send,  verbs_recv,
    verbs_flush,   verbs_progress,
};
