/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * What the files of the property test share: the run's state, its random numbers, and the
 * operations on cached regions, which cached.c compares with model_cache.h.
 */
#ifndef TESTS_CONFORMANCE_PROPERTY_H
#define TESTS_CONFORMANCE_PROPERTY_H

#include "tests/conformance/model_cache.h"
#include "tests/support/test.h"

#include <hmreg/group.h>
#include <sys/mman.h>

/* The run, and its episode. */
struct property {
    uint64_t random;
    unsigned long seed, op;
    struct model model;
    struct cache_model cache; /* of where */
    struct hmreg *lib;
    struct hmreg_domain *domain;
    struct hmreg_domain *other, *group; /* rail 1, and both; NULL: an episode without */
    struct hmreg_domain *where;         /* what is registered on: domain or group */
    struct hmreg_loopback_eq *eq;
    struct hmreg_mr *mrs[MODEL_REGIONS];
    struct hmreg_remote *remote;   /* reaches every region of the domain */
    struct hmreg_mr *peers_region; /* the region of its token; not in the model */
    struct hmreg_loopback_ep *eps[MODEL_OBJECTS];
    struct hmreg_loopback_counter *counters[MODEL_OBJECTS];
    uint64_t mapped[MODEL_MAPPED];
    char *arena, *shadow, *outside;
};
extern struct property t;

uint64_t property_below(uint64_t limit);
bool property_once_in(unsigned n);
/* Fails the test unless the verdict allows the answer. */
void property_compare(const char *call, int slot, const struct verdict *expected, int answer);

/* Once in a run: the devices' memory; and checks that it has tested each rule often enough. */
void cached_open(void);
void cached_close(unsigned long ops);
/* Chooses how the episode's domain or group caches. */
struct hmreg_domain_config cached_config(void);
/* The episode's domains are open; and are about to be closed. */
void cached_begin(uint32_t other_mode);
void cached_end(void);
/* This endpoint of the domain is about to be closed. */
void cached_forget_endpoint(int ep);
/* The arena's memory has changed there. */
void cached_changed(uint64_t offset, uint64_t len);

void cached_op_get(void);
void cached_op_put(void);
void cached_op_reg(void);
void cached_op_end_some(void);

#endif
