/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See trace_file.h. The file's blocks are allocated before it is mapped: on a full file system a
 * store would raise SIGBUS in the program. So would a store to a file that another user has
 * truncated. Hence the folder is the user's own (core/base/own_path.h), and the file new and closed
 * to other users.
 */
#include "preload/trace_file.h"

#include "core/base/own_path.h"
#include "preload/untraced.h"
#include "preload/mode.h"

#include <hmreg/version.h>

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define FILE_TRIES 1000 /* files of one pid in one folder, one per exec */

static _Atomic(struct trace_process *) state;
static bool wipes; /* the kernel wipes at a fork; written before state */

/* ---- the process ------------------------------------------------------------------------- */

__attribute__((constructor)) static void make_state(void)
{
    struct trace_process *made =
        mmap(NULL, sizeof(*made), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (made == MAP_FAILED)
        return;
    wipes = madvise(made, sizeof(*made), MADV_WIPEONFORK) == 0;
    atomic_store(&state, made);
}

struct trace_process *trace_process(void)
{
    struct trace_process *process = atomic_load_explicit(&state, memory_order_acquire);

    /* An emulator may not know MADV_WIPEONFORK. */
    if (process && !wipes && atomic_load(&process->pid) != getpid()) {
        memset(process, 0, sizeof(*process));
        atomic_store(&process->pid, getpid());
    }
    return process;
}

/* ---- what a file begins with ------------------------------------------------------------- */

static int64_t real_time(void)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* The rank that the launcher of a job gave this process. */
static const char *rank_of_process(void)
{
    static const char *const names[] = {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK",
                                        "SLURM_PROCID"};

    for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        const char *rank = secure_getenv(names[i]);

        if (rank && rank[0])
            return rank;
    }
    return "";
}

static uint32_t mode_bits(void)
{
    const struct preload_mode *mode = preload_mode();

    return (mode->gpu ? RECORD_MODE_GPU : 0) | (mode->watch ? RECORD_MODE_WATCH : 0) |
           (mode->wrong ? RECORD_MODE_WRONG : 0);
}

static uint32_t by_bits(void)
{
    const char *audit = secure_getenv("LD_AUDIT");

    return (hmreg_preload_untraced ? RECORD_BY_PRELOAD : 0) |
           (audit && strstr(audit, "libhmreg-audit.so") ? RECORD_BY_AUDIT : 0);
}

static void fill_header(struct record_header *header)
{
    ssize_t length = readlink("/proc/self/exe", header->program, sizeof(header->program) - 1);

    if (length < 0)
        header->program[0] = '\0';
    snprintf(header->rank, sizeof(header->rank), "%s", rank_of_process());
    snprintf(header->hmreg, sizeof(header->hmreg), "%s", HMREG_VERSION_STRING);
    header->pid = getpid();
    header->parent = getppid();
    header->mode = mode_bits();
    header->by = by_bits();
    header->began = real_time();
    header->size = sizeof(struct record_layout);
    header->version = RECORD_VERSION;
    header->magic = RECORD_MAGIC;
}

/* ---- the file ---------------------------------------------------------------------------- */

static void *fail(enum record_untraced_step step, int error)
{
    if (hmreg_preload_untraced)
        hmreg_preload_untraced(step, error);
    return NULL;
}

/* A file beyond RLIMIT_FSIZE would raise SIGXFSZ in the program. */
static bool may_be_so_long(void)
{
    struct rlimit limit;

    return !getrlimit(RLIMIT_FSIZE, &limit) && limit.rlim_cur >= sizeof(struct record_layout);
}

#define NAME_ROOM 64

/* Creates a file with an unused name in the folder. -1: it cannot. */
static int create(int folder, char name[NAME_ROOM])
{
    int fd = -1;

    for (int i = 0; i < FILE_TRIES && fd < 0; i++) {
        snprintf(name, NAME_ROOM, "hmreg-%d-%d%s", getpid(), i, RECORD_SUFFIX);
        fd = own_file_create(folder, name);
        if (fd < 0 && errno != EEXIST)
            return -1;
    }
    return fd;
}

static struct record_layout *map(int fd)
{
    const size_t size = sizeof(struct record_layout);
    int error = posix_fallocate(fd, 0, (off_t)size);
    void *made;

    if (error)
        return fail(RECORD_UNTRACED_ROOM, error);
    made = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
    if (made == MAP_FAILED)
        return fail(RECORD_UNTRACED_MAP, errno);
    /* A forked child must not write to its parent's file. */
    madvise(made, size, MADV_DONTFORK);
    return made;
}

static struct record_layout *make(int folder, char name[NAME_ROOM])
{
    struct record_layout *made;
    int fd = create(folder, name);

    if (fd < 0)
        return fail(RECORD_UNTRACED_CREATE, errno);
    made = map(fd);
    close(fd);
    if (made)
        fill_header(&made->header);
    else
        unlinkat(folder, name, 0);
    return made;
}

/* The process's file: this thread's, or another thread's that was faster. */
static struct record_layout *make_in(int folder, struct trace_process *process)
{
    char name[NAME_ROOM];
    struct record_layout *file = make(folder, name), *other = NULL;

    if (!file || atomic_compare_exchange_strong(&process->file, &other, file))
        return file;
    munmap(file, sizeof(*file)); /* nothing has been counted in it */
    unlinkat(folder, name, 0);
    return other;
}

static struct record_layout *make_file(struct trace_process *process)
{
    struct record_layout *made;
    int folder;

    if (!preload_dir()[0])
        return NULL;
    if (!may_be_so_long())
        return fail(RECORD_UNTRACED_LIMIT, EFBIG);
    folder = own_folder(preload_dir());
    if (folder < 0)
        return fail(RECORD_UNTRACED_CREATE, errno);
    made = make_in(folder, process);
    close(folder);
    return made;
}

struct record_layout *trace_file(void)
{
    struct trace_process *process = trace_process();
    struct record_layout *file;

    if (!process || atomic_load_explicit(&process->failed, memory_order_relaxed))
        return NULL;
    file = atomic_load_explicit(&process->file, memory_order_acquire);
    if (file)
        return file;
    file = make_file(process);
    if (!file)
        atomic_store(&process->failed, 1);
    return file;
}
