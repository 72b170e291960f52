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

static long write_over(struct code_text *text, uint8_t *at, const uint8_t *expected,
                       const uint8_t *bytes, size_t size)
{
    return memcmp(at, expected, size) != 0 ? -EBUSY : code_write(text, at, bytes, size);
}

static bool has_branch(const struct patch *patch)
{
    return !memcmp(patch->at, patch->after, CODE_BRANCH);
}

long patch_place(struct patch *patch, struct code_text *text)
{
    long rc = 0;

    if (!has_branch(patch))
        rc = write_over(text, patch->at, patch->before, patch->after, CODE_BRANCH);
    if (rc == -EBUSY && patch->via)
        rc = -EEXIST;
    if (!rc && !patch_is_reached(patch))
        rc = write_over(text, patch->via, patch->via_before, patch->via_after, CODE_SHORT);
    return rc;
}

#if defined(__x86_64__)
static bool is_probed(const uint8_t *at, const uint8_t *ours, const uint8_t *before, size_t size)
{
    const uint8_t trap = 0xcc; /* int3 */

    return (at[0] == trap || at[0] == before[0]) && at[0] != ours[0] &&
           !memcmp(at + 1, ours + 1, size - 1);
}

void patch_mend(struct patch *patch, struct code_text *text)
{
    const uint8_t *before = patch_before(patch);
    const uint8_t *after = patch->via ? patch->via_after : patch->after;
    uint8_t *site = patch_site(patch);
    size_t size = patch_size(patch);

    if (is_probed(site, after, before, size))
        code_write(text, site + 1, before + 1, size - 1);
}
#else
void patch_mend(struct patch *patch, struct code_text *text)
{
}
#endif

/* Writing the branch again protects its code, if that failed before. */
bool patch_restore(struct patch *patch, struct code_text *text)
{
    patch_mend(patch, text);
    if (!has_branch(patch))
        return false;
    if (!patch->via)
        return !code_write(text, patch->at, patch->before, CODE_BRANCH);
    if (patch_is_reached(patch))
        return !code_write(text, patch->via, patch->via_before, CODE_SHORT);
    code_write(text, patch->at, patch->after, CODE_BRANCH);
    return false;
}
