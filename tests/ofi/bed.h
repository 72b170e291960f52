/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Host memory registered on the fabric of tests/support/fabric.h, for a peer to reach.
 */
#ifndef TESTS_OFI_BED_H
#define TESTS_OFI_BED_H

#include "tests/support/fabric.h"

#define BED_BYTES 300000
#define BED_KEY   77 /* of its region, where callers choose keys */

struct bed {
    struct fabric fabric;
    unsigned char *memory; /* BED_BYTES, zero */
    struct hmreg_mr *mr;   /* all of it; not with bed_open_lonely() */
};

/* With a peer, which has the region's token. */
void bed_open(struct bed *bed, const struct endpoint_hints *hints, uint64_t access);
void bed_open_lonely(struct bed *bed);
void bed_close(struct bed *bed);

/* The key to ask for: this one, or 0 where the domain chooses. */
uint64_t bed_key(const struct bed *bed, uint64_t key);

/* All of the memory is zero but for len bytes at offset, which are the seed's. */
void bed_assert_only(const struct bed *bed, size_t offset, size_t len, unsigned seed);

/* The peer writes and reads in many odd places; each time these bytes change and no others. */
void bed_write_and_read(struct bed *bed);

/* That, in a domain of FI_MR_BASIC or FI_MR_SCALABLE, which hmreg names in the bits of today. */
void bed_in_old_mode(int mode, uint32_t becomes);

#endif
