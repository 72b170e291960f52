/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See model.h. Each function implements the manual's paragraph on its call.
 */
#include "tests/conformance/model.h"

#include <errno.h>
#include <string.h>

void verdict_add(struct verdict *verdict, int code)
{
    verdict->codes[verdict->count++] = code;
}

bool verdict_allows(const struct verdict *verdict, int code)
{
    if (!verdict->count)
        return code == 0;
    for (int i = 0; i < verdict->count; i++)
        if (verdict->codes[i] == code)
            return true;
    return false;
}

static uint64_t total_len(const struct model_range *ranges, size_t count)
{
    uint64_t total = 0;

    for (size_t i = 0; i < count; i++)
        total += ranges[i].len;
    return total;
}

/* ---- registration ----------------------------------------------------------------------- */

static void judge_key(const struct model *model, const struct model_reg *reg,
                      struct verdict *verdict)
{
    if (model->mr_mode & HMREG_MR_PROV_KEY) {
        if (reg->key && reg->key != HMREG_KEY_ANY)
            verdict_add(verdict, -EKEYREJECTED);
        return;
    }
    if (!(reg->access & HMREG_ACCESS_REMOTE) || reg->key == HMREG_KEY_ANY)
        return;
    if (reg->key > model->max_key)
        verdict_add(verdict, -EKEYREJECTED);
    for (int i = 0; i < MODEL_REGIONS; i++) {
        const struct model_region *other = &model->regions[i];

        if (other->open && (other->access & HMREG_ACCESS_REMOTE) && other->key == reg->key) {
            verdict_add(verdict, -HMREG_ENOKEY);
            return;
        }
    }
}

struct verdict model_reg(const struct model *model, const struct model_reg *reg)
{
    uint64_t known =
        HMREG_HMEM_HOST_ALLOC | HMREG_HMEM_DEVICE_ONLY | HMREG_RMA_PMEM | HMREG_RMA_EVENT;
    struct verdict verdict = {.count = 0};

    if (!reg->count || reg->count > model->iov_limit)
        verdict_add(&verdict, -EINVAL);
    for (size_t i = 0; i < reg->count; i++)
        if (!reg->ranges[i].len)
            verdict_add(&verdict, -EINVAL);
    if (!reg->access || (reg->access & ~HMREG_ACCESS_ALL))
        verdict_add(&verdict, -EINVAL);
    if (reg->offset)
        verdict_add(&verdict, -EINVAL);
    if (reg->flags & ~known)
        verdict_add(&verdict, -HMREG_EBADFLAGS);
    if (reg->flags & (HMREG_HMEM_HOST_ALLOC | HMREG_HMEM_DEVICE_ONLY))
        verdict_add(&verdict, -EINVAL); /* the arena has neither */
    if (total_len(reg->ranges, reg->count) > model->max_len)
        verdict_add(&verdict, -EMSGSIZE);
    judge_key(model, reg, &verdict);
    return verdict;
}

static bool starts_enabled(const struct model *model, uint64_t flags)
{
    if (model->mr_mode & HMREG_MR_ENDPOINT)
        return false;
    return !(model->mr_mode & HMREG_MR_RMA_EVENT) || !(flags & HMREG_RMA_EVENT);
}

/* In the one mode that requires it, the caller must refresh pages that were absent when registered.
 */
static void note_pages(const struct model *model, struct model_region *region)
{
    for (size_t i = 0; i < region->count; i++) {
        uint64_t first = region->ranges[i].offset / model->page;
        uint64_t last = (region->ranges[i].offset + region->ranges[i].len - 1) / model->page;

        for (uint64_t page = first; page <= last; page++)
            region->known[page] = model->resident[page];
    }
}

void model_reg_done(struct model *model, int slot, const struct model_reg *reg, uint64_t key)
{
    struct model_region *region = &model->regions[slot];

    *region = (struct model_region){
        .open = true,
        .count = reg->count,
        .access = reg->access,
        .flags = reg->flags,
        .key = key,
        .enabled = starts_enabled(model, reg->flags),
        .pending = model->async,
        .foreign = reg->foreign,
        .ep = -1,
    };
    memcpy(region->ranges, reg->ranges, reg->count * sizeof(region->ranges[0]));
    note_pages(model, region);
    if (model->async)
        model->queue[model->queued++] = slot;
    model->serial[slot] = ++model->last_serial;
}

uint64_t model_key(const struct model *model, int slot)
{
    const struct model_region *region = &model->regions[slot];

    if (region->pending || (model->mr_mode & HMREG_MR_RAW) ||
        !(region->access & HMREG_ACCESS_REMOTE))
        return HMREG_KEY_NOTAVAIL;
    return region->key;
}

/* ---- closing ---------------------------------------------------------------------------- */

struct verdict model_close(const struct model *model, int slot)
{
    const struct model_region *region = &model->regions[slot];
    struct verdict verdict = {.count = 0};
    bool bound = region->ep >= 0;

    for (int i = 0; i < MODEL_OBJECTS; i++)
        bound = bound || region->counters[i];
    if (bound)
        verdict_add(&verdict, -EBUSY);
    return verdict;
}

void model_close_done(struct model *model, int slot)
{
    int kept = 0;

    model->regions[slot].open = false;
    for (int i = 0; i < model->queued; i++)
        if (model->queue[i] != slot)
            model->queue[kept++] = model->queue[i];
    model->queued = kept;
}

/* ---- binding and enabling --------------------------------------------------------------- */

struct verdict model_bind_ep(const struct model *model, int slot, uint64_t flags)
{
    const struct model_region *region = &model->regions[slot];
    struct verdict verdict = {.count = 0};

    if (flags)
        verdict_add(&verdict, -HMREG_EBADFLAGS);
    if (!(model->mr_mode & HMREG_MR_ENDPOINT))
        verdict_add(&verdict, -EINVAL);
    else if (region->enabled)
        verdict_add(&verdict, -HMREG_EOPBADSTATE);
    else if (region->ep >= 0)
        verdict_add(&verdict, -EBUSY);
    return verdict;
}

struct verdict model_bind_counter(const struct model *model, int slot, int counter, uint64_t flags)
{
    const struct model_region *region = &model->regions[slot];
    struct verdict verdict = {.count = 0};

    if (flags != HMREG_REMOTE_WRITE)
        verdict_add(&verdict, -HMREG_EBADFLAGS);
    if ((model->mr_mode & HMREG_MR_RMA_EVENT) && !(region->flags & HMREG_RMA_EVENT))
        verdict_add(&verdict, -EINVAL);
    if ((model->mr_mode & (HMREG_MR_RMA_EVENT | HMREG_MR_ENDPOINT)) && region->enabled)
        verdict_add(&verdict, -HMREG_EOPBADSTATE);
    if (region->counters[counter])
        verdict_add(&verdict, -EBUSY);
    return verdict;
}

struct verdict model_enable(const struct model *model, int slot)
{
    const struct model_region *region = &model->regions[slot];
    struct verdict verdict = {.count = 0};

    if (starts_enabled(model, region->flags))
        return verdict;
    if (region->enabled)
        verdict_add(&verdict, -HMREG_EOPBADSTATE);
    if ((model->mr_mode & HMREG_MR_ENDPOINT) && region->ep < 0)
        verdict_add(&verdict, -HMREG_EOPBADSTATE);
    return verdict;
}

void model_unbind_ep(struct model *model, int ep)
{
    model->ep_open[ep] = false;
    for (int i = 0; i < MODEL_REGIONS; i++)
        if (model->regions[i].ep == ep)
            model->regions[i].ep = -1;
}

void model_unbind_counter(struct model *model, int counter)
{
    model->counter_open[counter] = false;
    for (int i = 0; i < MODEL_REGIONS; i++)
        model->regions[i].counters[counter] = false;
}

/* ---- refreshing ------------------------------------------------------------------------- */

static bool inside(const struct model_region *region, const struct model_range *part)
{
    for (size_t i = 0; i < region->count; i++) {
        const struct model_range *range = &region->ranges[i];

        if (part->offset >= range->offset && part->offset + part->len <= range->offset + range->len)
            return true;
    }
    return false;
}

struct verdict model_refresh(const struct model *model, int slot, const struct model_range *part,
                             uint64_t flags)
{
    struct verdict verdict = {.count = 0};

    if (flags)
        verdict_add(&verdict, -HMREG_EBADFLAGS);
    if (part && (!part->len || !inside(&model->regions[slot], part)))
        verdict_add(&verdict, -EINVAL);
    return verdict;
}

static void know(const struct model *model, struct model_region *region,
                 const struct model_range *part)
{
    for (uint64_t page = part->offset / model->page;
         page <= (part->offset + part->len - 1) / model->page; page++)
        region->known[page] = true;
}

void model_refresh_done(struct model *model, int slot, const struct model_range *part)
{
    struct model_region *region = &model->regions[slot];

    if (part) {
        know(model, region, part);
        return;
    }
    for (size_t i = 0; i < region->count; i++)
        know(model, region, &region->ranges[i]);
}

/* ---- RMA -------------------------------------------------------------------------------- */

static bool locate(const struct model *model, const struct model_region *region, uint64_t addr,
                   uint64_t len, size_t *index, uint64_t *offset)
{
    struct model_range part = {addr, len};

    if (model->mr_mode & HMREG_MR_VIRT_ADDR) {
        for (*index = 0; *index < region->count; ++*index) {
            const struct model_range *range = &region->ranges[*index];

            *offset = part.offset - range->offset;
            if (part.offset >= range->offset && part.offset < range->offset + range->len &&
                part.len <= range->len - *offset)
                return true;
        }
        return false;
    }
    if (addr + len < addr || addr + len > total_len(region->ranges, region->count))
        return false;
    for (*index = 0; addr >= region->ranges[*index].len; ++*index)
        addr -= region->ranges[*index].len;
    *offset = addr;
    return true;
}

uint64_t model_rma_place(const struct model *model, const struct model_rma *rma, uint64_t at)
{
    const struct model_region *region = &model->regions[rma->region];
    size_t index = 0;
    uint64_t offset = 0;

    locate(model, region, rma->addr, rma->len, &index, &offset);
    for (offset += at; offset >= region->ranges[index].len; index++)
        offset -= region->ranges[index].len;
    return region->ranges[index].offset + offset;
}

static void judge_local(const struct model *model, const struct model_rma *rma,
                        struct verdict *verdict)
{
    const struct model_region *region = rma->desc >= 0 ? &model->regions[rma->desc] : NULL;
    uint64_t right = rma->write ? HMREG_WRITE : HMREG_READ;

    if (!(model->mr_mode & (HMREG_MR_LOCAL | HMREG_MR_HMEM)))
        return;
    if (!region) {
        if (model->mr_mode & HMREG_MR_LOCAL)
            verdict_add(verdict, -EINVAL);
        return;
    }
    if (!rma->local.len || !inside(region, &rma->local) || !(region->access & right) ||
        !region->enabled || region->pending)
        verdict_add(verdict, -EINVAL);
}

static bool pages_known(const struct model *model, const struct model_rma *rma)
{
    const struct model_region *region = &model->regions[rma->region];

    if (!(model->mr_mode & HMREG_MR_MMU_NOTIFY))
        return true;
    for (uint64_t at = 0; at < rma->len; at++)
        if (!region->known[model_rma_place(model, rma, at) / model->page])
            return false;
    return true;
}

static void judge_target(const struct model *model, const struct model_rma *rma,
                         struct verdict *verdict)
{
    const struct model_region *region = rma->region >= 0 ? &model->regions[rma->region] : NULL;
    uint64_t right = rma->write ? HMREG_REMOTE_WRITE : HMREG_REMOTE_READ;
    uint64_t offset;
    size_t index;

    if (!region || !(region->access & HMREG_ACCESS_REMOTE)) {
        verdict_add(verdict, -EKEYREJECTED);
        return;
    }
    if (!region->enabled || region->pending)
        verdict_add(verdict, -EKEYREJECTED);
    if (!(region->access & right) || region->foreign)
        verdict_add(verdict, -EACCES);
    if (!locate(model, region, rma->addr, rma->len, &index, &offset))
        verdict_add(verdict, -ERANGE);
    else if (!pages_known(model, rma))
        verdict_add(verdict, -EFAULT);
}

struct verdict model_rma(const struct model *model, const struct model_rma *rma)
{
    struct verdict verdict = {.count = 0};

    judge_local(model, rma, &verdict);
    if ((model->mr_mode & HMREG_MR_RAW) && !rma->raw_mapped)
        verdict_add(&verdict, -EKEYREJECTED);
    judge_target(model, rma, &verdict);
    return verdict;
}

/* Touched pages are resident; each counter of the region counts a write once. */
void model_rma_done(struct model *model, const struct model_rma *rma)
{
    const struct model_region *region = &model->regions[rma->region];

    for (uint64_t at = 0; at < rma->len; at++)
        model->resident[model_rma_place(model, rma, at) / model->page] = true;
    for (int i = 0; rma->write && i < MODEL_OBJECTS; i++)
        if (region->counters[i])
            model->counts[i]++;
}
