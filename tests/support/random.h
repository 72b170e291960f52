/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Random numbers of each thread's own (xorshift): random() is shared by all threads.
 */
#ifndef TESTS_RANDOM_H
#define TESTS_RANDOM_H

#include <stdint.h>

struct random {
    uint64_t x;
};

/* Seeded by a number and a thread's. */
static inline struct random random_of(unsigned seed, unsigned thread)
{
    return (struct random){seed * UINT64_C(0x9e3779b97f4a7c15) + thread + 1};
}

/* From 0 to limit - 1. */
static inline unsigned draw(struct random *random, unsigned limit)
{
    random->x ^= random->x << 13;
    random->x ^= random->x >> 7;
    random->x ^= random->x << 17;
    return (unsigned)(random->x >> 32) % limit;
}

#endif
