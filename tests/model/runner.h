/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Plays an episode on the library, beside the model (oracle.h): each step on its thread, one thread
 * at a time, so that an episode is the same whenever it is played.
 */
#ifndef TESTS_MODEL_RUNNER_H
#define TESTS_MODEL_RUNNER_H

#include "tests/model/plan.h"

#include <stdatomic.h>

/* What another process sees of it, whatever happens here. */
struct runner_record {
    atomic_ulong episode;
    atomic_uint step;    /* PLAN_STEPS: before the first or after the last */
    atomic_ullong steps; /* taken, in all episodes */
    atomic_ullong gets, hits, forks;
    char wrong[512];
};

/* Comes back if all went as the model says; else leaves its reason and ends the process. */
void play(const struct plan *plan, struct runner_record *record);

#endif
