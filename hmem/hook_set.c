/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 * See hook_set.h. */
#include "hmem/hook_set.h"

#include "core/base/thread.h"
#include "core/patch/entry_hook.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define SLOTS     128
#define ALL_KINDS ((1u << HOOK_KINDS) - 1)

static struct slot {
    struct hook_set *set;
    const char *name;
    unsigned ends;
    unsigned kinds;
    atomic_bool over; /* another slot replaces this one */
} slots[SLOTS];
static struct entry_hook hooks[SLOTS]; /* hook of the slot with the same index */
static atomic_uint slot_count;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

bool hook_sets_lock(void)
{
    return !thread_lock_to_start(&lock);
}

void hook_sets_unlock(void)
{
    pthread_mutex_unlock(&lock);
}

/* ---- replacements ----------------------------------------------------------------------- */

static unsigned long through(unsigned slot, unsigned long a, unsigned long b, unsigned long c,
                             unsigned long d)
{
    void *at = atomic_load_explicit(&hooks[slot].original, memory_order_acquire);
    const unsigned long arguments[4] = {a, b, c, d};
    hook_call *original = NULL;

    memcpy(&original, &at, sizeof(at));
    return slots[slot].set->call(slots[slot].set, slots[slot].ends, original, arguments);
}

#define REPLACEMENT(n)                                                                             \
    static unsigned long slot_##n(unsigned long a, unsigned long b, unsigned long c,               \
                                  unsigned long d)                                                 \
    {                                                                                              \
        return through(0##n, a, b, c, d);                                                          \
    }
#define ADDRESS(n) slot_##n,
#define EIGHT(DO, n)                                                                               \
    DO(n##0) DO(n##1) DO(n##2) DO(n##3) DO(n##4) DO(n##5) DO(n##6) DO(n##7) /* octal */
#define ALL(DO)                                                                                    \
    EIGHT(DO, 0)                                                                                   \
    EIGHT(DO, 1)                                                                                   \
    EIGHT(DO, 2)                                                                                   \
    EIGHT(DO, 3)                                                                                   \
    EIGHT(DO, 4)                                                                                   \
    EIGHT(DO, 5)                                                                                   \
    EIGHT(DO, 6)                                                                                   \
    EIGHT(DO, 7)                                                                                   \
    EIGHT(DO, 10)                                                                                  \
    EIGHT(DO, 11)                                                                                  \
    EIGHT(DO, 12) EIGHT(DO, 13) EIGHT(DO, 14) EIGHT(DO, 15) EIGHT(DO, 16) EIGHT(DO, 17)

ALL(REPLACEMENT)
static hook_call *const replacements[SLOTS] = {ALL(ADDRESS)};

/* ---- slots ------------------------------------------------------------------------------ */

/* A free slot for the set; SLOTS: none is left. The caller counts it. */
static unsigned fill_slot(struct hook_set *set, const char *name, unsigned ends, unsigned kinds,
                          void *address)
{
    unsigned slot = atomic_load(&slot_count);

    if (slot == SLOTS) {
        set->overflow = true;
        return slot;
    }
    slots[slot].set = set;
    slots[slot].name = name;
    slots[slot].ends = ends;
    slots[slot].kinds = kinds;
    hooks[slot].function = address;
    memcpy(&hooks[slot].replacement, &replacements[slot], sizeof(hooks[slot].replacement));
    return slot;
}

/* The set's slot of the address; SLOTS: none. */
static unsigned slot_of(const struct hook_set *set, const void *address)
{
    for (unsigned i = 0; i < atomic_load(&slot_count); i++)
        if (slots[i].set == set && hooks[i].function == address)
            return i;
    return SLOTS;
}

void hook_set_add(struct hook_set *set, const char *name, unsigned ends, unsigned kinds,
                  void *address)
{
    unsigned slot;

    if (!address)
        return;
    slot = slot_of(set, address);
    if (slot < SLOTS) {
        slots[slot].ends = slots[slot].ends == ends ? ends : set->ends_all;
        slots[slot].kinds |= kinds;
    } else if (fill_slot(set, name, ends, kinds, address) < SLOTS) {
        atomic_fetch_add(&slot_count, 1);
    }
}

const char *hook_set_name_of(const struct hook_set *set, const void *address)
{
    unsigned slot = slot_of(set, address);

    return slot < SLOTS ? slots[slot].name : NULL;
}

/* ---- which kinds are reported ------------------------------------------------------------- */

void hook_set_refuse(struct hook_set *set, unsigned kinds, const char *format, ...)
{
    va_list args;

    for (unsigned i = 0; i < HOOK_KINDS; i++) {
        if (!(kinds & 1u << i) || set->why_not[i][0])
            continue;
        va_start(args, format);
        vsnprintf(set->why_not[i], sizeof(set->why_not[i]), format, args);
        va_end(args);
    }
    atomic_fetch_and(&set->reported, ~kinds);
}

const char *hook_set_why(const struct hook_set *set, unsigned kinds)
{
    unsigned missing = kinds & ~atomic_load(&set->reported);

    for (unsigned i = 0; i < HOOK_KINDS; i++)
        if (missing & 1u << i && set->why_not[i][0])
            return set->why_not[i];
    return "";
}

static void judge(struct hook_set *set, unsigned slot)
{
    if (slots[slot].set != set || !hooks[slot].why[0] || atomic_load(&slots[slot].over))
        return;
    hook_set_refuse(set, slots[slot].kinds, "%s cannot be hooked: %s", slots[slot].name,
                    hooks[slot].why);
}

static void judge_all(struct hook_set *set)
{
    unsigned count = atomic_load(&slot_count);

    for (unsigned i = 0; i < count; i++)
        judge(set, i);
    if (set->overflow)
        hook_set_refuse(set, ALL_KINDS, "too many functions free memory");
}

void hook_set_try(struct hook_set *set, unsigned kinds)
{
    const char *refusal = entry_hooks_refusal();
    struct code_text text = {0};

    atomic_store(&set->reported, kinds);
    for (unsigned i = 0; !refusal && i < atomic_load(&slot_count); i++)
        if (slots[i].set == set)
            entry_hook_try(&hooks[i], &text);
    if (refusal)
        hook_set_refuse(set, ALL_KINDS, "functions cannot be hooked: %s", refusal);
    else
        judge_all(set);
}

/* ---- placing ---------------------------------------------------------------------------- */

static void place(struct hook_set *set)
{
    unsigned count = atomic_load(&slot_count);

    for (unsigned first = 0, end; first < count; first = end + 1) {
        for (end = first; end < count && slots[end].set == set;)
            end++;
        if (end > first)
            entry_hooks_install(&hooks[first], end - first);
    }
    judge_all(set);
    atomic_store(&set->placed, true);
}

/* Hooks a function anew in a new slot: other code has changed it, and may still lead to the old
 * slot. */
static void place_again(unsigned old)
{
    struct hook_set *set = slots[old].set;
    unsigned slot;

    entry_hook_mend(&hooks[old]);
    atomic_store(&slots[old].over, true);
    slot = fill_slot(set, slots[old].name, slots[old].ends, slots[old].kinds, hooks[old].function);
    if (slot < SLOTS) {
        entry_hooks_install(&hooks[slot], 1);
        atomic_store(&slot_count, slot + 1);
    }
    judge_all(set);
}

/* Is the slot needed for a kind that is reported, and not in place? */
static bool is_broken(const struct hook_set *set, unsigned slot)
{
    return slots[slot].set == set && !atomic_load(&slots[slot].over) &&
           slots[slot].kinds & atomic_load(&set->reported) && !entry_hook_is_whole(&hooks[slot]);
}

bool hook_set_is_whole(const struct hook_set *set)
{
    if (!atomic_load(&set->placed))
        return false;
    for (unsigned i = 0; i < atomic_load(&slot_count); i++)
        if (is_broken(set, i))
            return false;
    return true;
}

static void repair(struct hook_set *set)
{
    for (unsigned i = 0, count = atomic_load(&slot_count); i < count; i++)
        if (is_broken(set, i))
            place_again(i);
    set->missed(set);
}

void hook_set_place(struct hook_set *set)
{
    if (!atomic_load(&set->placed))
        place(set);
    else if (!hook_set_is_whole(set))
        repair(set);
}
