/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Separate processes of the command, each of which executes this program again, since neither CUDA
 * nor libfabric survives fork(). None outlives the command, which a signal may end at any time.
 */
#ifndef HMREG_TOOLS_CHILD_H
#define HMREG_TOOLS_CHILD_H

#include <sys/types.h>

/* Executes this program with argv. in: its standard input; -1: the caller's. Its standard output is
 * a pipe; *reader: the other end. The kernel kills it when the calling thread ends. 0, or an errno
 * value. */
int child_start(char **argv, int in, pid_t *pid, int *reader);

/* Runs a program of PATH with these descriptors as its standard input, output and error. The kernel
 * kills it when the calling thread ends. Returns its exit status; 127: no such program; -1: it did
 * not start, or a signal ended it. */
int child_run(char **argv, int in, int out, int err);

/* Call in a child of fork(2): the kernel will kill it when its parent, or the thread that forked,
 * ends. */
void child_end_with(pid_t parent);

#endif
