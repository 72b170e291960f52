/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * What this process's trace file has.
 */
#ifndef TESTS_PRELOAD_OFI_RECORDED_H
#define TESTS_PRELOAD_OFI_RECORDED_H

#include <stdint.h>

struct counts {
    uint64_t passed, made, ends, failures, unknown, again;
    uint64_t peermem; /* of those passed on */
};

/* Since `before`, if given. */
struct counts recorded(const struct counts *before);
/* The registrations of this NIC. */
uint64_t of_nic(const char *name);
/* How often calls were passed on for a reason. */
uint64_t reason(const char *slug);

#endif
