/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See memhooks.h. Stubs (hook_stubs.h) call on_call() for system calls that may touch a watched
 * range.
 *
 * A change is pushed before the kernel makes it: once the pages are gone, another thread may
 * immediately get new memory at the same address. A get that races with the change itself may
 * register the old pages; that is a mistake of its caller, as it would be without a cache.
 *
 * open_lock (who is open) is taken by open, close, watch and fork, never by a hook: glibc's fork
 * takes malloc's locks after the fork handlers have run, and a hook may run inside malloc.
 */
#include "core/monitor/memhooks/memhooks.h"

#include "core/base/error.h"
#include "core/base/process.h"
#include "core/monitor/change_queue.h"
#include "core/monitor/memhooks/hook_arch.h"
#include "core/monitor/memhooks/hook_stubs.h"

#include <errno.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#ifndef MADV_DONTNEED_LOCKED
#define MADV_DONTNEED_LOCKED 24
#endif
#ifndef MADV_GUARD_INSTALL
#define MADV_GUARD_INSTALL 102
#endif
#ifndef MREMAP_DONTUNMAP
#define MREMAP_DONTUNMAP 4
#endif
#ifndef SYS_process_madvise
#define SYS_process_madvise 440
#endif

static pthread_mutex_t open_lock = PTHREAD_MUTEX_INITIALIZER;

static struct {
    _Atomic uint64_t epoch; /* of the process that installed the hooks; 0: none */
    atomic_uint starts;     /* orders start()'s writes before the reads of hooks */
    struct hook_state *state;
    uint64_t page_size;
    unsigned users; /* under open_lock */
    _Atomic uint64_t calls;
} hooks;

/* ---- pushing ---------------------------------------------------------------------------- */

static bool is_watched(uint64_t start, uint64_t end)
{
    uint64_t last = (end - 1) >> HOOK_GRANULE_SHIFT;
    uint64_t at = start >> HOOK_GRANULE_SHIFT;

    if (last - at >= HOOK_GRANULES)
        return atomic_load(&hooks.state->watched);
    while (at <= last)
        if (atomic_load(&hooks.state->granules[at++ % HOOK_GRANULES]))
            return true;
    return false;
}

/* Pushes a change of [start, start + len), which is about to happen: up to the end of its last
 * page, or to the top of the address space if it wraps. */
static void push(uint64_t start, uint64_t len)
{
    uint64_t mask = hooks.page_size - 1;
    struct change change = {.start = hook_arch_untagged(start), .source = CHANGE_HOOKS};

    change.end =
        len > UINT64_MAX - mask - change.start ? UINT64_MAX : (change.start + len + mask) & ~mask;
    if (!len || !is_watched(change.start, change.end))
        return;
    atomic_fetch_add(&hooks.calls, 1);
    changes_push(&change);
}

/* ---- calls ------------------------------------------------------------------------------ */

static bool throws_away(uint64_t advice)
{
    return advice == MADV_DONTNEED || advice == MADV_FREE || advice == MADV_REMOVE ||
           advice == MADV_DONTNEED_LOCKED || advice == MADV_GUARD_INSTALL;
}

/* Memory that shrinks in place loses its tail; memory that grows may move. */
static void on_mremap(const uint64_t *args)
{
    uint64_t mask = hooks.page_size - 1;
    uint64_t before = args[1], after = (args[2] + mask) & ~mask, flags = args[3];

    if (flags & (MREMAP_FIXED | MREMAP_DONTUNMAP) || (flags & MREMAP_MAYMOVE && after > before))
        push(args[0], before);
    else if (after < before)
        push(args[0] + after, before - after);
    if (flags & MREMAP_FIXED)
        push(args[4], args[2]);
}

/* Asks the kernel for the heap's end: it may have been moved past libc. */
static void on_brk(uint64_t end)
{
    uint64_t now = end ? (uint64_t)syscall(SYS_brk, 0) : 0;

    if (end < now)
        push(end, now - end);
}

static void on_shmat(const uint64_t *args)
{
    struct shmid_ds segment;

    if (args[2] & SHM_REMAP && shmctl((int)args[0], IPC_STAT, &segment) == 0)
        push(args[1] - (args[2] & SHM_RND ? args[1] % (uint64_t)SHMLBA : 0), segment.shm_segsz);
}

/* Reads the ranges as the kernel will; it will refuse any that cannot be read. Where a policy
 * (seccomp) forbids process_vm_readv(2), all memory counts as changed. */
static void on_process_madvise(const uint64_t *args)
{
    for (uint64_t i = 0; throws_away(args[3]) && i < args[2]; i++) {
        struct iovec range, local = {&range, sizeof(range)};
        struct iovec remote = {(struct iovec *)(uintptr_t)args[1] + i, sizeof(range)};

        if (process_vm_readv(getpid(), &local, 1, &remote, 1, 0) != (ssize_t)sizeof(range)) {
            if (errno != EFAULT)
                push(0, UINT64_MAX);
            return;
        }
        push((uintptr_t)range.iov_base, range.iov_len);
    }
}

static void on_known_call(const struct hook_call *call)
{
    const uint64_t *args = call->args;

    switch (call->number) {
    case SYS_munmap:
        push(args[0], args[1]);
        break;
    case SYS_mmap:
        if (args[3] & MAP_FIXED)
            push(args[0], args[1]);
        break;
    case SYS_mremap:
        on_mremap(args);
        break;
    case SYS_madvise:
        if (throws_away(args[2]))
            push(args[0], args[1]);
        break;
    case SYS_brk:
        on_brk(args[0]);
        break;
    case SYS_shmat:
        on_shmat(args);
        break;
    case SYS_shmdt: /* the segment's size is not an argument */
        push(args[0], UINT64_MAX - args[0]);
        break;
    case SYS_process_madvise:
        on_process_madvise(args);
        break;
    }
}

static void on_call(const struct hook_call *call)
{
    int before = errno;

    (void)atomic_load(&hooks.starts);
    on_known_call(call);
    errno = before;
}

/* ---- open and close --------------------------------------------------------------------- */

static void before_fork(void)
{
    pthread_mutex_lock(&open_lock);
}

static void in_parent(void)
{
    pthread_mutex_unlock(&open_lock);
}

static atomic_int forks_handled;

static void in_child(void)
{
    process_once_done(&forks_handled);
    pthread_mutex_unlock(&open_lock);
}

static bool handle_forks(void)
{
    return pthread_atfork(before_fork, in_parent, in_child) == 0;
}

/* Installs the hooks; this process has none yet. */
static int start(const struct hook_sites *sites, uint64_t epoch)
{
    int rc;

    hooks.state = hook_state_get();
    if (!hooks.state)
        return hmreg_last_error()->code;
    hooks.page_size = (uint64_t)sysconf(_SC_PAGESIZE);
    hooks.users = 0;
    atomic_store(&hooks.calls, 0);
    atomic_fetch_add(&hooks.starts, 1);
    atomic_store(&hooks.state->hook, on_call);
    rc = hook_stubs_install(sites, hooks.state);
    if (!rc)
        atomic_store(&hooks.epoch, epoch);
    return rc;
}

int memhooks_open(void)
{
    uint64_t epoch = process_epoch_start();
    struct hook_sites sites;
    int rc;

    if (!epoch || !process_once(&forks_handled, handle_forks))
        return hmreg_fail(-ENOMEM, "no memory for memhooks");
    /* Without the lock: it calls the dynamic linker, whose locks a forking thread may hold. */
    rc = hook_sites_find(&sites);
    if (rc)
        return rc;
    pthread_mutex_lock(&open_lock);
    rc = atomic_load(&hooks.epoch) == epoch ? 0 : start(&sites, epoch);
    hooks.users += !rc;
    pthread_mutex_unlock(&open_lock);
    return rc;
}

void memhooks_close(void)
{
    pthread_mutex_lock(&open_lock);
    if (!--hooks.users) {
        hook_stubs_remove(hooks.state);
        atomic_store(&hooks.epoch, 0);
    }
    pthread_mutex_unlock(&open_lock);
}

/* ---- watching --------------------------------------------------------------------------- */

/* Adds to the count of each granule that the range touches; to all granules if it touches more. */
static void count(uint64_t start, uint64_t end, uint32_t more)
{
    uint64_t at = start >> HOOK_GRANULE_SHIFT;
    uint64_t last = (end - 1) >> HOOK_GRANULE_SHIFT;

    if (last - at >= HOOK_GRANULES)
        last = at + HOOK_GRANULES - 1;
    for (; at <= last; at++)
        atomic_fetch_add(&hooks.state->granules[at % HOOK_GRANULES], more);
    atomic_fetch_add(&hooks.state->watched, more);
}

static bool are_whole(void)
{
    bool whole;

    if (hook_stubs_look_whole())
        return true;
    pthread_mutex_lock(&open_lock);
    whole = hook_stubs_are_whole();
    pthread_mutex_unlock(&open_lock);
    return whole;
}

/* Other hooks have replaced ours: hooks the sites by which they enter the kernel, too. Calls may
 * have gone unnoticed meanwhile, so all memory counts as changed. */
static bool hook_again(void)
{
    struct hook_sites sites;
    struct hmreg_error before;
    int rc;

    hmreg_error_save(&before);
    rc = hook_sites_find(&sites);
    pthread_mutex_lock(&open_lock);
    rc = rc ? rc : hook_stubs_install(&sites, hooks.state);
    pthread_mutex_unlock(&open_lock);
    if (rc)
        hmreg_error_restore(&before);
    atomic_fetch_add(&hooks.state->begun, 1); /* as one call that may have changed any mapping */
    push(0, UINT64_MAX);
    atomic_fetch_add(&hooks.state->ended, 1);
    return !rc;
}

bool memhooks_watch(uint64_t start, uint64_t end)
{
    if (!are_whole() && !hook_again())
        return false;
    count(start, end, 1);
    return true;
}

void memhooks_unwatch(uint64_t start, uint64_t end)
{
    count(start, end, UINT32_MAX);
}

uint64_t memhooks_calls(void)
{
    return atomic_load(&hooks.calls);
}

/* ---- counted calls ---------------------------------------------------------------------- */

/* `ended` is read first. It never exceeds `begun`, so if the two are equal, no call was under way
 * when `ended` was read, and none began until `begun` was read. */
bool memhooks_is_quiet(uint64_t *when)
{
    uint64_t ended = atomic_load(&hooks.state->ended);

    *when = atomic_load(&hooks.state->begun);
    return HOOK_COUNTS_CALLS && *when == ended;
}

bool memhooks_none_since(uint64_t when)
{
    return atomic_load(&hooks.state->begun) == when;
}
