/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Ways in which containers and services restrict a process. Each function is called in a child
 * before it executes a program, and returns NULL, or why this machine does not permit that.
 */
#ifndef TESTS_OUTSIDE_CONFINE_H
#define TESTS_OUTSIDE_CONFINE_H

/* Docker's default: its system calls and its capabilities. */
const char *confine_filter(void);
/* A call of userfaultfd(2) ends the process. */
const char *confine_kill(void);
/* All file systems but /proc are read-only. */
const char *confine_read_only(void);
/* The user nobody, without capabilities. */
const char *confine_nobody(void);

#endif
