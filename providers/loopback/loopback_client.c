/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The initiator's end of the protocol of loopback_wire.h. One connection serves all remotes of a
 * target's domain, one request at a time. An initiator waits for its target, which may be serving
 * others, as long as that process lives; but for its proof only until a deadline, since what has
 * the domain's name may be another process that never answers.
 */
#include "core/base/error.h"
#include "core/base/high_fd.h"
#include "providers/loopback/loopback_wire.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define LOOK_SECONDS  1  /* interval at which an initiator checks that its target lives */
#define CONNECT_TRIES 30 /* of LOOK_SECONDS each: the target's queue may be full */
#define PROOF_SECONDS 30 /* to connect and for the target's proof */
#define PROOF_TRIES   8  /* a target with too many strangers drops some */

enum direction { SEND, RECEIVE };

struct wire_client {
    struct loopback_address address;
    pthread_mutex_t lock; /* one request at a time */
    int fd;               /* -1: not connected */
    time_t until;         /* the deadline of its proof; 0: it has proved the secret */
    char piece[PIECE_BYTES];
};

/* ---- sockets ---------------------------------------------------------------------------- */

static time_t now(void)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec;
}

static bool is_late(const struct wire_client *client)
{
    return client->until && now() >= client->until;
}

static bool try_again(const struct wire_client *client)
{
    return (errno == EINTR || (errno == EAGAIN && wire_lives(client->fd))) && !is_late(client);
}

/* Sends or receives all of the bytes: 0 or -EHOSTUNREACH. */
static int transfer(struct wire_client *client, enum direction direction, void *bytes, size_t len)
{
    char *at = bytes;
    int fd = client->fd;

    while (len) {
        ssize_t moved = direction == SEND ? send(fd, at, len, MSG_NOSIGNAL) : recv(fd, at, len, 0);

        if (moved < 0 && try_again(client))
            continue;
        if (moved <= 0)
            return -EHOSTUNREACH;
        at += moved;
        len -= (size_t)moved;
    }
    return 0;
}

/* The target's status, or -EHOSTUNREACH. -EIO for a value that is not an error number. */
static int receive_status(struct wire_client *client)
{
    int32_t wire = 0;

    if (transfer(client, RECEIVE, &wire, sizeof(wire)))
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
                      "the peer's process (%u) or its domain is gone, or is not of our user",
                      client->address.pid);
}

static int fail_unproven(const struct wire_client *client)
{
    return hmreg_fail(-EHOSTUNREACH,
                      "the peer (process %u) does not prove that it knows the token's secret: the "
                      "token's domain is gone, or the peer has another version of hmreg",
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

/* Each end proves to the other that it knows the secret. -EAGAIN: the target has ended the
 * connection. */
static int greet(struct wire_client *client)
{
    const uint8_t *secret = client->address.secret;
    struct hello hello = {.magic = HELLO_MAGIC};
    struct reply reply;
    uint64_t proof;

    if (getrandom(hello.nonce, NONCE_BYTES, 0) != NONCE_BYTES)
        return hmreg_fail_os(errno, "getrandom(2) has no random bytes for a connection");
    if (transfer(client, SEND, &hello, sizeof(hello)) ||
        transfer(client, RECEIVE, &reply, sizeof(reply)))
        return is_late(client) || !wire_lives(client->fd) ? fail_unproven(client) : -EAGAIN;
    proof = wire_proof(secret, TARGET, client->fd, hello.nonce, reply.nonce);
    if (!loopback_same_bytes(&proof, &reply.proof, sizeof(proof)))
        return fail_unproven(client);
    proof = wire_proof(secret, INITIATOR, client->fd, hello.nonce, reply.nonce);
    return transfer(client, SEND, &proof, sizeof(proof)) ? fail_gone(client) : 0;
}

static int connect_once(struct wire_client *client)
{
    struct sockaddr_un name;
    socklen_t len = wire_name(&client->address, &name);

    disconnect(client);
    client->fd = high_fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (client->fd < 0)
        return hmreg_fail_os(errno, "the socket to reach a loopback peer could not be opened");
    limit_time(client->fd, LOOK_SECONDS);
    if (!reach(client->fd, &name, len) || !wire_same_user(client->fd))
        return fail_gone(client);
    return greet(client);
}

static int connect_anew(struct wire_client *client)
{
    int rc = -EAGAIN;

    client->until = now() + PROOF_SECONDS;
    for (int i = 0; i < PROOF_TRIES && rc == -EAGAIN; i++)
        rc = connect_once(client);
    client->until = 0;
    if (!rc)
        return 0;
    disconnect(client);
    return rc == -EAGAIN ? fail_unproven(client) : rc;
}

/* ---- requests --------------------------------------------------------------------------- */

/* Waits for the result of a copy by the target. what: "its memory" or "into its memory". */
static int await_copy(struct wire_client *client, const char *what)
{
    int rc = receive_status(client);

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
    return transfer(client, SEND, client->piece, len) ? fail_gone(client) : 0;
}

static int read_piece(struct wire_client *client, struct hmreg *lib, char *local, uint64_t len)
{
    int rc = await_copy(client, "its memory");

    if (rc)
        return rc;
    if (transfer(client, RECEIVE, client->piece, len))
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
    int rc = transfer(client, SEND, &header, sizeof(header));

    return rc ? rc : receive_status(client);
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
