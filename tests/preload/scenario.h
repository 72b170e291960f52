/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Runs the scenario that argv[1] names; returns the program's exit status.
 */
#ifndef TESTS_PRELOAD_SCENARIO_H
#define TESTS_PRELOAD_SCENARIO_H

int scenario(char **argv) __attribute__((visibility("default")));

#endif
