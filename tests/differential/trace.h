/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The program's results: an outcome for each step, in memory shared with the test's parent, so that
 * they survive the process.
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
    uint64_t busy; /* 1: the kernel was using these pages, and did not do what it was asked to */
};

struct trace {
    atomic_uint step; /* the current one; PLAN_STEPS: all were played */
    unsigned long gets, hits, failed_gets;
    char wrong[1024];     /* a violation of the library's own rules; "" */
    char detail[1 << 16]; /* the last layout in words */
    struct outcome outcomes[PLAN_STEPS];
};

/* Plays a plan, with the library or without. */
void play(const struct plan *plan, bool with, struct trace *trace);

#endif
