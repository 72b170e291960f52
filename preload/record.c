/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See record.h. Tables are hash tables with open addresses. A look-up always examines the same
 * number of elements, so its time is bounded, and a removed element needs no mark. Counts are
 * relaxed: they order nothing, and the reader accepts counts of different moments.
 */
#include "preload/record.h"

#include "preload/trace_file.h"

#include <errno.h>
#include <link.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PROBES      64
#define NO_ROW      UINT32_MAX
#define HANDLE_BUSY 1
#define TAG_BUSY    1
#define LOOK_FIRST  256
#define LOOK_ONE_OF 64

__thread struct record_guard record_guard;

static void count(_Atomic uint64_t *counter, uint64_t more)
{
    atomic_fetch_add_explicit(counter, more, memory_order_relaxed);
}

static uint64_t mix(uint64_t hash, uint64_t word)
{
    hash = (hash ^ word) * UINT64_C(0x9e3779b97f4a7c15);
    return hash ^ hash >> 29;
}

/* ---- names ------------------------------------------------------------------------------- */

/* Changes FREE to BUSY. True: the caller fills the element. */
static bool claim(_Atomic uint32_t *state)
{
    uint32_t expected = RECORD_FREE;

    return atomic_load_explicit(state, memory_order_relaxed) == RECORD_FREE &&
           atomic_compare_exchange_strong_explicit(state, &expected, RECORD_BUSY,
                                                   memory_order_relaxed, memory_order_relaxed);
}

static void publish(_Atomic uint32_t *state)
{
    atomic_store_explicit(state, RECORD_READY, memory_order_release);
}

/* Acquire: pairs with publish(). */
static bool is_ready(const _Atomic uint32_t *state)
{
    return atomic_load_explicit(state, memory_order_acquire) == RECORD_READY;
}

static void copy_text(char *to, size_t room, const char *from)
{
    size_t length = strnlen(from, room - 1);

    memcpy(to, from, length);
    to[length] = '\0';
}

static uint64_t hash_text(const char *text, size_t room)
{
    uint64_t hash = 1;

    for (size_t i = 0; i + 1 < room && text[i]; i++)
        hash = hash * 31 + (unsigned char)text[i];
    return mix(hash, 0);
}

/* The index of a name; 0: unknown, or it does not fit. */
static uint16_t name_index(struct record_layout *file, const char *text)
{
    uint64_t hash = text ? hash_text(text, sizeof(file->names[0].text)) : 0;

    if (!text || !text[0])
        return 0;
    for (unsigned i = 0; i < PROBES; i++) {
        unsigned at = 1 + (unsigned)((hash + i) % (RECORD_NAMES - 1));
        struct record_name *name = &file->names[at];

        if (claim(&name->state)) {
            copy_text(name->text, sizeof(name->text), text);
            publish(&name->state);
            return (uint16_t)at;
        }
        if (is_ready(&name->state) && !strncmp(name->text, text, sizeof(name->text) - 1))
            return (uint16_t)at;
    }
    count(&file->header.dropped_names, 1);
    return 0;
}

/* ---- the caller's module ----------------------------------------------------------------- */

struct module_search {
    uintptr_t address;
    const char *name;
};

static int contains(struct dl_phdr_info *info, size_t size, void *arg)
{
    struct module_search *search = arg;

    for (unsigned i = 0; i < info->dlpi_phnum; i++) {
        uintptr_t start = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;

        if (info->dlpi_phdr[i].p_type != PT_LOAD || search->address < start ||
            search->address - start >= info->dlpi_phdr[i].p_memsz)
            continue;
        search->name = info->dlpi_name;
        return 1;
    }
    return 0;
}

/* Not dladdr(3), which waits while another thread's dlopen(3) runs a constructor. */
static uint16_t find_module(struct record_layout *file, const void *caller)
{
    struct module_search search = {.address = (uintptr_t)caller};

    dl_iterate_phdr(contains, &search);
    if (search.name && !search.name[0]) /* the program itself */
        search.name = file->header.program;
    return name_index(file, search.name);
}

static uint16_t module_index(struct record_layout *file, const void *caller)
{
    uint64_t address = (uint64_t)(uintptr_t)caller << 16, found;
    struct trace_process *process = trace_process();
    _Atomic uint64_t *slot;

    if (!caller || !process)
        return 0;
    slot = &process->callers[mix(0, address) % TRACE_CALLERS];
    found = atomic_load_explicit(slot, memory_order_relaxed);
    if ((found & ~UINT64_C(0xffff)) == address)
        return (uint16_t)found;
    found = address | find_module(file, caller);
    atomic_store_explicit(slot, found, memory_order_relaxed);
    return (uint16_t)found;
}

/* ---- rows -------------------------------------------------------------------------------- */

static uint64_t hash_key(const struct record_key *key)
{
    uint64_t words[2];

    memcpy(words, key, sizeof(words));
    return mix(mix(0, words[0]), words[1]);
}

/* NULL: it does not fit. */
static struct record_row *find_row(struct record_layout *file, const struct record_key *key)
{
    uint64_t hash = hash_key(key);

    for (unsigned i = 0; i < PROBES; i++) {
        struct record_row *row = &file->rows[(hash + i) % RECORD_ROWS];

        if (claim(&row->state)) {
            row->key = *key;
            publish(&row->state);
            return row;
        }
        if (is_ready(&row->state) && !memcmp(&row->key, key, sizeof(*key)))
            return row;
    }
    count(&file->header.dropped_rows, 1);
    return NULL;
}

static void raise_to(_Atomic uint64_t *most, uint64_t value)
{
    uint64_t now = atomic_load_explicit(most, memory_order_relaxed);

    while (now < value && !atomic_compare_exchange_weak_explicit(
                              most, &now, value, memory_order_relaxed, memory_order_relaxed))
        ;
}

static uint8_t size_class(uint64_t len)
{
    return len ? (uint8_t)(64 - __builtin_clzll(len)) : 0;
}

static struct record_row *count_row(struct record_layout *file, const struct record_call *call)
{
    struct record_key key;
    struct record_row *row;

    memset(&key, 0, sizeof(key));
    key.call = (uint8_t)call->kind;
    key.how = (uint8_t)call->how;
    key.iface = call->iface;
    key.path = call->path;
    key.size = size_class(call->len);
    key.rights = (uint8_t)call->rights;
    key.module = module_index(file, call->caller);
    key.nic = name_index(file, call->nic);
    key.device = call->device;
    key.error = call->error;
    row = find_row(file, &key);
    if (!row)
        return NULL;
    count(&row->count, 1);
    count(&row->bytes, call->len);
    count(&row->ns, call->ns);
    raise_to(&row->longest_ns, call->ns);
    return row;
}

/* ---- ranges that are registered again ---------------------------------------------------- */

/* A range counts as registered again only if its memory has the number of the last time. */
static void count_range_again(struct record_range *range, const struct record_call *call,
                              uint64_t row)
{
    uint64_t before = atomic_exchange_explicit(&range->memory, call->memory, memory_order_relaxed);

    atomic_store_explicit(&range->row, row, memory_order_relaxed);
    if (call->memory != before)
        return;
    count(&range->count, 1);
    count(&range->again_ns, call->ns);
}

/* Takes over an element that is free, or whose range was registered only once. */
static bool take_range(struct record_range *range, uint64_t old, uint64_t tag,
                       const struct record_call *call, uint64_t row)
{
    if (!atomic_compare_exchange_strong_explicit(&range->tag, &old, TAG_BUSY, memory_order_acquire,
                                                 memory_order_relaxed))
        return false;
    atomic_store_explicit(&range->addr, call->addr, memory_order_relaxed);
    atomic_store_explicit(&range->len, call->len, memory_order_relaxed);
    atomic_store_explicit(&range->count, 1, memory_order_relaxed);
    atomic_store_explicit(&range->again_ns, 0, memory_order_relaxed);
    atomic_store_explicit(&range->row, row, memory_order_relaxed);
    atomic_store_explicit(&range->memory, call->memory, memory_order_relaxed);
    atomic_store_explicit(&range->tag, tag, memory_order_release);
    return true;
}

static uint64_t range_tag(const struct record_call *call)
{
    uint64_t tag = mix(mix(0, call->addr), call->len);

    tag = mix(mix(tag, call->access), (uint64_t)(uintptr_t)call->scope);
    return tag > TAG_BUSY ? tag : TAG_BUSY + 1;
}

/* When all elements are taken, a range that was registered once is replaced. The tag's bits choose
 * it: the oldest is unknown.
 */
static void count_range(struct record_layout *file, const struct record_call *call, uint64_t row)
{
    uint64_t tag = range_tag(call), victim_tag = 0;
    struct record_range *victim = NULL;

    for (unsigned i = 0; i < PROBES / 4; i++) {
        struct record_range *range = &file->ranges[(tag + i) % RECORD_RANGES];
        uint64_t found = atomic_load_explicit(&range->tag, memory_order_acquire);

        if (found == tag) {
            count_range_again(range, call, row);
            return;
        }
        if (found == 0 && take_range(range, 0, tag, call, row))
            return;
        if (found > TAG_BUSY && (!victim || (tag >> (i + 20)) % 2) &&
            atomic_load_explicit(&range->count, memory_order_relaxed) == 1) {
            victim = range;
            victim_tag = found;
        }
    }
    count(&file->header.dropped_ranges, 1);
    if (victim)
        take_range(victim, victim_tag, tag, call, row);
}

/* ---- regions that exist ------------------------------------------------------------------ */

static uint64_t handle_of(const void *handle)
{
    return (uint64_t)(uintptr_t)handle;
}

static struct record_live *live_at(struct record_layout *file, uint64_t handle, unsigned i)
{
    return &file->live[(mix(0, handle) + i) % RECORD_LIVE];
}

static void add_live(struct record_layout *file, uint64_t handle, uint64_t addr, uint64_t len,
                     uint32_t row)
{
    for (unsigned i = 0; i < PROBES; i++) {
        struct record_live *live = live_at(file, handle, i);
        uint64_t expected = 0;

        if (atomic_load_explicit(&live->handle, memory_order_relaxed) ||
            !atomic_compare_exchange_strong_explicit(&live->handle, &expected, HANDLE_BUSY,
                                                     memory_order_acquire, memory_order_relaxed))
            continue;
        atomic_store_explicit(&live->addr, addr, memory_order_relaxed);
        atomic_store_explicit(&live->len, len, memory_order_relaxed);
        atomic_store_explicit(&live->row, row, memory_order_relaxed);
        atomic_store_explicit(&live->freed, 0, memory_order_relaxed);
        atomic_store_explicit(&live->handle, handle, memory_order_release);
        return;
    }
    count(&file->header.dropped_live, 1);
}

/* NULL: it is not there. */
static struct record_live *find_live(struct record_layout *file, uint64_t handle)
{
    for (unsigned i = 0; i < PROBES; i++) {
        struct record_live *live = live_at(file, handle, i);

        if (atomic_load_explicit(&live->handle, memory_order_acquire) == handle)
            return live;
    }
    return NULL;
}

void record_registered(const struct record_call *call)
{
    struct record_layout *file;
    struct record_row *row;
    int error = errno;

    file = trace_file();
    if (file) {
        row = count_row(file, call);
        if (call->handle && !call->error) {
            uint32_t index = row ? (uint32_t)(row - file->rows) : NO_ROW;

            /* No cache serves ibv_rereg_mr() or ibv_reg_buf_mr(). */
            if (call->addr && call->kind != RECORD_REREG_MR && call->kind != RECORD_REG_BUF_MR)
                count_range(file, call, index);
            add_live(file, handle_of(call->handle), call->addr, call->len, index);
        }
    }
    errno = error;
}

/* ---- their end --------------------------------------------------------------------------- */

/* Has any page of the host range no mapping? msync(2) with MS_ASYNC reports that for a whole range,
 * does nothing else, and takes a third of the time of mincore(2). It does not notice memory that
 * was unmapped and mapped again. */
static bool is_unmapped(uint64_t addr, uint64_t len)
{
    uint64_t skew = addr & ((uint64_t)sysconf(_SC_PAGESIZE) - 1);

    return addr && len && addr + len > addr &&
           msync((void *)(uintptr_t)(addr - skew), len + skew, MS_ASYNC) && errno == ENOMEM;
}

static bool is_host_row(const struct record_layout *file, uint32_t row)
{
    return row < RECORD_ROWS && file->rows[row].key.iface == 0;
}

/* msync(2) takes longer than all else here. So in each row the first LOOK_FIRST deregistrations are
 * checked, then every LOOK_ONE_OFth. Once one is found unmapped, all are checked: a program frees
 * too early at the same place each time. */
static bool is_to_be_looked_at(const struct record_layout *file, uint32_t row)
{
    const struct record_row *of = &file->rows[row];
    uint64_t ends;

    if (!is_host_row(file, row))
        return false;
    ends = atomic_load_explicit(&of->ends, memory_order_relaxed);
    return ends < LOOK_FIRST || ends % LOOK_ONE_OF == 0 ||
           atomic_load_explicit(&of->freed, memory_order_relaxed);
}

void record_dereg_begin(const void *handle, struct record_dereg *end)
{
    struct record_layout *file;
    struct record_live *live;
    int error = errno;

    *end = (struct record_dereg){.handle = handle_of(handle)};
    file = trace_file();
    live = file && handle ? find_live(file, end->handle) : NULL;
    if (live) {
        end->addr = atomic_load_explicit(&live->addr, memory_order_relaxed);
        end->len = atomic_load_explicit(&live->len, memory_order_relaxed);
        end->row = atomic_load_explicit(&live->row, memory_order_relaxed);
        end->freed = atomic_load_explicit(&live->freed, memory_order_relaxed);
        end->known = true;
        end->looked = is_to_be_looked_at(file, end->row);
        if (end->looked && is_unmapped(end->addr, end->len))
            end->freed = 1;
        atomic_store_explicit(&live->handle, 0, memory_order_release);
    }
    errno = error;
}

static void count_end(struct record_layout *file, const struct record_dereg *end, int failure,
                      uint64_t ns)
{
    struct record_row *row = &file->rows[end->row];

    count(&row->end_ns, ns);
    if (failure) {
        count(&row->end_failures, 1);
        return;
    }
    count(&row->ends, 1);
    if (end->looked)
        count(&row->looked, 1);
    if (end->freed)
        count(&row->freed, 1);
}

void record_dereg_done(const struct record_dereg *end, int failure, uint64_t ns)
{
    struct record_layout *file;
    int error = errno;

    file = trace_file();
    if (file && !end->known) {
        count(&file->header.unknown_ends, failure ? 0 : 1);
    } else if (file) {
        if (failure)
            add_live(file, end->handle, end->addr, end->len, end->row);
        if (end->row < RECORD_ROWS)
            count_end(file, end, failure, ns);
    }
    errno = error;
}

void record_dereg_cancel(const struct record_dereg *end)
{
    struct record_layout *file;
    int error = errno;

    file = trace_file();
    if (file && end->known)
        add_live(file, end->handle, end->addr, end->len, end->row);
    errno = error;
}

/* ---- reasons, and the end of the process ------------------------------------------------- */

static struct record_reason *find_reason(struct record_layout *file, const char *slug,
                                         const char *text)
{
    for (unsigned i = 0; i < RECORD_REASONS; i++) {
        struct record_reason *reason = &file->reasons[i];

        if (claim(&reason->state)) {
            copy_text(reason->slug, sizeof(reason->slug), slug);
            copy_text(reason->text, sizeof(reason->text), text);
            publish(&reason->state);
            return reason;
        }
        if (is_ready(&reason->state) && !strncmp(reason->slug, slug, sizeof(reason->slug) - 1))
            return reason;
    }
    return NULL;
}

void record_passed_on(const char *slug, const char *text)
{
    struct record_layout *file;
    int error = errno;

    file = trace_file();
    if (file) {
        struct record_reason *reason = find_reason(file, slug, text);

        count(reason ? &reason->count : &file->header.dropped_reasons, 1);
    }
    errno = error;
}

const struct record_layout *record_file(void)
{
    int error = errno;
    const struct record_layout *file = trace_file();

    errno = error;
    return file;
}

/* At exit(3): marks registered regions whose memory is unmapped. A process that recorded nothing
 * makes no file for this. */
__attribute__((destructor)) static void end_of_process(void)
{
    struct trace_process *process = trace_process();
    struct record_layout *file = process ? atomic_load(&process->file) : NULL;

    if (!file)
        return;
    for (unsigned i = 0; i < RECORD_LIVE; i++) {
        struct record_live *live = &file->live[i];

        if (atomic_load(&live->handle) > HANDLE_BUSY && is_host_row(file, live->row) &&
            is_unmapped(live->addr, live->len))
            atomic_store(&live->freed, 1);
    }
    atomic_store(&file->header.ended, 1);
}
