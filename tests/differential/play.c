/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Plays a plan in a process of its own. An outcome is noted for each of the program's steps.
 */
#include "tests/differential/acts.h"
#include "tests/differential/beside.h"
#include "tests/differential/space.h"

static act_function *const functions[ACT_GET] = {
    [ACT_MAP] = act_map,         [ACT_UNMAP] = act_unmap,       [ACT_REMAP] = act_remap,
    [ACT_PROTECT] = act_protect, [ACT_ADVISE] = act_advise,     [ACT_WRITE] = act_write,
    [ACT_READ] = act_read,       [ACT_RESIDENT] = act_resident, [ACT_LOCK] = act_lock,
    [ACT_SYNC] = act_sync,       [ACT_SHM] = act_shm,           [ACT_FILE] = act_file,
    [ACT_OWN] = act_own,         [ACT_BRK] = act_brk,           [ACT_HEAP] = act_heap,
    [ACT_BLOCK] = act_block,     [ACT_FORK] = act_fork,         [ACT_THREAD] = act_thread,
    [ACT_STACK] = act_stack,     [ACT_SIGNAL] = act_signal,     [ACT_MAPPINGS] = act_mappings,
    [ACT_INLINE] = act_inline,   [ACT_OTHER] = act_other,       [ACT_LOAD] = act_load,
    [ACT_LAYOUT] = act_layout,   [ACT_PROCESS] = act_process,   [ACT_UNUSED] = act_unused,
};

/* Acts that may split their range from its neighbours. */
static bool sets_apart(unsigned act)
{
    return act == ACT_PROTECT || act == ACT_ADVISE || act == ACT_LOCK || act == ACT_SHM ||
           act == ACT_FILE || act == ACT_OWN;
}

static void run_act(unsigned act, const struct step *step, struct outcome *out)
{
    errno = 0;
    functions[act](step, out);
    if (sets_apart(act))
        space_set_apart(step->area, step->page, step->pages);
}

void act_inner(const struct step *step, struct outcome *out)
{
    struct step inner = *step;

    inner.act = step->inner;
    beside_report(&inner);
    run_act(inner.act, &inner, out);
}

static void play_step(const struct step *step, struct outcome *out)
{
    if (!plan_is_programs(step)) {
        beside_step(step);
        return;
    }
    beside_report(step);
    run_act(step->act, step, out);
}

void play(const struct plan *plan, bool with, struct trace *trace)
{
    observe_detail = trace->detail;
    space_open(plan);
    objects_open();
    if (with)
        beside_open(plan, trace);
    for (unsigned i = 0; i < plan->count; i++) {
        atomic_store(&trace->step, i);
        if (plan->keep[i])
            play_step(&plan->steps[i], &trace->outcomes[i]);
    }
    beside_close();
    atomic_store(&trace->step, PLAN_STEPS);
}
