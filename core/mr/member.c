/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See member.h.
 */
#include "core/mr/member.h"

#include "core/base/error.h"
#include "core/mr/column.h"
#include "core/mr/register.h"
#include "core/mr/region.h"

#include <errno.h>

#define BIT(member) (UINT64_C(1) << (member))

/* Places for the registrations on all members, numbered as the region's own; only this member's are
 * used. */
static int make_places(struct filling *filling, const struct ranges *ranges, size_t member)
{
    const struct natives *now = mr_natives(filling->mr);

    filling->ranges = ranges;
    filling->rails = BIT(member);
    filling->natives = natives_new(now->members, now->parts, ranges->iov, ranges->count);
    if (!filling->natives)
        return hmreg_fail(-ENOMEM, "hmreg has no memory for a region");
    filling->natives->counted = true;
    natives_set_domain(filling->natives, member, group_rail(filling->mr->domain, member));
    return 0;
}

/* The parts are the region's own. */
static int begin_member(struct filling *filling, size_t member)
{
    const struct natives *now = mr_natives(filling->mr);
    struct hmreg_domain *domain = filling->mr->domain;
    struct layout *layout = filling->layout;
    const struct ranges *ranges = &layout->ranges;
    size_t parts = layout_parts(layout);
    int rc = 0;

    filling_ask_as_group(domain, layout);
    if (parts == 1 && now->parts > 1) {
        rc = layout_find_segments(domain->lib, layout);
        ranges = &layout->segments;
        parts = rc ? 0 : ranges->count;
    }
    if (parts != now->parts || (!rc && ranges->count != now->ranges))
        rc = hmreg_fail(-EXDEV, "the region has %zu parts, but would have %zu now", now->parts,
                        parts);
    return rc ? rc : make_places(filling, ranges, member);
}

static int fill_member(struct filling *filling, size_t member)
{
    int rc = begin_member(filling, member);

    for (size_t i = 0; !rc && i < filling->natives->parts; i++)
        rc = filling_register(filling, member, i);
    if (rc == REGISTER_DIVIDES)
        rc = hmreg_fail(-EXDEV, "no single dmabuf contains the region for this member, but the "
                                "region is one registration on the others");
    return rc ? rc : column_enter(filling->mr, member, filling->natives);
}

int region_fill_member(struct layout *layout, struct hmreg_mr *mr, size_t member)
{
    struct filling filling = {.layout = layout, .ranges = &layout->ranges, .mr = mr};
    struct hmreg_error_guard guard;
    int rc;

    hmreg_error_guard(&guard);
    filling.lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    rc = fill_member(&filling, member);
    if (rc)
        filling_undo(&filling);
    layout_close(layout);
    hmreg_error_unguard(&guard, !rc);
    return rc;
}
