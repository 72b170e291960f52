/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The initiator's end of the protocol of loopback_wire.h. One connection serves all remotes of a
 * target's domain, one request at a time. An initiator waits for its target, which may be serving
 * others, as long as that process lives.
 */
#include "core/base/error.h"
#include "core/base/high_fd.h"
#include "providers/loopback/loopback_wire.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define LOOK_SECONDS  1  /* interval at which an initiator checks that its target lives */
#define CONNECT_TRIES 30 /* of LOOK_SECONDS each: the target's queue may be full */

enum direction { SEND, RECEIVE };

struct wire_client {
    struct loopback_address address;
    pthread_mutex_t lock; /* one request at a time */
    int fd;               /* -1: not connected */
    char piece[PIECE_BYTES];
};

/* ---- sockets ---------------------------------------------------------------------------- */

static bool try_again(int fd)
{
    return errno == EINTR || (errno == EAGAIN && wire_lives(fd));
}

/* Sends or receives all of the bytes: 0 or -EHOSTUNREACH. */
static int transfer(int fd, enum direction direction, void *bytes, size_t len)
{
    char *at = bytes;

    while (len) {
        ssize_t moved = direction == SEND ? send(fd, at, len, MSG_NOSIGNAL) : recv(fd, at, len, 0);

        if (moved < 0 && try_again(fd))
            continue;
        if (moved <= 0)
            return -EHOSTUNREACH;
        at += moved;
        len -= (size_t)moved;
    }
    return 0;
}

/* The target's status, or -EHOSTUNREACH. -EIO for a value that is not an error number. */
static int receive_status(int fd)
{
    int32_t wire = 0;

    if (transfer(fd, RECEIVE, &wire, sizeof(wire)))
        return -EHOSTUNREACH;
    return wire <= 0 && wire > -4096 ? wire : -EIO;
}

static void limit_time(int fd, int seconds)
{
    struct timeval limit = {.tv_sec = seconds};

    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
}

/* ---- connections ------------------------------------------------------------------------ */

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
    wire_cut(client->fd);
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
    return hmreg_fail(-EHOSTUNREACH,
                      "the peer's process (%u) or its domain is gone, is not of our user, or does "
                      "not accept the token",
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

/* Only to a process of our user: the secret is not for others. */
static int greet(const struct wire_client *client)
{
    struct hello hello = {.magic = HELLO_MAGIC};

    memcpy(hello.secret, client->address.secret, sizeof(hello.secret));
    return transfer(client->fd, SEND, &hello, sizeof(hello));
}

static int connect_anew(struct wire_client *client)
{
    struct sockaddr_un name;
    socklen_t len = wire_name(&client->address, &name);

    disconnect(client);
    client->fd = high_fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (client->fd < 0)
        return hmreg_fail_os(errno, "no descriptor to reach a loopback peer");
    limit_time(client->fd, LOOK_SECONDS);
    if (reach(client->fd, &name, len) && wire_same_user(client->fd) && !greet(client))
        return 0;
    disconnect(client);
    return fail_gone(client);
}

/* ---- requests --------------------------------------------------------------------------- */

/* Waits for the result of a copy by the target. what: "its memory" or "into its memory". */
static int await_copy(struct wire_client *client, const char *what)
{
    int rc = receive_status(client->fd);

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
    return transfer(client->fd, SEND, client->piece, len) ? fail_gone(client) : 0;
}

static int read_piece(struct wire_client *client, struct hmreg *lib, char *local, uint64_t len)
{
    int rc = await_copy(client, "its memory");

    if (rc)
        return rc;
    if (transfer(client->fd, RECEIVE, client->piece, len))
        return fail_gone(client);
    return hmreg_copy(lib, local, client->piece, len);
}

/* Sends the request: 0, -EHOSTUNREACH or the target's refusal; records no error. */
static int ask(struct wire_client *client, const struct loopback_access *access)
{
    struct header header = {
        .magic = HEADER_MAGIC,
        .write = access->write,
        .key = access->key,
        .secret = access->secret,
        .addr = access->addr,
        .len = access->len,
        .auth = *access->auth,
    };
    int rc = transfer(client->fd, SEND, &header, sizeof(header));

    return rc ? rc : receive_status(client->fd);
}

/* The target may have closed an idle connection in favour of other clients. No data has moved in
 * that case, so the request is repeated on a new connection. */
static int request(struct wire_client *client, const struct loopback_access *access)
{
    int rc = client->fd >= 0 ? ask(client, access) : -EHOSTUNREACH;

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
