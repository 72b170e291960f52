/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The loopback provider's protocol between processes. A request is a header. The target replies
 * with a status before any data moves, so a refused access moves none. Then the data goes in
 * pieces: in a read a status precedes each piece, and one status ends a write:
 *
 *     write:  header ->   <- status   (piece ->)*            <- status
 *     read:   header ->   <- status   (<- status, piece)*
 *
 * A status is 0 or a negative error number, in 4 bytes. Both ends run on one machine with one
 * version of hmreg, so structs are sent unconverted. A client that violates the protocol,
 * disconnects or stalls during a request loses its connection and nothing else. An initiator waits
 * for its target, which may be serving others, as long as that process lives.
 */
#include "core/base/error.h"
#include "providers/loopback/loopback.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#define MAGIC            0x686d6c31u
#define PIECE_BYTES      (64u << 10)
#define MAX_CLIENTS      256
#define PATIENCE_SECONDS 10  /* timeout for an initiator in the middle of a request */
#define LOOK_SECONDS     1   /* interval at which an initiator checks that its target lives */
#define RETRY_MS         100 /* retry interval when no descriptor is left for a new client */
#define CONNECT_TRIES    30  /* of LOOK_SECONDS each: the target's queue may be full */

struct header {
    uint32_t magic;
    uint32_t write;
    uint64_t key, secret, addr, len;
    struct loopback_auth auth;
};

/* ---- sockets ---------------------------------------------------------------------------- */

/* A connected socket and how long to wait for its peer. */
struct end {
    int fd;
    bool outlast; /* wait as long as the peer's process lives; else up to the socket's timeout */
};

enum direction { SEND, RECEIVE };

/* Shuts a socket down, including its duplicates in forked children, and closes it. */
static void cut(int fd)
{
    if (fd < 0)
        return;
    shutdown(fd, SHUT_RDWR);
    close(fd);
}

static bool peer_of(int fd, struct ucred *out)
{
    socklen_t size = sizeof(*out);

    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, out, &size) == 0;
}

/* Does the peer's process live? A forked child may keep its end of the socket open, so end of file
 * alone is not enough. A process in a foreign pid namespace cannot be checked: it counts as alive,
 * and only end of file shows its death. */
static bool lives(int fd)
{
    struct ucred peer = {.pid = 0};
    struct pollfd died = {.events = POLLIN};
    bool ended;

    if (!peer_of(fd, &peer) || peer.pid <= 0)
        return true;
    died.fd = (int)syscall(SYS_pidfd_open, peer.pid, 0);
    if (died.fd < 0)
        return errno == ENOSYS && kill(peer.pid, 0) == 0; /* before Linux 5.3 */
    ended = poll(&died, 1, 0) == 1;
    close(died.fd);
    return !ended;
}

static bool try_again(struct end end)
{
    return errno == EINTR || (errno == EAGAIN && end.outlast && lives(end.fd));
}

/* Sends or receives all of the bytes: 0 or -EHOSTUNREACH. */
static int transfer(struct end end, enum direction direction, void *bytes, size_t len)
{
    char *at = bytes;

    while (len) {
        ssize_t moved =
            direction == SEND ? send(end.fd, at, len, MSG_NOSIGNAL) : recv(end.fd, at, len, 0);

        if (moved < 0 && try_again(end))
            continue;
        if (moved <= 0)
            return -EHOSTUNREACH;
        at += moved;
        len -= (size_t)moved;
    }
    return 0;
}

static int send_status(struct end end, int status)
{
    int32_t wire = status;

    return transfer(end, SEND, &wire, sizeof(wire));
}

/* The peer's status, or -EHOSTUNREACH. -EIO for a value that is not an error number. */
static int receive_status(struct end end)
{
    int32_t wire = 0;
    int rc = transfer(end, RECEIVE, &wire, sizeof(wire));

    return rc || (wire <= 0 && wire > -4096) ? rc + wire : -EIO;
}

static socklen_t make_name(const struct loopback_address *address, struct sockaddr_un *out)
{
    *out = (struct sockaddr_un){.sun_family = AF_UNIX};
    /* The leading zero byte selects the abstract namespace: no file. */
    int len = snprintf(out->sun_path + 1, sizeof(out->sun_path) - 1, "hmreg/%u/%016" PRIx64,
                       address->pid, address->nonce);

    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)len);
}

static bool same_user(int fd)
{
    struct ucred peer;

    return peer_of(fd, &peer) && peer.uid == geteuid();
}

static void limit_time(int fd, int seconds)
{
    struct timeval limit = {.tv_sec = seconds};

    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
}

/* ---- the target ------------------------------------------------------------------------- */

struct connection {
    int fd;
    uint64_t served; /* the last request's number */
};

struct wire_server {
    struct loopback *loopback;
    pthread_t thread;
    int listener; /* shut down: the thread ends */
    bool starved; /* no descriptor is left for new clients */
    unsigned clients;
    struct connection client[MAX_CLIENTS];
    uint64_t requests;
    char piece[PIECE_BYTES];
    pthread_mutex_t lock; /* protects what follows; never held while serving */
    bool stopping;
    int serving; /* the socket being served, -1: none */
};

/* Serves the data of a granted request. A write's pieces are received even after a failed copy,
 * which ends a read. */
static int serve_pieces(struct wire_server *server, struct end end, struct loopback_access access)
{
    uint64_t left = access.len;
    int status = 0;

    for (; left; left -= access.len) {
        access.len = left < PIECE_BYTES ? left : PIECE_BYTES;
        access.last = access.len == left;
        if (access.write && transfer(end, RECEIVE, server->piece, access.len))
            return -EHOSTUNREACH;
        if (!status)
            status = loopback_perform(server->loopback, &access, server->piece);
        access.addr += access.len;
        if (access.write)
            continue;
        if (send_status(end, status))
            return -EHOSTUNREACH;
        if (status)
            return 0;
        if (transfer(end, SEND, server->piece, access.len))
            return -EHOSTUNREACH;
    }
    return access.write ? send_status(end, status) : 0;
}

/* Serves one request. Non-zero: the connection must be closed. */
static int serve(struct wire_server *server, struct end end)
{
    struct loopback_access access;
    struct header header;
    int status;

    if (transfer(end, RECEIVE, &header, sizeof(header)) || header.magic != MAGIC || !header.len ||
        header.auth.size > LOOPBACK_AUTH_MAX)
        return -EHOSTUNREACH;
    access = (struct loopback_access){
        .write = header.write,
        .key = header.key,
        .secret = header.secret,
        .addr = header.addr,
        .len = header.len,
        .auth = &header.auth,
    };
    status = loopback_perform(server->loopback, &access, NULL);
    if (send_status(end, status))
        return -EHOSTUNREACH;
    return status ? 0 : serve_pieces(server, end, access);
}

/* Serves a request unless the server is stopping. wire_server_stop() shuts `serving` down, which
 * ends a request in progress. */
static int serve_unless_stopping(struct wire_server *server, struct connection *client)
{
    bool stopping;
    int rc;

    client->served = ++server->requests;
    pthread_mutex_lock(&server->lock);
    stopping = server->stopping;
    server->serving = client->fd;
    pthread_mutex_unlock(&server->lock);
    rc = stopping ? -EHOSTUNREACH : serve(server, (struct end){.fd = client->fd});
    pthread_mutex_lock(&server->lock);
    server->serving = -1;
    pthread_mutex_unlock(&server->lock);
    return rc;
}

static void drop(struct wire_server *server, unsigned index)
{
    cut(server->client[index].fd);
    server->client[index] = server->client[--server->clients];
}

/* Drops the least recently served client, which reconnects for its next request. */
static void make_room(struct wire_server *server)
{
    unsigned quiet = 0;

    for (unsigned i = 1; i < server->clients; i++)
        if (server->client[i].served < server->client[quiet].served)
            quiet = i;
    drop(server, quiet);
}

static void admit(struct wire_server *server)
{
    int fd = accept4(server->listener, NULL, NULL, SOCK_CLOEXEC);

    server->starved = fd < 0 && errno != EINTR && errno != ECONNABORTED;
    if (fd < 0)
        return;
    if (!same_user(fd)) {
        close(fd);
        return;
    }
    limit_time(fd, PATIENCE_SECONDS);
    if (server->clients == MAX_CLIENTS)
        make_room(server);
    server->client[server->clients++] = (struct connection){fd, ++server->requests};
}

/* Polls the sockets. While no descriptor is left for a new client, the listener is left out for
 * RETRY_MS, since it would otherwise wake us continuously. */
static int await(struct wire_server *server, struct pollfd *polls)
{
    polls[0] = (struct pollfd){.fd = server->starved ? -1 : server->listener, .events = POLLIN};
    for (unsigned i = 0; i < server->clients; i++)
        polls[i + 1] = (struct pollfd){.fd = server->client[i].fd, .events = POLLIN};
    return poll(polls, server->clients + 1, server->starved ? RETRY_MS : -1);
}

static void *serve_all(void *arg)
{
    struct wire_server *server = arg;
    struct pollfd polls[MAX_CLIENTS + 1];

    for (;;) {
        int ready = await(server, polls);

        server->starved = false;
        if (ready <= 0)
            continue;
        if (polls[0].revents & POLLHUP)
            return NULL;
        /* From the last to the first: drop() moves an already served client into the gap. */
        for (unsigned i = server->clients; i-- > 0;)
            if (polls[i + 1].revents && serve_unless_stopping(server, &server->client[i]))
                drop(server, i);
        if (polls[0].revents)
            admit(server);
    }
}

static int start_thread(struct wire_server *server)
{
    sigset_t all, before;
    int rc;

    /* Leave signals to the application's threads. */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    rc = pthread_create(&server->thread, NULL, serve_all, server);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return rc ? hmreg_fail_os(rc, "no thread to serve loopback peers") : 0;
}

static int listen_at(const struct loopback_address *here, int fd)
{
    struct sockaddr_un name;
    socklen_t len = make_name(here, &name);

    if (bind(fd, (struct sockaddr *)&name, len) || listen(fd, MAX_CLIENTS))
        return hmreg_fail_os(errno, "no socket to listen for loopback peers");
    return 0;
}

int wire_server_start(struct loopback *loopback, const struct loopback_address *here,
                      struct wire_server **out)
{
    struct wire_server *server = calloc(1, sizeof(*server));
    int rc;

    if (!server)
        return hmreg_fail(-ENOMEM, "no memory to serve loopback peers");
    server->loopback = loopback;
    server->serving = -1;
    pthread_mutex_init(&server->lock, NULL);
    server->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (server->listener < 0)
        rc = hmreg_fail_os(errno, "no descriptor to serve loopback peers");
    else
        rc = listen_at(here, server->listener);
    rc = rc ? rc : start_thread(server);
    if (!rc) {
        *out = server;
        return 0;
    }
    cut(server->listener);
    pthread_mutex_destroy(&server->lock);
    free(server);
    return rc;
}

/* Disconnects clients in the queue of the listener, which is shut down, so that accept does not
 * block: they would keep waiting if a forked child also holds the listener. */
static void turn_away(int listener)
{
    int fd;

    while ((fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC)) >= 0)
        cut(fd);
    close(listener);
}

void wire_server_stop(struct wire_server *server)
{
    if (!server)
        return;
    pthread_mutex_lock(&server->lock);
    server->stopping = true;
    if (server->serving >= 0)
        shutdown(server->serving, SHUT_RDWR);
    pthread_mutex_unlock(&server->lock);
    shutdown(server->listener, SHUT_RDWR);
    pthread_join(server->thread, NULL);
    while (server->clients)
        drop(server, server->clients - 1);
    turn_away(server->listener);
    pthread_mutex_destroy(&server->lock);
    free(server);
}

/* ---- the initiator ---------------------------------------------------------------------- */

struct wire_client {
    struct loopback_address address;
    pthread_mutex_t lock; /* one request at a time */
    struct end end;       /* fd -1: not connected */
    char piece[PIECE_BYTES];
};

struct wire_client *wire_client_new(const struct loopback_address *address)
{
    struct wire_client *client = calloc(1, sizeof(*client));

    if (!client)
        return NULL;
    client->address = *address;
    client->end = (struct end){.fd = -1, .outlast = true};
    pthread_mutex_init(&client->lock, NULL);
    return client;
}

static void disconnect(struct wire_client *client)
{
    cut(client->end.fd);
    client->end.fd = -1;
}

void wire_client_free(struct wire_client *client)
{
    if (!client)
        return;
    disconnect(client);
    pthread_mutex_destroy(&client->lock);
    free(client);
}

static int fail_gone(const struct wire_client *client)
{
    return hmreg_fail(-EHOSTUNREACH,
                      "the peer's process (%u) or its domain is gone, or is not "
                      "of our user",
                      client->address.pid);
}

static bool reach(int fd, const struct sockaddr_un *name, socklen_t len)
{
    for (int i = 0; i < CONNECT_TRIES; i++) {
        if (connect(fd, (const struct sockaddr *)name, len) == 0)
            return true;
        if (errno != EINTR && errno != EAGAIN)
            return false;
    }
    return false;
}

static int connect_anew(struct wire_client *client)
{
    struct sockaddr_un name;
    socklen_t len = make_name(&client->address, &name);

    disconnect(client);
    client->end.fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (client->end.fd < 0)
        return hmreg_fail_os(errno, "no descriptor to reach a loopback peer");
    limit_time(client->end.fd, LOOK_SECONDS);
    if (reach(client->end.fd, &name, len) && same_user(client->end.fd))
        return 0;
    disconnect(client);
    return fail_gone(client);
}

/* Waits for the result of a copy by the target. what: "its memory" or "into its memory". */
static int await_copy(struct wire_client *client, const char *what)
{
    int rc = receive_status(client->end);

    if (rc == -EHOSTUNREACH)
        return fail_gone(client);
    return rc ? hmreg_fail(rc, "the peer could not copy %s", what) : 0;
}

static int write_piece(struct wire_client *client, struct hmreg *lib, const char *local,
                       uint64_t len)
{
    int rc = hmreg_copy(lib, client->piece, local, len);

    if (rc)
        return rc;
    return transfer(client->end, SEND, client->piece, len) ? fail_gone(client) : 0;
}

static int read_piece(struct wire_client *client, struct hmreg *lib, char *local, uint64_t len)
{
    int rc = await_copy(client, "its memory");

    if (rc)
        return rc;
    if (transfer(client->end, RECEIVE, client->piece, len))
        return fail_gone(client);
    return hmreg_copy(lib, local, client->piece, len);
}

/* Sends the request: 0, -EHOSTUNREACH or the target's refusal; records no error. */
static int ask(struct wire_client *client, const struct loopback_access *access)
{
    struct header header = {
        .magic = MAGIC,
        .write = access->write,
        .key = access->key,
        .secret = access->secret,
        .addr = access->addr,
        .len = access->len,
        .auth = *access->auth,
    };
    int rc = transfer(client->end, SEND, &header, sizeof(header));

    return rc ? rc : receive_status(client->end);
}

/* The target may have closed an idle connection in favour of other clients. No data has moved in
 * that case, so the request is repeated on a new connection. */
static int request(struct wire_client *client, const struct loopback_access *access)
{
    int rc = client->end.fd >= 0 ? ask(client, access) : -EHOSTUNREACH;

    if (rc == -EHOSTUNREACH) {
        rc = connect_anew(client);
        if (rc)
            return rc;
        rc = ask(client, access);
    }
    if (rc == -EHOSTUNREACH) {
        disconnect(client);
        return fail_gone(client);
    }
    return rc ? hmreg_fail(rc,
                           "the peer refused a %s of %" PRIu64 " bytes at %#" PRIx64
                           " with key %#" PRIx64 ": %s",
                           access->write ? "write" : "read", access->len, access->addr, access->key,
                           hmreg_strerror(rc))
              : 0;
}

/* Any failure except the target's final status leaves the stream out of sync: disconnects, so that
 * the next request reconnects. */
static int exchange(struct wire_client *client, struct hmreg *lib,
                    const struct loopback_access *access, char *local)
{
    uint64_t piece;
    int rc = 0;

    for (uint64_t left = access->len; left && !rc; left -= piece, local += piece) {
        piece = left < PIECE_BYTES ? left : PIECE_BYTES;
        rc = access->write ? write_piece(client, lib, local, piece)
                           : read_piece(client, lib, local, piece);
    }
    if (!rc && access->write) {
        rc = await_copy(client, "into its memory");
        if (rc != -EHOSTUNREACH)
            return rc;
    }
    if (rc)
        disconnect(client);
    return rc;
}

int wire_client_access(struct wire_client *client, struct hmreg *lib,
                       const struct loopback_access *access, void *local)
{
    int rc = hmreg_copy_check(lib, local, access->len, !access->write);

    if (rc)
        return rc;
    pthread_mutex_lock(&client->lock);
    rc = request(client, access);
    if (!rc)
        rc = exchange(client, lib, access, local);
    pthread_mutex_unlock(&client->lock);
    return rc;
}
