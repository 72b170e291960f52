/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A real fabric below a test, and a peer in another process that reaches its memory by RMA. The
 * peer is this executable anew (fork and exec, so it has nothing of ours), with a library, a
 * domain and an endpoint of its own; it does one thing at a time as it is told over a socket,
 * while we progress our endpoint. Which fabric: HMREG_TEST_FABRIC in the environment ("tcp").
 */
#ifndef TESTS_FABRIC_H
#define TESTS_FABRIC_H

#include "examples/common/endpoint.h"
#include "tests/support/test.h"

#include <hmreg/ofi.h>
#include <stdbool.h>
#include <sys/types.h>

struct fabric {
    struct endpoint endpoint;
    struct hmreg *lib;
    struct hmreg_domain *domain;
    int socket; /* to the peer; -1: none */
    pid_t peer;
};

/* The fabric's name, as fi_info's hints take it. */
const char *fabric_name(void);

/* Is what it denies answered with an error? Other fabrics let the intruder wait for ever, or (net)
 * report success. */
bool fabric_tells_intruders(void);

/* Opens the fabric, the library and a domain; the test is skipped if this machine does not have
 * the fabric. hints NULL: zeroes; their provider is set here. Regions of get() are exact. */
void fabric_open(struct fabric *fabric, const struct endpoint_hints *hints);
/* The same, and starts a peer that does likewise; both are connected. */
void fabric_open_pair(struct fabric *fabric, const struct endpoint_hints *hints);
/* Ends the peer (which must have closed all it opened) and closes everything. */
void fabric_close(struct fabric *fabric);

/* What the peer says: 0 or a negative error number, and its sentence as our last error.
 * It opens a token in place of the one it had... */
int peer_take(struct fabric *fabric, const void *token, size_t size);
/* ...writes fabric_byte(seed, i) to byte offset + i of the region, for all i < len... */
int peer_write(struct fabric *fabric, uint64_t offset, size_t len, unsigned seed);
/* ...reads them and compares: -EBADMSG if one is not fabric_byte(seed, i)... */
int peer_read(struct fabric *fabric, uint64_t offset, size_t len, unsigned seed);
/* ...or writes at an address and with a key of our choice; where intruders are not told, it waits
 * for little more than a second. */
int peer_intrude(struct fabric *fabric, uint64_t addr, uint64_t key, size_t len, unsigned seed);
/* It offers us a region of len bytes fabric_byte(seed, i), in place of the one before... */
int peer_offer(struct fabric *fabric, size_t len, unsigned seed, struct hmreg_remote **remote);
/* ...and compares it, as peer_read() does. */
int peer_check(struct fabric *fabric, uint64_t offset, size_t len, unsigned seed);

/* mr's token, to the peer. */
int peer_take_region(struct fabric *fabric, const struct hmreg_mr *mr);

unsigned char fabric_byte(unsigned seed, size_t index);

/* main(): the tests, or the peer's. */
#define FABRIC_TEST_MAIN(...)                                                                      \
    int main(int argc, char **argv)                                                                \
    {                                                                                              \
        static const struct test_case cases[] = {__VA_ARGS__};                                     \
                                                                                                   \
        return fabric_main(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));                   \
    }
int fabric_main(int argc, char **argv, const struct test_case *cases, size_t count);

#endif
