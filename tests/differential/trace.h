/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * What the program saw: an outcome of each step, in memory that the test's parent shares, so that
 * it is there whatever becomes of the process.
 */
#ifndef TESTS_DIFFERENTIAL_TRACE_H
#define TESTS_DIFFERENTIAL_TRACE_H

#include "tests/differential/plan.h"

#include <stdatomic.h>

struct outcome {
    int32_t rc;
    int32_t error; /* errno */
    uint64_t value;
    uint64_t more;
};

struct trace {
    atomic_uint step; /* the one that is played; PLAN_STEPS: all were */
    unsigned long gets, hits, failed_gets;
    char wrong[768];      /* what the library did against its own rules; "" */
    char detail[1 << 16]; /* the last layout in words */
    struct outcome outcomes[PLAN_STEPS];
};

/* Plays a plan, with the library beside it or without. */
void play(const struct plan *plan, bool with, struct trace *trace);

#endif
