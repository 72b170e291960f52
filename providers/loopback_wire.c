/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The loopback provider between processes. A request is a header; the target answers with a
 * status before a byte moves, so a refused access moves none; then the bytes go in pieces, each
 * with a status of its own, and a write ends with a last one:
 *
 *     write:  header ->   <- status   (piece ->)*            <- status
 *     read:   header ->   <- status   (<- status, piece)*
 *
 * Statuses are negative error numbers in 4 bytes. Both ends are of one machine and one version:
 * structs travel as they are. A client that breaks the protocol, or goes away, loses its
 * connection and nothing else.
 */
#include "core/error.h"
#include "providers/loopback.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define MAGIC 0x686d6c31u
#define PIECE_BYTES (64u << 10)
#define MAX_CLIENTS 256
#define PATIENCE_SECONDS 10 /* for a peer in the middle of a request */

struct header {
    uint32_t magic;
    uint32_t write;
    uint64_t serial;
    uint64_t key, secret, addr, len;
    struct loopback_auth auth;
};

/* ---- sockets ---------------------------------------------------------------------------- */

static int send_all(int fd, const void *bytes, size_t len)
{
    const char *at = bytes;

    while (len) {
        ssize_t sent = send(fd, at, len, MSG_NOSIGNAL);

        if (sent < 0 && errno == EINTR)
            continue;
        if (sent <= 0)
            return -EHOSTUNREACH;
        at += sent;
        len -= (size_t)sent;
    }
    return 0;
}

static int receive_all(int fd, void *bytes, size_t len)
{
    char *at = bytes;

    while (len) {
        ssize_t received = recv(fd, at, len, 0);

        if (received < 0 && errno == EINTR)
            continue;
        if (received <= 0)
            return -EHOSTUNREACH;
        at += received;
        len -= (size_t)received;
    }
    return 0;
}

static int send_status(int fd, int status)
{
    int32_t wire = status;

    return send_all(fd, &wire, sizeof(wire));
}

/* The peer's status, or -EHOSTUNREACH. */
static int receive_status(int fd)
{
    int32_t wire = 0;
    int rc = receive_all(fd, &wire, sizeof(wire));

    return rc ? rc : wire;
}

static socklen_t make_name(uint32_t pid, uint64_t nonce, struct sockaddr_un *out)
{
    *out = (struct sockaddr_un){.sun_family = AF_UNIX};
    /* A leading zero byte: the abstract namespace, nothing in a file system. */
    int len = snprintf(out->sun_path + 1, sizeof(out->sun_path) - 1, "hmreg/%u/%016" PRIx64, pid,
                       nonce);

    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)len);
}

static bool same_user(int fd)
{
    struct ucred peer;
    socklen_t size = sizeof(peer);

    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.uid == geteuid();
}

static void set_patience(int fd)
{
    struct timeval patience = {.tv_sec = PATIENCE_SECONDS};

    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
}

/* ---- the target ------------------------------------------------------------------------- */

struct wire_server {
    struct loopback *loopback;
    pthread_t thread;
    int stop; /* an eventfd */
    int listener;
    unsigned clients;
    int client[MAX_CLIENTS];
    char piece[PIECE_BYTES];
};

static int serve_write(struct wire_server *server, int fd, struct loopback_access access)
{
    uint64_t left = access.len;
    int status = 0;

    while (left) {
        access.len = left < PIECE_BYTES ? left : PIECE_BYTES;
        access.last = access.len == left;
        if (receive_all(fd, server->piece, access.len))
            return -EHOSTUNREACH;
        if (!status)
            status = loopback_perform(server->loopback, &access, server->piece);
        access.addr += access.len;
        left -= access.len;
    }
    return send_status(fd, status);
}

static int serve_read(struct wire_server *server, int fd, struct loopback_access access)
{
    uint64_t left = access.len;
    int rc = 0;

    while (left && !rc) {
        int status;

        access.len = left < PIECE_BYTES ? left : PIECE_BYTES;
        status = loopback_perform(server->loopback, &access, server->piece);
        rc = send_status(fd, status);
        if (status)
            return rc;
        if (!rc)
            rc = send_all(fd, server->piece, access.len);
        access.addr += access.len;
        left -= access.len;
    }
    return rc;
}

/* One request. Not 0: the connection is of no more use. */
static int serve(struct wire_server *server, int fd)
{
    struct loopback_access access;
    struct header header;
    int status;

    if (receive_all(fd, &header, sizeof(header)) || header.magic != MAGIC || !header.len ||
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
    status = loopback_check(server->loopback, &access);
    if (send_status(fd, status))
        return -EHOSTUNREACH;
    if (status)
        return 0;
    return access.write ? serve_write(server, fd, access) : serve_read(server, fd, access);
}

static void admit(struct wire_server *server)
{
    int fd = accept4(server->listener, NULL, NULL, SOCK_CLOEXEC);

    if (fd < 0)
        return;
    if (server->clients == MAX_CLIENTS || !same_user(fd)) {
        close(fd);
        return;
    }
    set_patience(fd);
    server->client[server->clients++] = fd;
}

static void *serve_all(void *arg)
{
    struct wire_server *server = arg;
    struct pollfd polls[MAX_CLIENTS + 2];

    for (;;) {
        unsigned clients = server->clients;

        polls[0] = (struct pollfd){.fd = server->stop, .events = POLLIN};
        polls[1] = (struct pollfd){.fd = server->listener, .events = POLLIN};
        for (unsigned i = 0; i < clients; i++)
            polls[i + 2] = (struct pollfd){.fd = server->client[i], .events = POLLIN};
        if (poll(polls, clients + 2, -1) < 0)
            continue;
        if (polls[0].revents)
            return NULL;
        /* From the last: a removed one is replaced by one that was served already. */
        for (unsigned i = clients; i-- > 0;) {
            if (!polls[i + 2].revents || serve(server, server->client[i]) == 0)
                continue;
            close(server->client[i]);
            server->client[i] = server->client[--server->clients];
        }
        if (polls[1].revents)
            admit(server);
    }
}

static int start_thread(struct wire_server *server)
{
    sigset_t all, before;
    int rc;

    /* Signals are the application's threads' business. */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    rc = pthread_create(&server->thread, NULL, serve_all, server);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return rc ? hmreg_fail_os(rc, "no thread to serve loopback peers") : 0;
}

static int listen_on(int fd, uint64_t *nonce)
{
    struct sockaddr_un name;

    /* 0 stands for "not listening". */
    if (getrandom(nonce, sizeof(*nonce), 0) != sizeof(*nonce) || !*nonce)
        *nonce = (uint64_t)(uintptr_t)nonce;
    if (bind(fd, (struct sockaddr *)&name, make_name((uint32_t)getpid(), *nonce, &name)) ||
        listen(fd, MAX_CLIENTS))
        return hmreg_fail_os(errno, "no socket to listen for loopback peers");
    return 0;
}

int wire_server_start(struct loopback *loopback, struct wire_server **out, uint64_t *nonce)
{
    struct wire_server *server = calloc(1, sizeof(*server));
    int rc;

    if (!server)
        return hmreg_fail(-ENOMEM, "no memory to serve loopback peers");
    server->loopback = loopback;
    server->stop = eventfd(0, EFD_CLOEXEC);
    server->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (server->stop < 0 || server->listener < 0)
        rc = hmreg_fail_os(errno, "no descriptor to serve loopback peers");
    else
        rc = listen_on(server->listener, nonce);
    rc = rc ? rc : start_thread(server);
    if (rc)
        goto close_all;
    *out = server;
    return 0;

close_all:
    if (server->listener >= 0)
        close(server->listener);
    if (server->stop >= 0)
        close(server->stop);
    free(server);
    return rc;
}

void wire_server_stop(struct wire_server *server)
{
    if (!server)
        return;
    eventfd_write(server->stop, 1);
    pthread_join(server->thread, NULL);
    for (unsigned i = 0; i < server->clients; i++)
        close(server->client[i]);
    close(server->listener);
    close(server->stop);
    free(server);
}

/* ---- the initiator ---------------------------------------------------------------------- */

struct wire_client {
    struct loopback_address address;
    pthread_mutex_t lock; /* one request at a time */
    int fd;               /* -1: not connected */
    char piece[PIECE_BYTES];
};

struct wire_client *wire_client_new(const struct loopback_address *address)
{
    struct wire_client *client = calloc(1, sizeof(*client));

    if (!client)
        return NULL;
    client->address = *address;
    client->fd = -1;
    pthread_mutex_init(&client->lock, NULL);
    return client;
}

static void disconnect(struct wire_client *client)
{
    if (client->fd >= 0)
        close(client->fd);
    client->fd = -1;
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
    return hmreg_fail(-EHOSTUNREACH, "the peer's process (%u) or its domain is gone, or is not "
                                     "of our user",
                      client->address.pid);
}

static int connect_once(struct wire_client *client)
{
    struct sockaddr_un name;
    socklen_t len = make_name(client->address.pid, client->address.nonce, &name);

    if (client->fd >= 0)
        return 0;
    client->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (client->fd < 0)
        return hmreg_fail_os(errno, "no descriptor to reach a loopback peer");
    if (connect(client->fd, (struct sockaddr *)&name, len) || !same_user(client->fd)) {
        disconnect(client);
        return fail_gone(client);
    }
    set_patience(client->fd);
    return 0;
}

static int write_pieces(struct wire_client *client, struct hmreg *lib, char *local, uint64_t len)
{
    while (len) {
        uint64_t piece = len < PIECE_BYTES ? len : PIECE_BYTES;
        int rc = hmreg_copy(lib, client->piece, local, piece);

        if (rc)
            return rc;
        if (send_all(client->fd, client->piece, piece))
            return fail_gone(client);
        local += piece;
        len -= piece;
    }
    return 0;
}

static int read_pieces(struct wire_client *client, struct hmreg *lib, char *local, uint64_t len)
{
    while (len) {
        uint64_t piece = len < PIECE_BYTES ? len : PIECE_BYTES;
        int rc = receive_status(client->fd);

        if (rc)
            return rc == -EHOSTUNREACH ? fail_gone(client)
                                       : hmreg_fail(rc, "the peer could not copy its memory");
        if (receive_all(client->fd, client->piece, piece))
            return fail_gone(client);
        rc = hmreg_copy(lib, local, client->piece, piece);
        if (rc)
            return rc;
        local += piece;
        len -= piece;
    }
    return 0;
}

static int request(struct wire_client *client, const struct loopback_access *access)
{
    struct header header = {
        .magic = MAGIC,
        .write = access->write,
        .serial = client->address.serial,
        .key = access->key,
        .secret = access->secret,
        .addr = access->addr,
        .len = access->len,
        .auth = *access->auth,
    };
    int rc = send_all(client->fd, &header, sizeof(header));

    rc = rc ? rc : receive_status(client->fd);
    if (rc == -EHOSTUNREACH)
        return fail_gone(client);
    if (rc)
        return hmreg_fail(rc, "the peer refused a %s of %" PRIu64 " bytes at %#" PRIx64
                              " with key %#" PRIx64 ": %s",
                          access->write ? "write" : "read", access->len, access->addr,
                          access->key, hmreg_strerror(rc));
    return 0;
}

/* Any failure but a refused request leaves the stream in the middle: connect anew next time. */
static int exchange(struct wire_client *client, struct hmreg *lib,
                    const struct loopback_access *access, void *local)
{
    int rc = access->write ? write_pieces(client, lib, local, access->len)
                           : read_pieces(client, lib, local, access->len);

    if (!rc && access->write) {
        rc = receive_status(client->fd);
        if (rc == -EHOSTUNREACH)
            rc = fail_gone(client);
        else if (rc)
            return hmreg_fail(rc, "the peer could not copy into its memory");
    }
    if (rc)
        disconnect(client);
    return rc;
}

int wire_client_access(struct wire_client *client, struct hmreg *lib,
                       const struct loopback_access *access, void *local)
{
    int rc;

    pthread_mutex_lock(&client->lock);
    rc = connect_once(client);
    if (!rc) {
        rc = request(client, access);
        if (rc == -EHOSTUNREACH)
            disconnect(client);
        else if (!rc)
            rc = exchange(client, lib, access, local);
    }
    pthread_mutex_unlock(&client->lock);
    return rc;
}
