/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The error text of a registration that found no room.
 */
#ifndef HMREG_CORE_CACHE_ROOM_TEXT_H
#define HMREG_CORE_CACHE_ROOM_TEXT_H

#include "core/mr/room.h"

#define ROOM_HOLDERS 3 /* domains that are named */

/* A domain, which may be closed by now, and its regions that hold the resource. */
struct room_holder {
    char fabric[sizeof(((struct provider_caps *)0)->fabric)];
    char nic[sizeof(((struct provider_caps *)0)->nic)];
    unsigned explicit;       /* regions */
    uint64_t regions, bytes; /* cached ones */
};

struct room_holders {
    struct room_holder list[ROOM_HOLDERS];
    unsigned count; /* also those that are not in the list */
};

/* Adds to the thread's last error, which has the code rc, what is short and which domains hold it.
 * Keeps this for hmreg_mr_explain(NULL). */
void room_tell(const struct room *room, int rc, const struct room_holders *holders);

#endif
