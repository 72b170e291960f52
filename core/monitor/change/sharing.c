/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See sharing.h.
 */
#include "core/monitor/change/sharing.h"

#include "core/base/process.h"
#include "core/base/thread.h"

#include <pthread.h>

#define SHARED 2 /* userfaultfd, counter */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static void (*forgets[SHARED])(void);
static atomic_int forks_handled;

void sharing_lock(void)
{
    pthread_mutex_lock(&lock);
}

int sharing_lock_to_start(void)
{
    return thread_lock_to_start(&lock);
}

void sharing_unlock(void)
{
    pthread_mutex_unlock(&lock);
}

static void in_child(void)
{
    for (int i = 0; i < SHARED && forgets[i]; i++)
        forgets[i]();
    process_once_done(&forks_handled);
    sharing_unlock();
}

static bool handle_forks(void)
{
    return pthread_atfork(sharing_lock, sharing_unlock, in_child) == 0;
}

bool sharing_starts(void (*forget_parents)(void))
{
    int i = 0;

    if (!process_once(&forks_handled, handle_forks))
        return false;
    sharing_lock();
    while (i < SHARED - 1 && forgets[i] && forgets[i] != forget_parents)
        i++;
    forgets[i] = forget_parents;
    sharing_unlock();
    return true;
}
