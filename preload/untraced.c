/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See untraced.h. Every process under `hmreg run` maps the page, shells too, at a cost of about
 * thirty short system calls; forked children share it. A file that is not the user's own is not
 * mapped: another user could truncate it, and the next store would raise SIGBUS
 * (core/base/own_path.h).
 *
 * On a full file system that copies on write even a store to an allocated page can raise SIGBUS. So
 * may_store() asks the kernel for a writable page first.
 */
#include "preload/untraced.h"

#include "core/base/own_path.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/statfs.h>
#include <unistd.h>

#define IN_MEMORY 0x01021994 /* TMPFS_MAGIC */

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14 */
#endif

static struct record_untraced_file *page;
static bool in_memory; /* the file is on tmpfs, where no store fails */

static struct record_untraced_file *map(int fd)
{
    struct statfs system;
    void *made = mmap(NULL, sizeof(*page), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

    in_memory = !fstatfs(fd, &system) && system.f_type == IN_MEMORY;
    return made == MAP_FAILED ? NULL : made;
}

__attribute__((constructor)) static void map_page(void)
{
    const char *path = secure_getenv("HMREG_RUN_DIR");
    int error = errno, folder = path ? own_folder(path) : -1, fd = -1;

    if (folder >= 0) {
        fd = own_file_open(folder, RECORD_UNTRACED_FILE, sizeof(*page));
        close(folder);
    }
    if (fd >= 0) {
        page = map(fd);
        close(fd);
    }
    errno = error;
}

static void fill(struct record_untraced *loss, enum record_untraced_step step, int error)
{
    const char *program = program_invocation_short_name;
    size_t length = strnlen(program, sizeof(loss->program) - 1);

    loss->step = step;
    loss->error = error;
    loss->pid = getpid();
    memcpy(loss->program, program, length);
}

static bool may_store(void)
{
    return in_memory || !madvise(page, sizeof(*page), MADV_POPULATE_WRITE);
}

/* Two threads, or processes, may fill two elements alike: the reader adds them. */
static bool count_in(struct record_untraced *loss, enum record_untraced_step step, int error)
{
    uint32_t state = RECORD_FREE;

    if (atomic_compare_exchange_strong(&loss->state, &state, RECORD_BUSY)) {
        fill(loss, step, error);
        atomic_store(&loss->state, RECORD_READY);
        state = RECORD_READY;
    }
    if (state != RECORD_READY || loss->step != step || loss->error != error)
        return false;
    atomic_fetch_add(&loss->count, 1);
    return true;
}

void hmreg_preload_untraced(enum record_untraced_step step, int error)
{
    int before = errno;

    if (page && page->magic == RECORD_UNTRACED_MAGIC && page->version == RECORD_VERSION &&
        may_store())
        for (unsigned i = 0; i < RECORD_UNTRACED_MAX && !count_in(&page->causes[i], step, error);
             i++)
            ;
    errno = before;
}
