/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Plays an episode on the library, beside the model (oracle.h): each step on its thread, one thread
 * at a time, so that an episode is the same at each replay.
 */
#ifndef TESTS_MODEL_RUNNER_H
#define TESTS_MODEL_RUNNER_H

#include "tests/model/plan.h"

#include <stdatomic.h>

/* Shared with the parent process, and readable after a crash. */
struct runner_record {
    atomic_ulong episode;
    atomic_uint step;    /* PLAN_STEPS: before the first or after the last */
    atomic_ullong steps; /* in all episodes */
    atomic_ullong gets, hits, at_once, forks;
    char wrong[512];
};

/* Returns if the library behaves as the model says; else reports the reason and ends the process.
 */
void play(const struct plan *plan, struct runner_record *record);

#endif
