/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The test's program as a set-user-id program of another user, whose environment must steer
 * nothing.
 */
#ifndef TESTS_SET_USER_ID_H
#define TESTS_SET_USER_ID_H

/* Runs this program again with one argument and this environment (NULL at its end). Returns its
 * exit status, or -1 after a signal. */
int run_again(const char *argument, const char *const *environment);
/* The same of a copy that belongs to another user and has the set-user-id bit. 77: that is not
 * possible here, or has no effect, which the program says by this status. */
int run_set_user_id(const char *argument, const char *const *environment);

#endif
