/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Which memory of a process is writable and executable: a child stops at each of its system calls,
 * and its parent reads its list of mappings there. Only system calls change that list, so nothing
 * is missed.
 */
#ifndef TESTS_CODE_WATCH_H
#define TESTS_CODE_WATCH_H

#include <sys/types.h>

struct code_watch {
    const char *const *files; /* whose code may be, by parts of their names; ends with NULL */
    unsigned stops, code, other;
    unsigned left;  /* mappings at the last stop */
    char line[512]; /* of the last that is no code of these files */
};

/* In the child: the parent looks from now on. 0, or -1 and errno. */
int code_watch_begin(void);
/* Looks until the child ends. Returns its exit status, or -1 after a signal. */
int code_watch(pid_t child, struct code_watch *watch);

#endif
