/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See process.h. Kernels without MADV_WIPEONFORK (before 4.14) get a fork handler instead,
 * which raw clone(2) escapes; the page escapes nothing.
 *
 * Epochs travel: loopback peers tell by them whether a token is of their own process. A pid alone
 * would not do, since it comes again, in time and in other pid namespaces.
 */
#include "core/process.h"

#include "core/error.h"

#include <errno.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

static _Atomic uint64_t no_epoch;
_Atomic(_Atomic uint64_t *) process_epoch_page = &no_epoch;

static void in_child(void)
{
    atomic_store(atomic_load(&process_epoch_page), 0);
}

/* Once a process family: the page itself is inherited, its content is not. NULL: no memory. */
static _Atomic uint64_t *make_page(void)
{
    size_t size = (size_t)sysconf(_SC_PAGESIZE);
    _Atomic uint64_t *made =
        mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    _Atomic uint64_t *other = &no_epoch;
    bool wiped;

    if (made == MAP_FAILED)
        return NULL;
    wiped = madvise((void *)made, size, MADV_WIPEONFORK) == 0;
    if (!atomic_compare_exchange_strong(&process_epoch_page, &other, made)) {
        munmap((void *)made, size);
        return other;
    }
    if (!wiped)
        pthread_atfork(NULL, NULL, in_child);
    return made;
}

static uint64_t new_epoch(void)
{
    uint32_t chance = 0;
    struct timespec now;

    if (getrandom(&chance, sizeof(chance), GRND_NONBLOCK) != sizeof(chance)) {
        clock_gettime(CLOCK_REALTIME, &now);
        chance = (uint32_t)now.tv_nsec ^ (uint32_t)now.tv_sec;
    }
    return (uint64_t)getpid() << 32 | chance;
}

uint64_t process_epoch_start(void)
{
    _Atomic uint64_t *page = atomic_load(&process_epoch_page);
    uint64_t epoch = 0, fresh;

    if (page == &no_epoch)
        page = make_page();
    if (!page) {
        hmreg_fail(-ENOMEM, "no memory for the process's epoch");
        return 0;
    }
    fresh = new_epoch();
    /* Two threads may start it: one epoch wins. */
    return atomic_compare_exchange_strong(page, &epoch, fresh) ? fresh : epoch;
}
