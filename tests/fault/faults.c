/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See faults.h. The linker's --wrap gives each call's name to the function here, and __real_ to
 * the one of the C library.
 */
#include "tests/fault/faults.h"

#include <errno.h>
#include <fcntl.h>
#include <hmreg/hmreg.h>
#include <pthread.h>
#include <search.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

static _Thread_local unsigned left;
static _Thread_local const char *fired;
static atomic_long blocks, mappings;

void faults_arm(unsigned nth)
{
    left = nth;
    fired = NULL;
}

const char *faults_fired(void)
{
    return fired;
}

long faults_blocks(void)
{
    return atomic_load(&blocks);
}

void faults_had(long had)
{
    atomic_fetch_add(&blocks, had);
}

long faults_mappings(void)
{
    return atomic_load(&mappings);
}

void faults_hook_libc(void)
{
    struct hmreg_config config = {.size = sizeof(config),
                                  .monitor = HMREG_MONITOR_MEMHOOKS,
                                  .ifaces = HMREG_IFACE_BIT(HMREG_IFACE_SYSTEM)};
    struct hmreg *lib = NULL;

    if (!hmreg_open(&config, &lib))
        hmreg_close(lib);
}

static bool fails(const char *call, int errnum)
{
    if (!left || --left)
        return false;
    fired = call;
    errno = errnum;
    return true;
}

bool faults_fail(const char *call, int errnum)
{
    return fails(call, errnum);
}

/* The wrapped function's types are its own; only its name is changed. */
#define WRAP(type, call, ...)                                                                      \
    type __real_##call(__VA_ARGS__);                                                               \
    type __wrap_##call(__VA_ARGS__);                                                               \
    type __wrap_##call(__VA_ARGS__)

static void *count(void *block)
{
    if (block)
        atomic_fetch_add(&blocks, 1);
    return block;
}

WRAP(void *, malloc, size_t size)
{
    return fails("malloc", ENOMEM) ? NULL : count(__real_malloc(size));
}

WRAP(void *, calloc, size_t number, size_t size)
{
    return fails("calloc", ENOMEM) ? NULL : count(__real_calloc(number, size));
}

WRAP(int, posix_memalign, void **out, size_t align, size_t size)
{
    int rc = fails("posix_memalign", ENOMEM) ? ENOMEM : __real_posix_memalign(out, align, size);

    if (!rc)
        count(*out);
    return rc;
}

WRAP(void *, aligned_alloc, size_t align, size_t size)
{
    return fails("aligned_alloc", ENOMEM) ? NULL : count(__real_aligned_alloc(align, size));
}

WRAP(void *, realloc, void *block, size_t size)
{
    void *grown = fails("realloc", ENOMEM) ? NULL : __real_realloc(block, size);

    return block ? grown : count(grown);
}

WRAP(void, free, void *block)
{
    if (block)
        atomic_fetch_sub(&blocks, 1);
    __real_free(block);
}

/* libc allocates the nodes itself, past the wrappers. */
WRAP(void *, tsearch, const void *key, void **root, int (*compare)(const void *, const void *))
{
    return fails("tsearch", ENOMEM) ? NULL : __real_tsearch(key, root, compare);
}

WRAP(void *, mmap, void *at, size_t len, int protection, int flags, int fd, off_t offset)
{
    void *made =
        fails("mmap", ENOMEM) ? MAP_FAILED : __real_mmap(at, len, protection, flags, fd, offset);

    if (made != MAP_FAILED)
        atomic_fetch_add(&mappings, 1);
    return made;
}

WRAP(int, munmap, void *at, size_t len)
{
    atomic_fetch_sub(&mappings, 1);
    return __real_munmap(at, len);
}

/* Only onto another mapping, which ends. */
WRAP(void *, mremap, void *at, size_t old_len, size_t len, int flags, void *to)
{
    void *made = fails("mremap", ENOMEM) ? MAP_FAILED : __real_mremap(at, old_len, len, flags, to);

    atomic_fetch_sub(&mappings, made != MAP_FAILED);
    return made;
}

WRAP(int, mprotect, void *at, size_t len, int protection)
{
    return fails("mprotect", ENOMEM) ? -1 : __real_mprotect(at, len, protection);
}

/* For MADV_WIPEONFORK and the like. */
WRAP(int, madvise, void *at, size_t len, int advice)
{
    return fails("madvise", EINVAL) ? -1 : __real_madvise(at, len, advice);
}

WRAP(int, memfd_create, const char *name, unsigned flags)
{
    return fails("memfd_create", EMFILE) ? -1 : __real_memfd_create(name, flags);
}

WRAP(int, fallocate, int fd, int mode, off_t offset, off_t length)
{
    return fails("fallocate", ENOSPC) ? -1 : __real_fallocate(fd, mode, offset, length);
}

WRAP(FILE *, fdopen, int fd, const char *mode)
{
    return fails("fdopen", ENOMEM) ? NULL : __real_fdopen(fd, mode);
}

WRAP(int, pipe2, int *ends, int flags)
{
    return fails("pipe2", EMFILE) ? -1 : __real_pipe2(ends, flags);
}

WRAP(ssize_t, getrandom, void *out, size_t len, unsigned flags)
{
    return fails("getrandom", ENOSYS) ? -1 : __real_getrandom(out, len, flags);
}

WRAP(int, pthread_create, pthread_t *out, const pthread_attr_t *attr, void *(*run)(void *),
     void *arg)
{
    return fails("pthread_create", EAGAIN) ? EAGAIN : __real_pthread_create(out, attr, run, arg);
}

WRAP(int, pthread_key_create, pthread_key_t *out, void (*destroy)(void *))
{
    return fails("pthread_key_create", EAGAIN) ? EAGAIN : __real_pthread_key_create(out, destroy);
}

WRAP(int, pthread_setspecific, pthread_key_t key, const void *value)
{
    return fails("pthread_setspecific", ENOMEM) ? ENOMEM : __real_pthread_setspecific(key, value);
}

WRAP(int, pthread_atfork, void (*before)(void), void (*in_parent)(void), void (*in_child)(void))
{
    return fails("pthread_atfork", ENOMEM) ? ENOMEM
                                           : __real_pthread_atfork(before, in_parent, in_child);
}

int __real_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...);

int __wrap_open(const char *path, int flags, ...)
{
    va_list args;
    mode_t mode = 0;

    va_start(args, flags);
    if (flags & O_CREAT)
        mode = va_arg(args, mode_t);
    va_end(args);
    return fails("open", EMFILE) ? -1 : __real_open(path, flags, mode);
}

long __real_syscall(long number, ...);
long __wrap_syscall(long number, ...);

/* The library uses at most three, but for these. */
static int arguments_of(long number)
{
    if (number == SYS_move_pages || number == SYS_futex)
        return 6;
    return number == SYS_openat2 ? 4 : 3;
}

long __wrap_syscall(long number, ...)
{
    va_list args;
    long arg[6] = {0};

    va_start(args, number);
    for (int i = 0; i < arguments_of(number); i++)
        arg[i] = va_arg(args, long);
    va_end(args);
    if (number == SYS_userfaultfd && fails("syscall(userfaultfd)", EMFILE))
        return -1;
    if (number == SYS_membarrier && fails("syscall(membarrier)", ENOSYS))
        return -1;
    if (number == SYS_move_pages && fails("syscall(move_pages)", EPERM))
        return -1;
    if (number == SYS_openat2 && fails("syscall(openat2)", EMFILE))
        return -1;
    return __real_syscall(number, arg[0], arg[1], arg[2], arg[3], arg[4], arg[5]);
}

int __real_ioctl(int fd, unsigned long request, ...);
int __wrap_ioctl(int fd, unsigned long request, ...);

int __wrap_ioctl(int fd, unsigned long request, ...)
{
    va_list args;
    void *arg;

    va_start(args, request);
    arg = va_arg(args, void *);
    va_end(args);
    return fails("ioctl", ENOMEM) ? -1 : __real_ioctl(fd, request, arg);
}

int __real_fcntl(int fd, int command, ...);
int __wrap_fcntl(int fd, int command, ...);

int __wrap_fcntl(int fd, int command, ...)
{
    va_list args;
    long arg;

    va_start(args, command);
    arg = va_arg(args, long);
    va_end(args);
    if (command == F_DUPFD_CLOEXEC && fails("fcntl(F_DUPFD_CLOEXEC)", EMFILE))
        return -1;
    if (command == F_ADD_SEALS && fails("fcntl(F_ADD_SEALS)", EPERM))
        return -1;
    return __real_fcntl(fd, command, arg);
}
