/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 * What libpreload_raises.so shares with the program (raises.c), by the symbol PRELOAD_RAISES. */
#ifndef TESTS_PRELOAD_VERBS_RAISES_H
#define TESTS_PRELOAD_VERBS_RAISES_H

#define PRELOAD_RAISES "preload_raises"

struct raises {
    volatile int next; /* the next registration that reaches libibverbs raises SIGUSR1 */
};

#endif
