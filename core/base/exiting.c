/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See exiting.h. The counts are on a page that is wiped in a forked child, which has no such
 * threads.
 */
#include "core/base/exiting.h"

#include "core/base/process.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#define PATIENCE_NS 500000000

struct exiting {
    atomic_uint inside; /* threads in a call */
    atomic_uint now;
};

static _Atomic(void *) page;

static void at_exit(void)
{
    static const struct timespec pause = {.tv_nsec = 1000000};
    struct exiting *exiting = atomic_load(&page);

    atomic_store(&exiting->now, 1);
    for (long waited = 0; atomic_load(&exiting->inside) && waited < PATIENCE_NS;
         waited += pause.tv_nsec)
        nanosleep(&pause, NULL);
}

static bool set_up(void)
{
    return process_page_at(&page) && !atexit(at_exit);
}

bool exiting_heed(void)
{
    static atomic_int done;

    return process_once(&done, set_up);
}

void exiting_leave(void)
{
    struct exiting *exiting = atomic_load(&page);

    atomic_fetch_sub(&exiting->inside, 1);
}

bool exiting_enter(void)
{
    struct exiting *exiting = atomic_load(&page);

    atomic_fetch_add(&exiting->inside, 1);
    if (!atomic_load(&exiting->now))
        return true;
    exiting_leave();
    return false;
}
