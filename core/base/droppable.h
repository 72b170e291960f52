/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Memory that the kernel may zero at any time (MAP_DROPPABLE, since Linux 6.11), for what only
 * saves a search. It is zeroed where memory is short, in a forked child, and in a process that is
 * restored from an image whose maker leaves it out, as CRIU does since 4.2.
 */
#ifndef HMREG_CORE_BASE_DROPPABLE_H
#define HMREG_CORE_BASE_DROPPABLE_H

#include <stdbool.h>
#include <stddef.h>

#ifndef MAP_DROPPABLE
#define MAP_DROPPABLE 0x08
#endif

/* Takes up to 16 KiB, zeroed, of a mapping that many share. NULL: the kernel has no such memory,
 * the size is too large, or 14,000 are taken. */
void *droppable_take(size_t bytes);
/* False: it is no such memory. */
bool droppable_give_back(void *at);

#endif
