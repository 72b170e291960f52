/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Inside the loopback provider: the table of regions (loopback.c) and the way to it from other
 * processes (loopback_wire.c).
 *
 * In one process a peer's access is a call. Between processes each domain that has packed a token
 * listens on an abstract Unix socket; one thread a domain serves it, one request at a time. The
 * target checks every request against its own table, so nothing depends on the peer's honesty;
 * only processes of the same user are let in.
 */
#ifndef HMREG_PROVIDERS_LOOPBACK_H
#define HMREG_PROVIDERS_LOOPBACK_H

#include <hmreg/loopback.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct loopback;
struct wire_server;
struct wire_client;

/* Where a domain is reached; travels in tokens. */
struct loopback_address {
    uint64_t epoch;  /* of its process, see core/process.h */
    uint64_t serial; /* of the domain in it */
    uint64_t nonce;  /* of the socket's name; 0: not listening */
    uint32_t pid;
};
#define LOOPBACK_ADDRESS_BYTES 28

/* One access a peer asks for. */
struct loopback_access {
    bool write; /* into the region */
    uint64_t key;
    uint64_t addr; /* as the domain's mr_mode has it */
    uint64_t len;
};

/* Would this access be granted, for all its length? 0, -EKEYREJECTED, -EACCES, -ERANGE. */
int loopback_check(struct loopback *loopback, const struct loopback_access *access);

/* Makes the access with local memory on the other side. Checks again. */
int loopback_perform(struct loopback *loopback, const struct loopback_access *access, void *local);

/* Listens; *nonce names the socket. Stopped and freed by wire_server_stop(). */
int wire_server_start(struct loopback *loopback, struct wire_server **out, uint64_t *nonce);
void wire_server_stop(struct wire_server *server);

/* A peer in another process; connects when first used. */
struct wire_client *wire_client_new(const struct loopback_address *address);
void wire_client_free(struct wire_client *client);
/* lib: to copy from and to memory of any kind. -EHOSTUNREACH, the target's answer, or -EIO. */
int wire_client_access(struct wire_client *client, struct hmreg *lib,
                       const struct loopback_access *access, void *local);

#endif
