/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Memory that the kernel may zero at any time (MAP_DROPPABLE, since Linux 6.11), for caches of
 * searches. It is zeroed when memory is short, in a forked child, and in a restored process whose
 * image lacks it, as CRIU's since 4.2.
 */
#ifndef HMREG_CORE_BASE_DROPPABLE_H
#define HMREG_CORE_BASE_DROPPABLE_H

#include <stdbool.h>
#include <stddef.h>

#ifndef MAP_DROPPABLE
#define MAP_DROPPABLE 0x08
#endif

/* Takes up to 16 KiB, zeroed, of a shared mapping. NULL: the kernel has no such memory, the size is
 * too large, or all 14,000 places are taken. */
void *droppable_take(size_t bytes);
/* False: droppable_take() did not return it. */
bool droppable_give_back(void *at);

#endif
