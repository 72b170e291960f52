/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * An array that grows and whose elements never move: boards, each twice as long as the one before.
 * Elements are numbered from SHELF_FIRST, so that the number's highest bit says on which board an
 * element lies, and 0 is none. Whoever knows the number of an element may look at it without a
 * lock; new boards are put up under the caller's.
 */
#ifndef HMREG_CORE_SHELF_H
#define HMREG_CORE_SHELF_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SHELF_FIRST_BIT 6
#define SHELF_FIRST     (1u << SHELF_FIRST_BIT)
#define SHELF_BOARDS    32

struct shelf {
    size_t size;  /* of an element */
    uint32_t end; /* elements SHELF_FIRST to end - 1 are there */
    /* By a number's highest bit: where element 0 would be if the board began there. */
    uintptr_t boards[SHELF_BOARDS];
};

static inline unsigned shelf_board(uint32_t number)
{
    return 31u - (unsigned)__builtin_clz(number);
}

static inline void *shelf_at(const struct shelf *shelf, uint32_t number)
{
    return (void *)(shelf->boards[shelf_board(number)] + number * shelf->size);
}

void shelf_init(struct shelf *shelf, size_t size);
void shelf_free(struct shelf *shelf);

/* Makes the shelf longer than `end` was, all zero. The lock is not held by the caller, and not while
 * memory is allocated. False: no memory. */
bool shelf_grow(struct shelf *shelf, uint32_t end, pthread_mutex_t *lock);

#endif
