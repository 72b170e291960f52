/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The monitor that learns of changes from the kernel, in this run: userfaultfd, or counter with
 * HMREG_TEST_MONITOR=counter, for which the kernel module hmreg_counter must be loaded.
 */
#ifndef TESTS_KERNEL_MONITOR_H
#define TESTS_KERNEL_MONITOR_H

#include <hmreg/hmreg.h>
#include <stdlib.h>
#include <string.h>

static inline enum hmreg_monitor kernel_monitor(void)
{
    const char *wanted = getenv("HMREG_TEST_MONITOR");

    return wanted && strcmp(wanted, "counter") == 0 ? HMREG_MONITOR_COUNTER
                                                    : HMREG_MONITOR_USERFAULTFD;
}

#endif
