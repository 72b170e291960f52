/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Counts instructions by single steps with ptrace(2), for programs that valgrind cannot run, since
 * it does not know userfaultfd(2). A system call counts as one.
 */
#ifndef BENCH_STEPPER_H
#define BENCH_STEPPER_H

/* The instructions of work(arg), in a child process after prepare(arg); its other threads are not
 * counted. The caller takes the difference of two counts, which cancels overhead. Negative: not
 * available. */
double count_steps(void (*prepare)(void *arg), void (*work)(void *arg), void *arg);

#endif
