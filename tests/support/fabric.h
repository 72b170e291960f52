/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A real fabric below a test, and a peer in another process that accesses its memory by RMA. The
 * peer is this executable again (fork and exec, so that it inherits nothing), with a library, a
 * domain and an endpoint of its own; it executes one command at a time, sent over a socket, while
 * we drive our endpoint's progress. HMREG_TEST_FABRIC in the environment selects the fabric
 * ("tcp").
 */
#ifndef TESTS_FABRIC_H
#define TESTS_FABRIC_H

#include "examples/common/endpoint.h"
#include "tests/support/test.h"

#include <hmreg/ofi.h>

struct fabric {
    struct endpoint endpoint;
    struct hmreg *lib;
    struct hmreg_domain *domain;
    int socket; /* to the peer; -1: none */
    pid_t peer;
    uint64_t words, witness; /* of intrusions; the last word that the peer wrote after one */
    struct hmreg_mr *witness_mr;
};

/* The fabric's name in fi_info's hints. */
const char *fabric_name(void);

/* Does an initiator receive an error for a denied operation? On other fabrics it waits for ever, or
 * (net) receives a success. */
bool fabric_reports_denials(void);

/* Opens the fabric, the library and a domain; the test is skipped if this machine does not have
 * the fabric. hints NULL: zeroes; their provider is set here. Regions of get() are exact. */
void fabric_open(struct fabric *fabric, const struct endpoint_hints *hints);
/* The same, and starts a peer that does likewise; both are connected. */
void fabric_open_pair(struct fabric *fabric, const struct endpoint_hints *hints);
/* Ends the peer (which must have closed all it opened) and closes everything. */
void fabric_close(struct fabric *fabric);

/* The peer's commands. They return its result, 0 or a negative error number, with its sentence as
 * our last error. Opens a token in place of the last one... */
int peer_take(struct fabric *fabric, const void *token, size_t size);
/* ...writes fabric_byte(seed, i) to byte offset + i of the region, for all i < len... */
int peer_write(struct fabric *fabric, uint64_t offset, size_t len, unsigned seed);
/* ...reads them and compares: -EBADMSG if one is not fabric_byte(seed, i)... */
int peer_read(struct fabric *fabric, uint64_t offset, size_t len, unsigned seed);
/* ...or writes at an address and with a key of our choice. On return the write has been processed
 * here: what it may change it has changed. */
int peer_intrude(struct fabric *fabric, uint64_t addr, uint64_t key, size_t len, unsigned seed);
/* Registers a region of len bytes fabric_byte(seed, i), in place of the last one, for us to
 * access... */
int peer_offer(struct fabric *fabric, size_t len, unsigned seed, struct hmreg_remote **remote);
/* ...only its token, into *size bytes... */
int peer_offer_token(struct fabric *fabric, size_t len, uint8_t *token, size_t *size);
/* ...the same in len bytes of this file, which it maps shared... */
int peer_offer_shared(struct fabric *fabric, int file, size_t len, unsigned seed,
                      struct hmreg_remote **remote);
/* ...and compares it, as peer_read() does. */
int peer_check(struct fabric *fabric, uint64_t offset, size_t len, unsigned seed);

/* Kills the peer, and returns when it is gone. fabric_close() does not wait for it then. */
void fabric_kill_peer(struct fabric *fabric);
/* Kills the peer, and starts and connects another. */
void fabric_restart_peer(struct fabric *fabric);

/* Sends mr's token to the peer. */
int peer_take_region(struct fabric *fabric, const struct hmreg_mr *mr);

unsigned char fabric_byte(unsigned seed, size_t index);

/* main() of the tests, or of the peer. */
#define FABRIC_TEST_MAIN()                                                                         \
    int main(int argc, char **argv)                                                                \
    {                                                                                              \
        return fabric_main(argc, argv);                                                            \
    }
int fabric_main(int argc, char **argv);

#endif
