/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Rights in time: after each kind of end of a region, for how long can a peer that has its token
 * still reach it? docs/security-rights.md has the table that these tests print.
 */
#ifndef TESTS_RIGHTS_H
#define TESTS_RIGHTS_H

#include "tests/support/test.h"

#include <hmreg/hmreg.h>

#define RIGHTS_BYTES 64 /* of each write */

/* A peer: in another process, on loopback a domain of this one. */
struct rights_peer {
    /* Opens the token of a region. */
    void (*take)(void *self, const struct hmreg_mr *mr);
    /* Writes RIGHTS_BYTES bytes `byte` to this address by this key. Returns when it has failed, or
     * was processed: when it has changed what it may change. True: the fabric says that they have
     * arrived, which may be in pages that are not at the address any more. */
    bool (*write)(void *self, uint64_t addr, uint64_t key, char byte);
    void *self;
};

/* The kinds of end. */
extern const unsigned rights_ends;

/* Prints a line of the table. writes: by the peer after the end, the last of them `last_ms` after
 * it. */
void rights_report(const char *fabric, const char *end, unsigned writes, double last_ms);

/* Prints the table's line of one kind of end, and checks it if hmreg promises anything. domain:
 * with caches of one region. */
void rights_measure(struct hmreg *lib, struct hmreg_domain *domain, const char *fabric,
                    unsigned end, const struct rights_peer *peer);

#endif
