/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See handle.h. Handles lie in blocks, of which each has twice as many as the one before it, so
 * that few comparisons find whether an address lies in one. Free ones are a stack of indices; a
 * counter beside the first of them tells a stack that has changed from one that has not.
 */
#include "preload/verbs/handle.h"

#include <stdlib.h>
#include <string.h>

#define BLOCKS     20
#define FIRST_SIZE 64u /* handles in the first block */

static _Atomic(struct handle *) blocks[BLOCKS];
static _Atomic uint32_t used;       /* handles that were ever given out */
static _Atomic uint64_t first_free; /* changes << 32 | index + 1; 0 in the lower half: none */
static _Atomic(struct handle *) ended;

static size_t size_of(unsigned block)
{
    return (size_t)FIRST_SIZE << block;
}

/* The index of a block's first handle. */
static uint32_t start_of(unsigned block)
{
    return FIRST_SIZE * ((1u << block) - 1);
}

static unsigned block_of(uint32_t index)
{
    return 31 - (unsigned)__builtin_clz(index / FIRST_SIZE + 1);
}

static struct handle *at(uint32_t index)
{
    unsigned block = block_of(index);

    return &atomic_load_explicit(&blocks[block], memory_order_acquire)[index - start_of(block)];
}

/* ---- taking and freeing ------------------------------------------------------------------- */

static struct handle *pop(void)
{
    uint64_t before = atomic_load(&first_free), after;
    struct handle *handle;

    do {
        if (!(uint32_t)before)
            return NULL;
        handle = at((uint32_t)before - 1);
        after = ((before >> 32) + 1) << 32 | atomic_load(&handle->next_free);
    } while (!atomic_compare_exchange_weak(&first_free, &before, after));
    return handle;
}

static void push(struct handle *handle)
{
    uint64_t before = atomic_load(&first_free), after;

    do {
        atomic_store(&handle->next_free, (uint32_t)before);
        after = ((before >> 32) + 1) << 32 | (handle->index + 1);
    } while (!atomic_compare_exchange_weak(&first_free, &before, after));
}

/* Two threads may make the same block; one of them keeps it. */
static bool make_block(unsigned block)
{
    struct handle *made, *before = NULL;

    if (block >= BLOCKS)
        return false;
    if (atomic_load(&blocks[block]))
        return true;
    made = calloc(size_of(block), sizeof(*made));
    if (!made)
        return false;
    if (!atomic_compare_exchange_strong(&blocks[block], &before, made))
        free(made);
    return true;
}

/* One that was never given out. An index is taken only once its block is there. */
static struct handle *extend(void)
{
    uint32_t index = atomic_load(&used);
    struct handle *handle;

    do {
        if (!make_block(block_of(index)))
            return NULL;
    } while (!atomic_compare_exchange_weak(&used, &index, index + 1));
    handle = at(index);
    handle->index = index;
    return handle;
}

struct handle *handle_new(void)
{
    struct handle *handle = pop();

    if (!handle)
        handle = extend();
    if (!handle)
        return NULL;
    memset(handle, 0, offsetof(struct handle, live));
    atomic_store_explicit(&handle->live, 1, memory_order_release);
    return handle;
}

void handle_free(struct handle *handle)
{
    atomic_store(&handle->live, 0);
    push(handle);
}

/* ---- finding ----------------------------------------------------------------------------- */

struct handle *handle_of(struct ibv_mr *mr)
{
    for (unsigned i = 0; i < BLOCKS; i++) {
        struct handle *block = atomic_load_explicit(&blocks[i], memory_order_acquire);
        uintptr_t offset = (uintptr_t)mr - (uintptr_t)block;

        if (!block)
            return NULL;
        if (offset < size_of(i) * sizeof(*block))
            return offset % sizeof(*block) ? NULL : block + offset / sizeof(*block);
    }
    return NULL;
}

bool handle_take(struct handle *handle)
{
    int live = 1;

    return atomic_compare_exchange_strong(&handle->live, &live, 0);
}

void handle_keep(struct handle *handle)
{
    atomic_store(&handle->live, 1);
}

/* ---- ending later ------------------------------------------------------------------------ */

void handle_end_later(struct handle *handle)
{
    struct handle *first = atomic_load(&ended);

    do
        handle->next_ended = first;
    while (!atomic_compare_exchange_weak(&ended, &first, handle));
}

bool handle_any_ended(void)
{
    return atomic_load_explicit(&ended, memory_order_relaxed);
}

struct handle *handle_ended(void)
{
    return atomic_exchange(&ended, NULL);
}
