/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * What --gpu and --cache do with a call before libibverbs gets it. The recording calls
 * (verbs_trace.c) ask these functions inside record_enter(), so registrations that they make
 * themselves are not recorded. NULL: the process only traces.
 */
#ifndef HMREG_PRELOAD_VERBS_VERBS_MODE_H
#define HMREG_PRELOAD_VERBS_VERBS_MODE_H

#include "preload/verbs/below.h"

struct verbs_mode {
    /* The answer, hmreg's or that of verbs_pass_on(); NULL: it failed, with errno. Where hmreg
     * registered, sets call's how, path, iface, device. What is passed on though the mode asks for
     * more is recorded as a reason (record_passed_on()). */
    struct ibv_mr *(*reg)(const struct verbs_request *request, struct record_call *call);
    /* The answer of ibv_dereg_mr(). */
    int (*dereg)(struct ibv_mr *mr);
    /* The answer of ibv_rereg_mr(), whose arguments these are. Sets call as reg() does. */
    int (*rereg)(struct ibv_mr *mr, int flags, struct ibv_pd *pd, void *addr, size_t length,
                 int access, struct record_call *call);
    /* Is it an object of hmreg's own? libibverbs must not get it then. */
    bool (*is_ours)(struct ibv_mr *mr);
    /* dereg() and rereg() of such an object on a thread that is inside a call already: in a signal
     * handler, or in libfabric below our hook. They take no lock, which the thread may hold. What
     * is hmreg's to end is left to catch_up(), outside of any other call. */
    int (*dereg_inside)(struct ibv_mr *mr);
    int (*rereg_inside)(struct ibv_mr *mr, int flags, struct ibv_pd *pd, void *addr, size_t length,
                        int access);
    bool (*is_behind)(void); /* is anything left? */
    void (*catch_up)(void);
    /* The program closes its protection domain or device: give up what is kept on it. */
    void (*closing_pd)(struct ibv_pd *pd);
    void (*closing_device)(struct ibv_context *context);
    /* It did so: forget what could not be given up. */
    void (*closed_pd)(const struct ibv_pd *pd);
    void (*unimporting_pd)(const struct ibv_pd *pd); /* after closing_pd() */
    void (*closed_device)(const struct ibv_context *context);
};

/* This process's, by preload_mode(); NULL: trace only. */
const struct verbs_mode *verbs_mode(void);

#endif
