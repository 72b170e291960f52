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
/* The program is about to change memory; invalidates it if the plan has the application report. */
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
