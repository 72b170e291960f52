/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Instructions per hit, get + put over 100 regions in random order. Two runs, with few and with
 * many hits, are counted; the difference of instructions is divided by the difference of hits, so
 * one-time work cancels out. The same value of a loop with an empty get and put is subtracted.
 * Instructions inside the kernel are not counted. The regions are placed at a few addresses, the
 * same for every subject and count, since a hash table's layout depends on addresses.
 *
 * Counted by valgrind's callgrind and again by single steps (stepper.c): callgrind cannot run
 * programs that need userfaultfd(2), and the steps check its counts.
 */
#include "bench/actor.h"
#include "bench/again.h"
#include "bench/fixture.h"
#include "bench/bench.h"
#include "bench/series.h"
#include "bench/stepper.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define REGIONS 100
#define PLACES  3 /* base addresses tried */
#define PLACE   0x310000000000
#define APART   0x1234567000

/* The peers come last: they run under valgrind only. */
static const struct subject *const subjects[] = {
    &subject_hmreg_notice,    &subject_hmreg_import, &subject_hmreg_default, &subject_hmreg_counter,
    &subject_hmreg_userfault, &subject_ucx,          &subject_ofi_tcp};
#define OURS 5
#define ALL  7

/* ---- the hits --------------------------------------------------------------------------- */

struct counted {
    const struct subject *subject;
    size_t hits; /* to be counted */
    unsigned place;
    struct order order;
    void *state;
    char *base;
};

static char *reserve_at(unsigned place)
{
    void *wanted = (void *)(PLACE + place * APART);
    void *base = mmap(wanted, REGIONS * REGION_BYTES, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);

    if (base != wanted)
        leave("something lies at %p", wanted);
    return base;
}

static void prepare(void *arg)
{
    struct counted *counted = arg;
    struct order sorted;

    counted->state = counted->subject->open(counted->subject, REGIONS);
    counted->base = reserve_at(counted->place);
    order_sorted(&sorted, 0, REGIONS);
    order_shuffle(&counted->order, 0, REGIONS, 1);
    walk_once(counted->subject, counted->state, counted->base, &sorted);
    walk_once(counted->subject, counted->state, counted->base, &counted->order);
}

static void work(void *arg)
{
    struct counted *counted = arg;
    struct order *order = &counted->order;

    for (size_t done = 0; done < counted->hits; done += REGIONS)
        counted->subject->hits(counted->state, counted->base,
                               order->at + done % (order->count - REGIONS), REGIONS);
}

/* ---- by callgrind ----------------------------------------------------------------------- */

int instructions_inside(const char *who, const char *count, const char *place)
{
    struct counted counted = {.subject = subject_find(who),
                              .hits = strtoul(count, NULL, 10),
                              .place = (unsigned)strtoul(place, NULL, 10)};

    if (!counted.subject)
        die("no subject is called %s", who);
    prepare(&counted);
    work(&counted);
    return 0;
}

/* Negative: not available, with the reason in why. */
static double by_callgrind(const struct subject *subject, unsigned hits, unsigned at, char *why,
                           size_t room)
{
    char count[20], place[20], line[300];
    const char *const argv[] = {"valgrind",
                                "--tool=callgrind",
                                "--callgrind-out-file=/dev/null",
                                again_path(),
                                "--inside",
                                "instructions",
                                subject->who,
                                count,
                                place,
                                NULL};
    double instructions = -1;
    FILE *output;
    int rc;

    snprintf(count, sizeof(count), "%u", hits);
    snprintf(place, sizeof(place), "%u", at);
    snprintf(why, room, "failed: valgrind said nothing");
    output = again_begin(argv, NULL);
    while (fgets(line, sizeof(line), output)) {
        char *collected = strstr(line, "Collected : ");

        if (collected)
            instructions = strtod(collected + strlen("Collected : "), NULL);
        else if (strncmp(line, "==", 2))
            snprintf(why, room, "in valgrind: %.*s", (int)strcspn(line, "\n"), line);
    }
    rc = again_end(output);
    if (rc == 127)
        snprintf(why, room, "valgrind is not installed");
    return rc ? -1 : instructions;
}

/* ---- by single steps -------------------------------------------------------------------- */

static double by_steps(const struct subject *subject, unsigned hits, unsigned place, char *why,
                       size_t room)
{
    struct counted counted = {.subject = subject, .hits = hits, .place = place};

    snprintf(why, room, "its process cannot be stepped through");
    return count_steps(prepare, work, &counted);
}

/* ---- both ------------------------------------------------------------------------------- */

struct method {
    const char *measure;
    size_t subjects; /* the first ones of the list above */
    unsigned few, many;
    double (*count)(const struct subject *subject, unsigned hits, unsigned place, char *why,
                    size_t room);
};

static const struct method methods[] = {
    {"instructions", ALL, 20000, 120000, by_callgrind},
    {"instructions-stepped", OURS, 100, 300, by_steps}, /* a step takes some microseconds */
};

/* Instructions of one hit, loop included. */
static double instructions_of(const struct method *method, const struct subject *subject,
                              unsigned place, char *why, size_t room)
{
    double few = method->count(subject, method->few, place, why, room);
    double many = few < 0 ? few : method->count(subject, method->many, place, why, room);

    return many < 0 ? -1 : (many - few) / (method->many - method->few);
}

static void count_at(const struct method *method, unsigned place, double loop)
{
    char why[160] = "the loop alone could not be counted";

    for (size_t i = 0; i < method->subjects; i++) {
        const struct subject *subject = subjects[i];
        double all = -1;

        progress("%s: %s", method->measure, subject->who);
        if (subject->absent)
            snprintf(why, sizeof(why), "%s", subject->absent);
        else if (loop >= 0)
            all = instructions_of(method, subject, place, why, sizeof(why));
        if (all >= 0)
            series_add(method->measure, subject->who, "instructions", all - loop);
        else
            series_absent(method->measure, subject->who, "instructions", why);
    }
}

void measure_instructions(void)
{
    unsigned places = plan.quick ? 1 : PLACES;
    char why[160];

    for (size_t i = 0; i < sizeof(methods) / sizeof(methods[0]); i++) {
        double loop = instructions_of(&methods[i], &subject_loop, 0, why, sizeof(why));

        for (unsigned place = 0; place < places; place++)
            count_at(&methods[i], place, loop);
    }
}
