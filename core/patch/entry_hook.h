/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Hooks at the beginning of functions of other libraries: a call of the function, by whatever
 * pointer, goes to a replacement first, which calls the function by its *original*.
 *
 * One instruction at the function's beginning, the *site*, is replaced by a branch. Threads may be
 * executing the function: each executes the old instruction or the branch, and none is ever between
 * instructions that one branch has covered. entry_x86_64.c and entry_arm64.c choose the site and
 * write its *stub*, which undoes what the instructions before the site did and goes to the
 * replacement, and the original: copies of the instructions from the beginning up to and including
 * the site, and a branch back behind it. On x86-64 instructions are decoded by Zydis.
 *
 * Other libraries hook functions too, by a jump over the beginning, before us or after us. So the
 * site lies behind the bytes that such a jump takes, if possible: UCX refuses a function whose
 * beginning has unknown instructions, such as our branch. If a jump leads into another library
 * already, the hook is in the jump's target: that library may have its callers call the target
 * directly, and then continue in this function behind the jump, as UCX does. The library is kept
 * loaded. Any other jump at the beginning is an instruction like any other: it is replaced, and the
 * original makes it. If another library restores the function's beginning, which disables our hook,
 * entry_hook_is_whole() detects that.
 *
 * Hooks stay when their user no longer needs them, so the replacement's code must stay too
 * (libhmreg is linked with -z nodelete). Only tests remove a hook; a thread may be in the stub, the
 * original or the replacement at any later time.
 */
#ifndef HMREG_CORE_PATCH_ENTRY_HOOK_H
#define HMREG_CORE_PATCH_ENTRY_HOOK_H

#include "core/patch/patch.h"

#include <stdatomic.h>
#include <string.h>

#if defined(__aarch64__)
#define ENTRY_ROOM 256 /* bytes for a stub and an original */
#else
#define ENTRY_ROOM 320
#endif
#define ENTRY_WAYS 4

/* Another hook's jump. */
struct entry_way {
    const uint8_t *at;
    uint8_t size, bytes[24];
};

struct entry_hook {
    uint8_t *function;        /* in: its beginning */
    const void *replacement;  /* in */
    _Atomic(void *) original; /* set before the function is hooked, and never cleared */
    char why[128];            /* why it is not hooked; "": it is */

    struct patch patch;
    struct entry_way ways[ENTRY_WAYS]; /* jumps from the beginning to the site, in this order */
    unsigned way_count;
};

/* Can functions be hooked here at all? Maps no memory and changes no code. Returns NULL, or the
 * reason why not. */
const char *entry_hooks_refusal(void);

/* Writes to `why` the reason why the function cannot be hooked; "": reading its code shows none.
 * text: zeroed by the caller before the first of several calls. */
void entry_hook_try(struct entry_hook *hook, struct code_text *text);

/* Hooks each function that can be hooked; `why` says which are not. A hook that was removed can be
 * installed again, but one that other code has overwritten cannot: that code may still lead to it,
 * so the function needs another hook with a replacement of its own. Calls of this and of
 * entry_hook_remove() are serialized by the caller. Returns how many are hooked. */
size_t entry_hooks_install(struct entry_hook *hooks, size_t count);

/* Does the function's beginning still lead to the replacement? At any time, from any thread. */
bool entry_hook_is_whole(const struct entry_hook *hook);

/* If a tracer has set or removed a probe on the site, makes the site's instruction without the
 * probe whole. */
void entry_hook_mend(struct entry_hook *hook);

/* Restores the function: for tests, which place a branch again and again under threads that execute
 * it. False: other code has changed it since; then the function's calls may
 * still go to the replacement. */
bool entry_hook_remove(struct entry_hook *hook);

/* ---- of the processor, for entry_hook.c ------------------------------------------------- */

/* The code at a function's beginning: the hooked function's, or that of a jump's target. */
struct entry_code {
    uint8_t *function;
    size_t readable; /* bytes */
    size_t size;     /* the function's size; 0: unknown */
    uint8_t *before; /* the mapping's start: bytes before the function are readable from there */
};

/* Adds a way, of `size` bytes. False: there are too many, or it is too long. */
static inline bool entry_add_way(struct entry_hook *hook, const uint8_t *at, size_t size)
{
    struct entry_way *way = &hook->ways[hook->way_count];

    if (hook->way_count == ENTRY_WAYS || size > sizeof(way->bytes))
        return false;
    way->at = at;
    way->size = (uint8_t)size;
    memcpy(way->bytes, at, size);
    hook->way_count++;
    return true;
}

/* Loads the library that the processor's part needs. NULL, or the reason why it cannot. */
const char *entry_arch_refusal(void);

/* Chooses the site: sets patch.at and patch.via, and adds to ways. NULL, or the reason why there is
 * none. */
const char *entry_arch_choose(struct entry_hook *hook, const struct entry_code *code);

/* Writes stub and original to `room`, ENTRY_ROOM bytes, and sets *original. NULL, or the reason why
 * it cannot. */
const char *entry_arch_build(const struct entry_hook *hook, const struct entry_code *code,
                             uint8_t *room, uint8_t **original);

#endif
