/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * What exiter.c tells a test.
 */
#ifndef TESTS_EXITER_H
#define TESTS_EXITER_H

#include <sys/types.h>

enum {
    EXITER_INSIDE = 1, /* in ibv_get_device_list(), for ever */
    EXITER_ENDS        /* in a destructor that a handler's exit(3) calls, for ever */
};

struct exiter_word {
    pid_t pid;
    int what;
};

#endif
