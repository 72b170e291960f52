/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See shelf.h.
 */
#include "core/shelf.h"

#include "core/quiet.h"

#include <stdlib.h>

void shelf_init(struct shelf *shelf, size_t size)
{
    *shelf = (struct shelf){.size = size, .end = SHELF_FIRST};
}

/* The board of the elements from `first` on. */
static void *board_at(const struct shelf *shelf, uint32_t first)
{
    return (void *)(shelf->boards[shelf_board(first)] + first * shelf->size);
}

void shelf_free(struct shelf *shelf)
{
    for (uint32_t first = SHELF_FIRST; first < shelf->end; first *= 2)
        free(board_at(shelf, first));
}

bool shelf_grow(struct shelf *shelf, uint32_t end, pthread_mutex_t *lock)
{
    void *board = end < 1u << (SHELF_BOARDS - 2) ? calloc(end, shelf->size) : NULL;

    if (!board)
        return false;
    quiet_lock(lock);
    if (shelf->end == end) {
        shelf->boards[shelf_board(end)] = (uintptr_t)board - end * shelf->size;
        shelf->end = 2 * end;
        board = NULL;
    }
    quiet_unlock(lock);
    free(board); /* another thread was faster */
    return true;
}
