/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Room for a registration that has failed, of any kind: whether idle cached regions that give way
 * may help, whose, how many, and when to stop. docs/limits.md has the order. What cannot fit
 * makes none give way, and none gives way that cannot help or is more than is needed.
 */
#ifndef HMREG_CORE_CACHE_ROOM_H
#define HMREG_CORE_CACHE_ROOM_H

#include "core/mr/room.h"

/* hmreg_domain.make_room. Where another domain's regions give way it waits for the library's
 * thread, as long as that makes progress: some seconds at most for each try. It takes no lock that
 * a caller may hold. */
bool room_make(struct room *room, int rc);

#endif
