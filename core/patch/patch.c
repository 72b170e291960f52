/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See patch.h.
 */
#include "core/patch/patch.h"

#include <errno.h>

bool patch_make(struct patch *patch, const uint8_t *target)
{
    memcpy(patch->before, patch->at, CODE_BRANCH);
    if (patch->via)
        memcpy(patch->via_before, patch->via, CODE_SHORT);
    return code_branch(patch->after, patch->at, target) &&
           (!patch->via || code_short_branch(patch->via_after, patch->via, patch->at));
}

static bool has_branch(const struct patch *patch)
{
    return !memcmp(patch->at, patch->after, CODE_BRANCH);
}

#define TOGETHER 16 /* patches whose changes are made by one call */

/* The changes of several patches: of each the branch, before the jump that leads to it. */
struct batch {
    struct code_change changes[2 * TOGETHER];
    size_t count;
    size_t first[TOGETHER + 1]; /* of each patch, and behind the last one */
};

/* Another patch of the batch may want bytes of the same pad. */
static bool is_wanted(const struct batch *batch, const uint8_t *at)
{
    for (size_t i = 0; i < batch->count; i++)
        if (batch->changes[i].at < at + CODE_BRANCH &&
            at < batch->changes[i].at + batch->changes[i].size)
            return true;
    return false;
}

static int add(struct batch *batch, struct patch *patch)
{
    bool branch = !has_branch(patch), jump = patch->via && !patch_is_reached(patch);

    if (branch && patch->via && !jump) /* it leads to another branch */
        return -EBUSY;
    if (branch && (memcmp(patch->at, patch->before, CODE_BRANCH) || is_wanted(batch, patch->at)))
        return patch->via ? -EEXIST : -EBUSY;
    if ((jump && memcmp(patch->via, patch->via_before, CODE_SHORT)) || !patch_has_way(patch))
        return -EBUSY;
    if (branch)
        batch->changes[batch->count++] = (struct code_change){patch->at, patch->after, CODE_BRANCH};
    if (jump)
        batch->changes[batch->count++] =
            (struct code_change){patch->via, patch->via_after, CODE_SHORT};
    return 0;
}

/* Where one patch fails, each is tried on its own: also those that are placed, since code may have
 * been written that could not be protected again. */
static void place_some(struct patch *const patches[], size_t count, struct code_text *text)
{
    struct batch batch = {.count = 0};
    long rc;

    for (size_t i = 0; i < count; i++) {
        patches[i]->error = add(&batch, patches[i]);
        batch.first[i + 1] = batch.count;
    }
    rc = code_write(text, batch.changes, batch.count);
    for (size_t i = 0; rc && i < count; i++)
        if (!patches[i]->error)
            patches[i]->error = (int)code_write(text, batch.changes + batch.first[i],
                                                batch.first[i + 1] - batch.first[i]);
}

void patch_place(struct patch *const patches[], size_t count, struct code_text *text)
{
    int lock = code_lock();

    for (size_t at = 0; at < count; at += TOGETHER)
        place_some(patches + at, count - at < TOGETHER ? count - at : TOGETHER, text);
    code_unlock(lock);
}

static bool write_one(struct code_text *text, uint8_t *at, const uint8_t *bytes, size_t size)
{
    return !code_write(text, &(struct code_change){at, bytes, size}, 1);
}

#if defined(__x86_64__)
static bool is_probed(const uint8_t *at, const uint8_t *ours, const uint8_t *before, size_t size)
{
    const uint8_t trap = 0xcc; /* int3 */

    return (at[0] == trap || at[0] == before[0]) && at[0] != ours[0] &&
           !memcmp(at + 1, ours + 1, size - 1);
}

static void mend(struct patch *patch, struct code_text *text)
{
    const uint8_t *before = patch_before(patch);
    const uint8_t *after = patch->via ? patch->via_after : patch->after;
    uint8_t *site = patch_site(patch);
    size_t size = patch_size(patch);

    if (is_probed(site, after, before, size))
        write_one(text, site + 1, before + 1, size - 1);
}
#else
static void mend(struct patch *patch, struct code_text *text)
{
}
#endif

void patch_mend(struct patch *patch, struct code_text *text)
{
    int lock = code_lock();

    mend(patch, text);
    code_unlock(lock);
}

/* Writing the branch again protects its code, if that failed before. */
static bool restore(struct patch *patch, struct code_text *text)
{
    mend(patch, text);
    if (!has_branch(patch))
        return false;
    if (!patch->via)
        return write_one(text, patch->at, patch->before, CODE_BRANCH);
    if (patch_is_reached(patch))
        return write_one(text, patch->via, patch->via_before, CODE_SHORT);
    write_one(text, patch->at, patch->after, CODE_BRANCH);
    return false;
}

bool patch_restore(struct patch *patch, struct code_text *text)
{
    int lock = code_lock();
    bool restored = restore(patch, text);

    code_unlock(lock);
    return restored;
}
