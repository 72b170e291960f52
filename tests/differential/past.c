/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Calls that do not go through the program's libc in this process: by system calls of the program's
 * own, by a process that shares its memory, by another one, and by a library that is loaded and
 * unloaded. beside_report() has what a monitor does not see of them.
 */
#include "tests/differential/acts.h"

#include "core/base/kernel_call.h"
#include "tests/differential/space.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#define RW (PROT_READ | PROT_WRITE)

/* ---- system calls of the program's own --------------------------------------------------- */

static long attach_inline(const struct step *step)
{
    size_t pages = step->pages < 4 ? step->pages : 4;
    int segment = shmget(IPC_PRIVATE, pages * space.page, IPC_CREAT | 0600);
    long rc = kernel_call(SYS_shmat, segment, (long)space_start(step), SHM_REMAP, 0, 0, 0);

    shmctl(segment, IPC_RMID, NULL);
    return rc;
}

static long call_inline(const struct step *step)
{
    long at = (long)space_start(step), len = (long)space_len(step);
    long to = (long)space_at(step->area, step->to);
    long offset = (long)(step->r % SPACE_FILE * space.page);

    switch (step->form % 8) {
    case 0:
        return kernel_call(SYS_munmap, at, len, 0, 0, 0, 0);
    case 1:
        return kernel_call(SYS_mmap, at, len, RW, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    case 2:
        return kernel_call(SYS_mmap, at, len, RW, MAP_SHARED | MAP_FIXED, space.file, offset);
    case 3: /* into a hole */
        return kernel_call(SYS_mmap, at, len, RW, MAP_SHARED | MAP_FIXED_NOREPLACE, space.file,
                           offset);
    case 4:
        return kernel_call(SYS_mremap, at, len, len, MREMAP_MAYMOVE | MREMAP_FIXED, to, 0);
    case 5:
        return attach_inline(step);
    default:
        return kernel_call(SYS_madvise, at, len, MADV_DONTNEED, 0, 0, 0);
    }
}

void act_inline(const struct step *step, struct outcome *out)
{
    struct step range = calls_narrow(step);
    long rc = call_inline(&range);

    out->rc = rc < 0 && rc >= -4095 ? -1 : 0;
    out->error = out->rc ? (int32_t)-rc : 0;
    space_set_apart(step->area, step->page, step->pages);
    space_set_apart(step->area, step->to, step->pages);
}

/* ---- other processes --------------------------------------------------------------------- */

/* Runs where the program's memory is, in a process of its own. */
static long change(const struct step *step, int program)
{
    struct iovec range = {space_start(step), space_len(step)};

    switch (step->form / 2 % 4) {
    case 0:
        return munmap(range.iov_base, range.iov_len);
    case 1:
        return madvise(range.iov_base, range.iov_len, MADV_DONTNEED);
    case 2:
        return mmap(range.iov_base, range.iov_len, RW, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
                    0) == MAP_FAILED
                   ? -1
                   : 0;
    default:
        return syscall(SYS_process_madvise, program, &range, 1, MADV_DONTNEED, 0) < 0 ? -1 : 0;
    }
}

/* What the kernel lets another process do: it throws no pages away, and a region stays as it is. */
static long advise(const struct step *step, int program)
{
    static const int advices[] = {MADV_COLD, MADV_WILLNEED};
    struct iovec range = {space_start(step), space_len(step)};

    return syscall(SYS_process_madvise, program, &range, 1, advices[step->r % 2], 0) < 0 ? -1 : 0;
}

void act_other(const struct step *step, struct outcome *out)
{
    int program = (int)syscall(SYS_pidfd_open, getpid(), 0), status = 0;
    bool shares = step->form % 2;
    pid_t child = shares ? vfork() : fork();

    if (child == 0)
        _exit((shares ? change(step, program) : advise(step, program)) ? errno : 0);
    if (child > 0)
        waitpid(child, &status, 0);
    close(program);
    *out = (struct outcome){.value = (uint64_t)status};
    space_set_apart(step->area, step->page, step->pages);
}

/* ---- a library, perhaps with calls of its own ---------------------------------------------- */

static struct {
    void *file;
    int (*munmap)(void *addr, size_t len);
    int (*madvise)(void *addr, size_t len, int advice);
} library;

/* New pages, unnoticed by hooks: the library unmaps, and a mapping in a hole changes nothing. */
static int discard(void *addr, size_t len, int advice)
{
    int rc = library.munmap(addr, len);

    return rc ? rc
              : -(mmap(addr, len, RW, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) !=
                  addr);
}

/* In every other episode: the calls of libc's names, or the one that only a search of the code
 * finds. */
static void load(const struct step *step)
{
    bool inlined = space.own_calls && step->form & 4;

    library.file = dlopen(!space.own_calls ? TEST_LIBRARY
                          : inlined        ? TEST_INLINED
                                           : TEST_OWN_CALLS,
                          RTLD_NOW | RTLD_LOCAL);
    if (!library.file)
        abort();
    library.munmap = munmap;
    library.madvise = madvise;
    if (inlined) {
        *(void **)&library.munmap = dlsym(library.file, "unmap_inlined");
        library.madvise = discard;
    } else if (space.own_calls) {
        *(void **)&library.munmap = dlsym(library.file, "munmap");
        *(void **)&library.madvise = dlsym(library.file, "madvise");
    }
}

static void unload(void)
{
    dlclose(library.file);
    library.file = NULL;
}

/* It comes, calls and goes again without a get meanwhile, or stays for the gets that follow. */
void act_load(const struct step *step, struct outcome *out)
{
    if (!library.file)
        load(step);
    if (step->form & 1)
        out->value = (uint64_t)library.munmap(space_start(step), space_len(step));
    else
        out->value = (uint64_t)library.madvise(space_start(step), space_len(step), MADV_DONTNEED);
    if (!(step->form & PLAN_STAYS))
        unload();
    space_set_apart(step->area, step->page, step->pages);
}
