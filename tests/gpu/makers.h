/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * What a maker of memory (gpu.h) must know of an address to end its memory.
 */
#ifndef TESTS_GPU_MAKERS_H
#define TESTS_GPU_MAKERS_H

#include <pthread.h>
#include <stdint.h>

#define MAKERS_MOST 128 /* at once, of all threads */

struct makers_table {
    struct {
        uint64_t addr, value;
    } rows[MAKERS_MOST];
};

static pthread_mutex_t makers_lock = PTHREAD_MUTEX_INITIALIZER;

/* Puts value in the place of addr `from`: 0 is a free row. The value that was there. */
static inline uint64_t makers_replace(struct makers_table *table, uint64_t from, uint64_t addr,
                                      uint64_t value)
{
    uint64_t before = 0;

    pthread_mutex_lock(&makers_lock);
    for (unsigned i = 0; i < MAKERS_MOST; i++)
        if (table->rows[i].addr == from) {
            before = table->rows[i].value;
            table->rows[i].addr = addr;
            table->rows[i].value = value;
            break;
        }
    pthread_mutex_unlock(&makers_lock);
    return before;
}

static inline void makers_put(struct makers_table *table, uint64_t addr, uint64_t value)
{
    makers_replace(table, 0, addr, value);
}

static inline uint64_t makers_take(struct makers_table *table, uint64_t addr)
{
    return makers_replace(table, addr, 0, 0);
}

#endif
