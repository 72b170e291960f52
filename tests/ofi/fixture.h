/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Host memory registered on the fabric of tests/support/fabric.h, which a peer accesses.
 */
#ifndef TESTS_OFI_FIXTURE_H
#define TESTS_OFI_FIXTURE_H

#include "tests/support/fabric.h"

#define FIXTURE_BYTES 300000
#define FIXTURE_KEY   77 /* of its region, where callers choose keys */

struct fixture {
    struct fabric fabric;
    unsigned char *memory; /* FIXTURE_BYTES, zero */
    struct hmreg_mr *mr;   /* all of it; unset after fixture_open_lonely() */
};

/* With a peer, which has the region's token. */
void fixture_open(struct fixture *fixture, const struct endpoint_hints *hints, uint64_t access);
void fixture_open_lonely(struct fixture *fixture);
void fixture_close(struct fixture *fixture);

/* The key to request: this one, or 0 if the domain chooses. */
uint64_t fixture_key(const struct fixture *fixture, uint64_t key);

/* Checks that all of the memory is zero but for len bytes at offset, which are the seed's. */
void fixture_assert_only(const struct fixture *fixture, size_t offset, size_t len, unsigned seed);

/* The peer writes and reads at many odd offsets; each time these bytes change and no others. */
void fixture_write_and_read(struct fixture *fixture);

/* The same, in a domain of FI_MR_BASIC or FI_MR_SCALABLE, for which hmreg reports the modern bits.
 */
void fixture_in_old_mode(int mode, uint32_t becomes);

#endif
