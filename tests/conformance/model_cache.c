/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See model_cache.h. Each function implements the manual's paragraph.
 */
#include "tests/conformance/model_cache.h"

#include <errno.h>

size_t cache_model_rails(const struct cache_model *model)
{
    return model->is_group ? CACHE_RAILS : 1;
}

bool cache_model_on(const struct cache_model *model, const struct cache_want *want, size_t rail)
{
    return rail < cache_model_rails(model) && (!want->rails || (want->rails >> rail & 1));
}

int cache_model_endpoint(const struct cache_want *want, size_t rail)
{
    if (want->listed)
        return want->endpoints[rail];
    return rail ? -1 : want->endpoint;
}

/* ---- refusals --------------------------------------------------------------------------- */

static bool endpoints_are_right(const struct cache_model *model, const struct cache_want *want)
{
    bool one = want->endpoint >= 0;

    if (want->explicit)
        return !one && !want->listed && !want->listed_count;
    if (one && (model->is_group || want->listed || !model->binds[0]))
        return false;
    if (!want->listed)
        return !want->listed_count;
    if (want->listed_count != cache_model_rails(model))
        return false;
    for (size_t i = 0; i < want->listed_count; i++) {
        if (want->endpoints[i] >= 0 && !model->binds[i])
            return false;
        if (want->endpoints[i] < 0 && model->binds[i] && cache_model_on(model, want, i))
            return false;
    }
    return true;
}

/* What a checked claim says must be so. Of cuda there are devices 0 and 1, and no other runtime. */
static bool checked_is_right(const struct cache_want *want)
{
    const struct cache_claim *claim = &want->claim;

    if (claim->kind || claim->allocation.len || claim->identity)
        return false;
    if (!want->area)
        return claim->iface == HMREG_IFACE_SYSTEM;
    return claim->iface == HMREG_IFACE_CUDA &&
           (claim->device == HMREG_DEVICE_ANY || claim->device == (int)want->area - 1);
}

/* A trusted claim must be complete and agree with itself, not with the memory. */
static bool trusted_is_right(const struct cache_claim *claim)
{
    if (claim->half)
        return false;
    if (claim->iface == HMREG_IFACE_SYSTEM)
        return claim->kind == HMREG_MEM_HOST && !claim->identity && claim->device <= 0;
    return claim->iface == HMREG_IFACE_CUDA && claim->kind == HMREG_MEM_DEVICE &&
           claim->device >= 0 && claim->device < 2 && claim->allocation.len;
}

static bool is_inside(const struct model_range *part, const struct model_range *whole)
{
    return part->offset >= whole->offset && part->len <= whole->len &&
           part->offset - whole->offset <= whole->len - part->len;
}

static void judge_claim(const struct cache_want *want, struct verdict *verdict)
{
    const struct cache_claim *claim = &want->claim;
    bool right = true;

    if (claim->how == HMREG_CLAIM_NONE)
        right = !claim->kind && !claim->allocation.len && !claim->identity;
    else if (claim->how == HMREG_CLAIM_CHECKED)
        right = checked_is_right(want);
    else
        right = trusted_is_right(claim);
    if (!right)
        verdict_add(verdict, -EINVAL);
    else if (claim->allocation.len && !is_inside(&want->range, &claim->allocation))
        verdict_add(verdict, -ERANGE);
}

struct verdict cache_model_get(const struct cache_model *model, const struct cache_want *want)
{
    struct verdict verdict = {.count = 0};

    if (!want->range.len || !want->access || (want->access & ~HMREG_ACCESS_ALL))
        verdict_add(&verdict, -EINVAL);
    if (want->explicit && want->range.len > model->max_len) /* gets take pieces */
        verdict_add(&verdict, -EMSGSIZE);
    if (want->flags && (!want->explicit || want->flags != HMREG_RMA_EVENT))
        verdict_add(&verdict, -HMREG_EBADFLAGS);
    if (want->key && !want->explicit)
        verdict_add(&verdict, -EINVAL);
    if (want->key && model->provider_keys)
        verdict_add(&verdict, -EKEYREJECTED);
    if (want->rails >> (model->is_group ? CACHE_RAILS : 0))
        verdict_add(&verdict, -EINVAL);
    if (want->page_size & (want->page_size - 1))
        verdict_add(&verdict, -EINVAL);
    if (!endpoints_are_right(model, want))
        verdict_add(&verdict, -EINVAL);
    judge_claim(want, &verdict);
    return verdict;
}

/* ---- hits ------------------------------------------------------------------------------- */

static bool trusts_alike(const struct cache_claim *a, const struct cache_claim *b)
{
    bool trusted = a->how == HMREG_CLAIM_TRUSTED;

    if (trusted != (b->how == HMREG_CLAIM_TRUSTED))
        return false;
    return !trusted || (a->iface == b->iface && a->device == b->device && a->kind == b->kind &&
                        a->allocation.offset == b->allocation.offset &&
                        a->allocation.len == b->allocation.len && a->identity == b->identity);
}

static bool trusts_host(const struct cache_claim *claim)
{
    return claim->how == HMREG_CLAIM_TRUSTED && claim->iface == HMREG_IFACE_SYSTEM;
}

/* What one get trusted to be host memory, another that trusts the same shares; that one shares what
 * was found to be host memory, too. */
static bool suits_claim(const struct cache_want *has, const struct cache_want *want)
{
    bool found = has->claim.how != HMREG_CLAIM_TRUSTED && !has->area;

    if (trusts_host(&want->claim))
        return found || trusts_host(&has->claim);
    return !trusts_host(&has->claim) && trusts_alike(&has->claim, &want->claim);
}

static bool has_rights(const struct cache_model *model, uint64_t has, uint64_t asked)
{
    static const uint64_t more[] = {[HMREG_RIGHTS_EXACT] = 0,
                                    [HMREG_RIGHTS_LOCAL] = HMREG_ACCESS_LOCAL,
                                    [HMREG_RIGHTS_ANY] = HMREG_ACCESS_ALL};

    return !(asked & ~has) && !(has & ~asked & ~more[model->rights]);
}

static bool has_range(const struct cache_model *model, const struct model_range *has,
                      const struct model_range *asked)
{
    if (model->exact)
        return has->offset == asked->offset && has->len == asked->len;
    return is_inside(asked, has);
}

bool cache_model_serves(const struct cache_model *model, int entry, const struct cache_want *want)
{
    const struct cache_want *has = &model->entries[entry].want;

    for (size_t i = 0; i < CACHE_RAILS; i++)
        if (cache_model_endpoint(has, i) != cache_model_endpoint(want, i))
            return false;
    return model->entries[entry].live && has->area == want->area &&
           has_range(model, &has->range, &want->range) &&
           has_rights(model, has->access, want->access) && has->rails == want->rails &&
           has->page_size == want->page_size && suits_claim(has, want);
}

bool cache_model_hits(const struct cache_model *model, const struct cache_want *want)
{
    for (int i = 0; i < CACHE_ENTRIES; i++)
        if (cache_model_serves(model, i, want))
            return true;
    return false;
}

bool cache_model_keeps(const struct cache_model *model, const struct cache_want *want)
{
    const struct cache_claim *claim = &want->claim;

    for (size_t i = 0; i < CACHE_RAILS; i++)
        if (cache_model_on(model, want, i) && model->binds[i] && cache_model_endpoint(want, i) < 0)
            return false; /* the caller binds it */
    return claim->how != HMREG_CLAIM_TRUSTED || claim->iface == HMREG_IFACE_SYSTEM ||
           claim->identity;
}

/* ---- states ----------------------------------------------------------------------------- */

void cache_model_registered(struct cache_model *model, int entry, const struct cache_want *want)
{
    bool kept = cache_model_keeps(model, want);

    model->entries[entry] =
        (struct cache_entry_model){.open = true, .live = kept, .users = 1, .want = *want};
    model->misses += kept;
    model->uncached += !kept;
}

void cache_model_hit(struct cache_model *model, int entry)
{
    model->entries[entry].users++;
    model->hits++;
}

static void end(struct cache_entry_model *entry)
{
    entry->live = false;
    entry->open = entry->users;
}

void cache_model_put(struct cache_model *model, int entry)
{
    if (!--model->entries[entry].users && !model->entries[entry].live)
        end(&model->entries[entry]);
}

void cache_model_invalidate(struct cache_model *model, unsigned area, struct model_range range)
{
    for (int i = 0; i < CACHE_ENTRIES; i++) {
        struct cache_entry_model *entry = &model->entries[i];
        const struct model_range *has = &entry->want.range;

        if (!entry->live || entry->want.area != area || has->offset >= range.offset + range.len ||
            range.offset >= has->offset + has->len)
            continue;
        end(entry);
        model->invalidations++;
    }
}

void cache_model_flush(struct cache_model *model)
{
    for (int i = 0; i < CACHE_ENTRIES; i++)
        if (model->entries[i].live && !model->entries[i].users)
            end(&model->entries[i]);
}

unsigned cache_model_live(const struct cache_model *model)
{
    unsigned count = 0;

    for (int i = 0; i < CACHE_ENTRIES; i++)
        count += model->entries[i].live;
    return count;
}

unsigned cache_model_retired(const struct cache_model *model)
{
    unsigned count = 0;

    for (int i = 0; i < CACHE_ENTRIES; i++) {
        const struct cache_entry_model *entry = &model->entries[i];

        count += entry->open && !entry->live && cache_model_keeps(model, &entry->want);
    }
    return count;
}
