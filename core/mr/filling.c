/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See filling.h.
 */
#include "core/mr/filling.h"

#include "core/base/process.h"
#include "core/group/group.h"
#include "core/mr/register.h"
#include "core/mr/room.h"

#include <errno.h>
#include <unistd.h>

_Atomic(void *) room_page;

bool room_begin(void)
{
    return process_page_at(&room_page);
}

/* ---- locked bytes ------------------------------------------------------------------------ */

uint64_t room_pages(const struct iovec *iov, size_t count)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), bytes = 0;

    for (size_t i = 0; i < count; i++) {
        uint64_t start = (uint64_t)(uintptr_t)iov[i].iov_base;

        bytes += ((start + iov[i].iov_len + page - 1) & ~(page - 1)) - (start & ~(page - 1));
    }
    return bytes;
}

/* All ranges are one registration. */
static bool is_whole(const struct filling *filling)
{
    return filling->layout->joined && filling->natives->parts == 1;
}

static uint64_t bytes_of_part(const struct filling *filling, size_t part)
{
    const struct ranges *ranges = filling->ranges;

    return is_whole(filling) ? room_pages(ranges->iov, ranges->count)
                             : room_pages(&ranges->iov[part], 1);
}

static bool locks(const struct filling *filling, size_t member)
{
    return filling->natives->rail[member].domain->caps.pins &&
           resolved_is_host(&filling->layout->whole);
}

/* The bytes that the whole region locks, on all members together. */
static uint64_t locked_by_all(const struct filling *filling)
{
    uint64_t pages = room_pages(filling->ranges->iov, filling->ranges->count), bytes = 0;

    for (size_t i = 0; i < filling->natives->members; i++)
        if (filling_wants(filling, i) && locks(filling, i))
            bytes += pages;
    return bytes;
}

/* The bytes that one of several registrations locks in addition to the others. */
static uint64_t locked_more(const struct filling *filling, size_t member, size_t part)
{
    bool one = filling->natives->members == 1 && filling->natives->parts == 1;

    return one || !locks(filling, member) ? 0 : bytes_of_part(filling, part);
}

/* ---- registrations ----------------------------------------------------------------------- */

static int register_once(struct filling *filling, size_t member, size_t part)
{
    struct layout *layout = filling->layout;
    struct hmreg_domain *domain = filling->natives->rail[member].domain;
    struct request request;

    if (is_whole(filling))
        return register_one(layout, &layout->request, layout->ranges.found, filling->natives,
                            domain, member);
    request = layout_part(layout, filling->ranges, part);
    return register_one(layout, &request, &filling->ranges->found[part], filling->natives, domain,
                        member * filling->natives->parts + part);
}

static int register_part(struct filling *filling, size_t member, size_t part)
{
    uint64_t more = locked_more(filling, member, part);
    int rc;

    if (more)
        atomic_fetch_add(&filling->locked, more);
    atomic_fetch_add(&room_counts()->traffic, 1);
    rc = register_once(filling, member, part);
    atomic_fetch_add(&room_counts()->traffic, ROOM_ENDED - 1);
    if (more && rc)
        atomic_fetch_sub(&filling->locked, more);
    return rc;
}

/* A fabric may report a lack of room before it finds that the process cannot access the memory. For
 * such memory no region gives way. */
static int check_mapped(struct filling *filling, int rc)
{
    struct layout *layout = filling->layout;

    if (!layout->assumed || rc == -EFAULT)
        return 0;
    return request_check_mapped(filling->mr->domain, &layout->request, layout->ranges.found);
}

static struct room begin_room(const struct filling *filling, size_t member, size_t part)
{
    const struct layout *layout = filling->layout;
    struct hmreg_domain *rail = filling->natives->rail[member].domain;

    return (struct room){
        .domain = filling->mr->domain,
        .member = rail,
        .found = &filling->ranges->found[is_whole(filling) ? 0 : part],
        .bytes = bytes_of_part(filling, part),
        .locks = locked_by_all(filling),
        .locked = &filling->locked,
        .any_key = part || request_any_key(rail, &layout->request),
        .is_get = filling->mr->slot_offset,
        .returned = atomic_load(&room_counts()->returned),
    };
}

/* The only function that registers; for it other regions are evicted. */
int filling_register(struct filling *filling, size_t member, size_t part)
{
    int rc = register_part(filling, member, part), refused;
    struct room room;

    if (rc >= 0 || filling->layout->modest)
        return rc;
    refused = check_mapped(filling, rc);
    if (refused)
        return refused;
    room = begin_room(filling, member, part);
    while (rc < 0 && room.domain->make_room(&room, rc))
        rc = register_part(filling, member, part);
    return rc;
}

/* ---- on a group -------------------------------------------------------------------------- */

void filling_ask_as_group(const struct hmreg_domain *domain, struct layout *layout)
{
    layout->shares = true;
    layout->request.any_key |= (domain->caps.mr_mode & HMREG_MR_PROV_KEY) != 0;
    if (!(layout->request.flags & REQUEST_PARTS))
        layout->request.flags |= (domain->flags & HMREG_DOMAIN_SINGLE  ? HMREG_REG_SINGLE
                                  : domain->flags & HMREG_DOMAIN_PARTS ? HMREG_REG_PARTS
                                                                       : 0);
}
