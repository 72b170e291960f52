/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Opens and closes the library. hmreg_open() opens the runtime of each vendor that is built in and
 * requested; for a runtime that cannot be opened it keeps the reason, which is no error. A forked
 * child does not open a runtime that its parent has used, since no runtime survives a fork. It
 * opens no runtime at all if a thread of the parent was loading one at the fork: the child then
 * inherits the dynamic linker with its locks held and its data half changed.
 */
#include "core/context/context.h"

#include "core/base/error.h"
#include "core/base/validate.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* The use of each vendor's runtime by all hmreg objects of the process, as epochs (process.h); 0:
 * none. A child finds its parent's epoch in `first`, and also in `user` if it was forked while
 * another thread of the parent was opening or closing the runtime. */
static struct {
    _Atomic uint64_t first; /* the epoch in which the runtime was first opened */
    _Atomic uint64_t user;  /* the epoch in which a thread is opening or closing it now */
} used[HMREG_IFACE_COUNT];

int context_check(const struct hmreg *lib)
{
    if (!lib)
        return hmreg_fail(-EINVAL, "lib is NULL");
    if (!process_is(lib->epoch))
        return hmreg_fail(-EPERM,
                          "this hmreg was opened by process %u; a forked child must "
                          "open its own",
                          (unsigned)(lib->epoch >> 32));
    return 0;
}

int context_check_device(const struct hmreg *lib, enum hmreg_iface iface, int device)
{
    int devices = lib->runtimes[iface].devices;

    if (device < 0 || device >= devices)
        return hmreg_fail(-ENODEV, "%s has no device %d; it has %d devices",
                          hmreg_iface_name(iface), device, devices);
    return 0;
}

struct runtime *context_runtime(struct hmreg *lib, enum hmreg_iface iface)
{
    struct runtime *runtime = &lib->runtimes[iface];

    return runtime->present ? runtime : NULL;
}

void context_device(struct hmreg *lib, enum hmreg_iface iface, int device, struct hmem_device *out)
{
    struct runtime *runtime = context_runtime(lib, iface);

    *out = (struct hmem_device){0};
    if (runtime && device >= 0 && device < runtime->devices)
        runtime->ops->device(runtime->self, device, out);
}

/* Logs the chosen monitor and shows it on the stats page. Called once per library, on the thread
 * that chose. */
static void log_choice(struct hmreg *lib)
{
    struct hmreg_monitor_info info = {0};

    monitor_query(lib->monitor, &info);
    stats_page_show_monitor(&lib->stats_page, info.active);
    if (info.active == HMREG_MONITOR_DISABLED)
        log_must(&lib->settings.log,
                 "host memory is registered anew by each get, none is cached: %s", info.why);
    else
        log_say(&lib->settings.log, HMREG_LOG_INFO, "%s tells of changes of host memory%s%s",
                hmreg_monitor_name(info.active), info.why[0] ? "; " : "", info.why);
}

enum hmreg_monitor context_monitor(struct hmreg *lib)
{
    if (monitor_choose(lib->monitor))
        log_choice(lib);
    return monitor_kind(lib->monitor);
}

/* Was a thread of the parent loading a runtime at the fork? That thread is not in this process. */
static bool loading_was_cut(uint64_t epoch)
{
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

/* Marks a vendor's runtime as used before opening it. If it is not installed, no code of it ran:
 * the mark is removed, and a child may look for it again. */
static int open_noted(struct runtime *runtime, uint64_t epoch)
{
    enum hmreg_iface iface = runtime->ops->iface;
    uint64_t none = 0;
    bool first;
    int rc;

    if (iface == HMREG_IFACE_SYSTEM)
        return runtime->ops->open(&runtime->self);
    use_begin(iface, epoch);
    first = atomic_compare_exchange_strong(&used[iface].first, &none, epoch);
    rc = runtime->ops->open(&runtime->self);
    if (rc == -ENOENT && first)
        atomic_store(&used[iface].first, 0);
    use_end(iface);
    return rc;
}

static void runtime_open(struct runtime *runtime, uint64_t epoch)
{
    uint64_t first = atomic_load(&used[runtime->ops->iface].first);
    struct hmreg_error saved;
    int rc;

    if (first && first != epoch) {
        snprintf(runtime->why, sizeof(runtime->why),
                 "a parent of this process used %s before fork(); its runtime does not work in a "
                 "child: exec first, or open it after fork() only",
                 runtime->ops->name);
        return;
    }
    if (runtime->ops->iface != HMREG_IFACE_SYSTEM && loading_was_cut(epoch)) {
        snprintf(runtime->why, sizeof(runtime->why),
                 "a parent of this process was loading a runtime on another thread at fork(); "
                 "dlopen() does not work in such a child: exec first, or open hmreg before or "
                 "after fork(), not beside it");
        return;
    }
    hmreg_error_save(&saved);
    rc = open_noted(runtime, epoch);
    if (rc == 0) {
        runtime->present = true;
        runtime->devices = runtime->ops->device_count(runtime->self);
    } else {
        snprintf(runtime->why, sizeof(runtime->why), "%s", hmreg_last_error()->text);
    }
    hmreg_error_restore(&saved);
}

static void log_runtime(const struct hmreg *lib, enum hmreg_iface iface)
{
    const struct runtime *runtime = &lib->runtimes[iface];

    if (runtime->present)
        log_say(&lib->settings.log, HMREG_LOG_DEBUG, "%s: %d devices", hmreg_iface_name(iface),
                runtime->devices);
    else
        log_say(&lib->settings.log, HMREG_LOG_DEBUG, "%s is not usable: %s",
                hmreg_iface_name(iface), runtime->why);
}

static void runtimes_open(struct hmreg *lib)
{
    for (int i = 0; i < HMREG_IFACE_COUNT; i++)
        snprintf(lib->runtimes[i].why, sizeof(lib->runtimes[i].why),
                 "this hmreg was built without %s", hmreg_iface_name(i));
    for (const struct hmem_ops *const *ops = hmem_vendors; *ops; ops++) {
        struct runtime *runtime = &lib->runtimes[(*ops)->iface];

        runtime->ops = *ops;
        runtime->why[0] = '\0';
        if (lib->settings.ifaces & HMREG_IFACE_BIT((*ops)->iface))
            runtime_open(runtime, lib->epoch);
        else
            snprintf(runtime->why, sizeof(runtime->why), "%s was not asked for", (*ops)->name);
    }
    for (int i = 0; i < HMREG_IFACE_COUNT; i++) {
        lib->vendors |= i != HMREG_IFACE_SYSTEM && lib->runtimes[i].present;
        log_runtime(lib, i);
    }
}

static void runtimes_close(struct hmreg *lib)
{
    for (int i = 0; i < HMREG_IFACE_COUNT; i++) {
        if (!lib->runtimes[i].present)
            continue;
        use_begin(i, lib->epoch);
        lib->runtimes[i].ops->close(lib->runtimes[i].self);
        use_end(i);
    }
}

int hmreg_open(const struct hmreg_config *config, struct hmreg **out)
{
    struct settings settings;
    struct hmreg *lib = NULL;
    int rc = validate_pointer(out, "out");

    if (!rc)
        rc = settings_read(config, &settings);
    if (rc)
        return rc;
    lib = calloc(1, sizeof(*lib));
    if (!lib)
        return hmreg_fail(-ENOMEM, "no memory for the library");
    lib->settings = settings;
    lib->epoch = process_epoch_start();
    rc = lib->epoch ? monitor_open(settings.monitor, &lib->monitor) : -ENOMEM;
    if (rc) {
        free(lib);
        return rc;
    }
    pthread_mutex_init(&lib->lock, NULL);
    quota_init(&lib->quota, settings.all_regions, settings.all_bytes);
    pthread_mutex_init(&lib->sets_lock, NULL);
    pthread_cond_init(&lib->sets_left, NULL);
    stats_page_open(&lib->stats_page, settings.stats, monitor_kind(lib->monitor));
    runtimes_open(lib);
    *out = lib;
    return 0;
}

int hmreg_close(struct hmreg *lib)
{
    const void *owned;
    unsigned domains;
    int rc;

    if (!lib)
        return 0;
    rc = context_check(lib);
    if (rc)
        return rc;
    domains = atomic_load(&lib->domains);
    if (domains)
        return hmreg_fail(-EBUSY, "%u domains of this library are open", domains);
    pthread_mutex_lock(&lib->lock);
    owned = lib->owned ? lib->owned->addr : NULL;
    pthread_mutex_unlock(&lib->lock);
    if (owned)
        return hmreg_fail(-EBUSY, "memory of hmreg_mem_alloc() at %p is not freed", owned);
    monitor_close(lib->monitor);
    runtimes_close(lib);
    stats_page_close(&lib->stats_page);
    quota_destroy(&lib->quota);
    pthread_cond_destroy(&lib->sets_left);
    pthread_mutex_destroy(&lib->sets_lock);
    pthread_mutex_destroy(&lib->lock);
    free(lib);
    return 0;
}

int hmreg_monitor_query(struct hmreg *lib, struct hmreg_monitor_info *out)
{
    struct hmreg_monitor_info info = {0};
    int rc = context_check(lib);

    rc = rc ? rc : validate_out(out, sizeof(info), "struct hmreg_monitor_info");
    if (rc)
        return rc;
    monitor_query(lib->monitor, &info);
    validate_copy_out(out, &info, sizeof(info));
    return 0;
}

int hmreg_runtime_query(struct hmreg *lib, enum hmreg_iface iface, struct hmreg_runtime_info *out)
{
    struct hmreg_runtime_info info = {0};
    struct hmem_runtime loaded = {0};
    const struct runtime *runtime;
    int rc = context_check(lib);

    rc = rc ? rc : validate_iface(iface);
    rc = rc ? rc : validate_out(out, sizeof(info), "struct hmreg_runtime_info");
    if (rc)
        return rc;
    runtime = &lib->runtimes[iface];
    info.present = runtime->present;
    info.devices = runtime->devices;
    if (runtime->present)
        runtime->ops->runtime(runtime->self, &loaded);
    memcpy(info.version, loaded.version, sizeof(info.version));
    memcpy(info.library, loaded.library, sizeof(info.library));
    memcpy(info.why, runtime->present ? loaded.lacks : runtime->why, sizeof(info.why));
    validate_copy_out(out, &info, sizeof(info));
    return 0;
}

int hmreg_device_query(struct hmreg *lib, enum hmreg_iface iface, int index,
                       struct hmreg_device_info *out)
{
    struct hmreg_device_info info = {0};
    struct hmem_device device;
    int rc = context_check(lib);

    rc = rc ? rc : validate_iface(iface);
    rc = rc ? rc : validate_out(out, sizeof(info), "struct hmreg_device_info");
    rc = rc ? rc : context_check_device(lib, iface, index);
    if (rc)
        return rc;
    context_device(lib, iface, index, &device);
    memcpy(info.name, device.name, sizeof(info.name));
    info.flags =
        (device.simulated ? HMREG_DEVICE_SIMULATED : 0) | (device.dmabuf ? HMREG_DEVICE_DMABUF : 0);
    info.pci = device.pci;
    info.memory = device.memory;
    validate_copy_out(out, &info, sizeof(info));
    return 0;
}
