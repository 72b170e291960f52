/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * What a hook of memhooks does on the thread that calls it: the test stands in the hook, before its
 * change is pushed. For programs that are linked with hmreg_internal and -Wl,--wrap=changes_push.
 */
#ifndef TESTS_HOOK_HOLDER_H
#define TESTS_HOOK_HOLDER_H

#include <pthread.h>
#include <semaphore.h>

/* Not NULL: called in each hook. */
extern void (*hook_inside)(void);

/* A thread that stands inside a hook until the test lets it go on. */
struct hook_holder {
    sem_t reached, go_on;
    pthread_t thread;
    void *memory;
};

/* memory: a page that is watched; the thread unmaps it. Returns when it is inside. */
void hook_holder_start(struct hook_holder *holder, void *memory);
void hook_holder_go_on(struct hook_holder *holder);
/* After that: the thread has ended. */
void hook_holder_end(struct hook_holder *holder);

#endif
