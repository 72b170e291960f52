/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Hooks on the driver's functions that end memory (core/patch/entry_hook.h). Through them the
 * vendor reports the end of plain, managed and virtual memory. A function is hooked at each address
 * that programs can get: its symbols, and the results of cuGetProcAddress for each version and each
 * kind of default stream. If a function that can end a kind of memory is not hooked, that kind is
 * not watched. Pinned host memory is watched for ends by the driver; the monitor of host memory
 * notices programs that unmap it. Memory of stream-ordered pools is watched, but hits ask too:
 * memory of graphs ends at a launch, and no query distinguishes it. Not watched: memory from other
 * processes, graphics or modules, which no query distinguishes either.
 *
 * A hook reports the memory that the call may end, makes the call, and reports again. The first
 * report ends cached regions before the addresses can be reused; the second ends the regions of a
 * get that raced with the call. The free of one allocation reports once (hmem/watched.h).
 *
 * A primary context ends with the last of its releases. CUDA does not say how many there will be;
 * so the hooks count, per device, a lower bound of the retains that are not released yet, and a
 * release that may be the last counts as the end of all memory. A green context retains a device's
 * primary context, but its end does not name the device: then all bounds begin anew.
 */
#include "hmem/cuda/cuda.h"
#include "hmem/hook_set.h"
#include "hmem/watched.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum kind { PLAIN = 1, MANAGED = 2, VIRTUAL = 4, HOST = 8 };
#define OF_CONTEXTS (PLAIN | MANAGED | VIRTUAL | HOST)

/* The memory that a call ends. */
enum ends {
    ENDS_ALLOCATION, /* the allocation that begins at the first argument */
    ENDS_HOST,       /* the pinned host memory that begins at the first argument */
    ENDS_MAPPINGS,   /* mappings in [first argument, first + second) */
    ENDS_ALL,
    ENDS_DEVICE,      /* all memory; and the device's retains */
    ENDS_GREEN,       /* all memory; and one retain of some device */
    RELEASES_PRIMARY, /* all memory, if the context ends */
    RETAINS_PRIMARY,  /* nothing */
};

/* cuda_watch() refuses memory of graphics, external memory and modules, since cuIpcGetMemHandle
 * does; only managed variables belong to modules. */
static const struct function {
    const char *name;
    enum ends ends;
    unsigned kinds;
} functions[] = {
    {"cuMemFree", ENDS_ALLOCATION, PLAIN | MANAGED},
    {"cuMemFreeAsync", ENDS_ALLOCATION, PLAIN | MANAGED},
    {"cuIpcCloseMemHandle", ENDS_ALLOCATION, PLAIN},
    {"cuMemFreeHost", ENDS_HOST, HOST},
    {"cuMemHostUnregister", ENDS_HOST, HOST},
    {"cuMemUnmap", ENDS_MAPPINGS, VIRTUAL},
    {"cuMemAddressFree", ENDS_MAPPINGS, VIRTUAL},
    {"cuCtxDestroy", ENDS_ALL, OF_CONTEXTS},
    {"cuCtxDetach", ENDS_ALL, OF_CONTEXTS},
    {"cuGreenCtxDestroy", ENDS_GREEN, OF_CONTEXTS},
    {"cuModuleUnload", ENDS_ALL, MANAGED},
    {"cuLibraryUnload", ENDS_ALL, MANAGED},
    {"cuDevicePrimaryCtxReset", ENDS_DEVICE, OF_CONTEXTS},
    {"cuDevicePrimaryCtxRelease", RELEASES_PRIMARY, OF_CONTEXTS},
    {"cuDevicePrimaryCtxRetain", RETAINS_PRIMARY, OF_CONTEXTS},
};
#define FUNCTIONS (sizeof(functions) / sizeof(functions[0]))

/* The state of all hooks, under hook_sets_lock() except atomic fields. */
static bool found;
static atomic_bool placed;
static struct watched watched_memory;
/* Pinned host memory, by the page in which it begins: registered memory need not begin with one,
 * and drivers may describe it by whole pages. */
static struct watched watched_host;
static uint64_t page; /* bytes */

/* cuDevicePrimaryCtxGetState */
static unsigned (*primary_state)(int device, unsigned *flags, int *active);

/* ---- primary contexts ------------------------------------------------------------------- */

#define DEVICES 64

static struct primary {
    _Atomic long retains;  /* a lower bound */
    _Atomic long changes;  /* count of calls that retained, released or reset it */
    _Atomic long releases; /* under way */
} primaries[DEVICES];

static struct primary *primary_of(uint64_t device)
{
    return (uint32_t)device < DEVICES ? &primaries[(uint32_t)device] : NULL;
}

/* True also if the driver does not tell. */
static bool is_inactive(uint64_t device)
{
    unsigned flags = 0;
    int active = 0;

    return primary_state((int)device, &flags, &active) || !active;
}

/* May this release be the last? */
static bool begin_release(struct primary *primary)
{
    if (!primary)
        return true;
    atomic_fetch_add(&primary->changes, 1);
    atomic_fetch_add(&primary->releases, 1);
    return atomic_fetch_sub(&primary->retains, 1) <= 1;
}

/* Corrects the bound after a release: to 0 if the context is gone, to 1 if it is still retained.
 * The latter only if no other release is under way or begins, which would change the bound. */
static void end_release(struct primary *primary, bool failed, bool gone)
{
    long known;

    if (!primary)
        return;
    known = failed ? atomic_fetch_add(&primary->retains, 1) + 1 : atomic_load(&primary->retains);
    if (gone)
        atomic_store(&primary->retains, 0);
    else if (known < 1 && atomic_load(&primary->releases) == 1)
        atomic_compare_exchange_strong(&primary->retains, &known, 1);
    atomic_fetch_sub(&primary->releases, 1);
}

/* Sets all bounds to 0, the least possible. */
static void forget_retains(void)
{
    for (int i = 0; i < DEVICES; i++)
        atomic_store(&primaries[i].retains, 0);
}

/* Called when the hooks are in place. */
static void count_primaries(const struct cuda_hmem *self)
{
    for (int i = 0; i < self->base.device_count && i < DEVICES; i++) {
        long none = 0;

        if (!is_inactive((uint64_t)i) && !atomic_load(&primaries[i].changes))
            atomic_compare_exchange_strong(&primaries[i].retains, &none, 1);
    }
}

/* ---- calls ------------------------------------------------------------------------------ */

static void report_all(void)
{
    watched_report(watched_all(&watched_memory));
    watched_report(watched_all(&watched_host));
}

static uint64_t page_of(uint64_t addr)
{
    return addr & ~(page - 1);
}

/* Reports the memory that the call is about to end. Returns the range if it is one allocation. */
static struct watched_extent before_call(enum ends ends, uint64_t first, uint64_t second)
{
    switch (ends) {
    case ENDS_ALLOCATION:
        return watched_begin_free(&watched_memory, first);
    case ENDS_HOST:
        return watched_begin_free(&watched_host, page_of(first));
    case ENDS_MAPPINGS:
        watched_report(watched_virtual(&watched_memory, first, first + second));
        break;
    case ENDS_GREEN:
        forget_retains();
        report_all();
        break;
    case ENDS_ALL:
    case ENDS_DEVICE:
        report_all();
        break;
    case RELEASES_PRIMARY:
        if (begin_release(primary_of(first))) {
            report_all();
            return (struct watched_extent){0, 1}; /* for after_call() only */
        }
        break;
    case RETAINS_PRIMARY:
        break;
    }
    return (struct watched_extent){0, 0};
}

static void after_release(uint64_t device, bool failed, bool last)
{
    bool gone = is_inactive(device);

    if (gone || last)
        report_all();
    end_release(primary_of(device), failed, gone);
}

static void after_call(enum ends ends, uint64_t first, uint64_t second, bool failed,
                       struct watched_extent ended)
{
    struct primary *primary = NULL;

    switch (ends) {
    case ENDS_ALLOCATION:
        watched_end_free(&watched_memory, first, failed, ended);
        break;
    case ENDS_HOST:
        watched_end_free(&watched_host, page_of(first), failed, ended);
        break;
    case ENDS_MAPPINGS:
        watched_report(watched_virtual(&watched_memory, first, first + second));
        break;
    case ENDS_DEVICE:
        primary = primary_of(first);
        if (primary)
            atomic_store(&primary->retains, 0);
        report_all();
        break;
    case ENDS_GREEN: /* a concurrent release may have set the bound that this one set */
        forget_retains();
        report_all();
        break;
    case ENDS_ALL:
        report_all();
        break;
    case RELEASES_PRIMARY:
        after_release(first, failed, ended.end);
        break;
    case RETAINS_PRIMARY:
        primary = primary_of(second);
        if (primary && !failed) {
            atomic_fetch_add(&primary->changes, 1);
            atomic_fetch_add(&primary->retains, 1);
        }
        break;
    }
}

static unsigned long make_call(struct hook_set *set, unsigned ends, hook_call *original,
                               const unsigned long arguments[4])
{
    struct watched_extent ended = before_call(ends, arguments[0], arguments[1]);
    unsigned long result = original(arguments[0], arguments[1], arguments[2], arguments[3]);

    after_call(ends, arguments[0], arguments[1], (unsigned)result, ended);
    return result;
}

static void missed(struct hook_set *set)
{
    report_all();
}

static struct hook_set hooks = {.call = make_call, .missed = missed, .ends_all = ENDS_ALL};

/* ---- finding the functions -------------------------------------------------------------- */

static void add(const struct function *row, enum ends ends, void *address)
{
    hook_set_add(&hooks, row->name, ends, row->kinds, address);
}

/* Versions that we do not know may name memory in another way. cuMemFree without a suffix takes 32
 * bits of an address. */
static void add_symbols(void *library, const struct function *row)
{
    static const char *const suffixes[] = {"", "_v2", "_v3", "_v4"};
    static const char *const streams[] = {"", "_ptsz", "_ptds"};
    char name[64];

    for (unsigned version = 0; version < sizeof(suffixes) / sizeof(suffixes[0]); version++)
        for (unsigned i = 0; i < sizeof(streams) / sizeof(streams[0]); i++) {
            bool known = version < 2 && (version || strcmp(row->name, "cuMemFree") != 0);

            snprintf(name, sizeof(name), "%s%s%s", row->name, suffixes[version], streams[i]);
            add(row, known ? row->ends : ENDS_ALL, dlsym(library, name));
        }
}

/* Either form of cuGetProcAddress; the older has no last argument, and so does not read it. */
typedef unsigned get_address(const char *name, void **out, int version, uint64_t flags,
                             unsigned *status);

/* Adds the addresses that programs of any CUDA version get, for each kind of default stream (flags
 * 0 to 2). */
static void add_addresses(get_address *get, const struct function *row, int driver)
{
    const int versions[] = {2000,  3020,  4000,  6050,  7000,  8000,  9020,  10020, 11000,
                            11020, 11030, 11070, 12000, 12040, 12080, 13000, driver};

    for (unsigned i = 0; i < sizeof(versions) / sizeof(versions[0]); i++)
        for (uint64_t flags = 0; flags < 3; flags++) {
            void *address = NULL;
            unsigned status = 0;

            if (get(row->name, &address, versions[i], flags, &status))
                continue;
            if (hook_set_name_of(&hooks, address) != row->name)
                add(row, versions[i] <= 3020 || versions[i] > 13000 ? ENDS_ALL : row->ends,
                    address);
        }
}

static void find_all(struct cuda_hmem *self)
{
    void *library = self->base.library;
    get_address *get = NULL;
    void *entry = dlsym(library, "cuGetProcAddress_v2");

    if (!entry)
        entry = dlsym(library, "cuGetProcAddress");
    memcpy(&get, &entry, sizeof(entry));
    for (size_t i = 0; i < FUNCTIONS; i++) {
        add_symbols(library, &functions[i]);
        if (get)
            add_addresses(get, &functions[i], self->version);
    }
    primary_state = self->api.primary_state;
}

/* ---- which kinds are reported ------------------------------------------------------------- */

static void describe(struct cuda_hmem *self)
{
    static const char always[] =
        "stream-ordered, graph and imported memory (no hooked call frees it by its address)";
    unsigned kinds = atomic_load(&hooks.reported);
    const char *why = hook_set_why(&hooks, OF_CONTEXTS);

    vendor_unreported_begin(&self->base);
    vendor_unreported(&self->base, "%s%s%s%s%s%s%s", kinds & PLAIN ? "" : "device, ",
                      kinds & MANAGED ? "" : "managed, ", kinds & VIRTUAL ? "" : "virtual, ",
                      kinds & HOST ? "" : "pinned host, ", always, why[0] ? "; " : "", why);
}

/* Caller holds the lock. */
static void find_once(struct cuda_hmem *self)
{
    if (found)
        return;
    page = (uint64_t)sysconf(_SC_PAGESIZE);
    find_all(self);
    hook_set_try(&hooks, OF_CONTEXTS);
    found = true;
}

void cuda_complete(struct hmem *hmem)
{
    struct cuda_hmem *self = (struct cuda_hmem *)hmem;
    struct hmreg_error_guard guard;

    hmreg_error_guard(&guard);
    if (hook_sets_lock()) {
        find_once(self);
        describe(self);
        hook_sets_unlock();
    }
    hmreg_error_unguard(&guard, true);
}

/* The kinds that are reported now. */
static unsigned reported_now(struct cuda_hmem *self)
{
    if (atomic_load(&placed) && hook_set_is_whole(&hooks))
        return atomic_load(&hooks.reported);
    if (!hook_sets_lock())
        return 0;
    find_once(self);
    hook_set_place(&hooks);
    if (!atomic_load(&placed))
        count_primaries(self);
    atomic_store(&placed, true);
    describe(self);
    hook_sets_unlock();
    return atomic_load(&hooks.reported);
}

/* ---- watching --------------------------------------------------------------------------- */

/* cuIpcGetMemHandle accepts memory of cuMemAlloc only. */
static bool is_of_alloc(struct cuda_hmem *self, uint64_t addr)
{
    unsigned ipc = 0;

    return !self->api.pointer_attribute(&ipc, CUDA_PTR_IS_LEGACY_IPC, addr) && ipc;
}

static bool is_of_pool(struct cuda_hmem *self, uint64_t addr)
{
    struct cuda_pool *pool = NULL;
    unsigned result = self->api.pointer_attribute(&pool, CUDA_PTR_MEMPOOL, addr);

    return pool || (result && !cuda_says_no_answer(result));
}

/* Was the memory mapped by cuMemMap? */
static bool is_mapped(struct cuda_hmem *self, uint64_t addr)
{
    unsigned long long handle = 0;

    if (cuda_virtual_retain(self, addr, &handle) || !handle)
        return false;
    self->api.handle_release(handle);
    return true;
}

static unsigned kind_of(struct cuda_hmem *self, uint64_t addr, size_t len,
                        const struct cuda_lookup *at)
{
    bool bounded =
        addr >= at->start && addr - at->start < at->size && len <= at->size - (addr - at->start);

    switch (at->sort) {
    case CUDA_PLAIN:
        return bounded && is_of_alloc(self, addr) ? PLAIN : 0;
    case CUDA_MANAGED:
        return bounded && !is_of_pool(self, addr) ? MANAGED : 0;
    case CUDA_VIRTUAL:
        return is_mapped(self, addr) ? VIRTUAL : 0;
    case CUDA_HOST: /* calls free it by its host address */
        return bounded && at->host == addr && page_of(at->start) == at->start ? HOST : 0;
    default:
        return 0;
    }
}

/* Why memory that no call frees by its address is not watched. */
static const char *why_of_no_kind(const struct cuda_lookup *at)
{
    if (at->sort == CUDA_HOST)
        return "the call that frees pinned host memory need not name its address, because devices "
               "have another address for it or it begins within a page";
    return "stream-ordered, graph and imported memory and modules' variables may be freed by calls "
           "that do not name them, and no query can tell such memory apart";
}

/* Memory of a stream-ordered pool ends in the calls that free plain memory, except memory of
 * graphs. So hits ask. A free also ends the region, because after cuMemFreeAsync() asking is
 * undefined. */
static void watch_pooled(const struct hmem_range *range, unsigned kinds_now)
{
    if (kinds_now & PLAIN)
        (void)watched_add(&watched_memory, range->alloc_base, range->alloc_base + range->alloc_len);
}

/* NULL: it is watched; else why it is not. */
static const char *watch(struct cuda_hmem *self, uint64_t addr, size_t len,
                         const struct hmem_range *range)
{
    unsigned kinds_now = reported_now(self), kind;
    struct cuda_lookup at;
    bool watched = true;

    if (!kinds_now)
        return atomic_load(&placed) ? hook_set_why(&hooks, OF_CONTEXTS) : HOOK_SETS_BUSY;
    if (cuda_lookup(self, addr, &at))
        return "the driver does not report the kind of memory";
    kind = kind_of(self, addr, len, &at);
    if (!kind && at.sort == CUDA_POOL)
        watch_pooled(range, kinds_now);
    if (!kind)
        return why_of_no_kind(&at);
    if (!(kind & kinds_now))
        return hook_set_why(&hooks, kind);
    if (kind == HOST)
        watched = watched_add(&watched_host, at.start, at.start + at.size);
    else if (kind != VIRTUAL)
        watched = watched_add(&watched_memory, at.start, at.start + at.size);
    else
        watched_add_virtual(&watched_memory, addr, addr + len);
    return watched ? NULL : WATCHED_NOT;
}

void cuda_prepare_watch(struct hmem *hmem)
{
    struct cuda_hmem *self = (struct cuda_hmem *)hmem;
    struct hmreg_error_guard guard;
    unsigned mode;

    if (atomic_load(&placed))
        return;
    hmreg_error_guard(&guard);
    mode = cuda_relax(self);
    (void)reported_now(self);
    cuda_restore(self, mode);
    hmreg_error_unguard(&guard, true);
}

bool cuda_watch(struct hmem *hmem, uint64_t addr, size_t len, const struct hmem_range *range,
                const char **why)
{
    struct cuda_hmem *self = (struct cuda_hmem *)hmem;
    struct hmreg_error_guard guard;
    const char *refusal;
    unsigned mode;

    hmreg_error_guard(&guard);
    mode = cuda_relax(self);
    refusal = watch(self, addr, len, range);
    cuda_restore(self, mode);
    hmreg_error_unguard(&guard, true);
    if (refusal && why)
        *why = refusal;
    return !refusal;
}
