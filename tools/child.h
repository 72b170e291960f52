/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Separate processes of the command, each of which executes this program again, since neither CUDA
 * nor libfabric survives fork(). None outlives the command, which a signal may end at any time.
 */
#ifndef HMREG_TOOLS_CHILD_H
#define HMREG_TOOLS_CHILD_H

#include <sys/types.h>

/* Executes this program with argv. Its standard input is this descriptor, -1: the caller's. Its
 * standard output is a pipe, whose other end is *reader. The kernel kills it when the calling
 * thread ends. 0, or an errno value. */
int child_start(char **argv, int in, pid_t *pid, int *reader);

/* Runs a program, looked for in PATH, with these descriptors as its standard input, output and
 * error; the kernel kills it when the calling thread ends. Its exit status, 127 where there is none
 * of that name; -1: it was not started, or a signal ended it. */
int child_run(char **argv, int in, int out, int err);

/* In a child of fork(2): the kernel kills it when its parent, or the thread that forked, ends. */
void child_end_with(pid_t parent);

#endif
