/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A connection to the other node: JSON in frames, each sent and received within seconds. Its
 * segments are small, so that it passes where the fabrics' packets are too long for the path.
 */
#include "tools/doctor/peer.h"

#include "tools/verify/verify.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SECONDS 5  /* for a handshake, or to send a message */
#define CONNECT 10 /* seconds; the kernel takes 8 to find that a host has gone */

/* ---- names ------------------------------------------------------------------------------ */

bool peer_split(const char *words, char host[256], char port[16])
{
    const char *end = words[0] == '[' ? strchr(words, ']') : strrchr(words, ':');
    const char *begin = words + (words[0] == '['), *at;

    /* Several colons without brackets: an IPv6 address without a port. */
    if (words[0] != '[' && end && strchr(words, ':') != end)
        end = NULL;
    end = end ? end : strchr(words, '\0');
    at = end + (*end == ']');
    if ((*at && *at != ':') || (words[0] == '[' && *end != ']') || end - begin > 255)
        return false;
    snprintf(host, 256, "%.*s", (int)(end - begin), begin);
    snprintf(port, 16, "%.15s", *at ? at + 1 : PEER_PORT);
    return port[0] && strspn(port, "0123456789") == strlen(port) && strlen(port) <= 5;
}

void peer_link_address(const struct peer_link *link, char address[64])
{
    struct sockaddr_storage own = {0};
    socklen_t size = sizeof(own);
    const char *mapped;

    address[0] = '\0';
    if (getsockname(link->fd, (struct sockaddr *)&own, &size))
        return;
    if (own.ss_family == AF_INET)
        inet_ntop(AF_INET, &((struct sockaddr_in *)&own)->sin_addr, address, 64);
    else if (own.ss_family == AF_INET6)
        inet_ntop(AF_INET6, &((struct sockaddr_in6 *)&own)->sin6_addr, address, 64);
    mapped = strncmp(address, "::ffff:", 7) ? NULL : address + 7;
    if (mapped && strchr(mapped, '.'))
        memmove(address, mapped, strlen(mapped) + 1);
}

/* ---- bytes ------------------------------------------------------------------------------ */

/* 0: the deadline has passed. */
static int wait_for(int fd, short events, int64_t deadline)
{
    struct pollfd ready = {.fd = fd, .events = events};
    int64_t left = deadline - verify_now();
    int rc = poll(&ready, 1, left > 0 ? (int)left : 0);

    return rc < 0 && errno == EINTR ? 1 : rc;
}

static int fail(struct peer_link *link, int error, const char *what)
{
    return loop_fail_as(&link->why, loop_fault_of(error), "%s: %s", what, strerror(error));
}

static int send_all(struct peer_link *link, const uint8_t *bytes, size_t size)
{
    int64_t deadline = verify_now() + SECONDS * 1000;
    ssize_t sent;

    while (size) {
        if (wait_for(link->fd, POLLOUT, deadline) <= 0)
            return loop_fail_as(&link->why, LOOP_TIMED_OUT,
                                "the other node accepted no bytes for %d s", SECONDS);
        sent = send(link->fd, bytes, size, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent < 0 && errno != EAGAIN && errno != EINTR)
            return fail(link, errno, "the connection to the other node broke");
        bytes += sent > 0 ? sent : 0;
        size -= sent > 0 ? (size_t)sent : 0;
    }
    return 0;
}

static int receive_all(struct peer_link *link, uint8_t *bytes, size_t size, int64_t deadline)
{
    ssize_t got;

    while (size) {
        if (wait_for(link->fd, POLLIN, deadline) <= 0)
            return loop_fail_as(&link->why, LOOP_TIMED_OUT, "the other node sent nothing in time");
        got = recv(link->fd, bytes, size, MSG_DONTWAIT);
        if (!got)
            return loop_fail(&link->why, "the other node has closed the connection");
        if (got < 0 && errno != EAGAIN && errno != EINTR)
            return fail(link, errno, "the connection to the other node broke");
        bytes += got > 0 ? got : 0;
        size -= got > 0 ? (size_t)got : 0;
    }
    return 0;
}

/* ---- messages --------------------------------------------------------------------------- */

int peer_link_send(struct peer_link *link, json_t *message)
{
    char *text = json_dumps(message, JSON_COMPACT);
    size_t size = text ? strlen(text) : 0;
    int rc;

    json_decref(message);
    if (!text)
        doc_no_memory();
    if (size > WIRE_MOST)
        rc = loop_fail(&link->why, "a message of %zu bytes is too long for the other node", size);
    else
        rc = send_all(link, link->frame, wire_seal(&link->wire, text, size, link->frame));
    free(text);
    return rc;
}

json_t *peer_link_receive(struct peer_link *link, int64_t deadline)
{
    json_t *message;
    size_t size;

    if (receive_all(link, link->frame, WIRE_HEADER, deadline))
        return NULL;
    size = wire_size(link->frame);
    if (!size) {
        loop_fail(&link->why, "the other node sent an invalid message");
        return NULL;
    }
    if (receive_all(link, link->frame + WIRE_HEADER, size - WIRE_HEADER,
                    verify_now() + SECONDS * 1000))
        return NULL;
    message =
        wire_open(&link->wire, link->frame, size)
            ? json_loadb((char *)link->frame + WIRE_HEADER, size - WIRE_HEADER - PEER_MAC, 0, NULL)
            : NULL;
    if (json_is_object(message))
        return message;
    json_decref(message);
    loop_fail(&link->why, "a message was forged, repeated or truncated");
    return NULL;
}

/* ---- connecting ------------------------------------------------------------------------- */

static int connect_to(struct peer_link *link, const struct addrinfo *address)
{
    int small = 536, error = 0; /* what every network takes */
    socklen_t size = sizeof(error);

    link->fd = socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (link->fd < 0)
        return fail(link, errno, "no socket");
    setsockopt(link->fd, IPPROTO_TCP, TCP_MAXSEG, &small, sizeof(small));
    if (!connect(link->fd, address->ai_addr, address->ai_addrlen))
        return 0;
    if (errno != EINPROGRESS)
        error = errno;
    else if (!wait_for(link->fd, POLLOUT, verify_now() + CONNECT * 1000))
        error = ETIMEDOUT;
    else
        getsockopt(link->fd, SOL_SOCKET, SO_ERROR, &error, &size);
    if (!error)
        return 0;
    fail(link, error, "no connection");
    close(link->fd);
    link->fd = -1;
    return -1;
}

static int prove(struct peer_link *link, const struct peer_secret *secret)
{
    uint8_t greeting[WIRE_GREETING], answer[WIRE_ANSWER], proof[WIRE_PROOF];
    int64_t deadline = verify_now() + SECONDS * 1000;

    if (receive_all(link, greeting, sizeof(greeting), deadline))
        return -1;
    if (!wire_answer(&link->wire, secret, greeting, answer))
        return loop_fail(&link->why, "no hmreg doctor --serve of this version listens there");
    if (send_all(link, answer, sizeof(answer)))
        return -1;
    if (receive_all(link, proof, sizeof(proof), deadline))
        return link->why.fault == LOOP_TIMED_OUT
                   ? -1
                   : loop_fail(&link->why, "the other node refused this secret");
    if (!wire_trust(&link->wire, secret, proof))
        return loop_fail(&link->why, "the other node has another secret");
    return 0;
}

int peer_link_open(struct peer_link *link, const char *host, const char *port,
                   const struct peer_secret *secret)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found = NULL;
    int rc = getaddrinfo(host, port, &hints, &found);

    link->fd = -1;
    if (rc)
        return loop_fail(&link->why, "%s", gai_strerror(rc));
    rc = -1;
    for (const struct addrinfo *at = found; at && rc; at = at->ai_next)
        rc = connect_to(link, at);
    freeaddrinfo(found);
    if (!rc && prove(link, secret)) {
        peer_link_close(link);
        return -1;
    }
    return rc;
}

void peer_link_end(struct peer_link *link)
{
    int64_t deadline = verify_now() + SECONDS * 1000;

    if (link->fd < 0 || shutdown(link->fd, SHUT_WR))
        return;
    while (!receive_all(link, link->frame, 1, deadline))
        continue;
}

void peer_link_close(struct peer_link *link)
{
    if (link->fd >= 0)
        close(link->fd);
    link->fd = -1;
}
