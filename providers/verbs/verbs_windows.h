/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The memory windows of a verbs domain, <hmreg/verbs.h>'s hmreg_window_*(): each is bound once, by
 * a work request on the caller's queue pair, and ends with its deallocation. From before its
 * binding is posted until then its region is not deregistered: no device is asked whether it would.
 * No caller's thread calls the device of a lost domain: the thread that deregisters a region
 * deallocates its closed windows.
 */
#ifndef HMREG_PROVIDERS_VERBS_VERBS_WINDOWS_H
#define HMREG_PROVIDERS_VERBS_VERBS_WINDOWS_H

#include <hmreg/verbs.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#define WINDOW_LISTS 256

/* The windows of a verbs domain, whose provider part begins with this struct. */
struct windows {
    struct hmreg *lib;
    struct ibv_pd *pd;                        /* borrowed */
    unsigned extra;                           /* additional rights of a window that peers write:
                                               * IBV_ACCESS_REMOTE_ATOMIC */
    bool bindable;                            /* regions by address have IBV_ACCESS_MW_BIND */
    atomic_bool lost;                         /* the domain is */
    pthread_mutex_t lock;                     /* of the two fields below */
    struct hmreg_window *lists[WINDOW_LISTS]; /* hashed by the address of the region */
    unsigned count;                           /* without closed ones */
};

/* Has the region a window? closed_too: also one that was closed on a lost domain. */
bool windows_hold(struct windows *windows, const struct ibv_mr *mr, bool closed_too);
/* Deallocates the region's windows that were closed on a lost domain. */
void windows_end_closed(struct windows *windows, const struct ibv_mr *mr);
unsigned windows_count(struct windows *windows);

#endif
