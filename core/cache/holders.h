/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The holders of an entry that ends with its last put: the gets that returned it and are not put
 * yet. The sum of the entry's pins cannot count them: a hit pins first and then looks, so even a
 * request that the entry does not serve could keep the region registered beyond its last put. Here
 * a get first looks, and then becomes a holder by one atomic operation. That fails if the number is
 * already 0 or the entry has another use by now: no get becomes a holder of an entry whose last put
 * has begun. tests/model/protocol/last_put.pml models this.
 */
#ifndef HMREG_CORE_CACHE_HOLDERS_H
#define HMREG_CORE_CACHE_HOLDERS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* mr_body.holders. Low 32 bits: their number. High 32 bits: the entry's sequence when this use
 * began; each use has another. */

#define HOLDERS_NUMBER UINT64_C(0xffffffff)

static inline uint32_t holders_count(const _Atomic uint64_t *all)
{
    return (uint32_t)(atomic_load(all) & HOLDERS_NUMBER);
}

/* The sequence. The caller is a holder. */
static inline uint32_t holders_use(const _Atomic uint64_t *all)
{
    return (uint32_t)(atomic_load(all) >> 32);
}

/* Begins a new use, whose only holder is the caller. Other threads learn its sequence under the
 * caches' lock. */
static inline void holders_begin(_Atomic uint64_t *all, uint32_t sequence)
{
    atomic_store_explicit(all, (uint64_t)sequence << 32 | 1, memory_order_release);
}

/* False: the entry has another use, or has lost its last holder. */
static inline bool holders_join(_Atomic uint64_t *all, uint32_t sequence)
{
    uint64_t now = atomic_load(all);

    do
        if (now >> 32 != sequence || !(now & HOLDERS_NUMBER))
            return false;
    while (!atomic_compare_exchange_weak(all, &now, now + 1));
    return true;
}

/* True: the caller was the last holder, and ends the entry. A put without a get leaves a word that
 * no get accepts until the next use begins. */
static inline bool holders_leave(_Atomic uint64_t *all)
{
    return (atomic_fetch_sub(all, 1) & HOLDERS_NUMBER) == 1;
}

#endif
