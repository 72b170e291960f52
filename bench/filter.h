/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A seccomp filter for the system calls that containers refuse and a registration cache may try.
 */
#ifndef BENCH_FILTER_H
#define BENCH_FILTER_H

/* In a contestant: from now on these calls fail with EPERM, as with Docker's default profile. */
void filter_begin(void);

#endif
