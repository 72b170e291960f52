/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * What the vendor reports of memory that ends: the last range, and its identity by then.
 */
#ifndef TESTS_GPU_ROCR_REPORT_H
#define TESTS_GPU_ROCR_REPORT_H

#include "tests/gpu/rocr/app.h"

static struct report {
    uint64_t start, end;
    unsigned count;
    uint64_t id_then; /* the identity of the memory at `start` */
    struct hmem *rocr;
} report;

static inline void note(uint64_t start, uint64_t end)
{
    struct hmem_range range = {.identity = 0};

    report.start = start;
    report.end = end;
    report.count++;
    if (!hmem_rocr_ops.resolve(report.rocr, start, 1, &range))
        report.id_then = range.identity;
}

/* Until hmem_listen(NULL). */
static inline void listen(struct hmem *rocr)
{
    report = (struct report){.rocr = rocr};
    hmem_listen(note);
}

/* All of the memory was reported, once, after its identity had ended. */
static inline void assert_reported(const void *memory, size_t len, unsigned count)
{
    assert_int_equal(report.count, count);
    assert_int_equal(report.start, at(memory));
    assert_int_equal(report.end, at(memory) + len);
    assert_int_equal(report.id_then, 0);
}

#endif
