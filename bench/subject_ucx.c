/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The peer UCX: the registration cache in Debian's libucx, without memory events, which is its
 * lowest cost, and with them. Only its own contestants load the library, since it patches libc's
 * functions when loaded. Its header is not a stable interface: CMake detects the differences
 * between UCX 1.13 and 1.18.
 */
#include "bench/actor.h"
#include "bench/bench.h"
#include "bench/subject.h"

#ifdef BENCH_UCX
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <ucm/api/ucm.h>
#include <ucs/memory/rcache.h>

enum { PLAIN, EVENTS };

static struct {
    __typeof__(ucs_rcache_create) *create;
    __typeof__(ucs_rcache_destroy) *destroy;
    __typeof__(ucs_rcache_get) *get;
    __typeof__(ucs_rcache_region_put) *put;
    __typeof__(ucs_rcache_region_invalidate) *invalidate;
} ucs;

static void load(void)
{
    void *library = dlopen("libucs.so.0", RTLD_NOW);

    if (!library)
        leave("%s", dlerror());
    ucs.create = (__typeof__(ucs.create))dlsym(library, "ucs_rcache_create");
    ucs.destroy = (__typeof__(ucs.destroy))dlsym(library, "ucs_rcache_destroy");
    ucs.get = (__typeof__(ucs.get))dlsym(library, "ucs_rcache_get");
    ucs.put = (__typeof__(ucs.put))dlsym(library, "ucs_rcache_region_put");
    ucs.invalidate = (__typeof__(ucs.invalidate))dlsym(library, "ucs_rcache_region_invalidate");
    if (!ucs.invalidate || !ucs.create || !ucs.destroy || !ucs.get || !ucs.put)
        leave("this libucs.so.0 shows no registration cache");
}

static ucs_status_t reg(void *context, ucs_rcache_t *rcache, void *arg, ucs_rcache_region_t *region,
                        uint16_t flags)
{
    registrations++;
    if (registration_ns > 0)
        burn_ns(registration_ns);
    return UCS_OK;
}

static void dereg(void *context, ucs_rcache_t *rcache, ucs_rcache_region_t *region)
{
}

#ifdef BENCH_UCX_MERGES
static void merge(void *context, ucs_rcache_t *rcache, void *arg, ucs_rcache_region_t *region)
{
}
#endif

static void dump(void *context, ucs_rcache_t *rcache, ucs_rcache_region_t *region, char *buf,
                 size_t max)
{
    snprintf(buf, max, "-");
}

static void *open_state(const struct subject *self, size_t regions)
{
    static const ucs_rcache_ops_t ops = {
        .mem_reg = reg,
        .mem_dereg = dereg,
#ifdef BENCH_UCX_MERGES
        .merge = merge,
#endif
        .dump_region = dump,
    };
    ucs_rcache_params_t params = {
        .region_struct_size = sizeof(ucs_rcache_region_t),
#ifndef BENCH_UCX_ALIGNS
        .alignment = UCS_RCACHE_MIN_ALIGNMENT,
        .max_alignment = REGION_BYTES,
#endif
        .ops = &ops,
        .flags = UCS_RCACHE_FLAG_NO_PFN_CHECK,
        .max_regions = regions,
        .max_size = SIZE_MAX,
        .max_unreleased = SIZE_MAX,
        .ucm_events = self->variant == EVENTS ? UCM_EVENT_VM_UNMAPPED : 0,
        .ucm_event_priority = 1000,
    };
    ucs_rcache_t *rcache = NULL;

    load();
    if (ucs.create(&params, "bench", NULL, &rcache) != UCS_OK)
        leave("ucs_rcache_create failed");
    return rcache;
}

static void close_state(void *state)
{
    ucs.destroy(state);
}

static ucs_rcache_region_t *get(ucs_rcache_t *rcache, void *addr, size_t len)
{
    ucs_rcache_region_t *region;
    ucs_status_t status;

#ifdef BENCH_UCX_ALIGNS
    status =
        ucs.get(rcache, addr, len, UCS_RCACHE_MIN_ALIGNMENT, PROT_READ | PROT_WRITE, NULL, &region);
#else
    status = ucs.get(rcache, addr, len, PROT_READ | PROT_WRITE, NULL, &region);
#endif
    if (status != UCS_OK)
        leave("ucs_rcache_get failed");
    return region;
}

static void hits(void *state, char *base, const uint32_t *order, size_t count)
{
    for (size_t i = 0; i < count; i++)
        ucs.put(state, get(state, base + (size_t)order[i] * REGION_BYTES, REGION_BYTES));
}

static void whole(void *state, char *base, size_t bytes)
{
    ucs.put(state, get(state, base, bytes));
}

static void gone(void *arg)
{
}

/* Holds each region until it is replaced: the caller knows which is next; UCX need not search. */
static double replace_ns(void *state, char *base, const uint32_t *order, size_t count, size_t room)
{
    ucs_rcache_region_t **held = calloc(room, sizeof(*held));
    double begun = 0;

    if (!held)
        leave("no memory");
    for (size_t i = 0; i < count; i++) {
        ucs_rcache_region_t **place = &held[i % room];

        if (i == room)
            begun = now_ns();
        if (i >= room) {
            ucs.invalidate(state, *place, gone, NULL);
            ucs.put(state, *place);
        }
        *place = get(state, base + (size_t)order[i] * REGION_BYTES, REGION_BYTES);
    }
    begun = now_ns() - begun;
    for (size_t i = 0; i < room; i++)
        ucs.put(state, held[i]);
    free(held);
    return begun / (double)(count - room);
}

const struct subject subject_ucx = {
    .who = WHO_UCX,
    .replace_ns = replace_ns,
    .open = open_state,
    .close = close_state,
    .hits = hits,
    .whole = whole,
};
const struct subject subject_ucx_events = {
    .who = WHO_UCX_EVENTS,
    .variant = EVENTS,
    .open = open_state,
    .close = close_state,
    .hits = hits,
};
#else
const struct subject subject_ucx_events = {
    .who = WHO_UCX_EVENTS,
    .absent = "built without libucx-dev",
};
const struct subject subject_ucx = {
    .who = WHO_UCX,
    .absent = "built without libucx-dev",
};
#endif
