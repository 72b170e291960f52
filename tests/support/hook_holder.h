/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A thread that stands inside a hook of memhooks, with the library's locks that a hook takes, until
 * the test lets it go on.
 */
#ifndef TESTS_HOOK_HOLDER_H
#define TESTS_HOOK_HOLDER_H

#include "core/monitor.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdbool.h>

struct hook_holder {
    struct listener listener;
    struct pulse pulse;
    sem_t reached, go_on;
    pthread_t thread;
    struct monitor *monitor;
    void *memory;
};

/* memory: a page that is watched; the thread unmaps it. Returns when it is inside. */
void hook_holder_start(struct hook_holder *holder, struct monitor *monitor, void *memory);
void hook_holder_go_on(struct hook_holder *holder);
/* After that: the thread has ended, and all that happened is told. */
void hook_holder_end(struct hook_holder *holder);

/* A listener's `needs` that needs nothing watched. */
bool hook_holder_needs_none(struct listener *listener, uint64_t start, uint64_t end,
                            struct span *out);

#endif
