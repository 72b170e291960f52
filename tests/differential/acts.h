/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The program's acts. Each does what its step says and notes an outcome that depends on the
 * program's own calls only, and on nothing that the kernel or malloc places.
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
/* The step with a range that mremap(2) can move under the plan's monitor. */
struct step calls_narrow(const struct step *step);
/* Does the step install guards, which userfaultfd does not report? */
bool calls_install_guards(const struct step *step);
/* objects.c: the program's other objects. */
act_function act_shm, act_file, act_own, act_brk, act_heap, act_block;
void objects_open(void);
/* Memory of the program outside the areas: from malloc, from brk, placed by the kernel. NULL: none.
 */
void *objects_memory(const struct step *step, size_t *len);
/* past.c: calls past the program's libc, or by other processes. */
act_function act_inline, act_other, act_load;
/* flow.c: other flows of control. */
act_function act_fork, act_thread, act_stack, act_signal;
/* observe.c */
act_function act_mappings, act_layout, act_process, act_unused;
/* The buffer in which a layout is described in words. */
extern char *observe_detail;

/* play.c: the act inside a handler, a thread, a child. */
void act_inner(const struct step *step, struct outcome *out);

/* Notes the result of the call before; errno was 0 before it, and is again after a success. */
static inline void note(struct outcome *out, long rc)
{
    out->rc = (int32_t)rc;
    out->error = errno;
}

#endif
