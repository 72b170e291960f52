/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See hook_holder.h.
 */
#include "tests/support/hook_holder.h"

#include "tests/support/cache_bed.h"

#include <sys/mman.h>

static void await(sem_t *semaphore)
{
    while (sem_wait(semaphore))
        ;
}

static bool hold_locks(struct listener *listener, const struct change *change)
{
    struct hook_holder *holder = (struct hook_holder *)listener;

    sem_post(&holder->reached);
    await(&holder->go_on);
    return false;
}

bool hook_holder_needs_none(struct listener *listener, uint64_t start, uint64_t end,
                            struct span *out)
{
    return false;
}

static void *unmap(void *arg)
{
    struct hook_holder *holder = arg;

    munmap(holder->memory, bed_page());
    return NULL;
}

void hook_holder_start(struct hook_holder *holder, struct monitor *monitor, void *memory)
{
    *holder = (struct hook_holder){.listener = {.pulse = &holder->pulse,
                                                .changed = hold_locks,
                                                .needs = hook_holder_needs_none},
                                   .monitor = monitor,
                                   .memory = memory,
                                   .pulse.state = PULSE_LIVE};
    sem_init(&holder->reached, 0, 0);
    sem_init(&holder->go_on, 0, 0);
    monitor_attach(monitor, &holder->listener);
    assert_int_equal(pthread_create(&holder->thread, NULL, unmap, holder), 0);
    await(&holder->reached);
}

void hook_holder_go_on(struct hook_holder *holder)
{
    for (int i = 0; i < 4; i++)
        sem_post(&holder->go_on); /* the kernel's word comes to it as well */
}

void hook_holder_end(struct hook_holder *holder)
{
    pthread_join(holder->thread, NULL);
    assert_true(monitor_settle(holder->monitor));
    monitor_detach(holder->monitor, &holder->listener);
    sem_destroy(&holder->reached);
    sem_destroy(&holder->go_on);
}
