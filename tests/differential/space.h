/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The memory of the differential test's program: areas at addresses of its own choice, far from
 * where the kernel places mappings, so that what it finds there depends on its own calls only. The
 * areas begin empty. Loads and stores anywhere in them are safe: a fault is an outcome.
 */
#ifndef TESTS_DIFFERENTIAL_SPACE_H
#define TESTS_DIFFERENTIAL_SPACE_H

#include "tests/differential/plan.h"

#include <stddef.h>

#define SPACE_SMALL   192  /* pages; no mapping of them counts as large */
#define SPACE_HUGE    6    /* huge pages */
#define SPACE_OWN     32   /* pages */
#define SPACE_FILE    64   /* pages of the memfd, at first */
#define SPACE_PAGES   4096 /* of an area, that calls may reach */
#define SPACE_SPACING ((size_t)128 << 20)

struct space {
    char *base;
    size_t page;
    unsigned huge_pages; /* pages of a huge page; 0: there are none, or none of a handy size */
    bool swaps;          /* pages may go to swap: what is resident is not the program's choice */
    int file;            /* a memfd */
    int own;             /* the program's userfaultfd; -1 */
    bool watched;        /* as the plan's kind says */
    bool locks;          /* pages are locked; else, where it is watched, left mapped by moves */
};
extern struct space space;

/* Finds the place, once, in the parent. False: it is taken. */
bool space_find(void);
/* In the process that plays. */
void space_open(const struct plan *plan);

char *space_at(unsigned area, unsigned page);
char *space_start(const struct step *step);
size_t space_len(const struct step *step);
/* Where an address is in the areas; UINT64_MAX: elsewhere. */
uint64_t space_offset(const void *addr);

/* What the program knows of its mappings. A call has set a range apart from its neighbours; or it
 * has made, or removed, one mapping there. */
void space_set_apart(unsigned area, unsigned page, unsigned pages);
void space_make_one(unsigned area, unsigned page, unsigned pages);
/* How many pages of the range, from its beginning, have been one mapping and stayed it. */
unsigned space_alike(const struct step *step);

/* Loads and stores one word. 0, or the signal and its code. */
int space_load(const void *addr, uint64_t *value);
int space_store(void *addr, uint64_t value);
/* A digest of the first word of each page, faults included. */
uint64_t space_digest(const char *start, size_t pages, size_t step);

static inline uint64_t space_mix(uint64_t hash, uint64_t value)
{
    return (hash ^ value) * 0x9e3779b97f4a7c15u + (hash >> 29);
}

#endif
