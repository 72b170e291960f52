/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Holds a thread inside a hook of memhooks, before it pushes its change. For programs linked with
 * hmreg_internal and -Wl,--wrap=changes_push.
 */
#ifndef TESTS_HOOK_HOLDER_H
#define TESTS_HOOK_HOLDER_H

#include <pthread.h>
#include <semaphore.h>

/* Not NULL: called in each hook. */
extern void (*hook_inside)(void);

/* A thread that waits inside a hook until the test releases it. */
struct hook_holder {
    sem_t reached, go_on;
    pthread_t thread;
    void *memory;
};

/* Starts a thread that unmaps memory, a watched page; returns when it is inside the hook. */
void hook_holder_start(struct hook_holder *holder, void *memory);
void hook_holder_go_on(struct hook_holder *holder);
/* Releases it; returns when the thread has ended. */
void hook_holder_end(struct hook_holder *holder);

#endif
