/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Opens and closes the library, and describes its monitor, runtimes and devices.
 */
#include "core/context/context.h"

#include "core/base/error.h"
#include "core/base/failure.h"
#include "core/base/life.h"
#include "core/base/maps.h"
#include "core/base/uncancelled.h"
#include "core/base/validate.h"
#include "core/contract/provider.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

struct log *hmreg_lib_log(struct hmreg *lib)
{
    return lib && process_is(lib->epoch) ? &lib->settings.log : NULL;
}

uint64_t context_life(struct hmreg *lib)
{
    uint64_t life = life_number();

    if (atomic_load(&lib->life) == life)
        return life;
    monitor_notice(lib->monitor, 0, UINT64_MAX);
    atomic_store(&lib->life, life);
    return life;
}

int context_check_device(struct hmreg *lib, enum hmreg_iface iface, int device)
{
    const struct runtime *runtime = runtimes_named(&lib->runtimes, iface);
    int devices = runtime ? runtime->devices : 0;

    if (device < 0 || device >= devices)
        return hmreg_fail(-ENODEV, "%s has no device %d; it has %d devices",
                          hmreg_iface_name(iface), device, devices);
    return 0;
}

struct runtime *context_runtime(struct hmreg *lib, enum hmreg_iface iface)
{
    assert((unsigned)iface < HMREG_IFACE_COUNT);
    return runtimes_present(&lib->runtimes, iface);
}

struct runtime *context_runtime_named(struct hmreg *lib, enum hmreg_iface iface, int code)
{
    struct runtime *runtime = runtimes_named(&lib->runtimes, iface);
    char why[sizeof(lib->runtimes.of[0].why)];

    if (runtime)
        return runtime;
    runtimes_why(&lib->runtimes, iface, why);
    hmreg_fail(code, "iface %s is not usable: %s", hmreg_iface_name(iface), why);
    return NULL;
}

void context_device(struct hmreg *lib, enum hmreg_iface iface, int device, struct hmem_device *out)
{
    struct runtime *runtime = context_runtime(lib, iface);

    *out = (struct hmem_device){0};
    if (runtime && device >= 0 && device < runtime->devices)
        runtime->ops->device(runtime->self, device, out);
}

/* Logs the chosen monitor and shows it on the stats page. Called once per library, on the thread
 * that chose. If another thread has begun to load a file since, that needs no line. */
static void log_choice(struct hmreg *lib)
{
    struct hmreg_monitor_info info = {0};
    bool loads = monitor_awaits_linker(lib->monitor);

    monitor_query(lib->monitor, &info);
    loads |= monitor_awaits_linker(lib->monitor);
    stats_page_show_monitor(&lib->stats_page, &info);
    if (info.active == HMREG_MONITOR_DISABLED || (!loads && monitor_is_short(lib->monitor)))
        log_must(&lib->settings.log, "each get registers host memory anew, none is cached%s: %s",
                 info.active == HMREG_MONITOR_DISABLED ? "" : " for now", info.why);
    else
        log_say(&lib->settings.log, HMREG_LOG_INFO, "%s reports changes of host memory%s%s",
                hmreg_monitor_name(info.active), info.why[0] && !loads ? "; " : "",
                loads ? "" : info.why);
}

enum hmreg_monitor context_monitor(struct hmreg *lib)
{
    if (monitor_choose(lib->monitor))
        log_choice(lib);
    return monitor_kind(lib->monitor);
}

/* ---- all of the process ------------------------------------------------------------------ */

/* On a page that a fork wipes in the child: zeroes are a free lock and an empty list. */
struct all {
    pthread_mutex_t lock;
    pthread_cond_t left; /* a visit has ended */
    struct hmreg *first;
};

static _Atomic(void *) all_page;

static void join_all(struct hmreg *lib)
{
    struct all *all = atomic_load(&all_page);

    pthread_mutex_lock(&all->lock);
    lib->next = all->first;
    all->first = lib;
    pthread_mutex_unlock(&all->lock);
}

static void leave_all(struct hmreg *lib)
{
    struct all *all = atomic_load(&all_page);
    struct hmreg **link = &all->first;

    pthread_mutex_lock(&all->lock);
    while (lib->visitors)
        pthread_cond_wait(&all->left, &all->lock);
    while (*link != lib)
        link = &(*link)->next;
    *link = lib->next;
    pthread_mutex_unlock(&all->lock);
}

int context_each(int (*call)(struct hmreg *lib, void *context), void *context)
{
    struct all *all = atomic_load(&all_page);
    int rc = 0;

    pthread_mutex_lock(&all->lock);
    for (struct hmreg *lib = all->first; lib && !rc; lib = lib->next) {
        lib->visitors++;
        pthread_mutex_unlock(&all->lock);
        rc = call(lib, context);
        pthread_mutex_lock(&all->lock);
        lib->visitors--;
        pthread_cond_broadcast(&all->left);
    }
    pthread_mutex_unlock(&all->lock);
    return rc;
}

/* ---- open and close ---------------------------------------------------------------------- */

int hmreg_open(const struct hmreg_config *config, struct hmreg **out)
{
    struct settings settings = {.plain_calls = false};
    LOGS_FAILURE(&settings.log);
    struct hmreg *lib = NULL;
    int rc;
    UNCANCELLED;

    if (process_is_bare()) /* cleared, since it is going to allocate */
        (void)process_epoch_start();
    rc = validate_pointer(out, "out");
    if (!rc)
        rc = settings_read(config, &settings);
    if (rc)
        return rc;
    lib = process_page_at(&all_page) ? calloc(1, sizeof(*lib)) : NULL;
    if (!lib)
        return hmreg_fail(-ENOMEM, "hmreg has no memory for the library");
    if (settings.monitor_if_there && !monitor_has_counter()) {
        settings.monitor = HMREG_MONITOR_DEFAULT;
        settings.monitor_missing = "counter: there is no /dev/hmreg";
    }
    lib->settings = settings;
    if (settings.plain_calls)
        maps_read_only();
    hmem_table.listen(monitor_ended);
    lib->epoch = process_epoch_start();
    lib->life = life_number();
    rc = lib->epoch && lib->life
             ? monitor_open(settings.monitor, settings.plain_calls, &lib->monitor)
             : -ENOMEM;
    if (rc) {
        free(lib);
        return rc;
    }
    pthread_mutex_init(&lib->lock, NULL);
    quota_init(&lib->quota, settings.all_regions, settings.all_bytes);
    pthread_mutex_init(&lib->sets_lock, NULL);
    pthread_cond_init(&lib->sets_left, NULL);
    suspended_open(&lib->suspended);
    stats_page_open(&lib->stats_page, settings.stats, monitor_kind(lib->monitor));
    lib->runtimes.started_only = settings.started_only;
    runtimes_open(&lib->runtimes, lib->settings.ifaces, lib->settings.named, lib->epoch,
                  &lib->settings.log);
    if (settings.monitor_missing)
        log_say(&lib->settings.log, HMREG_LOG_WARN,
                "FI_MR_CACHE_MONITOR=%s; hmreg uses its default", settings.monitor_missing);
    join_all(lib);
    *out = lib;
    return 0;
}

static int check_close(struct hmreg *lib)
{
    LOGS_FAILURE_AS("hmreg_close", hmreg_lib_log(lib));
    const void *owned;
    unsigned domains;
    int rc = context_check(lib);

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
    return 0;
}

int hmreg_close(struct hmreg *lib)
{
    int rc;
    UNCANCELLED;

    rc = lib ? check_close(lib) : 0;
    if (rc || !lib)
        return rc;
    leave_all(lib);
    monitor_close(lib->monitor);
    runtimes_close(&lib->runtimes);
    suspended_close(&lib->suspended);
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
    LOGS_FAILURE(hmreg_lib_log(lib));
    struct hmreg_monitor_info info = {0};
    int rc = context_check(lib);

    rc = rc ? rc : validate_out(out, sizeof(info), "struct hmreg_monitor_info");
    if (rc)
        return rc;
    monitor_query(lib->monitor, &info);
    validate_copy_out(out, &info, sizeof(info));
    return 0;
}

static void say_unreported(const struct hmreg *lib, const struct runtime *runtime,
                           const struct hmem_runtime *loaded, char *out, size_t size)
{
    if (!runtime || runtime->ops->iface == HMREG_IFACE_SYSTEM)
        return;
    if (!lib->settings.device_ends)
        snprintf(out, size, "%s", CONTEXT_ENDS_ARE_OFF(lib));
    else if (!runtime->ops->watch && !loaded->unreported[0])
        snprintf(out, size, "%s", CONTEXT_REPORTS_NO_END);
    else
        memcpy(out, loaded->unreported, size);
}

int hmreg_runtime_query(struct hmreg *lib, enum hmreg_iface iface, struct hmreg_runtime_info *out)
{
    LOGS_FAILURE(hmreg_lib_log(lib));
    struct hmreg_runtime_info info = {0};
    struct hmem_runtime loaded = {0};
    const struct runtime *runtime;
    int rc = context_check(lib);

    rc = rc ? rc : validate_iface(iface);
    rc = rc ? rc : validate_out(out, sizeof(info), "struct hmreg_runtime_info");
    if (rc)
        return rc;
    runtime = runtimes_named(&lib->runtimes, iface);
    info.present = runtime != NULL;
    info.devices = runtime ? runtime->devices : 0;
    if (runtime)
        runtime->ops->runtime(runtime->self, &loaded);
    memcpy(info.version, loaded.version, sizeof(info.version));
    memcpy(info.library, loaded.library, sizeof(info.library));
    memcpy(info.why, loaded.lacks, sizeof(info.why));
    if (!runtime)
        runtimes_why(&lib->runtimes, iface, info.why);
    say_unreported(lib, runtime, &loaded, info.unreported, sizeof(info.unreported));
    validate_copy_out(out, &info, sizeof(info));
    return 0;
}

int hmreg_device_query(struct hmreg *lib, enum hmreg_iface iface, int index,
                       struct hmreg_device_info *out)
{
    LOGS_FAILURE(hmreg_lib_log(lib));
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

/* ---- the application's notices ---------------------------------------------------------- */

int hmreg_invalidate(struct hmreg *lib, const void *addr, size_t len)
{
    int rc = context_check(lib);

    rc = rc ? rc : validate_range(addr, len);
    if (!rc)
        monitor_notice(lib->monitor, (uintptr_t)addr, (uintptr_t)addr + len);
    return rc;
}
