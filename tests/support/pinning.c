/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See pinning.h.
 */
#include "tests/support/pinning.h"

#include "core/base/error.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct pinning pinning;

static char complaint[256];
static atomic_flag complained = ATOMIC_FLAG_INIT;
static atomic_bool complete; /* the complaint can be read */

void pinning_complain(const char *format, ...)
{
    va_list args;

    if (atomic_flag_test_and_set(&complained))
        return;
    va_start(args, format);
    vsnprintf(complaint, sizeof(complaint), format, args);
    va_end(args);
    atomic_store(&complete, true);
}

const char *pinning_complaint(void)
{
    return atomic_load(&complete) ? complaint : "";
}

static _Atomic(struct pinned *) kept;

void pinning_reset(void)
{
    struct ring *ring = pinning.ring;
    struct pinned *region, *next;

    for (region = atomic_exchange(&kept, NULL); region; region = next) {
        next = region->next;
        free(region);
    }

    pinning = (struct pinning){.ring = ring};
    atomic_store(&complete, false);
    atomic_flag_clear(&complained);
}

/* ---- the memory ------------------------------------------------------------------------- */

static uint64_t page_size(void)
{
    static atomic_ulong size;

    if (!atomic_load_explicit(&size, memory_order_relaxed))
        atomic_store(&size, (unsigned long)sysconf(_SC_PAGESIZE));
    return atomic_load_explicit(&size, memory_order_relaxed);
}

static uint64_t page_of(uint64_t addr)
{
    return addr & ~(page_size() - 1);
}

static void read_tags(struct pinned *region, uint64_t start, uint64_t end)
{
    for (uint64_t at = page_of(start); at < end; at += page_size()) {
        if (region->pages == PINNED_PAGES) {
            pinning_complain("a region of more than %d pages was registered", PINNED_PAGES);
            return;
        }
        region->tags[region->pages++] =
            __atomic_load_n((uint64_t *)(uintptr_t)at, __ATOMIC_RELAXED);
    }
}

static const struct provider_ops *below; /* NULL: nothing */

/* Unmapped memory cannot be pinned. */
static bool is_mapped(uint64_t start, uint64_t end)
{
    unsigned char resident[PINNED_PAGES + 1];
    uint64_t first = page_of(start);
    size_t len = (size_t)(end - first);

    return !len || len > PINNED_PAGES * page_size() ||
           mincore((void *)(uintptr_t)first, len, resident) == 0;
}

static int pin(void *self, const struct provider_request *request, struct pinned *region,
               struct hmreg_reason *why)
{
    bool in_ring = pinning.ring && !region->next_end;
    int rc = 0;

    if (pinning.tags &&
        !(is_mapped(region->start, region->end) && is_mapped(region->next_start, region->next_end)))
        return hmreg_fail(-EFAULT, "nothing is mapped that the test's fabric could pin");
    if (pinning.tags) {
        read_tags(region, region->start, region->end);
        read_tags(region, region->next_start, region->next_end);
    }
    if (below)
        return below->reg(self, request, &region->below, why);
    if (in_ring)
        rc = ring_pin(pinning.ring, (void *)(uintptr_t)region->start,
                      (size_t)(region->end - region->start), &region->slot);
    region->in_ring = in_ring && !rc;
    return rc ? hmreg_fail(rc, "the test's fabric cannot pin: %s", strerror(-rc)) : 0;
}

/* ---- the provider ----------------------------------------------------------------------- */

/* Does this call fail? */
static bool fails(atomic_int *times)
{
    int left = atomic_load_explicit(times, memory_order_relaxed);

    while (left > 0 && !atomic_compare_exchange_weak(times, &left, left - 1))
        ;
    return left > 0;
}

static int reg(void *self, const struct provider_request *request, struct hmreg_mr_keys *out,
               struct hmreg_reason *why)
{
    uint64_t start = (uint64_t)(uintptr_t)request->iov[0].iov_base;
    struct pinned *region;
    int rc;

    if (pinning.reg_hook)
        pinning.reg_hook(request);
    if (fails(&pinning.reg_times)) {
        atomic_fetch_add(&pinning.failures, 1);
        return hmreg_fail_vendor(atomic_load(&pinning.reg_code), "ofi", 4711, "as asked",
                                 "the test's fabric was asked to fail");
    }
    region = malloc(sizeof(*region));
    if (!region)
        return hmreg_fail(-ENOMEM, "no memory for the test's region");
    *region = (struct pinned){.start = start,
                              .end = start + request->iov[0].iov_len,
                              .access = request->access,
                              .iface = request->iface,
                              .device = request->device};
    if (request->count > 1) {
        region->next_start = (uint64_t)(uintptr_t)request->iov[1].iov_base;
        region->next_end = region->next_start + request->iov[1].iov_len;
    }
    rc = pin(self, request, region, why);
    if (rc) {
        free(region);
        return rc;
    }
    region->key = atomic_fetch_add(&pinning.regs, 1) + 1;
    atomic_store(&region->alive, true);
    atomic_fetch_add(&pinning.alive, 1);
    *out = region->below;
    out->native = out->priv = region;
    out->key = below ? out->key : region->key;
    return 0;
}

static void keep(struct pinned *region)
{
    region->next = atomic_load(&kept);
    while (!atomic_compare_exchange_weak(&kept, &region->next, region))
        ;
}

static int dereg(void *self, struct hmreg_mr_keys *mr)
{
    struct pinned *region = mr->priv;

    if (atomic_load(&region->users))
        pinning_complain("region %" PRIu64 " was deregistered while in use", region->key);
    if (fails(&pinning.busy_times))
        return hmreg_fail_vendor(-EBUSY, "ofi", 4712, "as asked", "the test's region is in use");
    if (!atomic_exchange(&region->alive, false))
        pinning_complain("region %" PRIu64 " was deregistered twice", region->key);
    if (pinning.dereg_hook)
        pinning.dereg_hook(region);
    if (below && below->dereg(self, &region->below))
        pinning_complain("region %" PRIu64 " cannot be deregistered below", region->key);
    if (region->in_ring)
        ring_unpin(pinning.ring, region->slot);
    atomic_fetch_add(&pinning.deregs, 1);
    atomic_fetch_sub(&pinning.alive, 1);
    if (pinning.keep)
        keep(region);
    else
        free(region);
    return 0;
}

static int can(void *self, enum hmreg_path path, enum hmreg_iface iface, int device,
               struct hmreg_reason *why)
{
    if (path != HMREG_PATH_DMABUF)
        return 0;
    return hmreg_refuse(why, -EOPNOTSUPP, "test-by-address-only",
                        "the test's fabric registers by address only");
}

static const struct provider_ops pinning_ops = {
    .name = "pinning", .can = can, .reg = reg, .dereg = dereg};

const struct provider_ops *pinning_before(const struct provider_ops *ops)
{
    static struct provider_ops before;

    below = ops;
    before = *ops;
    before.reg = reg;
    before.dereg = dereg;
    return &before;
}

int pinning_open(struct hmreg *lib, const struct hmreg_domain_config *config,
                 struct hmreg_domain **out)
{
    static const struct provider_caps caps = {
        .fabric = "pinning",
        .mr_mode = HMREG_MR_VIRT_ADDR | HMREG_MR_PROV_KEY | HMREG_MR_HMEM,
        .key_size = 8,
        .iov_limit = 2,
        .max_len = 1ull << 40,
    };

    below = NULL;
    return hmreg_domain_create(lib, &pinning_ops, &caps, NULL, config, out);
}

/* ---- regions ---------------------------------------------------------------------------- */

struct pinned *pinned_of(const struct hmreg_mr *mr)
{
    return hmreg_mr_head_of(mr)->keys->native;
}

void pinned_use(struct pinned *region)
{
    atomic_fetch_add(&region->users, 1);
    if (!atomic_load(&region->alive))
        pinning_complain("region %" PRIu64 " was given out after its end", region->key);
}

void pinned_unuse(struct pinned *region)
{
    if (!atomic_load(&region->alive))
        pinning_complain("region %" PRIu64 " ended while in use", region->key);
    atomic_fetch_sub(&region->users, 1);
}

uint64_t pinned_bytes(const struct pinned *region)
{
    return region->end - region->start + region->next_end - region->next_start;
}

uint64_t pinned_tag(const struct pinned *region, uint64_t addr)
{
    uint64_t at = page_of(addr), first = page_of(region->start), next = page_of(region->next_start);

    if (at >= first && at < region->end)
        return region->tags[(at - first) / page_size()];
    return region->tags[(page_of(region->end - 1) - first + at - next) / page_size() + 1];
}

int pinned_write(const struct pinned *region, uint64_t at, const void *bytes, size_t len)
{
    return ring_write(pinning.ring, region->slot, at, bytes, len);
}

int pinned_read(const struct pinned *region, uint64_t at, void *bytes, size_t len)
{
    return ring_read(pinning.ring, region->slot, at, bytes, len);
}
