/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Hooks on the functions of one library that end memory. A kind of memory is reported if every
 * function of the set that can end it is hooked. Each hooked address has a slot of the process,
 * with a replacement of its own, which passes the call to the set's owner; nothing there takes a
 * lock or allocates. Sets are static: hooks serve the process and stay.
 */
#ifndef HMREG_HMEM_HOOK_SET_H
#define HMREG_HMEM_HOOK_SET_H

#include <stdatomic.h>
#include <stdbool.h>

#define HOOK_KINDS 4 /* at most, from bit 0 on */
#define HOOK_WHY   192

/* No hooked function has more than four arguments, and none on the stack. */
typedef unsigned long hook_call(unsigned long, unsigned long, unsigned long, unsigned long);

struct hook_set {
    /* in: a call of a function that ends `ends`: reports, makes the call by `original`, reports
     * again and returns its result. On any thread, also in signal handlers. */
    unsigned long (*call)(struct hook_set *set, unsigned ends, hook_call *original,
                          const unsigned long arguments[4]);
    /* in: called when calls may have been missed: reports all watched memory. */
    void (*missed)(struct hook_set *set);
    unsigned ends_all; /* in: the `ends` of an address that two functions share */

    atomic_uint reported; /* kinds */
    /* The first reason for each kind that is not reported; it stays. Written before the kind leaves
     * `reported`: hook_set_why(). */
    char why_not[HOOK_KINDS][HOOK_WHY];
    atomic_bool placed;
    bool overflow; /* a function has no slot */
};

/* The lock to find and hook functions, for all sets. Waits only for a moment, as
 * thread_lock_to_start(): finding functions needs the dynamic linker, whose locks the caller may
 * hold (a get in a constructor). False, recorded: another thread has it, and no set has changed. */
bool hook_sets_lock(void);
void hook_sets_unlock(void);
#define HOOK_SETS_BUSY "another thread is hooking right now the functions that free it"

/* Caller holds the lock, unless it says otherwise: */

/* Adds a function's address; NULL: none. name: static. Adding it twice is no error. */
void hook_set_add(struct hook_set *set, const char *name, unsigned ends, unsigned kinds,
                  void *address);
/* The name by which the address was added; NULL: it was not. */
const char *hook_set_name_of(const struct hook_set *set, const void *address);

/* Declares that these kinds are not reported, whatever is hooked. */
void hook_set_refuse(struct hook_set *set, unsigned kinds, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Why one of these kinds is not reported, in static words; "": all are reported, or hooking was not
 * tried. Needs no lock. */
const char *hook_set_why(const struct hook_set *set, unsigned kinds);

/* Tests, without hooking, whether the functions can be hooked, and so which of `kinds` are
 * reported. */
void hook_set_try(struct hook_set *set, unsigned kinds);

/* Places the hooks that are not placed, and again hooks that other code has changed. */
void hook_set_place(struct hook_set *set);
/* Are the hooks in place, so that the kinds in `reported` are reported now? Needs no lock. */
bool hook_set_is_whole(const struct hook_set *set);

#endif
