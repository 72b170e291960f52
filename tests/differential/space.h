/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The memory of the differential test's program: areas at addresses of its own choice, far from
 * where the kernel places mappings, so that their state depends on its own calls only. The areas
 * begin empty. Loads and stores anywhere in them are safe: a fault is an outcome.
 */
#ifndef TESTS_DIFFERENTIAL_SPACE_H
#define TESTS_DIFFERENTIAL_SPACE_H

#include "tests/differential/plan.h"

#include <stddef.h>

#define SPACE_SMALL   192  /* pages; no mapping of them counts as large */
#define SPACE_HUGE    6    /* huge pages */
#define SPACE_OWN     32   /* pages */
#define SPACE_FILE    64   /* pages of the memfd, at first */
#define SPACE_PAGES   4096 /* of an area, including the part that only some calls reach */
#define SPACE_SPACING ((size_t)128 << 20)

struct space {
    char *base;
    size_t page;
    unsigned huge_pages; /* pages of a huge page; 0: there are none, or none of a usable size */
    bool swaps;          /* pages may be swapped out: residency does not depend on the program */
    int file;            /* a memfd */
    int own;             /* the program's userfaultfd; -1 */
    bool watched;        /* as the plan's kind has it */
    bool own_calls;      /* the library that is loaded has calls of its own */
    bool locks;          /* pages are locked; else, if watched, moves leave them mapped */
};
extern struct space space;

/* Reserves the place, once, in the parent. False: it is in use. */
bool space_find(void);
/* Maps it in the process that plays. */
void space_open(const struct plan *plan);

char *space_at(unsigned area, unsigned page);
char *space_start(const struct step *step);
size_t space_len(const struct step *step);
/* Where an address is in the areas; UINT64_MAX: elsewhere. */
uint64_t space_offset(const void *addr);

/* Tracks the program's mappings. A call has split a range from its neighbours; or it has made, or
 * removed, one mapping there. */
void space_set_apart(unsigned area, unsigned page, unsigned pages);
void space_make_one(unsigned area, unsigned page, unsigned pages);
/* The number of pages from the range's beginning that have been one mapping all the time. */
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
