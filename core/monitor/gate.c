/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See gate.h. Pages are in a list that is only added to, at its head; so it is walked by anybody.
 * A page is of one process: in the child of a fork its parent's domains still point into it, which
 * must not come to life again with a domain of the child's.
 */
#include "core/monitor/gate.h"

#include "core/base/process.h"

#include <stdlib.h>

/* Two lines each, which processors fetch together: a page, less what process_page() keeps. */
#define GATE_SIZE 128
#define GATES     31

struct place {
    struct gate gate;
    char unused[GATE_SIZE - sizeof(struct gate)];
};
_Static_assert(sizeof(struct place) == GATE_SIZE, "gates do not share lines");

struct page {
    struct page *next; /* what is in this list is not wiped */
    uint64_t epoch;    /* of the process it is of */
    struct place *places;
};

static _Atomic(struct page *) pages;

/* The first is not on the heap, where it would be lost when a copy of the library inside another
 * one is unloaded. */
static struct page first;
static atomic_flag first_is_used = ATOMIC_FLAG_INIT;

static struct page *make_page(void)
{
    return atomic_flag_test_and_set(&first_is_used) ? calloc(1, sizeof(struct page)) : &first;
}

static void discard_page(struct page *page)
{
    if (page == &first)
        atomic_flag_clear(&first_is_used);
    else
        free(page);
}

static bool take(struct gate *gate)
{
    bool taken = false;

    return atomic_compare_exchange_strong(&gate->taken, &taken, true);
}

static struct gate *take_among(struct page *page)
{
    for (unsigned i = 0; i < GATES; i++)
        if (take(&page->places[i].gate))
            return &page->places[i].gate;
    return NULL;
}

static struct gate *take_any(uint64_t epoch)
{
    struct gate *gate = NULL;

    for (struct page *page = atomic_load(&pages); page && !gate; page = page->next)
        if (page->epoch == epoch)
            gate = take_among(page);
    return gate;
}

/* Of a new page, before others see it. */
static struct gate *take_new(uint64_t epoch)
{
    struct page *made = make_page();
    struct gate *gate;

    if (!made)
        return NULL;
    made->epoch = epoch;
    made->places = process_page();
    if (!made->places) {
        discard_page(made);
        return NULL;
    }
    gate = take_among(made);
    made->next = atomic_load(&pages);
    while (!atomic_compare_exchange_weak(&pages, &made->next, made))
        ;
    return gate;
}

struct gate *gate_open(void)
{
    uint64_t epoch = process_epoch_start();
    struct gate *gate = epoch ? take_any(epoch) : NULL;

    if (epoch && !gate)
        gate = take_new(epoch);
    if (!gate)
        return NULL;
    atomic_store(&gate->state, GATE_LIVE);
    return gate;
}

void gate_close(struct gate *gate)
{
    atomic_store(&gate->sources, 0);
    atomic_store(&gate->library, 0);
    atomic_store(&gate->state, 0);
    atomic_store(&gate->taken, false);
}

/* ---- marking ---------------------------------------------------------------------------- */

static void set_in_all(unsigned bit, enum change_source source, uint32_t library)
{
    for (struct page *page = atomic_load(&pages); page; page = page->next)
        for (unsigned i = 0; i < GATES; i++)
            if (gate_listens_to(&page->places[i].gate, source, library))
                atomic_fetch_or(&page->places[i].gate.state, bit);
}

/* Sequentially consistent, as the kernel's change of memory comes after it: a thread that has other
 * memory at the place has it from the kernel, and so sees the mark. */
void gates_mark_pending(enum change_source source, uint32_t library)
{
    set_in_all(GATE_PENDING, source, library);
}

void gates_begin_reading(void)
{
    set_in_all(GATE_READING, CHANGE_KERNEL, 0);
}

/* Also in a gate that has another domain since, which does not hear the kernel. */
void gates_end_reading(void)
{
    for (struct page *page = atomic_load(&pages); page; page = page->next)
        for (unsigned i = 0; i < GATES; i++)
            if (atomic_load(&page->places[i].gate.state) & GATE_READING)
                atomic_fetch_and(&page->places[i].gate.state, ~GATE_READING);
}
