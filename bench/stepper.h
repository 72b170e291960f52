/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Counts instructions by walking through them one by one, with ptrace(2): for what valgrind cannot
 * run, since it does not know userfaultfd(2). A system call counts as one.
 */
#ifndef BENCH_STEPPER_H
#define BENCH_STEPPER_H

/* Of work(arg), in a child process that prepared itself by prepare(arg); its other threads are not
 * counted. What work() does besides falls out where two counts are compared. Negative: it cannot
 * be had. */
double count_steps(void (*prepare)(void *arg), void (*work)(void *arg), void *arg);

#endif
