/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The library beside the program. Without beside_open() every call here does nothing: the other run
 * is compared with that one.
 */
#ifndef TESTS_DIFFERENTIAL_BESIDE_H
#define TESTS_DIFFERENTIAL_BESIDE_H

#include "tests/differential/trace.h"

#include <signal.h>
#include <stddef.h>

void beside_open(const struct plan *plan, struct trace *trace);
void beside_close(void);

/* One of the library's own steps. */
void beside_step(const struct step *step);
/* The program is about to change memory. It calls hmreg_invalidate() first where the plan has it
 * report everything (import), and where the monitor does not see what changes:
 *
 *     memhooks     the program's own system calls, but for munmap of what was never registered.
 *                  No library with such calls is loaded: memhooks
 *                  that were asked for by name would cache nothing
 *     userfaultfd  SHM_REMAP, MADV_GUARD_INSTALL
 *     default      both, as userfaultfd takes over when a library with own calls is loaded; not the
 *                  calls of that library
 *
 * What another process does through libc memhooks see if it shares the memory. If not, the kernel
 * lets it throw no page away. */
void beside_report(const struct step *step);
/* A get and a put of memory that the program has at this moment. */
void beside_use(void *addr, size_t len);
/* Sends a signal in the middle of gets and puts; returns when *handled is set. */
void beside_interrupt(const struct step *step, volatile sig_atomic_t *handled);
/* A forked child tries the library. */
void beside_in_child(const struct step *step);
/* Acts while nothing is cached: after a flush, or between a close and an open. */
void beside_without(const struct step *step, void (*act)(struct outcome *out), struct outcome *out);

#endif
