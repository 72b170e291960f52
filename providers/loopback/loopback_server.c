/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The target's end of the protocol of loopback_wire.h: one thread for each domain, which waits for
 * no initiator. Sockets do not block; each connection keeps what it has of a message until the rest
 * comes. So an initiator that is slow, stops or sends a byte at a time delays
 * itself only, and none has the thread for more than TURN_PIECES pieces in a row.
 *
 * Limits: a proof, a header and each request have one deadline, however the bytes arrive.
 * Connections take a part of the process's descriptors, and those that have not proved the secret
 * so far, the strangers, a part of that, where they displace each other only. An initiator that
 * violates the protocol or a limit loses its connection and nothing else.
 */
#include "core/base/error.h"
#include "core/base/high_fd.h"
#include "providers/loopback/loopback_wire.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define MAX_CLIENTS   256
#define MAX_STRANGERS 32         /* of the clients, and at most half */
#define FD_PART       4          /* clients take at most this part of RLIMIT_NOFILE */
#define PATIENCE_MS   10000      /* for a proof, for a header, and for a request ... */
#define BYTES_PER_MS  (1u << 10) /* ... besides its data, at this rate */
#define TICK_MS       1000
#define TURN_PIECES   4   /* pieces of one client before the others' turn */
#define RETRY_MS      100 /* retry interval when no descriptor is left for a new client */

/* What a connection sends or receives now. */
enum phase {
    HELLO, /* a stranger, as in the next two */
    REPLY,
    PROOF,
    HEADER,  /* of a request; none of it received: idle */
    FINISH,  /* sends the status that ends a request */
    GRANT,   /* sends the status before the data */
    RECEIVE, /* a piece of a write */
    SEND,    /* a status and a piece of a read */
};

struct connection {
    int fd;
    enum phase phase;
    uint64_t served;  /* the last request's number */
    int64_t deadline; /* ms, of the server's clock; 0: none */
    char *at;         /* what is still to be sent or received in this phase */
    size_t left;
    struct hello hello;
    struct reply reply;
    uint64_t proof;
    struct header header;
    struct loopback_access access; /* of the current piece */
    uint64_t bytes;                /* of the request from that piece on */
    int32_t status;
    char *piece; /* NULL unless data moves: a status, then the piece */
};

struct wire_server {
    struct loopback *loopback;
    pthread_t thread;
    int listener;            /* shut down: the thread ends */
    bool starved;            /* no descriptor is left for new clients */
    bool has_excess_clients; /* maybe: a stranger has proved the secret */
    unsigned clients;
    struct connection *client[MAX_CLIENTS];
    uint64_t requests, earlier; /* and those before the sockets were looked at last */
    int64_t now, looked;        /* ms: the server's clock, and the system's at the last tick() */
};

/* The server's clock, which deadlines are compared with: it stands still while this process is
 * stopped. One step is at most TICK_MS. */
static void tick(struct wire_server *server)
{
    struct timespec time;
    int64_t now, passed;

    clock_gettime(CLOCK_MONOTONIC, &time);
    now = (int64_t)time.tv_sec * 1000 + time.tv_nsec / 1000000;
    passed = now - server->looked;
    server->looked = now;
    server->now += passed < TICK_MS ? passed : TICK_MS;
}

/* ---- one request ------------------------------------------------------------------------ */

static void begin(struct connection *client, enum phase phase, void *bytes, size_t len)
{
    client->phase = phase;
    client->at = bytes;
    client->left = len;
}

static void await_request(struct connection *client)
{
    free(client->piece);
    client->piece = NULL;
    client->deadline = 0;
    begin(client, HEADER, &client->header, sizeof(client->header));
}

static void send_status(struct connection *client, enum phase phase)
{
    begin(client, phase, &client->status, sizeof(client->status));
}

static void copy_piece(struct wire_server *server, struct connection *client)
{
    client->status =
        loopback_perform(server->loopback, &client->access, client->piece + sizeof(int32_t));
}

/* Begins the next piece of a granted request. A write's pieces are received even after a failed
 * copy, which ends a read. */
static void next_piece(struct wire_server *server, struct connection *client)
{
    struct loopback_access *access = &client->access;
    size_t sent;

    if (!client->bytes) {
        if (access->write)
            send_status(client, FINISH);
        else
            await_request(client);
        return;
    }
    access->len = client->bytes < PIECE_BYTES ? client->bytes : PIECE_BYTES;
    access->last = access->len == client->bytes;
    if (access->write) {
        begin(client, RECEIVE, client->piece + sizeof(int32_t), access->len);
        return;
    }
    copy_piece(server, client);
    memcpy(client->piece, &client->status, sizeof(int32_t));
    sent = sizeof(int32_t) + (client->status ? 0 : access->len);
    begin(client, SEND, client->piece, sent);
}

static void skip_piece(struct connection *client)
{
    client->access.addr += client->access.len;
    client->bytes =
        client->status && !client->access.write ? 0 : client->bytes - client->access.len;
}

/* Checks the request whose header is complete. Non-zero: the protocol is violated. */
static int take_request(struct wire_server *server, struct connection *client)
{
    const struct header *header = &client->header;
    size_t room = header->len < PIECE_BYTES ? (size_t)header->len : PIECE_BYTES;

    if (header->magic != HEADER_MAGIC || !header->len || header->zero ||
        header->auth.size > LOOPBACK_AUTH_MAX)
        return -EPROTO;
    client->served = ++server->requests;
    client->deadline = server->now + PATIENCE_MS + (int64_t)(header->len / BYTES_PER_MS);
    client->bytes = header->len;
    client->access = (struct loopback_access){
        .write = header->write,
        .key = header->key,
        .secret = header->secret,
        .addr = header->addr,
        .len = header->len,
        .auth = &header->auth,
    };
    client->status = loopback_perform(server->loopback, &client->access, NULL);
    if (!client->status)
        client->piece = malloc(sizeof(int32_t) + room);
    if (!client->status && !client->piece)
        client->status = -ENOMEM;
    send_status(client, client->status ? FINISH : GRANT);
    return 0;
}

static int take_hello(struct wire_server *server, struct connection *client)
{
    struct reply *reply = &client->reply;

    if (client->hello.magic != HELLO_MAGIC ||
        getrandom(reply->nonce, NONCE_BYTES, GRND_NONBLOCK) != NONCE_BYTES)
        return -EPROTO;
    reply->proof = wire_proof(server->loopback->here.secret, TARGET, server->listener,
                              client->hello.nonce, reply->nonce);
    begin(client, REPLY, reply, sizeof(*reply));
    return 0;
}

static int take_proof(struct wire_server *server, struct connection *client)
{
    uint64_t expected = wire_proof(server->loopback->here.secret, INITIATOR, server->listener,
                                   client->hello.nonce, client->reply.nonce);

    if (!loopback_same_bytes(&client->proof, &expected, sizeof(expected)))
        return -EPROTO;
    client->served = ++server->requests;
    server->has_excess_clients = true;
    await_request(client);
    return 0;
}

/* Goes on to the next phase. Non-zero: the connection must be closed. */
static int advance(struct wire_server *server, struct connection *client)
{
    switch (client->phase) {
    case HELLO:
        return take_hello(server, client);
    case REPLY:
        begin(client, PROOF, &client->proof, sizeof(client->proof));
        return 0;
    case PROOF:
        return take_proof(server, client);
    case HEADER:
        return take_request(server, client);
    case FINISH:
        await_request(client);
        return 0;
    case RECEIVE:
        if (!client->status)
            copy_piece(server, client);
        skip_piece(client);
        break;
    case SEND:
        skip_piece(client);
        break;
    case GRANT:
        break;
    }
    next_piece(server, client);
    return 0;
}

static bool sends(const struct connection *client)
{
    return client->phase == REPLY || client->phase == FINISH || client->phase == GRANT ||
           client->phase == SEND;
}

/* Moves as many bytes as can be moved without waiting. Non-zero: the connection must be closed. */
static int serve(struct wire_server *server, struct connection *client)
{
    for (int pieces = 0; pieces < TURN_PIECES;) {
        ssize_t moved =
            sends(client) ? send(client->fd, client->at, client->left, MSG_NOSIGNAL | MSG_DONTWAIT)
                          : recv(client->fd, client->at, client->left, MSG_DONTWAIT);

        if (moved < 0 && errno == EINTR)
            continue;
        if (moved < 0 && errno == EAGAIN)
            return 0;
        if (moved <= 0)
            return -EHOSTUNREACH;
        client->at += moved;
        client->left -= (size_t)moved;
        if (client->phase == HEADER && !client->deadline)
            client->deadline = server->now + PATIENCE_MS;
        pieces += client->phase == RECEIVE || client->phase == SEND;
        if (!client->left && advance(server, client))
            return -EPROTO;
    }
    return 0;
}

/* ---- all clients ------------------------------------------------------------------------ */

static void drop(struct wire_server *server, unsigned index)
{
    struct connection *client = server->client[index];

    server->client[index] = server->client[--server->clients];
    wire_cut(client->fd);
    free(client->piece);
    free(client);
}

static unsigned client_limit(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur / FD_PART > MAX_CLIENTS)
        return MAX_CLIENTS;
    return limit.rlim_cur < FD_PART ? 1 : (unsigned)(limit.rlim_cur / FD_PART);
}

static unsigned stranger_limit(void)
{
    unsigned half = client_limit() / 2;

    return half > MAX_STRANGERS ? MAX_STRANGERS : half ? half : 1;
}

/* Not one that has come just now, whose first request is on its way. */
static bool is_idle(const struct wire_server *server, const struct connection *client)
{
    return client->phase == HEADER && !client->deadline && client->served <= server->earlier;
}

/* Is it better to drop this client than that one? An idle one before one whose request would fail,
 * and otherwise the one that was served less recently. */
static bool drops_before(const struct wire_server *server, const struct connection *client,
                         const struct connection *that)
{
    bool idle = is_idle(server, client);

    return idle == is_idle(server, that) ? client->served < that->served : idle;
}

/* Of the strangers, or of the others, their number, and which to drop first. */
static unsigned count_clients(const struct wire_server *server, bool strangers, unsigned *first)
{
    unsigned count = 0;

    for (unsigned i = 0; i < server->clients; i++) {
        const struct connection *client = server->client[i];

        if ((client->phase <= PROOF) != strangers)
            continue;
        if (!count++ || drops_before(server, client, server->client[*first]))
            *first = i;
    }
    return count;
}

static void make_room_for_stranger(struct wire_server *server)
{
    unsigned first = 0;

    if (count_clients(server, true, &first) >= stranger_limit())
        drop(server, first);
}

/* Those that are dropped reconnect for their next request. */
static void drop_excess_clients(struct wire_server *server)
{
    unsigned limit = client_limit(), strangers = stranger_limit(), first = 0;

    limit = limit > strangers ? limit - strangers : 1;
    while (server->has_excess_clients && count_clients(server, false, &first) > limit)
        drop(server, first);
    server->has_excess_clients = false;
}

static void admit(struct wire_server *server)
{
    int fd = high_fd(accept4(server->listener, NULL, NULL, SOCK_CLOEXEC));
    struct connection *client;

    server->starved = fd < 0 && errno != EINTR && errno != ECONNABORTED;
    if (fd < 0)
        return;
    client = wire_same_user(fd) ? calloc(1, sizeof(*client)) : NULL;
    if (!client) {
        close(fd);
        return;
    }
    make_room_for_stranger(server);
    client->fd = fd;
    client->served = ++server->requests;
    client->deadline = server->now + PATIENCE_MS;
    begin(client, HELLO, &client->hello, sizeof(client->hello));
    server->client[server->clients++] = client;
}

/* Drops each client that is past its deadline. Returns how long to wait for the next, in ms; -1: no
 * client has one. */
static int expire(struct wire_server *server)
{
    int64_t next = -1;

    for (unsigned i = server->clients; i-- > 0;) {
        int64_t left = server->client[i]->deadline - server->now;

        if (!server->client[i]->deadline)
            continue;
        if (left <= 0)
            drop(server, i);
        else if (next < 0 || left < next)
            next = left;
    }
    return next > TICK_MS ? TICK_MS : (int)next;
}

/* Polls the sockets. While no descriptor is left for a new client, the listener is left out for
 * RETRY_MS, since it would otherwise wake us continuously. */
static int await(struct wire_server *server, struct pollfd *polls)
{
    int wait = expire(server);

    if (server->starved && (wait < 0 || wait > RETRY_MS))
        wait = RETRY_MS;
    polls[0] = (struct pollfd){.fd = server->starved ? -1 : server->listener, .events = POLLIN};
    for (unsigned i = 0; i < server->clients; i++)
        polls[i + 1] = (struct pollfd){.fd = server->client[i]->fd,
                                       .events = sends(server->client[i]) ? POLLOUT : POLLIN};
    return poll(polls, server->clients + 1, wait);
}

static void *serve_all(void *arg)
{
    struct wire_server *server = arg;
    struct pollfd polls[MAX_CLIENTS + 1];

    for (;;) {
        int ready = await(server, polls);

        tick(server);
        server->starved = false;
        server->earlier = server->requests;
        if (ready <= 0)
            continue;
        if (polls[0].revents & POLLHUP)
            return NULL;
        /* From the last to the first: drop() moves an already served client into the gap. */
        for (unsigned i = server->clients; i-- > 0;)
            if (polls[i + 1].revents && serve(server, server->client[i]))
                drop(server, i);
        drop_excess_clients(server);
        if (polls[0].revents)
            admit(server);
    }
}

/* ---- start and stop --------------------------------------------------------------------- */

static int start_thread(struct wire_server *server)
{
    sigset_t all, before;
    int rc;

    /* Leave signals to the application's threads. */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    rc = pthread_create(&server->thread, NULL, serve_all, server);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return rc ? hmreg_fail_os(rc, "hmreg could not start a thread to serve loopback peers") : 0;
}

static int listen_at(const struct loopback_address *here, int fd)
{
    struct sockaddr_un name;
    socklen_t len = wire_name(here, &name);

    if (bind(fd, (struct sockaddr *)&name, len))
        return hmreg_fail_os(errno, "bind(2) of the socket for loopback peers failed");
    if (listen(fd, MAX_CLIENTS))
        return hmreg_fail_os(errno, "listen(2) for loopback peers failed");
    return 0;
}

int wire_server_start(struct loopback *loopback, const struct loopback_address *here,
                      struct wire_server **out)
{
    struct wire_server *server = calloc(1, sizeof(*server));
    int rc;

    if (!server)
        return hmreg_fail(-ENOMEM, "hmreg has no memory to serve loopback peers");
    server->loopback = loopback;
    server->listener = high_fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (server->listener < 0)
        rc = hmreg_fail_os(errno, "the socket for loopback peers could not be opened");
    else
        rc = listen_at(here, server->listener);
    rc = rc ? rc : start_thread(server);
    if (!rc) {
        *out = server;
        return 0;
    }
    wire_cut(server->listener);
    free(server);
    return rc;
}

/* Disconnects clients in the queue of the listener, which is shut down, so that accept does not
 * block: they would keep waiting if a forked child also holds the listener. */
static void turn_away(int listener)
{
    int fd;

    while ((fd = high_fd(accept4(listener, NULL, NULL, SOCK_CLOEXEC))) >= 0)
        wire_cut(fd);
    close(listener);
}

void wire_server_stop(struct wire_server *server)
{
    if (!server)
        return;
    shutdown(server->listener, SHUT_RDWR);
    pthread_join(server->thread, NULL);
    while (server->clients)
        drop(server, server->clients - 1);
    turn_away(server->listener);
    free(server);
}
