/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See pulse.h. Pages are in a list that is only added to, at its head; so it is walked by anybody.
 * A page is of one process: in the child of a fork its parent's domains still point into it, which
 * must not come to life again with a domain of the child's.
 */
#include "core/pulse.h"

#include "core/process.h"

#include <stdlib.h>

/* Two lines each, which processors fetch together: a page, less what process_page() keeps. */
#define PULSE_SIZE 128
#define PULSES     31

struct place {
    struct pulse pulse;
    char unused[PULSE_SIZE - sizeof(struct pulse)];
};
_Static_assert(sizeof(struct place) == PULSE_SIZE, "pulses do not share lines");

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

static bool take(struct pulse *pulse)
{
    bool taken = false;

    return atomic_compare_exchange_strong(&pulse->taken, &taken, true);
}

static struct pulse *take_among(struct page *page)
{
    for (unsigned i = 0; i < PULSES; i++)
        if (take(&page->places[i].pulse))
            return &page->places[i].pulse;
    return NULL;
}

static struct pulse *take_any(uint64_t epoch)
{
    struct pulse *pulse = NULL;

    for (struct page *page = atomic_load(&pages); page && !pulse; page = page->next)
        if (page->epoch == epoch)
            pulse = take_among(page);
    return pulse;
}

/* Of a new page, before others see it. */
static struct pulse *take_new(uint64_t epoch)
{
    struct page *made = make_page();
    struct pulse *pulse;

    if (!made)
        return NULL;
    made->epoch = epoch;
    made->places = process_page();
    if (!made->places) {
        discard_page(made);
        return NULL;
    }
    pulse = take_among(made);
    made->next = atomic_load(&pages);
    while (!atomic_compare_exchange_weak(&pages, &made->next, made))
        ;
    return pulse;
}

struct pulse *pulse_open(void)
{
    uint64_t epoch = process_epoch_start();
    struct pulse *pulse = epoch ? take_any(epoch) : NULL;

    if (epoch && !pulse)
        pulse = take_new(epoch);
    if (!pulse)
        return NULL;
    atomic_store(&pulse->clock, 0);
    atomic_store(&pulse->state, PULSE_LIVE);
    return pulse;
}

void pulse_close(struct pulse *pulse)
{
    atomic_store(&pulse->hooked, false);
    atomic_store(&pulse->state, 0);
    atomic_store(&pulse->taken, false);
}

/* Sequentially consistent, as the kernel's change of memory comes after it: who has other memory at
 * the place has it from the kernel, and so sees the doubt. */
void pulse_doubt_hooked(void)
{
    for (struct page *page = atomic_load(&pages); page; page = page->next)
        for (unsigned i = 0; i < PULSES; i++)
            if (atomic_load(&page->places[i].pulse.hooked))
                atomic_fetch_or(&page->places[i].pulse.state, PULSE_LATE);
}
