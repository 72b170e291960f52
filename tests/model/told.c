/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See told.h.
 */
#include "tests/model/told.h"

#include "tests/model/oracle.h"

#include <inttypes.h>

static void judge_description(const struct pinned *region, const struct hmreg_mr_info *info)
{
    if (info->addr != region->start || info->len != pinned_bytes(region) ||
        info->access != region->access)
        oracle_fail("a callback describes region %" PRIu64 " wrongly", region->key);
}

static void made(const struct hmreg_mr *mr, const struct hmreg_mr_info *info, void *context)
{
    struct pinned *region = pinned_of(mr);

    judge_description(region, info);
    (void)hmreg_mr_query(NULL, NULL); /* its error is not the caller's */
    if (context != &pinning || hmreg_mr_context(mr) || atomic_fetch_add(&region->told, 1))
        oracle_fail("made is called again, or for another's region");
}

/* The context of a region that was discarded was never set. */
static void ended(const struct hmreg_mr *mr, const struct hmreg_mr_info *info, void *context)
{
    struct pinned *region = pinned_of(mr);
    void *set = hmreg_mr_context(mr);

    judge_description(region, info);
    (void)hmreg_mr_query(NULL, NULL); /* its error is not the caller's */
    if (context != &pinning || (set && set != region) || atomic_fetch_add(&region->told, 1) != 1)
        oracle_fail("ended is called again, or before made, or the context is another one");
    if (atomic_load(&region->users))
        oracle_fail("ended is called for region %" PRIu64 ", which is held", region->key);
}

void told_open(struct hmreg_domain_config *config)
{
    config->made = made;
    config->ended = ended;
    config->callback_context = &pinning;
}

void told_get(struct hmreg_mr *mr, bool registered)
{
    struct pinned *region = pinned_of(mr);

    if (atomic_load(&region->told) != 1)
        oracle_fail("region %" PRIu64 " is returned, and made was not called", region->key);
    if (registered && hmreg_mr_set_context(mr, region))
        oracle_fail("hmreg_mr_set_context: %s", hmreg_last_error()->text);
    if (hmreg_mr_context(mr) != region || hmreg_mr_set_context(mr, region) != -EBUSY)
        oracle_fail("the context of region %" PRIu64 " is not what was set", region->key);
}

void told_deregistered(const struct pinned *region)
{
    if (atomic_load(&region->told) != 2)
        oracle_fail("region %" PRIu64 " is deregistered, and ended was not called", region->key);
}
