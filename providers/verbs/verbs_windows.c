/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See verbs_windows.h.
 */
#include "providers/verbs/verbs_windows.h"

#include "core/base/error.h"
#include "core/contract/provider.h"

#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

struct hmreg_window {
    struct windows *all;
    struct hmreg_window *next, **link; /* link: the pointer to it in its list */
    struct ibv_mr *mr;
    struct ibv_mw *mw;
    uint32_t rkey;
    bool closed; /* on a lost domain */
};

/* ---- the list --------------------------------------------------------------------------- */

/* With many windows a deregistration searches few. */
static struct hmreg_window **list_of(struct windows *windows, const struct ibv_mr *mr)
{
    return &windows->lists[(uintptr_t)mr / _Alignof(max_align_t) % WINDOW_LISTS];
}

bool windows_hold(struct windows *windows, const struct ibv_mr *mr, bool closed_too)
{
    const struct hmreg_window *window;

    pthread_mutex_lock(&windows->lock);
    window = *list_of(windows, mr);
    while (window && (window->mr != mr || (window->closed && !closed_too)))
        window = window->next;
    pthread_mutex_unlock(&windows->lock);
    return window;
}

unsigned windows_count(struct windows *windows)
{
    unsigned count;

    pthread_mutex_lock(&windows->lock);
    count = windows->count;
    pthread_mutex_unlock(&windows->lock);
    return count;
}

static void enter(struct hmreg_window *window)
{
    struct windows *all = window->all;
    struct hmreg_window **list = list_of(all, window->mr);

    pthread_mutex_lock(&all->lock);
    window->link = list;
    window->next = *list;
    if (*list)
        (*list)->link = &window->next;
    *list = window;
    all->count++;
    pthread_mutex_unlock(&all->lock);
}

/* With the lock held. */
static void unlink_window(struct hmreg_window *window)
{
    *window->link = window->next;
    if (window->next)
        window->next->link = window->link;
}

static void leave(struct hmreg_window *window)
{
    pthread_mutex_lock(&window->all->lock);
    unlink_window(window);
    window->all->count--;
    pthread_mutex_unlock(&window->all->lock);
}

/* The window stays in its list, until windows_end_closed(). */
static void leave_closed(struct hmreg_window *window)
{
    pthread_mutex_lock(&window->all->lock);
    window->closed = true;
    window->all->count--;
    pthread_mutex_unlock(&window->all->lock);
}

/* NULL: there is none. */
static struct hmreg_window *take_closed(struct windows *windows, const struct ibv_mr *mr)
{
    struct hmreg_window *window;

    pthread_mutex_lock(&windows->lock);
    window = *list_of(windows, mr);
    while (window && !(window->mr == mr && window->closed))
        window = window->next;
    if (window)
        unlink_window(window);
    pthread_mutex_unlock(&windows->lock);
    return window;
}

/* A device that is gone has no window, whatever it answers. */
void windows_end_closed(struct windows *windows, const struct ibv_mr *mr)
{
    struct hmreg_window *window;

    while ((window = take_closed(windows, mr))) {
        (void)ibv_dealloc_mw(window->mw);
        free(window);
    }
}

/* ---- checks ----------------------------------------------------------------------------- */

static int check_arguments(uint64_t access, const struct ibv_qp *qp, enum ibv_mw_type type,
                           struct hmreg_window **out)
{
    if (!access || access & ~(uint64_t)HMREG_ACCESS_REMOTE)
        return hmreg_fail(-EINVAL,
                          "access is %#" PRIx64 "; a window has HMREG_REMOTE_READ, "
                          "HMREG_REMOTE_WRITE or both",
                          access);
    if (type != IBV_MW_TYPE_1 && type != IBV_MW_TYPE_2)
        return hmreg_fail(-EINVAL, "type is %d; accepted: 1 (IBV_MW_TYPE_1), 2 (IBV_MW_TYPE_2)",
                          (int)type);
    if (!qp || !out)
        return hmreg_fail(-EINVAL, "%s is NULL", !qp ? "qp" : "out");
    return 0;
}

/* A parent domain has the context and the handle of the protection domain behind it. */
static bool is_of(const struct windows *windows, const struct ibv_qp *qp)
{
    return qp->pd->context == windows->pd->context && qp->pd->handle == windows->pd->handle;
}

static int check_subrange(const struct windows *windows, const struct provider_subrange *subrange,
                          const struct ibv_qp *qp)
{
    if (!windows->bindable)
        return hmreg_fail(-EACCES, "mr: its domain was opened without HMREG_VERBS_MEMORY_WINDOWS, "
                                   "so no window can be bound to it");
    if (subrange->path == HMREG_PATH_DMABUF)
        return hmreg_fail(-EOPNOTSUPP, "mr: the region is registered by a dmabuf, and the kernel "
                                       "binds no memory window to it");
    if (!is_of(windows, qp))
        return hmreg_fail(-EINVAL, "qp belongs to another protection domain than mr");
    return 0;
}

/* ---- binding ---------------------------------------------------------------------------- */

static int fail_device(const struct windows *windows, int errnum, const char *what)
{
    errnum = errnum ? errnum : EIO; /* some drivers fail without setting it */
    return hmreg_fail_vendor(-errnum, "verbs", errnum, hmreg_strerror(errnum), "%s %s: %s",
                             ibv_get_device_name(windows->pd->context->device), what,
                             hmreg_strerror(errnum));
}

static struct hmreg_window *allocate(struct windows *windows, struct ibv_mr *mr,
                                     enum ibv_mw_type type, int *rc)
{
    struct hmreg_window *window = calloc(1, sizeof(*window));

    if (!window) {
        *rc = hmreg_fail(-ENOMEM, "hmreg has no memory for a window");
        return NULL;
    }
    window->all = windows;
    window->mr = mr;
    errno = 0;
    window->mw = ibv_alloc_mw(windows->pd, type);
    if (window->mw)
        return window;
    *rc = fail_device(windows, errno, "allocates no memory window of this type");
    free(window);
    return NULL;
}

static unsigned translate(const struct windows *windows, uint64_t access)
{
    unsigned flags = access & HMREG_REMOTE_READ ? IBV_ACCESS_REMOTE_READ : 0;

    if (access & HMREG_REMOTE_WRITE)
        flags |= IBV_ACCESS_REMOTE_WRITE | windows->extra;
    return flags;
}

/* 0 or an errno value. */
static int post(struct hmreg_window *window, struct ibv_qp *qp, const struct ibv_mw_bind_info *info,
                uint64_t wr_id)
{
    struct ibv_mw_bind bind = {.wr_id = wr_id, .send_flags = IBV_SEND_SIGNALED, .bind_info = *info};
    struct ibv_send_wr wr = {
        .wr_id = wr_id, .opcode = IBV_WR_BIND_MW, .send_flags = IBV_SEND_SIGNALED};
    struct ibv_send_wr *bad;
    int errnum;

    if (window->mw->type == IBV_MW_TYPE_1) {
        errnum = ibv_bind_mw(qp, window->mw, &bind);
        window->rkey = window->mw->rkey;
        return errnum;
    }
    window->rkey = ibv_inc_rkey(window->mw->rkey);
    wr.bind_mw.mw = window->mw;
    wr.bind_mw.rkey = window->rkey;
    wr.bind_mw.bind_info = *info;
    return ibv_post_send(qp, &wr, &bad);
}

static int bind(struct hmreg_window *window, const struct provider_subrange *subrange,
                uint64_t access, struct ibv_qp *qp, uint64_t wr_id)
{
    const struct ibv_mw_bind_info info = {.mr = window->mr,
                                          .addr = subrange->base,
                                          .length = subrange->len,
                                          .mw_access_flags = translate(window->all, access)};
    int errnum;

    enter(window);
    errnum = post(window, qp, &info, wr_id);
    if (!errnum)
        return 0;
    leave(window);
    if (errnum < 0) /* older convention: -1 and errno */
        errnum = errno;
    return fail_device(window->all, errnum, "did not take the work request that binds the window");
}

/* ---- public calls ----------------------------------------------------------------------- */

int hmreg_window_open(struct hmreg_mr *mr, const void *addr, size_t len, uint64_t access,
                      struct ibv_qp *qp, enum ibv_mw_type type, uint64_t wr_id,
                      struct hmreg_window **out)
{
    struct provider_subrange subrange = {.self = NULL};
    struct hmreg_window *window;
    int rc = hmreg_mr_subrange(mr, "verbs", addr, len, &subrange);

    rc = rc ? rc : check_arguments(access, qp, type, out);
    rc = rc ? rc : check_subrange(subrange.self, &subrange, qp);
    if (rc)
        return rc;
    window = allocate(subrange.self, subrange.native, type, &rc);
    if (!window)
        return rc;
    rc = bind(window, &subrange, access, qp, wr_id);
    if (rc) {
        ibv_dealloc_mw(window->mw);
        free(window);
        return rc;
    }
    *out = window;
    return 0;
}

static int check(const struct hmreg_window *window)
{
    return window ? hmreg_lib_check(window->all->lib) : hmreg_fail(-EINVAL, "window is NULL");
}

uint32_t hmreg_window_rkey(const struct hmreg_window *window)
{
    return window ? window->rkey : HMREG_VERBS_KEY_NOTAVAIL;
}

int hmreg_window_close(struct hmreg_window *window)
{
    int rc = window ? check(window) : 0, errnum;

    if (rc || !window)
        return rc;
    if (atomic_load(&window->all->lost)) {
        leave_closed(window);
        return 0;
    }
    errnum = ibv_dealloc_mw(window->mw);
    if (errnum)
        return fail_device(window->all, errnum < 0 ? errno : errnum, "did not end a memory window");
    leave(window);
    free(window);
    return 0;
}
