/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Another user, who attacks this one: root, who is the only one that can act as two. */
#ifndef TESTS_STRANGER_H
#define TESTS_STRANGER_H

#include "tests/support/test.h"

#include <grp.h>
#include <sys/wait.h>

#define STRANGER 12345

static inline int stranger_status(void (*act)(void))
{
    pid_t child = fork();
    int status;

    if (child == 0) {
        if (setgroups(0, NULL) || setresgid(STRANGER, STRANGER, STRANGER) ||
            setresuid(STRANGER, STRANGER, STRANGER))
            _exit(77);
        if (act)
            act();
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* Skips the test where this process cannot be two users. */
static inline void stranger_needed(void)
{
    if (geteuid() || stranger_status(NULL))
        test_skip("only root, with other users in its namespace, can act as two");
}

/* act() ends the process by 1 where it fails. */
static inline void stranger_acts(void (*act)(void))
{
    assert_int_equal(stranger_status(act), 0);
}

#define STRANGER_DOES(call)                                                                        \
    do {                                                                                           \
        if (!(call)) {                                                                             \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #call);                             \
            _exit(1);                                                                              \
        }                                                                                          \
    } while (0)

#endif
