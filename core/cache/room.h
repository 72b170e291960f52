/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Makes room for any failed registration: decides which idle cached regions give way, how many, and
 * when to stop. docs/limits.md has the order. No region gives way to a registration that cannot
 * fit, nor if it cannot help, nor beyond the need.
 */
#ifndef HMREG_CORE_CACHE_ROOM_H
#define HMREG_CORE_CACHE_ROOM_H

#include "core/mr/room.h"

/* hmreg_domain.make_room. If other domains' regions are evicted, it waits for the library's thread
 * while that makes progress, at most some seconds for each attempt. It takes no lock that a caller
 * may hold. */
bool room_make(struct room *room, int rc);

#endif
