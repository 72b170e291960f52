/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The system calls that containers refuse, as far as a registration cache may try them.
 */
#ifndef BENCH_FILTER_H
#define BENCH_FILTER_H

/* In a contestant: from now on they are answered with EPERM, as Docker's default profile does. */
void filter_begin(void);

#endif
