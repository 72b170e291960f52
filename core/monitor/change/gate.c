/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See gate.h. Gate pages are in a list that only grows, at its head, so any thread may walk it at
 * any time. A page belongs to one process: in the child of a fork the parent's domains still point
 * into it, and a domain of the child must not make their gates live again.
 */
#include "core/monitor/change/gate.h"

#include "core/base/process.h"

#include <stdlib.h>

/* Two cache lines each, since processors fetch pairs; GATES fill a page, less what process_page()
 * needs. */
#define GATE_SIZE 128
#define GATES     31

struct place {
    struct gate gate;
    char unused[GATE_SIZE - sizeof(struct gate)];
};
_Static_assert(sizeof(struct place) == GATE_SIZE, "gates do not share lines");

struct page {
    struct page *next; /* this structure, unlike the places, is not wiped at fork */
    uint64_t epoch;    /* of the process that owns the page */
    struct place *places;
};

static _Atomic(struct page *) pages;

/* The first is static: on the heap it would leak when a library that contains a copy of this one is
 * unloaded. */
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

/* Takes a gate of a new page before other threads see the page. */
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

void gate_lose(struct gate *gate)
{
    atomic_fetch_or(&gate->state, GATE_LOST);
}

void gate_count_by(struct gate *gate, const struct gate_counts *counts)
{
    if (!counts) {
        atomic_fetch_and(&gate->state, ~GATE_COUNTED);
        return;
    }
    gate->counts = counts;
    atomic_fetch_or(&gate->state, GATE_COUNTED);
}

/* ---- marking ---------------------------------------------------------------------------- */

static void set_in_all(unsigned bit, enum change_source source, uint32_t library)
{
    for (struct page *page = atomic_load(&pages); page; page = page->next)
        for (unsigned i = 0; i < GATES; i++)
            if (gate_listens_to(&page->places[i].gate, source, library))
                atomic_fetch_or(&page->places[i].gate.state, bit);
}

/* Sequentially consistent, and before the kernel changes the memory: a thread that has other memory
 * at the address got it from the kernel, and so sees the mark. */
void gates_mark_pending(enum change_source source, uint32_t library)
{
    set_in_all(GATE_PENDING, source, library);
}

void gates_begin_reading(void)
{
    set_in_all(GATE_READING, CHANGE_KERNEL, 0);
}

void gates_begin_looking(void)
{
    set_in_all(GATE_LOOKING, CHANGE_HOOKS, 0);
}

/* Also clears the bit in a gate that has been taken over by a domain that CHANGE_KERNEL does not
 * concern. */
void gates_end_reading(void)
{
    for (struct page *page = atomic_load(&pages); page; page = page->next)
        for (unsigned i = 0; i < GATES; i++)
            if (atomic_load(&page->places[i].gate.state) & GATE_READING)
                atomic_fetch_and(&page->places[i].gate.state, ~GATE_READING);
}
