/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See cover.h. A runtime names one allocation at an address. For virtual memory it names the
 * segment there, or the segments under a longer range. To find the neighbours, ask for the two
 * bytes at a border. If one range may span both segments, a runtime describes both, and says
 * whether one dmabuf may contain them. If they belong to two allocations, it refuses the range.
 */
#include "core/cache/cover.h"

#include "core/base/error.h"

/* Widens [*start, *end) by the segment beyond one of its borders. False: none, or other memory. */
static bool widen(const struct get *get, uint64_t border, uint64_t *start, uint64_t *end)
{
    const struct resolved *found = get->found;
    struct resolved both;

    if (border < 1 || border > UINT64_MAX - 1 || resolve(get->domain->lib, border - 1, 2, &both) ||
        both.iface != found->iface || both.range.kind != found->range.kind ||
        both.range.device != found->range.device || both.range.segments < 2 ||
        !both.range.exportable)
        return false;
    if (border == *end)
        *end = both.range.alloc_base + both.range.alloc_len;
    else
        *start = both.range.alloc_base;
    return true;
}

static bool is_allowed(const struct get *get, uint64_t len)
{
    const struct hmreg_domain *domain = get->domain;
    uint64_t most = domain->cover_max, regions, bytes;

    cache_set_limits(get->set, &regions, &bytes);
    most = most < domain->caps.max_len ? most : domain->caps.max_len;
    most = most < bytes ? most : bytes;
    return len <= most;
}

/* Is it more than the get's range? */
static bool fits(const struct get *get, uint64_t start, uint64_t end)
{
    return is_allowed(get, end - start) && start <= get->start && end >= get->end &&
           end - start > get->end - get->start;
}

static bool may_cover(const struct get *get)
{
    const struct request *request = get->request;

    return get->want.cover && !get->list && !request->dmabuf && !request->claim.trusted &&
           !request->options.set_iova && get->found->range.kind == HMREG_MEM_DEVICE;
}

unsigned cover_find(const struct get *get, struct iovec *out)
{
    uint64_t start = get->found->range.alloc_base, end = start + get->found->range.alloc_len;
    uint64_t least = start, most = end;
    struct hmreg_error_guard guard;
    unsigned count = 0;

    if (!may_cover(get) || !is_allowed(get, end - start))
        return 0;
    hmreg_error_guard(&guard);
    for (unsigned i = 0; i < HMREG_SEGMENTS_MAX && widen(get, most, &least, &most); i++)
        ;
    for (unsigned i = 0; i < HMREG_SEGMENTS_MAX && widen(get, least, &least, &most); i++)
        ;
    hmreg_error_unguard(&guard, true);
    if ((least < start || most > end) && fits(get, least, most))
        out[count++] = (struct iovec){(void *)(uintptr_t)least, (size_t)(most - least)};
    if (fits(get, start, end))
        out[count++] = (struct iovec){(void *)(uintptr_t)start, (size_t)(end - start)};
    return count;
}

bool cover_is_on(const struct hmreg_domain *domain, uint64_t access, uint64_t flags)
{
    if ((domain->flags & HMREG_DOMAIN_EXACT) || (flags & HMREG_REG_EXACT))
        return false;
    if ((flags & HMREG_REG_COVER) || domain->cover == HMREG_COVER_REMOTE)
        return true;
    return domain->cover == HMREG_COVER_ALLOCATION && !(access & HMREG_ACCESS_REMOTE);
}
