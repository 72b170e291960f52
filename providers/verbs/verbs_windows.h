/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The memory windows of a verbs domain, <hmreg/verbs.h>'s hmreg_window_*(): each is bound once, by
 * a work request on the caller's queue pair, and ends with its deallocation. From before its
 * binding is posted until then its region is not deregistered: no device is asked whether it would.
 * Of a lost domain no caller's thread calls the device: a window that is closed is deallocated by
 * the thread that deregisters its region.
 */
#ifndef HMREG_PROVIDERS_VERBS_VERBS_WINDOWS_H
#define HMREG_PROVIDERS_VERBS_VERBS_WINDOWS_H

#include <hmreg/verbs.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#define WINDOW_LISTS 256

/* A verbs domain's; the provider's part of the domain begins with it. */
struct windows {
    struct hmreg *lib;
    struct ibv_pd *pd;    /* borrowed */
    unsigned extra;       /* what a window that peers write has besides: IBV_ACCESS_REMOTE_ATOMIC */
    bool bindable;        /* regions by address have IBV_ACCESS_MW_BIND */
    atomic_bool lost;     /* the domain is */
    pthread_mutex_t lock; /* of these two */
    struct hmreg_window *lists[WINDOW_LISTS]; /* by the address of their regions */
    unsigned count;                           /* that are not closed */
};

/* Has the region a window? closed_too: also one that was closed on a lost domain. */
bool windows_hold(struct windows *windows, const struct ibv_mr *mr, bool closed_too);
/* Deallocates the region's windows that were closed on a lost domain. */
void windows_end_closed(struct windows *windows, const struct ibv_mr *mr);
unsigned windows_count(struct windows *windows);

#endif
