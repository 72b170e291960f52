/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The model test's memory: host pages that are mapped, unmapped, dropped and moved; and memory of
 * three vendors' devices, freed and allocated at the same address. Each page begins with a unique
 * tag, which the world records: a region is right if it was registered when the pages had the tags
 * that they have now.
 */
#ifndef TESTS_MODEL_WORLD_H
#define TESTS_MODEL_WORLD_H

#include <hmreg/hmreg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WORLD_AREAS   5 /* one for each cache, the host first */
#define WORLD_PAGES   48
#define WORLD_SEGMENT 2 /* pages per allocation of a device */

struct area {
    enum hmreg_iface iface;
    int device;
    bool goes_on; /* a range may cross segments */
    char *base;
    unsigned pages;
    uint64_t tags[WORLD_PAGES]; /* 0: unmapped */
};
extern struct area world[WORLD_AREAS];

size_t world_page(void);

/* Maps all memory, with new tags; and unmaps all. reports: a bit for each vendor, in iface order,
 * that reports the end of its memory. */
void world_open(unsigned reports);
void world_close(void);

/* Changes of host pages [first, first+count); each takes effect before it returns. */
void world_map(unsigned first, unsigned count);
void world_unmap(unsigned first, unsigned count);
void world_drop(unsigned first, unsigned count); /* of mapped pages */
void world_move(unsigned first, unsigned count, unsigned to);

/* The host page's address is aligned to a huge page, which is 64 KiB on arm64: memhooks count what
 * moves from or to there as done to all of a huge page, which the model does not know. */
bool world_may_be_huge(unsigned page);

/* A device's segment: frees it; and allocates it again. */
void world_free(struct area *area, unsigned segment);
void world_alloc(struct area *area, unsigned segment);
/* Does the vendor report the end of the device's memory? */
bool world_reports(const struct area *area);

/* Does the area have memory at all of [start, end)? */
bool world_there(const struct area *area, uint64_t start, uint64_t end);
/* The recorded tag of the page that contains an address. */
uint64_t world_tag(const struct area *area, uint64_t at);

#endif
