/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See plan.h. Gets are drawn near the program's next call: its range, a part of it, or more, so
 * that most calls change registered memory, in each of the ways that ranges can overlap.
 */
#include "tests/differential/plan.h"

#include "tests/differential/space.h"

#include <string.h>

#define USUAL 12

static const struct {
    const char *name;
    unsigned weight; /* per ten thousand of the program's acts */
} acts[ACT_COUNT] = {
    [ACT_MAP] = {"map", 1600},
    [ACT_UNMAP] = {"unmap", 1000},
    [ACT_REMAP] = {"remap", 1000},
    [ACT_PROTECT] = {"protect", 900},
    [ACT_ADVISE] = {"advise", 1500},
    [ACT_WRITE] = {"write", 0},
    [ACT_READ] = {"read", 700},
    [ACT_RESIDENT] = {"resident", 200},
    [ACT_LOCK] = {"lock", 250},
    [ACT_SYNC] = {"sync", 100},
    [ACT_SHM] = {"shm", 200},
    [ACT_FILE] = {"file", 150},
    [ACT_OWN] = {"own", 250},
    [ACT_BRK] = {"brk", 150},
    [ACT_HEAP] = {"heap", 500},
    [ACT_BLOCK] = {"block", 300},
    [ACT_FORK] = {"fork", 4},
    [ACT_THREAD] = {"thread", 20},
    [ACT_STACK] = {"stack", 10},
    [ACT_SIGNAL] = {"signal", 80},
    [ACT_MAPPINGS] = {"mappings", 40},
    [ACT_LAYOUT] = {"layout", 14},
    [ACT_PROCESS] = {"process", 10},
    [ACT_UNUSED] = {"unused", 8},
    [ACT_INLINE] = {"inline", 400},
    [ACT_OTHER] = {"other", 30},
    [ACT_LOAD] = {"load", 60},
    [ACT_GET] = {"get", 0},
    [ACT_PUT] = {"put", 0},
    [ACT_FLUSH] = {"flush", 0},
};

/* xorshift64*: the same sequence everywhere. */
static uint64_t draw(uint64_t *random)
{
    *random ^= *random >> 12;
    *random ^= *random << 25;
    *random ^= *random >> 27;
    return *random * 0x2545f4914f6cdd1dull;
}

static unsigned below(uint64_t *random, unsigned limit)
{
    return (unsigned)((draw(random) >> 33) % limit);
}

bool plan_is_programs(const struct step *step)
{
    return step->act < ACT_GET;
}

/* ---- drawing ---------------------------------------------------------------------------- */

/* The rest of the ten thousand are writes. */
static enum act draw_act(uint64_t *random)
{
    unsigned at = below(random, 10000);

    for (enum act act = 0; act < ACT_GET; act++) {
        if (at < acts[act].weight)
            return act;
        at -= acts[act].weight;
    }
    return ACT_WRITE;
}

static enum act draw_inner(uint64_t *random)
{
    static const enum act inner[] = {ACT_MAP,    ACT_UNMAP, ACT_REMAP, ACT_PROTECT,
                                     ACT_ADVISE, ACT_WRITE, ACT_READ};

    return inner[below(random, sizeof(inner) / sizeof(inner[0]))];
}

static unsigned draw_length(uint64_t *random)
{
    switch (below(random, 10)) {
    case 0:
    case 1:
    case 2:
        return 1;
    case 3:
    case 4:
        return 9 + below(random, 24);
    default:
        return 2 + below(random, 7);
    }
}

/* Neighbours, one of which has a userfaultfd, stay two mappings, and huge pages need one. */
static void draw_huge_range(const struct plan_kind *kind, struct step *step, uint64_t *random)
{
    if (below(random, 4) || kind->watched) {
        step->page = (uint16_t)(below(random, SPACE_HUGE) * space.huge_pages);
        step->pages = (uint16_t)((1 + (below(random, 4) == 0)) * space.huge_pages);
    } else {
        step->page = (uint16_t)below(random, SPACE_HUGE * space.huge_pages);
        step->pages = (uint16_t)(1 + below(random, 16));
    }
    step->to = (uint16_t)(below(random, SPACE_HUGE) * space.huge_pages);
}

static void draw_range(const struct plan_kind *kind, struct step *step, uint64_t *random)
{
    unsigned at = below(random, 1000);

    step->area = at < 20 && space.huge_pages ? AREA_HUGE : at < 50 ? AREA_OWN : AREA_SMALL;
    if (step->act == ACT_OWN)
        step->area = AREA_OWN;
    if (step->area == AREA_HUGE) {
        draw_huge_range(kind, step, random);
        return;
    }
    step->page = (uint16_t)below(random, step->area == AREA_OWN ? SPACE_OWN : SPACE_SMALL);
    step->to = (uint16_t)below(random, step->area == AREA_OWN ? SPACE_OWN : SPACE_SMALL);
    step->pages = (uint16_t)draw_length(random);
}

static struct step draw_step(const struct plan_kind *kind, uint64_t *random)
{
    struct step step = {.act = (uint8_t)draw_act(random), .inner = (uint8_t)draw_inner(random)};

    step.form = (uint8_t)draw(random);
    if (kind->watched && step.form % PLAN_PROTECTS == PLAN_GROWS_DOWN)
        step.form++; /* it changes all that is below in the same mapping */
    if (kind->witness && step.form & 64 && (step.act == ACT_MAP || step.act == ACT_PROTECT)) {
        step.act = ACT_MAP; /* most memory can be pinned and cached, so that gets hit */
        step.form = 0;
    }
    step.r = (uint32_t)(draw(random) >> 16);
    draw_range(kind, &step, random);
    return step;
}

/* Of a range: all, its first page, one inside, or a larger range. */
static void near_range(struct step *step, const struct step *next, uint64_t *random)
{
    *step = (struct step){.area = next->area, .page = next->page, .pages = next->pages};
    switch (below(random, 6)) {
    case 0:
        break;
    case 1:
        step->pages = 1;
        break;
    case 2:
        step->page = (uint16_t)(next->page - (next->page > 2 ? 2 : 0));
        step->pages = (uint16_t)(next->pages + 4);
        break;
    default:
        step->page = (uint16_t)(next->page + below(random, next->pages));
        step->pages = 1;
    }
}

/* Near the next call; or a range that other gets also use. */
static void draw_get_range(struct step *step, const struct step *next, struct step *usual,
                           uint64_t *random)
{
    struct step *again = &usual[below(random, USUAL)];

    switch (below(random, 8)) {
    case 0:
    case 1:
    case 2:
        near_range(step, next, random);
        break;
    case 3:
        near_range(step, next, random);
        *again = *step;
        break;
    default:
        *step = *again;
    }
}

static struct step draw_librarys(const struct plan_kind *kind, const struct step *next,
                                 struct step *usual, uint64_t *random)
{
    unsigned at = below(random, 1000);
    struct step step = {.act = ACT_GET};

    draw_get_range(&step, next, usual, random);
    if (step.area == AREA_OWN && kind->spares)
        step = (struct step){.area = AREA_SMALL, .page = step.page, .pages = step.pages};
    step.act = at < 750 ? ACT_GET : at < 995 ? ACT_PUT : ACT_FLUSH;
    step.form = (uint8_t)draw(random);
    step.r = (uint32_t)(draw(random) >> 16) & ~3u;
    if (below(random, 8) == 0)
        step.r |= 1; /* not whole pages */
    return step;
}

/* A file in the place that the step has unmapped, a get of it, and the file's truncation, which no
 * call of this program need tell. */
static unsigned draw_file_there(struct step *steps, const struct step *unmap)
{
    static const struct {
        enum act act;
        uint8_t form;
    } parts[] = {{ACT_MAP, PLAN_MAPS_FILE}, {ACT_GET, 1}, {ACT_FILE, PLAN_CUTS_FILE}, {ACT_GET, 1}};

    for (unsigned i = 0; i < PLAN_FILE_THERE; i++) {
        steps[i] = *unmap;
        steps[i].act = (uint8_t)parts[i].act;
        steps[i].form = parts[i].form;
        steps[i].r = (unmap->r & ~0xffffffu) | 0x41100u | (unmap->r & 0x3e); /* where nothing is */
    }
    return PLAN_FILE_THERE;
}

/* A get of the range that the library changes, its call, and a get that finds the library still
 * loaded. */
static unsigned draw_load_there(struct step *steps, const struct step *load)
{
    struct step get = *load;

    get.act = ACT_GET;
    get.form = 1;
    steps[0] = steps[2] = get;
    steps[1] = *load;
    steps[1].form |= PLAN_STAYS;
    return PLAN_LOAD_THERE;
}

/* ---- plans ------------------------------------------------------------------------------ */

static bool is_named(const char *list, const char *name)
{
    size_t len = strlen(name);

    for (const char *at = list; at && (at = strstr(at, name)); at += len)
        if ((at == list || at[-1] == ',') && (at[len] == ',' || !at[len]))
            return true;
    return false;
}

static bool has_inner(const struct step *step)
{
    return step->act == ACT_FORK || step->act == ACT_THREAD || step->act == ACT_SIGNAL;
}

static bool is_without(const struct plan_kind *kind, const struct step *step, const char *without)
{
    return (step->act == ACT_LOAD && !kind->witness) || is_named(without, acts[step->act].name) ||
           (has_inner(step) && is_named(without, acts[step->inner].name));
}

void plan_make(struct plan *plan, const struct plan_kind *kind, unsigned long seed,
               unsigned long episode, const char *without)
{
    uint64_t random = (seed * 0x9e3779b97f4a7c15u) ^ (episode * 0xd1342543de82ef95u) ^ 1;
    struct step usual[USUAL] = {0};
    unsigned i = 0;

    *plan = (struct plan){.kind = kind, .seed = seed, .episode = episode, .count = PLAN_STEPS};
    plan->fabrics = kind->witness ? PLAN_PINNING : (enum plan_fabrics)(1 + episode % PLAN_BOTH);
    for (int n = 0; n < 8; n++) /* separates similar seeds */
        (void)draw(&random);
    for (i = 0; i < USUAL; i++)
        draw_range(kind, &usual[i], &random);
    i = 0;
    while (i < plan->count) {
        struct step next = draw_step(kind, &random);

        for (unsigned gets = below(&random, 3); gets && i + 1 < plan->count; gets--)
            plan->steps[i++] = draw_librarys(kind, &next, usual, &random);
        if (kind->witness && next.act == ACT_LOAD && next.form & 2 &&
            i + PLAN_LOAD_THERE < plan->count)
            i += draw_load_there(&plan->steps[i], &next);
        else
            plan->steps[i++] = next;
        if (kind->witness && next.act == ACT_INLINE && next.form % 8 == 0 && next.form & 8 &&
            i + PLAN_FILE_THERE < plan->count)
            i += draw_file_there(&plan->steps[i], &next);
        if (kind->witness && i < plan->count && below(&random, 2)) /* before anything else */
            plan->steps[i++] = draw_librarys(kind, &next, usual, &random);
    }
    for (i = 0; i < plan->count; i++)
        plan->keep[i] = !is_without(kind, &plan->steps[i], without);
}

void plan_print_step(const struct plan *plan, unsigned index, FILE *out)
{
    static const char *const areas[] = {"small", "huge", "own"};
    const struct step *step = &plan->steps[index];

    fprintf(out, "step %4u: %s", index, acts[step->act].name);
    if (has_inner(step))
        fprintf(out, " (%s)", acts[step->inner].name);
    fprintf(out, " %s %u+%u to %u, form %u, r %u\n", areas[step->area], step->page, step->pages,
            step->to, step->form, step->r);
}
