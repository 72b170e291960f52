/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See loopback_wire.h: names, proofs, and who is at the other end of a socket.
 */
#include "providers/loopback/loopback_wire.h"

#include "core/base/high_fd.h"
#include "core/base/unmapped_user.h"
#include "providers/loopback/siphash.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

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

bool wire_same_user(int fd)
{
    struct ucred peer;

    if (!peer_of(fd, &peer) || peer.uid != geteuid())
        return false;
    return peer.uid != unmapped_user() || unmapped_user_none();
}
