/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Counts the steps of a call, one for each entry or change handled, so that a test can compare it
 * with a bound. A search in a tree counts as one. Not in release builds.
 */
#ifndef HMREG_CORE_BASE_WORK_H
#define HMREG_CORE_BASE_WORK_H

#ifdef NDEBUG
#define work_count(steps) ((void)0)
#else
#define work_count(steps) ((void)(work_counted += (steps)))
extern _Thread_local unsigned long work_counted
    __attribute__((tls_model("initial-exec"), visibility("hidden")));
#endif

#endif
