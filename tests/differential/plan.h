/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * An episode of the differential test: a sequence of memory calls of the program, and of gets and
 * puts of the library beside them, drawn from a seed and the episode's number. The program's part
 * is the same with and without the library. Every step is valid after any other steps, so any
 * subset of the steps is an episode, too; that is how a finding is shortened.
 */
#ifndef TESTS_DIFFERENTIAL_PLAN_H
#define TESTS_DIFFERENTIAL_PLAN_H

#include <hmreg/hmreg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define PLAN_STEPS 4000 /* of an episode, the library's included */

/* Forms of mprotect(2), and the one with PROT_GROWSDOWN. */
#define PLAN_PROTECTS   12
#define PLAN_GROWS_DOWN 10

/* Forms of mmap(2) of the program's memfd, shared, and of its ftruncate(2). */
#define PLAN_MAPS_FILE  22
#define PLAN_CUTS_FILE  0
#define PLAN_FILE_THERE 4 /* steps */

/* A bit of the form of an ACT_LOAD: the library stays loaded. */
#define PLAN_STAYS      16
#define PLAN_LOAD_THERE 3 /* steps */

/* The program's address ranges (space.h). */
enum area {
    AREA_SMALL, /* pages, in all kinds of mappings */
    AREA_HUGE,  /* huge pages, and single pages inside them */
    AREA_OWN,   /* pages with the program's own userfaultfd */
    AREA_COUNT,
};

enum act {
    ACT_MAP,
    ACT_UNMAP,
    ACT_REMAP,
    ACT_PROTECT,
    ACT_ADVISE,
    ACT_WRITE,
    ACT_READ,
    ACT_RESIDENT, /* mincore(2) */
    ACT_LOCK,
    ACT_SYNC,
    ACT_SHM,
    ACT_FILE, /* the program's memfd is truncated, punched, written */
    ACT_OWN,  /* the program's own userfaultfd */
    ACT_BRK,
    ACT_HEAP,  /* malloc(3) and the like */
    ACT_BLOCK, /* mappings at addresses that the kernel chooses */
    ACT_FORK,
    ACT_THREAD,
    ACT_STACK,    /* the main thread's stack */
    ACT_SIGNAL,   /* a handler changes memory, in the middle of gets and puts */
    ACT_MAPPINGS, /* counts those of the process */
    ACT_LAYOUT,   /* compares the mappings of the areas: rights, flags, pages, huge pages */
    ACT_PROCESS,  /* signal mask, handlers, limits, affinity, ... */
    ACT_UNUSED,   /* the layout while nothing is cached: after a flush, or between close and open */
    ACT_INLINE,   /* system calls of the program's own */
    ACT_OTHER,    /* by another process, which shares the program's memory or does not */
    ACT_LOAD,     /* a library with calls of its own; only beside a witness */
    ACT_GET,      /* from here on acts of the library */
    ACT_PUT,
    ACT_FLUSH,
    ACT_COUNT,
};

struct step {
    uint8_t act;
    uint8_t inner; /* the act inside a handler, a thread, a child */
    uint8_t area;
    uint8_t form;
    uint16_t page, pages; /* the range, in pages of the area */
    uint16_t to;          /* the page of the area to move to */
    uint32_t r;
};

/* The domains of the library, as bits. */
enum plan_fabrics { PLAN_PINNING = 1, PLAN_LOOPBACK = 2, PLAN_BOTH = 3 };

/* Common to a test case's episodes. */
struct plan_kind {
    const char *name;
    enum hmreg_monitor monitor;
    bool caches;  /* host memory is expected to be cached */
    bool watched; /* by userfaultfd: the plan leaves out what the kernel refuses there */
    bool spares;  /* gets leave out the area of the program's own userfaultfd: the kernel lets that
                     protect what another one watches, and no thread serves the fault */
    bool reports; /* the program calls hmreg_invalidate() before each change */
    bool witness; /* regions are judged, in place of the program's results (witness.h) */
};

struct plan {
    const struct plan_kind *kind;
    unsigned long seed, episode;
    enum plan_fabrics fabrics;
    unsigned count;
    struct step steps[PLAN_STEPS];
    bool keep[PLAN_STEPS]; /* false: left out */
};

/* without: names of acts that are left out, "layout,own"; NULL: none. */
void plan_make(struct plan *plan, const struct plan_kind *kind, unsigned long seed,
               unsigned long episode, const char *without);
bool plan_is_programs(const struct step *step);
void plan_print_step(const struct plan *plan, unsigned index, FILE *out);

#endif
