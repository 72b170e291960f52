/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See hook_holder.h.
 */
#include "tests/support/hook_holder.h"

#include "core/monitor/change/change_queue.h"
#include "tests/support/cache_fixture.h"

#include <sys/mman.h>

void (*hook_inside)(void);

static _Thread_local struct hook_holder *held;

static void await(sem_t *semaphore)
{
    while (sem_wait(semaphore))
        ;
}

void __real_changes_push(const struct change *change);
void __wrap_changes_push(const struct change *change);

void __wrap_changes_push(const struct change *change)
{
    struct hook_holder *holder = held;

    if (change->source == CHANGE_HOOKS && hook_inside)
        hook_inside();
    if (change->source == CHANGE_HOOKS && holder) {
        held = NULL;
        sem_post(&holder->reached);
        await(&holder->go_on);
    }
    __real_changes_push(change);
}

static void *unmap(void *arg)
{
    held = arg;
    munmap(held->memory, fixture_page());
    return NULL;
}

void hook_holder_start(struct hook_holder *holder, void *memory)
{
    *holder = (struct hook_holder){.memory = memory};
    sem_init(&holder->reached, 0, 0);
    sem_init(&holder->go_on, 0, 0);
    assert_int_equal(pthread_create(&holder->thread, NULL, unmap, holder), 0);
    await(&holder->reached);
}

void hook_holder_go_on(struct hook_holder *holder)
{
    sem_post(&holder->go_on);
}

void hook_holder_end(struct hook_holder *holder)
{
    pthread_join(holder->thread, NULL);
    sem_destroy(&holder->reached);
    sem_destroy(&holder->go_on);
}
