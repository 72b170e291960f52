/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Communicators: how two processes meet over TCP, and what is in flight between them. The socket
 * stays open: it reports the end of the peer's process, which the fabric may never do.
 */
#include "plugin.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#define IDLE 1024 /* polls without an event between two looks at the socket */

struct handle { /* of NCCL_HANDLE_BYTES, which NCCL passes to the connecting side each time */
    struct sockaddr_in at;
    uint64_t nonce;
    struct comm *comm; /* the connecting side's, under way */
};

struct listener {
    int index, traffic_class, socket;
    uint64_t nonce;
    struct comm *comm; /* under way */
};

/* ---- the handshake ------------------------------------------------------------------------ */

/* Moves the rest of a step's bytes; -EAGAIN: some are left; -EBADMSG: the first did not come. */
static int move(struct comm *comm, bool out, void *bytes, size_t size)
{
    char *at = (char *)bytes + comm->moved;
    size_t left = size - comm->moved;
    ssize_t moved = out ? send(comm->socket, at, left, MSG_NOSIGNAL | MSG_DONTWAIT)
                        : recv(comm->socket, at, left, MSG_DONTWAIT);

    if (moved <= 0)
        return moved < 0 ? -errno : comm->step ? -ECONNRESET : -EBADMSG;
    comm->moved += (size_t)moved;
    if (comm->moved < size)
        return -EAGAIN;
    comm->moved = 0;
    return 0;
}

/* -EBADMSG: not from the process to which NCCL gave our handle. */
static int meet_peer(struct comm *comm)
{
    const struct card *ours = &comm->ours, *peers = &comm->peers;

    if (ours->nonce != peers->nonce)
        return -EBADMSG;
    if (ours->rails != peers->rails ||
        memcmp(ours->transport, peers->transport, sizeof(ours->transport)))
        return -EPROTONOSUPPORT;
    return transport->connect(comm);
}

/* The connecting side's card comes first: the other answers only to the number of its handle. Its
 * last byte says that it can be sent to, as the other side's card does. */
static int shake_hands(struct comm *comm)
{
    enum { SHOW, SEE, MEET, SAY_READY, HEAR_READY, STEPS = 4 };
    static const unsigned char steps[2][STEPS] = {{SEE, MEET, SHOW, HEAR_READY},
                                                  {SHOW, SEE, MEET, SAY_READY}};
    char ready = '+';
    int rc = 0;

    for (; comm->step < STEPS && !rc; comm->step += !rc) {
        int step = steps[comm->sends][comm->step];

        if (step == MEET)
            rc = meet_peer(comm);
        else if (step == SHOW || step == SEE)
            rc = move(comm, step == SHOW, step == SHOW ? &comm->ours : &comm->peers,
                      sizeof(comm->ours));
        else
            rc = move(comm, step == SAY_READY, &ready, 1);
    }
    return rc ? rc : ready == '+' ? 0 : -ECONNRESET;
}

/* ---- opening and closing ------------------------------------------------------------------ */

/* Takes the socket. */
static int open_comm(int index, int traffic_class, int socket, uint64_t nonce, bool sends,
                     struct comm **out)
{
    struct comm *comm = (struct comm *)calloc(1, sizeof(*comm));
    int rc;

    if (!comm) {
        close(socket);
        return -ENOMEM;
    }
    comm->socket = socket;
    comm->sends = sends;
    comm->traffic_class = traffic_class;
    comm->ours.nonce = nonce;
    memcpy(comm->ours.transport, transport->name, sizeof(transport->name));
    rc = device_open(index, &comm->device);
    comm->ours.rails = rc ? 0 : (uint32_t)comm->device->rails;
    rc = rc ? rc : transport->open(comm);
    if (rc)
        net_close(comm);
    else
        *out = comm;
    return rc;
}

int net_close(void *opened)
{
    struct comm *comm = (struct comm *)opened;

    if (comm->endpoints)
        transport->close(comm);
    if (comm->ours.rails)
        device_close(comm->device);
    (void)send(comm->socket, "!", 1, MSG_NOSIGNAL | MSG_DONTWAIT);
    close(comm->socket);
    free(comm);
    return NCCL_OK;
}

/* One more step of a communicator under way: *out stays NULL until it is complete. */
static int advance(struct comm **underway, void **out)
{
    int rc;

    assert(*underway);
    rc = shake_hands(*underway);
    if (rc == -EAGAIN)
        return 0;
    if (rc)
        net_close(*underway);
    else
        *out = *underway;
    *underway = NULL;
    return rc;
}

/* HMREG_NCCL_ADDRESS, else the first interface that is up and reaches other machines. */
static struct in_addr our_address(void)
{
    const char *wanted = getenv("HMREG_NCCL_ADDRESS");
    struct in_addr found = {htonl(INADDR_LOOPBACK)};
    struct ifaddrs *list = NULL;

    if (wanted && inet_aton(wanted, &found))
        return found;
    (void)getifaddrs(&list);
    for (struct ifaddrs *at = list; at; at = at->ifa_next)
        if (at->ifa_addr && at->ifa_addr->sa_family == AF_INET &&
            (at->ifa_flags & (IFF_UP | IFF_LOOPBACK)) == IFF_UP) {
            found = ((struct sockaddr_in *)(void *)at->ifa_addr)->sin_addr;
            break;
        }
    freeifaddrs(list);
    return found;
}

static int start_listening(struct listener *listener, struct handle *handle)
{
    struct sockaddr *at = (struct sockaddr *)(void *)&handle->at;
    socklen_t size = sizeof(handle->at);

    handle->at.sin_family = AF_INET;
    handle->at.sin_addr = our_address();
    listener->socket = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (listener->socket < 0 || bind(listener->socket, at, size) || listen(listener->socket, 1) ||
        getsockname(listener->socket, at, &size) ||
        getrandom(&listener->nonce, sizeof(listener->nonce), 0) < 0)
        return -errno;
    handle->nonce = listener->nonce;
    return 0;
}

int net_listen(void *context, int device, void *handle, void **out)
{
    struct listener *listener = (struct listener *)calloc(1, sizeof(*listener));
    struct handle ours = {};
    int rc = listener ? 0 : -ENOMEM;

    if (!listener)
        return nccl_result(rc, "listen");
    listener->socket = -1;
    listener->index = device;
    listener->traffic_class = (int)(intptr_t)context;
    rc = start_listening(listener, &ours);
    if (rc)
        net_close_listen(listener);
    else
        *out = listener;
    memcpy(handle, &ours, sizeof(ours));
    return nccl_result(rc, "listen");
}

int net_close_listen(void *opened)
{
    struct listener *listener = (struct listener *)opened;

    if (listener->comm)
        net_close(listener->comm);
    if (listener->socket >= 0)
        close(listener->socket);
    free(listener);
    return NCCL_OK;
}

static int start_connecting(int device, int traffic_class, struct handle *peer)
{
    const struct sockaddr *at = (const struct sockaddr *)(const void *)&peer->at;
    int to = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), rc;

    if (to < 0)
        return -errno;
    if (!connect(to, at, sizeof(peer->at)) || errno == EINPROGRESS)
        return open_comm(device, traffic_class, to, peer->nonce, true, &peer->comm);
    rc = -errno;
    close(to);
    return rc;
}

int net_connect(void *context, int device, void *handle, void **comm, void **offload)
{
    struct handle peer;
    int rc;

    (void)offload;
    *comm = NULL;
    memcpy(&peer, handle, sizeof(peer));
    rc = peer.comm ? 0 : start_connecting(device, (int)(intptr_t)context, &peer);
    rc = rc ? rc : advance(&peer.comm, comm);
    memcpy(handle, &peer, sizeof(peer));
    return nccl_result(rc, "connect");
}

int net_accept(void *opened, void **comm, void **offload)
{
    struct listener *listener = (struct listener *)opened;
    int rc = 0, from;

    (void)offload;
    *comm = NULL;
    if (!listener->comm) {
        from = accept4(listener->socket, NULL, NULL, SOCK_CLOEXEC);
        if (from < 0)
            return errno == EAGAIN ? NCCL_OK : nccl_result(-errno, "accept");
        rc = open_comm(listener->index, listener->traffic_class, from, listener->nonce, false,
                       &listener->comm);
    }
    rc = rc ? rc : advance(&listener->comm, comm);
    return rc == -EBADMSG ? NCCL_OK : nccl_result(rc, "accept"); /* the peer has yet to connect */
}

/* ---- memory ------------------------------------------------------------------------------- */

int net_reg_dmabuf(void *opened, void *data, size_t size, int type, uint64_t offset, int fd,
                   void **mhandle)
{
    const struct comm *comm = (struct comm *)opened;
    uint64_t access = comm->sends ? transport->send_access : transport->recv_access;
    struct hmreg_mr *mr = NULL;
    int rc = reg_get(comm->device, data, size, access, fd, offset, &mr);

    (void)type; /* hmreg finds out */
    *mhandle = mr;
    return nccl_result(rc, "registration");
}

int net_reg(void *comm, void *data, size_t size, int type, void **mhandle)
{
    return net_reg_dmabuf(comm, data, size, type, 0, -1, mhandle);
}

int net_dereg(void *comm, void *mhandle)
{
    (void)comm;
    reg_put((struct hmreg_mr *)mhandle);
    return NCCL_OK;
}

/* ---- requests ----------------------------------------------------------------------------- */

/* Has the peer's process ended, without closing its side first? */
static int look_at_socket(struct comm *comm)
{
    char byte;
    ssize_t got = recv(comm->socket, &byte, 1, MSG_DONTWAIT);

    comm->bye |= got == 1;
    return comm->bye || (got < 0 && errno == EAGAIN) ? 0 : -ECONNRESET;
}

static int progress(struct comm *comm)
{
    int events = comm->failed ? comm->failed : transport->progress(comm);

    comm->idle = events ? 0 : comm->idle + 1;
    if (!events && comm->idle % IDLE == 0)
        events = look_at_socket(comm);
    if (events < 0)
        comm->failed = events;
    return comm->failed;
}

/* The first free one of a range; NULL: all are in use. */
static struct request *take(struct comm *comm, unsigned from, unsigned to)
{
    for (; from < to; from++)
        if (!comm->request[from].comm) {
            comm->request[from] = (struct request){.comm = comm};
            return &comm->request[from];
        }
    return NULL;
}

static void add_part(struct request *request, void *data, size_t size, int tag, void *mhandle)
{
    const struct part part = {(char *)data, size, tag, (struct hmreg_mr *)mhandle, request, 0};

    request->part[request->count++] = part;
}

/* Starts it; *out stays NULL where the fabric cannot take it now, and NCCL tries again. */
static int start(struct request *request, int (*how)(struct comm *, struct request *), void **out)
{
    struct comm *comm = request->comm;
    int rc = how(comm, request);

    if (!rc)
        *out = request;
    else
        request->comm = NULL;
    if (rc && rc != -EAGAIN)
        comm->failed = rc;
    return rc == -EAGAIN ? 0 : rc;
}

int net_send(void *opened, void *data, size_t size, int tag, void *mhandle, void *profile,
             void **out)
{
    struct comm *comm = (struct comm *)opened;
    int rc = size > LONGEST ? -EMSGSIZE : progress(comm);
    struct request *request = rc ? NULL : take(comm, 0, SENDS);

    (void)profile;
    *out = NULL;
    if (!request)
        return nccl_result(rc, "send");
    add_part(request, data, size, tag, mhandle);
    return nccl_result(start(request, transport->send, out), "send");
}

/* Receives keep their order: each takes the next place. */
int net_recv(void *opened, int n, void **data, size_t *sizes, int *tags, void **mhandles,
             void **profiles, void **out)
{
    struct comm *comm = (struct comm *)opened;
    unsigned at = comm->received % NCCL_REQUESTS;
    int rc = n < 1 || n > GROUPED ? -EINVAL : progress(comm);
    struct request *request = rc ? NULL : take(comm, at, at + 1);

    (void)profiles;
    *out = NULL;
    if (!request)
        return nccl_result(rc, "receive");
    for (int i = 0; i < n; i++)
        add_part(request, data[i], sizes[i], tags[i], mhandles[i]);
    rc = start(request, transport->recv, out);
    comm->received += *out != NULL;
    return nccl_result(rc, "receive");
}

/* One byte of a message makes visible all that arrived before it. */
int net_flush(void *opened, int n, void **data, int *sizes, void **mhandles, void **out)
{
    struct comm *comm = (struct comm *)opened;
    struct request *request;

    *out = NULL; /* nothing to wait for */
    while (n && !sizes[n - 1])
        n--;
    if (!n || !transport->flush)
        return NCCL_OK;
    request = take(comm, NCCL_REQUESTS, SENDS);
    if (!request)
        return nccl_result(-ENOSPC, "flush"); /* more than NCCL has receives */
    add_part(request, data[n - 1], (size_t)sizes[n - 1], 0, mhandles[n - 1]);
    return nccl_result(start(request, transport->flush, out), "flush");
}

int net_test(void *tested, int *done, int *sizes)
{
    struct request *request = (struct request *)tested;
    int rc = request->left ? progress(request->comm) : 0;

    *done = !request->left;
    if (request->left)
        return nccl_result(rc, "transfer");
    for (int i = 0; i < request->count && sizes; i++)
        sizes[i] = (int)request->part[i].done;
    request->comm = NULL;
    return NCCL_OK;
}
