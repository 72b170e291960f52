/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The loopback provider's protocol between processes. An initiator connects to the socket of the
 * target's domain. Both prove to each other, the target first, that they know the domain's secret,
 * which the initiator has from a token: each draws a nonce, and a proof is a MAC of both nonces
 * under the secret, which itself is never sent. Each request is a header. The target replies with a
 * status before any data moves, so a refused access moves none. Then the data goes in pieces: in a
 * read a status precedes each piece, and one status ends a write:
 *
 *     once:   hello ->    <- reply    proof ->
 *     write:  header ->   <- status   (piece ->)*            <- status
 *     read:   header ->   <- status   (<- status, piece)*
 *
 * A status is 0 or a negative error number, in 4 bytes. Both ends run on one machine, and the magic
 * number of a hello is that of one version of the protocol, so structs are sent unconverted.
 * loopback_server.c is the target's end, loopback_client.c the initiator's, loopback_wire.c what
 * both need.
 */
#ifndef HMREG_PROVIDERS_LOOPBACK_WIRE_H
#define HMREG_PROVIDERS_LOOPBACK_WIRE_H

#include "providers/loopback/loopback.h"

#include <stddef.h>
#include <sys/socket.h>
#include <sys/un.h>

#define HELLO_MAGIC  0x686d6c33u
#define HEADER_MAGIC 0x686d6c32u
#define NONCE_BYTES  16
#define PIECE_BYTES  (64u << 10)

struct hello {
    uint32_t magic;
    uint8_t nonce[NONCE_BYTES];
};

struct reply {
    uint8_t nonce[NONCE_BYTES];
    uint64_t proof;
};

struct header {
    uint32_t magic;
    uint32_t write;
    uint64_t key, secret, addr, len;
    struct loopback_auth auth;
    uint32_t zero;
};

/* No byte of the initiator's stack is sent between the fields. */
_Static_assert(sizeof(struct hello) == 4 + NONCE_BYTES, "no padding");
_Static_assert(sizeof(struct reply) == NONCE_BYTES + 8, "no padding");
_Static_assert(sizeof(struct loopback_auth) == 4 + LOOPBACK_AUTH_MAX, "no padding");
_Static_assert(offsetof(struct header, zero) + 4 == sizeof(struct header) &&
                   sizeof(struct header) == 2 * 4 + 4 * 8 + sizeof(struct loopback_auth) + 4,
               "no padding");

/* The abstract socket name of a domain. */
socklen_t wire_name(const struct loopback_address *address, struct sockaddr_un *out);
enum wire_end { INITIATOR = 1, TARGET = 2 };

/* What this end sends to prove that it knows the secret, on a connection with these nonces. The end
 * is part of it, so that none can be answered with its own proof; and so is the network namespace
 * of the socket, so that a process that has the domain's name in another one cannot pass messages
 * on between a target and an initiator. */
uint64_t wire_proof(const uint8_t secret[LOOPBACK_SECRET_BYTES], enum wire_end end, int fd,
                    const uint8_t initiator[NONCE_BYTES], const uint8_t target[NONCE_BYTES]);
/* Is the process at the other end of our user? False also if that cannot be known. */
bool wire_same_user(int fd);
/* Does the process at the other end live? A forked child may keep its end of the socket open, so
 * end of file alone is not enough. A process in a foreign pid namespace cannot be checked: it
 * counts as alive, and only end of file shows its death. */
bool wire_lives(int fd);
/* Shuts a socket down, including its duplicates in forked children, and closes it. */
void wire_cut(int fd);

#endif
