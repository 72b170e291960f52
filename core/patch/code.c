/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See code.h.
 */
#include "core/patch/code.h"

#include "core/base/high_fd.h"
#include "core/base/maps.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

/* ---- room for code ---------------------------------------------------------------------- */

#define WIDE_STEP  (UINT64_C(1) << 20)
#define ISLAND_MIN 16384 /* bytes: room for some thirty stubs of memhooks, more than libc needs */

static bool reaches(const uint8_t *from, const uint8_t *to)
{
    return (from < to ? to - from : from - to) <= (ptrdiff_t)CODE_REACH;
}

/* The size of an island: at least a page. */
static size_t island_size(void)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);

    return page < ISLAND_MIN ? ISLAND_MIN : page;
}

static uint8_t *map_at(uintptr_t address)
{
    size_t size = island_size();
    void *made = mmap((void *)address, size, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);

    if (made != MAP_FAILED && made != (void *)address) { /* to an older kernel it was a hint */
        munmap(made, size);
        made = MAP_FAILED;
    }
    return made == MAP_FAILED ? NULL : made;
}

/* Tries addresses below the code first: above a program's own code the heap grows. */
static uint8_t *map_near_by(const uint8_t *code, uint64_t step)
{
    uintptr_t base = (uintptr_t)code & ~(step - 1);
    uint8_t *made = NULL;

    for (uintptr_t away = step; !made && away < CODE_REACH && away < base; away += step)
        made = map_at(base - away);
    for (uintptr_t away = 2 * step; !made && away < CODE_REACH; away += step)
        made = map_at(base + away);
    return made;
}

/* Tries wide steps first; if gigabytes beside the code are reserved, only small gaps may be left.
 */
static uint8_t *map_near(const uint8_t *code)
{
    uint8_t *made = NULL;

    for (uint64_t step = WIDE_STEP; !made && step >= island_size(); step /= 8)
        made = map_near_by(code, step);
    return made;
}

uint8_t *code_take_room(struct code_islands *islands, const uint8_t *near_by, size_t size)
{
    size = (size + 15) & ~(size_t)15;
    for (int i = 0; i < CODE_ISLANDS; i++) {
        __typeof__(islands->island[0]) *island = &islands->island[i];

        if (!island->start)
            island->start = map_near(near_by);
        if (!island->start)
            return NULL;
        if (island->sealed || !reaches(near_by, island->start) ||
            island->used + size > island_size())
            continue;
        island->used += size;
        return island->start + island->used - size;
    }
    return NULL;
}

int code_seal(struct code_islands *islands)
{
    for (int i = 0; i < CODE_ISLANDS; i++) {
        char *start = (char *)islands->island[i].start;

        if (!start || islands->island[i].sealed)
            continue;
        __builtin___clear_cache(start, start + islands->island[i].used);
        if (mprotect(start, island_size(), PROT_READ | PROT_EXEC))
            return -errno;
        islands->island[i].sealed = true;
    }
    return code_fetch_anew() ? 0 : -ENOSYS;
}

/* ---- reading code ----------------------------------------------------------------------- */

/* Through a pipe: process_vm_readv(2) pins the page, and with the first pin of a process the kernel
 * begins to look at each page in each fork(2), which takes a tenth longer. */
bool code_read(uintptr_t from, void *to, size_t size)
{
    struct iovec local = {to, size}, remote = {(void *)from, size};
    int ends[2];
    bool done;

    if (high_fd_pair(pipe2(ends, O_CLOEXEC), ends))
        return process_vm_readv(getpid(), &local, 1, &remote, 1, 0) == (ssize_t)size;
    done = write(ends[1], (const void *)from, size) == (ssize_t)size &&
           read(ends[0], to, size) == (ssize_t)size;
    close(ends[0]);
    close(ends[1]);
    return done;
}

/* ---- writing code ----------------------------------------------------------------------- */

bool code_start(void)
{
    return kernel_call(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_SYNC_CORE, 0, 0, 0,
                       0, 0) == 0 &&
           code_fetch_anew();
}

static long protect(const struct code_text *text, int more)
{
    return kernel_call(SYS_mprotect, (long)text->start, (long)(text->end - text->start),
                       text->protection | more, 0, 0, 0);
}

/* Only the pages of the change: their mapping is unknown. */
static struct code_text pages_of(const struct code_text *found, const uint8_t *at, size_t count)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);

    return (struct code_text){(uintptr_t)at & ~(page - 1),
                              ((uintptr_t)at + count + page - 1) & ~(page - 1),
                              found->end ? found->protection : PROT_READ | PROT_EXEC, false};
}

/* Code that was written and could not be protected again, with its due protection. Callers hold
 * different locks but write different mappings, so at worst one record is lost. */
static struct left {
    _Atomic uintptr_t start, end;
    atomic_int protection;
} left_writable[8]; /* mappings: memhooks change libc's and the linker's */

#define LEFT (sizeof(left_writable) / sizeof(left_writable[0]))

static void record_protection(const struct code_text *text, bool restored)
{
    struct left *at = NULL;

    for (struct left *left = left_writable; left < left_writable + LEFT; left++)
        if (left->start == text->start || (!at && !left->start))
            at = left;
    if (!at)
        return;
    at->protection = text->protection;
    at->start = restored ? 0 : text->start;
    at->end = restored ? 0 : text->end;
}

static int protection_of(uintptr_t address, const struct map *map)
{
    for (struct left *left = left_writable; left < left_writable + LEFT; left++)
        if (address - left->start < left->end - left->start)
            return left->protection;
    return PROT_EXEC | (map->readable ? PROT_READ : 0) | (map->writable ? PROT_WRITE : 0);
}

bool code_find(struct code_text *last, const uint8_t *at)
{
    uintptr_t address = (uintptr_t)at;
    struct maps maps;
    struct map map;

    if (address < last->start || address >= last->end) {
        *last = (struct code_text){.start = 0};
        maps_begin(&maps, NULL);
        if (maps_next(&maps, address, &map) == 1 && map.start <= address && map.executable)
            *last = (struct code_text){map.start, map.end, protection_of(address, &map),
                                       map.readable && !map.writable && !map.anonymous};
        maps_end(&maps);
    }
    return last->end;
}

/* *out: the memory to protect again. The kernel may refuse to charge the process for the whole
 * mapping, but not for a page of it. */
static long make_writable(const struct code_text *found, const uint8_t *at, size_t count,
                          struct code_text *out)
{
    *out = *found;
    if (found->end && !protect(out, PROT_WRITE))
        return 0;
    *out = pages_of(found, at, count);
    return protect(out, PROT_WRITE);
}

static long write_where_writable(const struct code_text *found, const struct code_change *change)
{
    struct code_text text;
    sigset_t all, before;
    long rc = make_writable(found, change->at, change->size, &text);

    if (rc)
        return rc;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    code_replace(change->at, change->bytes, change->size);
    code_fetch_anew();
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    rc = protect(&text, 0);
    record_protection(&text, !rc);
    return rc;
}

static bool is_in(const struct code_text *text, const struct code_change *change)
{
    return (uintptr_t)change->at >= text->start &&
           (uintptr_t)change->at + change->size <= text->end;
}

/* Makes the first changes in one mapping. *made: their number. */
static long write_some(struct code_text *last, const struct code_change *changes, size_t count,
                       size_t *made)
{
    static const struct code_text none;
    bool found = code_find(last, changes[0].at) && is_in(last, &changes[0]);
    size_t together = found;

    while (found && together < count && is_in(last, &changes[together]))
        together++;
    *made = found ? code_replace_by_twin(last, changes, together) : 0;
    for (size_t i = 0; i < *made; i++)
        __builtin___clear_cache((char *)changes[i].at, (char *)changes[i].at + changes[i].size);
    if (*made)
        return 0;
    *made = 1;
    return write_where_writable(found ? last : &none, &changes[0]);
}

long code_write(struct code_text *last, const struct code_change *changes, size_t count)
{
    long rc = 0;

    for (size_t at = 0, made; !rc && at < count; at += made)
        rc = write_some(last, changes + at, count - at, &made);
    code_fetch_anew();
    return rc;
}

/* ---- other copies of the library -------------------------------------------------------- */

/* Locks a file that only this process has, and that copies in any namespace of the linker find. By
 * system calls that are no cancellation points, and that a sandbox already had to permit. */
static long set_lock(int file, short type)
{
    struct flock all = {.l_type = type, .l_whence = SEEK_SET};
    long rc;

    do
        rc = kernel_call(SYS_fcntl, file, F_OFD_SETLKW, (long)&all, 0, 0, 0);
    while (rc == -EINTR);
    return rc;
}

int code_lock(void)
{
    long opened =
        kernel_call(SYS_openat, AT_FDCWD, (long)"/proc/self/comm", O_RDWR | O_CLOEXEC, 0, 0, 0);
    int file = opened < 0 ? -1 : high_fd((int)opened);

    if (file >= 0)
        (void)set_lock(file, F_WRLCK);
    return file;
}

/* Unlocks first: a child forked meanwhile may have the descriptor too, so closing it is not
 * enough. */
void code_unlock(int lock)
{
    if (lock < 0)
        return;
    (void)set_lock(lock, F_UNLCK);
    kernel_call(SYS_close, lock, 0, 0, 0, 0, 0);
}
