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

/* The changes of several patches: each patch's branch comes before its short jump. */
struct batch {
    struct code_change changes[2 * TOGETHER];
    size_t count;
    size_t first[TOGETHER + 1]; /* index of each patch's first change, and of the end */
};

static void add(struct batch *batch, uint8_t *at, const uint8_t *bytes, size_t size)
{
    batch->changes[batch->count++] = (struct code_change){at, bytes, size};
}

/* Another patch of the batch may want bytes of the same pad. */
static bool is_wanted(const struct batch *batch, const uint8_t *at)
{
    for (size_t i = 0; i < batch->count; i++)
        if (batch->changes[i].at < at + CODE_BRANCH &&
            at < batch->changes[i].at + batch->changes[i].size)
            return true;
    return false;
}

static int add_branch(struct batch *batch, struct patch *patch)
{
    bool branch = !has_branch(patch), jump = patch->via && !patch_is_reached(patch);

    if (branch && patch->via && !jump) /* the short jump leads to another branch */
        return -EBUSY;
    if (branch && (memcmp(patch->at, patch->before, CODE_BRANCH) || is_wanted(batch, patch->at)))
        return patch->via ? -EEXIST : -EBUSY;
    if ((jump && memcmp(patch->via, patch->via_before, CODE_SHORT)) || !patch_has_way(patch))
        return -EBUSY;
    if (branch)
        add(batch, patch->at, patch->after, CODE_BRANCH);
    if (jump)
        add(batch, patch->via, patch->via_after, CODE_SHORT);
    return 0;
}

/* Writes the branch again: that protects its code if protecting failed before. */
static int add_original(struct batch *batch, struct patch *patch)
{
    if (!has_branch(patch))
        return -EBUSY;
    if (!patch->via)
        add(batch, patch->at, patch->before, CODE_BRANCH);
    else if (patch_is_reached(patch))
        add(batch, patch->via, patch->via_before, CODE_SHORT);
    else
        add(batch, patch->at, patch->after, CODE_BRANCH);
    return patch->via && !patch_is_reached(patch) ? -EBUSY : 0;
}

typedef int adder(struct batch *batch, struct patch *patch);

/* If one patch fails, each is tried alone, also changed ones: their code may have been written but
 * not protected again. */
static void change_some(struct patch *const patches[], size_t count, struct code_text *text,
                        adder *add_one)
{
    struct batch batch = {.count = 0};
    long rc;

    for (size_t i = 0; i < count; i++) {
        patches[i]->error = add_one(&batch, patches[i]);
        batch.first[i + 1] = batch.count;
    }
    rc = code_write(text, batch.changes, batch.count);
    for (size_t i = 0; rc && i < count; i++)
        if (!patches[i]->error)
            patches[i]->error = (int)code_write(text, batch.changes + batch.first[i],
                                                batch.first[i + 1] - batch.first[i]);
}

static void change_all(struct patch *const patches[], size_t count, struct code_text *text,
                       adder *add_one)
{
    for (size_t at = 0; at < count; at += TOGETHER)
        change_some(patches + at, count - at < TOGETHER ? count - at : TOGETHER, text, add_one);
}

void patch_place(struct patch *const patches[], size_t count, struct code_text *text)
{
    int lock = code_lock();

    change_all(patches, count, text, add_branch);
    code_unlock(lock);
}

/* ---- probes ----------------------------------------------------------------------------- */

#if defined(__x86_64__)
static bool is_probed(const struct patch *patch)
{
    const uint8_t *at = patch_site(patch), *before = patch_before(patch);
    const uint8_t *ours = patch->via ? patch->via_after : patch->after;
    const uint8_t trap = 0xcc; /* int3 */

    return (at[0] == trap || at[0] == before[0]) && at[0] != ours[0] &&
           !memcmp(at + 1, ours + 1, patch_size(patch) - 1);
}
#else
static bool is_probed(const struct patch *patch)
{
    return false;
}
#endif

static void mend(const struct patch *patch, struct code_text *text)
{
    struct code_change rest = {patch_site(patch) + 1, patch_before(patch) + 1,
                               patch_size(patch) - 1};

    if (is_probed(patch))
        (void)code_write(text, &rest, 1);
}

void patch_mend(struct patch *patch, struct code_text *text)
{
    int lock;

    if (!is_probed(patch))
        return;
    lock = code_lock();
    mend(patch, text);
    code_unlock(lock);
}

/* ---- restoring -------------------------------------------------------------------------- */

void patch_restore(struct patch *const patches[], size_t count, struct code_text *text)
{
    int lock = code_lock();

    for (size_t i = 0; i < count; i++)
        mend(patches[i], text);
    change_all(patches, count, text, add_original);
    code_unlock(lock);
}
