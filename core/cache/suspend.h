/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Steps of hmreg_suspend() and hmreg_resume() that hmreg_hibernate() and hmreg_thaw() share. Both
 * are for the thread whose turn it is (core/context/suspended.h).
 */
#ifndef HMREG_CORE_CACHE_SUSPEND_H
#define HMREG_CORE_CACHE_SUSPEND_H

#include "core/context/suspended.h"

#include <hmreg/suspend.h>

/* Ends the registrations of a range, or of all. Errors of hmreg_suspend(); the range counts as
 * suspended from then on, unless suspended_has() says after a failure that it does not. */
int suspend_range(struct hmreg *lib, const struct suspended_range *range);

/* The regions that could not be registered. */
struct resume_failures {
    void (*failed)(struct hmreg_mr *mr, const struct hmreg_error *why, void *context); /* or NULL */
    void *context;
    unsigned count;
    struct hmreg_error first;
};

/* Registers all regions anew that only SUSPENDED_ALL suspends. Without a failure this ends that
 * suspension. Returns their number. */
unsigned resume_all(struct hmreg *lib, const struct hmreg_resume_config *config,
                    struct resume_failures *failures);

#endif
