/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See loopback_wire.h: names, proofs, and who is at the other end of a socket.
 */
#include "providers/loopback/loopback_wire.h"

#include "core/base/high_fd.h"
#include "providers/loopback/siphash.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#define OVERFLOW_UID 65534u /* the kernel's default */

#ifndef SO_NETNS_COOKIE
#define SO_NETNS_COOKIE 71
#endif

void wire_cut(int fd)
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

bool wire_lives(int fd)
{
    struct ucred peer = {.pid = 0};
    struct pollfd died = {.events = POLLIN};
    bool ended;

    if (!peer_of(fd, &peer) || peer.pid <= 0)
        return true;
    died.fd = high_fd((int)syscall(SYS_pidfd_open, peer.pid, 0));
    if (died.fd < 0)
        return errno == ENOSYS && kill(peer.pid, 0) == 0; /* before Linux 5.3 */
    ended = poll(&died, 1, 0) == 1;
    close(died.fd);
    return !ended;
}

socklen_t wire_name(const struct loopback_address *address, struct sockaddr_un *out)
{
    *out = (struct sockaddr_un){.sun_family = AF_UNIX};
    /* The leading zero byte selects the abstract namespace: no file. */
    int len = snprintf(out->sun_path + 1, sizeof(out->sun_path) - 1, "hmreg/%u/%016" PRIx64,
                       address->pid, address->nonce);

    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)len);
}

/* ---- proofs ----------------------------------------------------------------------------- */

_Static_assert(LOOPBACK_SECRET_BYTES == SIPHASH_KEY_BYTES, "a secret is a key");

uint64_t wire_proof(const uint8_t secret[LOOPBACK_SECRET_BYTES], enum wire_end end, int fd,
                    const uint8_t initiator[NONCE_BYTES], const uint8_t target[NONCE_BYTES])
{
    struct {
        uint64_t end, network;
        uint8_t initiator[NONCE_BYTES], target[NONCE_BYTES];
    } proven = {.end = end};
    socklen_t size = sizeof(proven.network);

    /* Before Linux 5.14 it stays 0, at both ends. */
    getsockopt(fd, SOL_SOCKET, SO_NETNS_COOKIE, &proven.network, &size);
    memcpy(proven.initiator, initiator, NONCE_BYTES);
    memcpy(proven.target, target, NONCE_BYTES);
    return siphash(secret, &proven, sizeof(proven));
}

/* ---- users ------------------------------------------------------------------------------ */

/* Reads a short file; "": it cannot be read. */
static void read_file(const char *path, char *text, size_t room)
{
    int fd = high_fd(open(path, O_RDONLY | O_CLOEXEC));
    ssize_t got = fd < 0 ? -1 : read(fd, text, room - 1);

    if (fd >= 0)
        close(fd);
    text[got > 0 ? got : 0] = '\0';
}

/* Has this user namespace a number for every user of the machine? The lines of the map are "first
 * first-outside count". */
static bool maps_all_users(void)
{
    unsigned long first, outside, count;
    unsigned long long sum = 0;
    char text[8192], *at = text;
    int length = 0;

    read_file("/proc/self/uid_map", text, sizeof(text));
    for (; sscanf(at, "%lu %lu %lu%n", &first, &outside, &count, &length) == 3; at += length)
        sum += count;
    return sum == UINT32_MAX;
}

/* The number as which the kernel shows each user without one in this user namespace. */
static uid_t overflow_uid(void)
{
    char text[32];

    read_file("/proc/sys/kernel/overflowuid", text, sizeof(text));
    return text[0] ? (uid_t)strtoul(text, NULL, 10) : OVERFLOW_UID;
}

bool wire_same_user(int fd)
{
    struct ucred peer;

    if (!peer_of(fd, &peer) || peer.uid != geteuid())
        return false;
    return peer.uid != overflow_uid() || maps_all_users();
}
