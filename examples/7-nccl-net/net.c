/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Communicators: how two processes meet over TCP, and what is in flight between them. The socket
 * stays open: it reports the end of the peer's process, which the fabric may never do.
 */
#include "plugin.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#define IDLE 1024 /* polls without an event between two looks at the socket */

/* How far a card has been sent or received. */
enum { ADDRESSES = offsetof(struct card, ready), READY = ADDRESSES + 1, BYE = READY + 1 };

struct handle { /* of NCCL_HANDLE_BYTES, which NCCL passes to the connecting side each time */
    struct sockaddr_in at;
    uint64_t nonce;
    struct comm *comm; /* the connecting side's, under way */
};

struct listener {
    int index, socket;
    uint64_t nonce;
    struct comm *comm; /* under way */
};

/* ---- setting up a communicator, a step at each call of connect() or accept() -------------- */

/* Sends our card, or receives the peer's, so far; -EAGAIN: not yet. */
static int move(struct comm *comm, bool out, size_t end)
{
    char *card = (char *)(out ? &comm->ours : &comm->peers);
    size_t *at = out ? &comm->sent : &comm->got;
    ssize_t moved;

    for (; *at < end; *at += (size_t)moved) {
        moved = out ? send(comm->socket, card + *at, end - *at, MSG_NOSIGNAL | MSG_DONTWAIT)
                    : recv(comm->socket, card + *at, end - *at, MSG_DONTWAIT);
        if (moved <= 0)
            return moved < 0 ? -errno : -ECONNRESET;
    }
    return 0;
}

/* NCCL gave the number of our handle to the process that connects, and to no other. */
static bool is_stranger(const struct comm *comm)
{
    return comm->got < ADDRESSES || comm->ours.nonce != comm->peers.nonce;
}

static int meet(struct comm *comm)
{
    int rc = is_stranger(comm) || comm->ours.rails != comm->peers.rails ||
                     memcmp(comm->ours.transport, comm->peers.transport, sizeof(transport->name))
                 ? -EPROTONOSUPPORT
                 : transport->connect(comm);

    comm->met = !rc;
    return rc;
}

/* The connecting side's card comes first; the other answers only to the number of its handle. */
static int set_up(struct comm *comm)
{
    int rc = comm->sends ? move(comm, true, ADDRESSES) : 0;

    rc = rc ? rc : move(comm, false, ADDRESSES);
    rc = rc || comm->met ? rc : meet(comm);
    rc = rc ? rc : move(comm, true, READY);
    return rc ? rc : move(comm, false, READY);
}

/* *out stays NULL until the communicator is complete. A stranger's is dropped. */
static int advance(struct comm **underway, void **out)
{
    struct comm *comm = *underway;
    int rc = set_up(comm);
    bool dropped = !comm->sends && is_stranger(comm);

    if (rc == -EAGAIN)
        return 0;
    *underway = NULL;
    if (rc)
        net_close(comm);
    else
        *out = comm;
    return dropped ? 0 : rc;
}

/* Takes the socket. */
static int open_comm(int index, int socket, uint64_t nonce, bool sends, struct comm **out)
{
    struct comm *comm = (struct comm *)calloc(1, sizeof(*comm));
    int rc;

    if (!comm) {
        close(socket);
        return -ENOMEM;
    }
    comm->socket = socket;
    comm->sends = sends;
    comm->ours = (struct card){.nonce = nonce, .ready = '+', .bye = '!'};
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
    if (comm->sent == READY)
        (void)move(comm, true, BYE);
    close(comm->socket);
    free(comm);
    return NCCL_OK;
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

int net_listen(void *context, int device, void *handle, void **out)
{
    struct listener *listener = (struct listener *)calloc(1, sizeof(*listener));
    struct handle ours = {.at = {.sin_family = AF_INET, .sin_addr = our_address()}};
    struct sockaddr *at = (struct sockaddr *)(void *)&ours.at;
    socklen_t size = sizeof(ours.at);
    int rc = -ENOMEM;

    if (!listener)
        return nccl_result(rc, "listen");
    listener->index = device;
    listener->socket = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (listener->socket < 0 || bind(listener->socket, at, size) || listen(listener->socket, 1) ||
        getsockname(listener->socket, at, &size) ||
        getrandom(&ours.nonce, sizeof(ours.nonce), 0) < 0) {
        rc = -errno;
        net_close_listen(listener);
        return nccl_result(rc, "listen");
    }
    listener->nonce = ours.nonce;
    memcpy(handle, &ours, sizeof(ours));
    *out = listener;
    return NCCL_OK;
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

int net_connect(void *context, int device, void *handle, void **comm, void **offload)
{
    struct handle peer;
    int rc = 0, to;

    *comm = NULL;
    memcpy(&peer, handle, sizeof(peer));
    if (!peer.comm) {
        to = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (to >= 0) /* a failure is reported by the first send */
            (void)connect(to, (struct sockaddr *)(void *)&peer.at, sizeof(peer.at));
        rc = to < 0 ? -errno : open_comm(device, to, peer.nonce, true, &peer.comm);
    }
    rc = rc ? rc : advance(&peer.comm, comm);
    memcpy(handle, &peer, sizeof(peer));
    return nccl_result(rc, "connect");
}

int net_accept(void *opened, void **comm, void **offload)
{
    struct listener *listener = (struct listener *)opened;
    int rc = 0, from;

    *comm = NULL;
    if (!listener->comm) {
        from = accept4(listener->socket, NULL, NULL, SOCK_CLOEXEC);
        if (from < 0)
            return nccl_result(errno == EAGAIN ? 0 : -errno, "accept");
        rc = open_comm(listener->index, from, listener->nonce, false, &listener->comm);
    }
    return nccl_result(rc ? rc : advance(&listener->comm, comm), "accept");
}

/* ---- memory ------------------------------------------------------------------------------- */

int net_reg_dmabuf(void *opened, void *data, size_t size, int type, uint64_t offset, int fd,
                   void **mhandle)
{
    const struct comm *comm = (struct comm *)opened;
    uint64_t access = comm->sends ? transport->send_access : transport->recv_access;
    struct hmreg_mr *mr = NULL;
    int rc = reg_get(comm->device, data, size, access, fd, offset, &mr); /* finds out the type */

    *mhandle = mr;
    return nccl_result(rc, "registration");
}

int net_reg(void *comm, void *data, size_t size, int type, void **mhandle)
{
    return net_reg_dmabuf(comm, data, size, type, 0, -1, mhandle);
}

int net_dereg(void *comm, void *mhandle)
{
    reg_put((struct hmreg_mr *)mhandle);
    return NCCL_OK;
}

/* ---- requests ----------------------------------------------------------------------------- */

/* After many polls without an event: has the peer's process ended, and not said so before? */
static int progress(struct comm *comm)
{
    int events = comm->failed ? comm->failed : transport->progress(comm);

    comm->idle = events ? 0 : comm->idle + 1;
    if (!events && comm->idle % IDLE == 0)
        events = move(comm, false, BYE);
    if (events < 0 && events != -EAGAIN)
        comm->failed = events;
    return comm->failed;
}

/* Starts a request in the first free place of a range. -EAGAIN: none is free, or the fabric takes
 * none now; NCCL tries again where *out is NULL. */
static int start(struct comm *comm, unsigned from, unsigned to, int count,
                 const struct buffer *buffers,
                 int (*how)(struct comm *, struct request *, const struct buffer *), void **out)
{
    struct request *request = &comm->request[from];
    int rc = progress(comm);

    while (request < &comm->request[to] && request->comm)
        request++;
    if (rc || request == &comm->request[to])
        return rc ? rc : -EAGAIN;
    *request = (struct request){.comm = comm, .count = count};
    for (int i = 0; i < count; i++)
        request->message[i].request = request;
    rc = how(comm, request, buffers);
    if (!rc)
        *out = request;
    else
        request->comm = NULL;
    if (rc && rc != -EAGAIN)
        comm->failed = rc;
    return rc;
}

int net_send(void *opened, void *data, size_t size, int tag, void *mhandle, void *profile,
             void **out)
{
    const struct buffer from = {(char *)data, size, tag, (struct hmreg_mr *)mhandle};
    int rc = -EMSGSIZE;

    *out = NULL;
    if (size <= LONGEST)
        rc = start((struct comm *)opened, 0, SENDS, 1, &from, transport->send, out);
    return nccl_result(rc == -EAGAIN ? 0 : rc, "send");
}

/* Receives keep their order: each takes the next place. */
int net_recv(void *opened, int n, void **data, size_t *sizes, int *tags, void **mhandles,
             void **profiles, void **out)
{
    struct comm *comm = (struct comm *)opened;
    unsigned at = comm->received % NCCL_REQUESTS;
    struct buffer to[GROUPED];
    int rc;

    *out = NULL;
    for (int i = 0; i < n && i < GROUPED; i++)
        to[i] = (struct buffer){(char *)data[i], sizes[i], tags[i], (struct hmreg_mr *)mhandles[i]};
    rc = n < 1 || n > GROUPED ? -EINVAL : start(comm, at, at + 1, n, to, transport->recv, out);
    comm->received += !rc;
    return nccl_result(rc == -EAGAIN ? 0 : rc, "receive");
}

/* One byte of a message makes visible all that arrived before it. There are more places for flushes
 * than NCCL has receives. */
int net_flush(void *opened, int n, void **data, int *sizes, void **mhandles, void **out)
{
    struct buffer of;

    *out = NULL; /* nothing to wait for */
    while (n && !sizes[n - 1])
        n--;
    if (!n || !transport->flush)
        return NCCL_OK;
    of = (struct buffer){(char *)data[n - 1], 1, 0, (struct hmreg_mr *)mhandles[n - 1]};
    return nccl_result(
        start((struct comm *)opened, NCCL_REQUESTS, SENDS, 1, &of, transport->flush, out), "flush");
}

int net_test(void *tested, int *done, int *sizes)
{
    struct request *request = (struct request *)tested;
    int rc = request->left ? progress(request->comm) : 0;

    *done = !request->left;
    if (request->left)
        return nccl_result(rc, "transfer");
    for (int i = 0; i < request->count && sizes; i++)
        sizes[i] = (int)request->message[i].size;
    request->comm = NULL;
    return NCCL_OK;
}
