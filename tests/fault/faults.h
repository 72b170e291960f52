/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Makes every call that can fail for lack of a resource fail in turn. In an executable linked with
 * the options of FAULTS in CMakeLists.txt its own and the library's (hmreg_internal's) calls of the
 * C library come here.
 */
#ifndef TESTS_FAULT_FAULTS_H
#define TESTS_FAULT_FAULTS_H

#include <stdbool.h>

/* Of the calls this thread makes from now on, the nth (from 1) fails with its usual error number;
 * 0: none. */
void faults_arm(unsigned nth);
/* The call that failed: "calloc"; NULL: none did. */
const char *faults_fired(void);

/* For wrappers of a test's own: does this call fail now? Sets errno if so. */
bool faults_fail(const char *call, int errnum);

/* Blocks of memory, and mappings, allocated and not freed, by all threads. */
long faults_blocks(void);
long faults_mappings(void);
/* The C library allocated these blocks for its caller, who frees them. */
void faults_had(long blocks);
/* Maps what the library keeps until the process ends: the stubs of memhooks. */
void faults_hook_libc(void);

#endif
