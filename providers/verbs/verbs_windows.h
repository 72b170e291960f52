/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The memory windows of a verbs domain, <hmreg/verbs.h>'s hmreg_window_*(): each is bound once, by
 * a work request on the caller's queue pair, and ends with its deallocation. From before its
 * binding is posted until then its region is not deregistered: no device is asked whether it would.
 */
#ifndef HMREG_PROVIDERS_VERBS_VERBS_WINDOWS_H
#define HMREG_PROVIDERS_VERBS_VERBS_WINDOWS_H

#include <hmreg/verbs.h>
#include <pthread.h>
#include <stdbool.h>

#define WINDOW_LISTS 256

/* A verbs domain's; the provider's part of the domain begins with it. */
struct windows {
    struct hmreg *lib;
    struct ibv_pd *pd;    /* borrowed */
    unsigned extra;       /* what a window that peers write has besides: IBV_ACCESS_REMOTE_ATOMIC */
    bool bindable;        /* regions by address have IBV_ACCESS_MW_BIND */
    pthread_mutex_t lock; /* of these two */
    struct hmreg_window *lists[WINDOW_LISTS]; /* by the address of their regions */
    unsigned count;
};

/* Has the region a window? */
bool windows_hold(struct windows *windows, const struct ibv_mr *mr);
unsigned windows_count(struct windows *windows);

#endif
