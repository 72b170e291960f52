/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * One place in code, replaced by a branch to code of ours, and restored. The branch replaces an
 * instruction of the function; or a short jump replaces it, and leads to the branch in a pad
 * (code.h), bytes that no thread executes otherwise.
 *
 * Others change the same code: libraries that hook functions, tracers with their probes, other
 * copies of this library. So bytes are replaced only if they are still as read, and restored only
 * if they are still ours; other copies of this library wait meanwhile. Calls for one place are
 * serialized by the caller; patch_is_placed() may be called at any time.
 */
#ifndef HMREG_CORE_PATCH_PATCH_H
#define HMREG_CORE_PATCH_PATCH_H

#include "core/patch/code.h"

#include <string.h>

struct patch {
    uint8_t *at;        /* place of the branch */
    uint8_t *via;       /* place of our short jump to the branch; NULL: there is none */
    const uint8_t *way; /* another hook's short jump to the branch; NULL: there is none */
    uint8_t before[CODE_BRANCH], after[CODE_BRANCH];
    uint8_t via_before[CODE_SHORT], via_after[CODE_SHORT];
    int error; /* result of the last patch_place() or patch_restore() */
};

/* The function's replaced instruction, and its replaced bytes. */
static inline uint8_t *patch_site(const struct patch *patch)
{
    return patch->via ? patch->via : patch->at;
}

static inline size_t patch_size(const struct patch *patch)
{
    return patch->via ? CODE_SHORT : CODE_BRANCH;
}

static inline const uint8_t *patch_before(const struct patch *patch)
{
    return patch->via ? patch->via_before : patch->before;
}

/* Can threads execute the place while it is replaced? */
static inline bool patch_is_possible(const struct patch *patch)
{
    return code_can_replace(patch_site(patch), patch_size(patch));
}

/* Reads the bytes at `at` and `via`, and makes the new ones for a branch to `target`. The caller
 * has set `at`, `via` and `way`. False: the target is out of reach. */
bool patch_make(struct patch *patch, const uint8_t *target);

/* Is the other hook's short jump, if there is one, where it was? */
static inline bool patch_has_way(const struct patch *patch)
{
    uint8_t jump[CODE_SHORT];

    return !patch->way || (code_short_branch(jump, patch->way, patch->at) &&
                           !memcmp(patch->way, jump, CODE_SHORT));
}

/* Does the short jump, if there is one, lead to the branch? */
static inline bool patch_is_reached(const struct patch *patch)
{
    return patch->via ? !memcmp(patch->via, patch->via_after, CODE_SHORT) : patch_has_way(patch);
}

static inline bool patch_is_placed(const struct patch *patch)
{
    return !memcmp(patch->at, patch->after, CODE_BRANCH) && patch_is_reached(patch);
}

/* Does the function execute what it did before? */
static inline bool patch_is_as_before(const struct patch *patch)
{
    return !memcmp(patch_site(patch), patch_before(patch), patch_size(patch));
}

/* Places the patches that are not placed, each one's branch first, and sets their `error`: 0;
 * -EBUSY: other code has changed the place; -EEXIST: other code has changed the pad; or the error
 * of code_write(). text: as for code_write(). Cheapest in the order of addresses. */
void patch_place(struct patch *const patches[], size_t count, struct code_text *text);

/* A tracer's probe (uprobe) lies on the instruction that was replaced, or has lain there: the
 * kernel writes the file's first byte when the probe goes. Then half an instruction would remain,
 * so this restores the bytes behind the first one from the file meanwhile. (On arm64 trap and
 * instruction have one size.) */
void patch_mend(struct patch *patch, struct code_text *text);

/* Mends and restores each place that is still ours, and sets its `error`: 0; -EBUSY: other code has
 * changed it; or the error of code_write(). A branch in a pad stays for threads that are about to
 * execute it; without the jump no others reach it. Cheapest in the order of addresses. */
void patch_restore(struct patch *const patches[], size_t count, struct code_text *text);

#endif
