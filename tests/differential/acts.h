/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The program's acts. Each does what its step says and notes what came of it: all that depends on
 * the program's own calls only, nothing that depends on where the kernel or malloc places things.
 */
#ifndef TESTS_DIFFERENTIAL_ACTS_H
#define TESTS_DIFFERENTIAL_ACTS_H

#include "tests/differential/trace.h"

#include <errno.h>
#include <stddef.h>

typedef void act_function(const struct step *step, struct outcome *out);

/* calls.c: calls on the areas. */
act_function act_map, act_unmap, act_remap, act_protect, act_advise, act_write, act_read,
    act_resident, act_lock, act_sync;
/* objects.c: what the program has besides. */
act_function act_shm, act_file, act_own, act_brk, act_heap, act_block;
void objects_open(void);
/* Memory of the program that is in no area: of malloc, of brk, where the kernel chose. NULL: none.
 */
void *objects_memory(const struct step *step, size_t *len);
/* flow.c: where control flows otherwise. */
act_function act_fork, act_thread, act_stack, act_signal;
/* observe.c */
act_function act_mappings, act_layout, act_process, act_unused;
/* Where the layout is written in words. */
extern char *observe_detail;

/* play.c: the act of a handler, a thread, a child. */
void act_inner(const struct step *step, struct outcome *out);

/* The result of a call that has just returned; errno was 0 before, and is after a success. */
static inline void note(struct outcome *out, long rc)
{
    out->rc = (int32_t)rc;
    out->error = errno;
}

#endif
