/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See runtimes.h. A runtime that cannot be started is no error; the reason is kept. A forked child
 * does not start a runtime that its parent has used, since no runtime survives a fork. It starts no
 * runtime at all if a thread of the parent was loading one at the fork: the child then inherits the
 * dynamic linker's locks held and its data half changed.
 */
#include "core/context/runtimes.h"

#include "core/base/error.h"

#include <errno.h>
#include <stdio.h>
#include <time.h>

/* The use of each vendor's runtime by all hmreg objects of the process, as epochs (process.h); 0:
 * none. A child finds its parent's epoch in `first`, and also in `user` if it was forked while
 * another thread of the parent was opening or closing the runtime. */
static struct {
    _Atomic uint64_t first; /* the epoch in which the runtime was first opened */
    _Atomic uint64_t user;  /* the epoch in which a thread is opening or closing it now */
} used[HMREG_IFACE_COUNT];

/* The threads that are loading a runtime's library. They wait for any thread in dlopen(3), and such
 * a thread may itself need a runtime (a get in a constructor). So `used` does not mark the runtime
 * yet.
 */
static struct {
    _Atomic uint64_t epoch; /* the epoch in which a load last began */
    atomic_uint count;
} loading;

/* Was a thread of the parent loading a runtime at the fork? That thread is not in this process. */
static bool loading_was_cut(uint64_t epoch)
{
    if (atomic_load(&loading.count) && atomic_load(&loading.epoch) != epoch)
        return true;
    for (int i = 0; i < HMREG_IFACE_COUNT; i++) {
        uint64_t user = atomic_load(&used[i].user);

        if (user && user != epoch)
            return true;
    }
    return false;
}

/* Serializes opening and closing of a vendor's runtime, since not every loader supports two at
 * once. Either may take seconds, so a waiting thread sleeps. The system has no runtime. */
static void use_begin(enum hmreg_iface iface, uint64_t epoch)
{
    const struct timespec pause = {.tv_nsec = 1000000};
    uint64_t none = 0;

    while (iface != HMREG_IFACE_SYSTEM &&
           !atomic_compare_exchange_strong(&used[iface].user, &none, epoch)) {
        nanosleep(&pause, NULL);
        none = 0;
    }
}

static void use_end(enum hmreg_iface iface)
{
    atomic_store(&used[iface].user, 0);
}

/* ---- the reason ------------------------------------------------------------------------- */

static void set_why(struct runtimes *all, struct runtime *runtime, const char *why)
{
    pthread_mutex_lock(&all->lock);
    text_write(runtime->why, sizeof(runtime->why), "%s", why);
    pthread_mutex_unlock(&all->lock);
}

void runtimes_why(struct runtimes *all, enum hmreg_iface iface, char why[256])
{
    pthread_mutex_lock(&all->lock);
    snprintf(why, sizeof(all->of[iface].why), "%s", all->of[iface].why);
    pthread_mutex_unlock(&all->lock);
}

/* ---- starting one ----------------------------------------------------------------------- */

static void become(struct runtimes *all, struct runtime *runtime, enum runtime_state state)
{
    enum hmreg_iface iface = runtime->ops->iface;

    if (state == RUNTIME_PRESENT && iface != HMREG_IFACE_SYSTEM)
        atomic_store(&all->vendors, true);
    atomic_store(&runtime->state, state);
    atomic_fetch_and(&all->untried, ~HMREG_IFACE_BIT(iface));
}

/* A runtime that is not installed may be tried again, since the application may load its library
 * from elsewhere. So may a runtime that lacked memory. */
static void conclude(struct runtimes *all, struct runtime *runtime, int rc)
{
    set_why(all, runtime, rc ? hmreg_last_error()->text : "");
    if (!rc)
        runtime->devices = runtime->ops->device_count(runtime->self);
    if (rc != -ENOENT && rc != -ENOMEM)
        become(all, runtime, rc ? RUNTIME_ABSENT : RUNTIME_PRESENT);
}

static void log_outcome(const struct runtimes *all, const struct runtime *runtime, int rc)
{
    if (rc)
        log_say(all->log, HMREG_LOG_DEBUG, "%s is not usable: %s", runtime->ops->name,
                hmreg_last_error()->text);
    else
        log_say(all->log, HMREG_LOG_DEBUG, "%s: %d devices", runtime->ops->name, runtime->devices);
}

/* Marks a vendor's runtime as used before opening it. If it is not installed, none of its code ran:
 * removes the mark, and a child may look for it again. */
static int open_noted(struct runtimes *all, struct runtime *runtime)
{
    enum hmreg_iface iface = runtime->ops->iface;
    uint64_t none = 0;
    bool first = atomic_compare_exchange_strong(&used[iface].first, &none, all->epoch);
    int rc = runtime->ops->open(&runtime->self);

    if (rc == -ENOENT && first)
        atomic_store(&used[iface].first, 0);
    return rc;
}

/* Loads the library, and begins to use the runtime. */
static int load(struct runtimes *all, struct runtime *runtime)
{
    int rc;

    atomic_store(&loading.epoch, all->epoch);
    atomic_fetch_add(&loading.count, 1);
    rc = runtime->ops->load ? runtime->ops->load() : 0;
    use_begin(runtime->ops->iface, all->epoch);
    atomic_fetch_sub(&loading.count, 1);
    return rc;
}

/* Another thread may start it meanwhile. */
static int start(struct runtimes *all, struct runtime *runtime)
{
    int rc = load(all, runtime);
    bool tries = atomic_load(&runtime->state) == RUNTIME_UNTRIED;

    if (tries) {
        rc = rc ? rc : open_noted(all, runtime);
        conclude(all, runtime, rc);
    }
    use_end(runtime->ops->iface);
    if (tries)
        log_outcome(all, runtime, rc);
    return tries ? rc : 0;
}

struct runtime *runtimes_named(struct runtimes *all, enum hmreg_iface iface)
{
    struct runtime *runtime = &all->of[iface];
    struct hmreg_error saved;

    if (atomic_load(&runtime->state) == RUNTIME_UNTRIED) {
        hmreg_error_save(&saved);
        start(all, runtime);
        hmreg_error_restore(&saved);
    }
    return runtimes_present(all, iface);
}

/* ---- noticing --------------------------------------------------------------------------- */

static bool is_loaded(const struct runtime *runtime)
{
    return !runtime->ops->loaded || runtime->ops->loaded();
}

/* The library is in the process. If it reports no device, it owns no memory. */
static int start_loaded(struct runtimes *all, struct runtime *runtime)
{
    char why[sizeof(runtime->why)];
    int rc = start(all, runtime);

    if (rc != -ENOENT && rc != -ENOMEM)
        return 0;
    runtimes_why(all, runtime->ops->iface, why);
    return hmreg_fail(
        rc == -ENOMEM ? -ENOMEM : -EIO,
        "the library of %s is in this process and may own the memory, but cannot be queried: %s",
        runtime->ops->name, why);
}

/* For a runtime in the process: is it left alone until the application has started it? */
static bool waits(struct runtimes *all, const struct runtime *runtime)
{
    uint32_t bit = HMREG_IFACE_BIT(runtime->ops->iface);

    if (!all->started_only || !runtime->ops->started || runtime->ops->started()) {
        atomic_fetch_and(&all->waiting, ~bit);
        return false;
    }
    atomic_fetch_or(&all->waiting, bit);
    return true;
}

int runtimes_notice(struct runtimes *all)
{
    struct hmreg_error saved;
    uint64_t loads;
    bool same;
    int rc = 0;

    if (!atomic_load(&all->untried))
        return 0;
    loads = hmem_table.libraries_loaded();
    same = loads == atomic_load(&all->loads);
    if (same && !atomic_load(&all->waiting))
        return 0;
    hmreg_error_save(&saved);
    for (int i = 0; i < HMREG_IFACE_COUNT && !rc; i++)
        if (atomic_load(&all->untried) & HMREG_IFACE_BIT(i) &&
            (same ? atomic_load(&all->waiting) & HMREG_IFACE_BIT(i) : is_loaded(&all->of[i])) &&
            !waits(all, &all->of[i]))
            rc = start_loaded(all, &all->of[i]);
    if (rc)
        return rc;
    hmreg_error_restore(&saved);
    atomic_store(&all->loads, loads);
    return 0;
}

/* ---- all of them ------------------------------------------------------------------------ */

/* A fork happened before this library was opened, so the answer stays. False: gives the reason. */
static bool may_start(struct runtimes *all, struct runtime *runtime, uint32_t ifaces)
{
    uint64_t first = atomic_load(&used[runtime->ops->iface].first);

    runtime->why[0] = '\0';
    if (!(ifaces & HMREG_IFACE_BIT(runtime->ops->iface)))
        snprintf(runtime->why, sizeof(runtime->why), "%s was not requested", runtime->ops->name);
    else if (first && first != all->epoch)
        snprintf(runtime->why, sizeof(runtime->why),
                 "a parent of this process used %s before fork(), and its runtime does not work in "
                 "a child: exec first, or open it only after fork()",
                 runtime->ops->name);
    else if (runtime->ops->iface != HMREG_IFACE_SYSTEM && loading_was_cut(all->epoch))
        snprintf(
            runtime->why, sizeof(runtime->why),
            "another thread of this process's parent was loading a runtime at fork(), so dlopen() "
            "does not work here: exec first, or do not open hmreg while another thread forks");
    return !runtime->why[0];
}

void runtimes_open(struct runtimes *all, uint32_t ifaces, uint32_t named, uint64_t epoch,
                   const struct log *log)
{
    struct runtime *system = &all->of[HMREG_IFACE_SYSTEM];

    all->epoch = epoch;
    all->log = log;
    pthread_mutex_init(&all->lock, NULL);
    for (int i = 0; i < HMREG_IFACE_COUNT; i++) {
        all->of[i].state = RUNTIME_ABSENT;
        snprintf(all->of[i].why, sizeof(all->of[i].why), "this hmreg was built without %s",
                 hmreg_iface_name(i));
    }
    for (const struct hmem_ops *const *ops = hmem_table.vendors; *ops; ops++) {
        struct runtime *runtime = &all->of[(*ops)->iface];

        runtime->ops = *ops;
        if (!may_start(all, runtime, ifaces))
            continue;
        runtime->state = RUNTIME_UNTRIED;
        all->untried |= HMREG_IFACE_BIT((*ops)->iface);
    }
    if (!system->ops->open(&system->self))
        become(all, system, RUNTIME_PRESENT);
    for (int i = HMREG_IFACE_SYSTEM + 1; i < HMREG_IFACE_COUNT; i++)
        if (named & HMREG_IFACE_BIT(i))
            runtimes_named(all, i);
}

void runtimes_close(struct runtimes *all)
{
    for (int i = 0; i < HMREG_IFACE_COUNT; i++) {
        struct runtime *runtime = runtimes_present(all, i);

        if (!runtime)
            continue;
        use_begin(i, all->epoch);
        runtime->ops->close(runtime->self);
        use_end(i);
    }
    pthread_mutex_destroy(&all->lock);
}
