/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See process.h. Kernels without MADV_WIPEONFORK (before 4.14) get a fork handler instead,
 * which raw clone(2) escapes; the page escapes nothing.
 */
#include "core/process.h"

#include "core/error.h"

#include <errno.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

static const uint64_t no_epoch;
const uint64_t *process_epoch_page = &no_epoch;

static uint64_t *page;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint32_t serial;

static void in_child(void)
{
    *page = 0;
}

/* Called once a process family: the page itself is inherited, its content is not. */
static int make_page(void)
{
    size_t size = (size_t)sysconf(_SC_PAGESIZE);
    uint64_t *made =
        mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (made == MAP_FAILED)
        return hmreg_fail_os(errno, "no memory for the process's epoch");
    page = made;
    if (madvise(made, size, MADV_WIPEONFORK))
        pthread_atfork(NULL, NULL, in_child);
    process_epoch_page = made;
    return 0;
}

uint64_t process_epoch_start(void)
{
    uint64_t epoch = 0;

    pthread_mutex_lock(&lock);
    if (page || make_page() == 0) {
        /* pid and serial: unlike any epoch an ancestor's object can hold. */
        if (!*page)
            *page = (uint64_t)getpid() << 32 | ++serial;
        epoch = *page;
    }
    pthread_mutex_unlock(&lock);
    return epoch;
}
