/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See shadow.h. Each registration is also got from a domain without a fabric: its cache decides, as
 * a program's own would, whether the memory is unchanged. Its regions are numbers. A forked child
 * starts without the domain.
 */
#include "preload/shadow.h"

#include "core/contract/provider.h"

#include "preload/mode.h"
#include "preload/record.h"
#include "preload/fork_wiped.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>

/* All zero, as in a forked child: not opened yet. */
struct shadow {
    pthread_mutex_t lock; /* held to open */
    _Atomic int opened;   /* 1: the domain is open; -1: it cannot be opened */
    struct hmreg *lib;
    struct hmreg_domain *domain;
    _Atomic uint64_t numbers;
    _Atomic bool told;
};

static struct fork_wiped memory = {.size = sizeof(struct shadow)};

/* ---- the domain of no fabric ------------------------------------------------------------- */

/* Device memory by its address: the domain's order has no other path. */
static int can(void *self, enum hmreg_path path, enum hmreg_iface iface, int device,
               struct hmreg_reason *why)
{
    return 0;
}

static int reg(void *self, const struct provider_request *request, struct hmreg_mr_keys *out,
               struct hmreg_reason *why)
{
    struct shadow *shadow = self;

    *out = (struct hmreg_mr_keys){
        .priv = self,
        .key = HMREG_KEY_NOTAVAIL,
        .native = (void *)(uintptr_t)(1 + atomic_fetch_add(&shadow->numbers, 1)),
    };
    return 0;
}

static int dereg(void *self, struct hmreg_mr_keys *mr)
{
    return 0;
}

static int open_domain(struct shadow *self)
{
    static const struct provider_ops ops = {
        .name = "trace", .can = can, .reg = reg, .dereg = dereg};
    static const struct provider_caps caps = {.fabric = "trace",
                                              .mr_mode = HMREG_MR_PROV_KEY,
                                              .key_size = 8,
                                              .iov_limit = 1,
                                              .max_len = UINT64_MAX,
                                              .single = true,
                                              .any_thread = true};
    const struct hmreg_domain_config config = {
        .size = sizeof(config), .flags = HMREG_DOMAIN_EXACT, .order = {HMREG_PATH_PEERMEM}};

    return hmreg_domain_create(self->lib, &ops, &caps, self, &config, &self->domain);
}

/* ---- the process ------------------------------------------------------------------------- */

static void tell(struct shadow *self, const char *text)
{
    if (!atomic_exchange(&self->told, true))
        record_passed_on("not-watched", text);
}

static void ignore(enum hmreg_log_level level, const char *text, void *context)
{
}

static void open_shadow(struct shadow *self)
{
    const struct hmreg_config config = {
        .size = sizeof(config), .ifaces = HMREG_IFACES_STARTED, .log = ignore};
    int rc = hmreg_open(&config, &self->lib);

    rc = rc ? rc : open_domain(self);
    if (rc)
        tell(self, hmreg_last_error()->text);
    atomic_store_explicit(&self->opened, rc ? -1 : 1, memory_order_release);
}

/* NULL: it cannot be opened. */
static struct shadow *shadow_open(void)
{
    struct shadow *self = fork_wiped_get(&memory);

    /* Acquire: pairs with open_shadow(). */
    if (self && !atomic_load_explicit(&self->opened, memory_order_acquire)) {
        pthread_mutex_lock(&self->lock);
        if (!atomic_load(&self->opened))
            open_shadow(self);
        pthread_mutex_unlock(&self->lock);
    }
    return self && atomic_load(&self->opened) > 0 ? self : NULL;
}

/* ---- memory ------------------------------------------------------------------------------ */

/* If no host memory is watched, records why. */
static void check_monitor(struct shadow *self)
{
    struct hmreg_monitor_info info = {.size = sizeof(info)};

    if (!atomic_load(&self->told) && !hmreg_monitor_query(self->lib, &info) &&
        info.active == HMREG_MONITOR_DISABLED)
        tell(self, info.why[0] ? info.why : "the monitor of host memory is disabled");
}

uint64_t shadow_memory(uint64_t addr, uint64_t len)
{
    struct hmreg_mr_info info = {.size = sizeof(info), .cached = 0};
    struct shadow *self;
    struct hmreg_mr *mr;
    uint64_t number = 0;
    int error = errno;

    self = preload_mode()->watch && addr && len ? shadow_open() : NULL;
    if (self && !hmreg_mr_get(self->domain, (void *)(uintptr_t)addr, len, HMREG_SEND, &mr)) {
        hmreg_mr_query(mr, &info);
        if (!info.cached && info.iface == HMREG_IFACE_SYSTEM)
            check_monitor(self);
        number = (uint64_t)(uintptr_t)hmreg_mr_head_of(mr)->keys->native;
        hmreg_mr_put(mr);
    }
    errno = error;
    return number;
}
