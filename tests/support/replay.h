/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Replays of random tests. A test draws its steps from a seed; each step is valid after any other
 * steps, so any subset of the steps can be played. keep[i] says whether step i is played. A failing
 * sequence is shortened by leaving steps out as long as it still fails, and printed as a list that
 * HMREG_TEST_STEPS accepts.
 */
#ifndef TESTS_REPLAY_H
#define TESTS_REPLAY_H

#include <stdbool.h>
#include <stdio.h>

/* A number from the environment. */
unsigned long replay_setting(const char *name, unsigned long otherwise);

/* Reads "3,7-9": keeps only those steps. False: invalid list. */
bool replay_keep(bool *keep, unsigned count, const char *list);
void replay_print_kept(const bool *keep, unsigned count, FILE *out);

/* Leaves out ever smaller runs of steps, the last ones first, while still_fails() returns true for
 * the rest. Gives up after some hundred attempts or a minute. */
void replay_shorten(bool *keep, unsigned count, bool (*still_fails)(void));

#endif
