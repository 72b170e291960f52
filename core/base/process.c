/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See process.h. Where a filter of system calls refuses MADV_WIPEONFORK (hmreg-syscalls(7)), a fork
 * handler wipes the pages instead; a raw clone(2) bypasses the handler, but not MADV_WIPEONFORK.
 */
#include "core/base/process.h"

#include "core/base/error.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* ---- once -------------------------------------------------------------------------------- */

#define DONE (-1)

/* *who: 0: no thread runs make(); DONE; or the pid of the process in which a thread runs it. A
 * child sees its parent's pid and so does not wait for a thread that it does not have. */
bool process_once(atomic_int *who, bool (*make)(void))
{
    int at = atomic_load(who), process = at == DONE ? 0 : (int)getpid();
    bool done;

    while (at != DONE && (at == process || !atomic_compare_exchange_weak(who, &at, process))) {
        sched_yield();
        at = atomic_load(who);
    }
    if (at == DONE)
        return true;
    done = make();
    atomic_store(who, done ? DONE : 0);
    return done;
}

void process_once_done(atomic_int *who)
{
    atomic_store(who, DONE);
}

/* ---- pages ------------------------------------------------------------------------------ */

/* The pages that the fork handler wipes, because the kernel does not. A page's last bytes are the
 * link to the next. */
static struct {
    pthread_mutex_t lock;
    atomic_int handled;
    _Atomic(void *) first;
} unwiped = {.lock = PTHREAD_MUTEX_INITIALIZER};

static size_t page_size(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

static void **link_of(void *page)
{
    return (void **)((char *)page + page_size() - sizeof(void *));
}

static void before_fork(void)
{
    pthread_mutex_lock(&unwiped.lock);
}

static void in_parent(void)
{
    pthread_mutex_unlock(&unwiped.lock);
}

static void in_child(void)
{
    for (void *page = atomic_load(&unwiped.first); page; page = *link_of(page))
        memset(page, 0, page_size() - sizeof(void *));
    process_once_done(&unwiped.handled);
    pthread_mutex_unlock(&unwiped.lock);
}

static bool handle_forks(void)
{
    return pthread_atfork(before_fork, in_parent, in_child) == 0;
}

static bool wipe_ourselves(void *page)
{
    if (!process_once(&unwiped.handled, handle_forks))
        return false;
    pthread_mutex_lock(&unwiped.lock);
    *link_of(page) = atomic_load(&unwiped.first);
    atomic_store(&unwiped.first, page);
    pthread_mutex_unlock(&unwiped.lock);
    return true;
}

static void *map_bytes(size_t size)
{
    void *made = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    return made == MAP_FAILED ? NULL : made;
}

static void *map_wiped(size_t size)
{
    void *made = map_bytes(size);
    int error;

    if (!made || !madvise(made, size, MADV_WIPEONFORK))
        return made;
    error = errno;
    munmap(made, size);
    errno = error;
    return NULL;
}

/* The first requests are served from one mapping: since the attribute MADV_WIPEONFORK keeps the
 * kernel from merging a page with its neighbours, each would be a mapping of its own. Pages of it
 * take no memory until they are used. */
#define TOGETHER_PAGES 16
#define TOGETHER_LARGE ((size_t)384 << 10) /* for memhooks' tables */

static struct {
    _Atomic(char *) base;
    atomic_size_t taken;
} together;

static size_t together_size(void)
{
    return TOGETHER_PAGES * page_size() + TOGETHER_LARGE;
}

/* The shared mapping. NULL: no memory, or the kernel does not wipe. */
static char *together_base(void)
{
    char *made = atomic_load(&together.base), *other = NULL;

    if (made)
        return made;
    made = map_wiped(together_size());
    if (!made || atomic_compare_exchange_strong(&together.base, &other, made))
        return made;
    munmap(made, together_size());
    return other;
}

/* Takes whole pages of the shared mapping. NULL: too few are left. */
static void *take_together(size_t size)
{
    char *base = together_base();
    size_t at = base ? atomic_load(&together.taken) : together_size();

    do
        if (together_size() - at < size)
            return NULL;
    while (!atomic_compare_exchange_weak(&together.taken, &at, at + size));
    return base + at;
}

void *process_wiped(size_t size)
{
    void *taken;

    size = (size + page_size() - 1) & ~(page_size() - 1);
    taken = take_together(size);
    return taken ? taken : map_wiped(size);
}

void process_wipe_again(void)
{
    char *base = atomic_load(&together.base);

    if (base)
        (void)madvise(base, together_size(), MADV_WIPEONFORK);
}

static void *unwiped_page(void)
{
    void *page = map_bytes(page_size());

    if (!page || wipe_ourselves(page))
        return page;
    munmap(page, page_size());
    return NULL;
}

void *process_page(void)
{
    void *page = process_wiped(page_size());

    return page ? page : unwiped_page();
}

static void forget_unwiped(void *page)
{
    void *at = atomic_load(&unwiped.first);

    if (at == page) {
        atomic_store(&unwiped.first, *link_of(page));
        return;
    }
    while (at && *link_of(at) != page)
        at = *link_of(at);
    if (at)
        *link_of(at) = *link_of(page);
}

static bool is_together(const void *page)
{
    uintptr_t base = (uintptr_t)atomic_load(&together.base);

    return base && (uintptr_t)page - base < together_size();
}

/* A page of the shared mapping is not reused. Only a thread that lost the race to publish a page
 * frees one, which happens once for each. */
void process_page_free(void *page)
{
    if (is_together(page))
        return;
    /* If the kernel wipes, the list is empty, and a child does not take the lock, which may be
     * held. */
    if (atomic_load(&unwiped.first)) {
        pthread_mutex_lock(&unwiped.lock);
        forget_unwiped(page);
        pthread_mutex_unlock(&unwiped.lock);
    }
    munmap(page, page_size());
}

void *process_page_at(_Atomic(void *) *at)
{
    void *made = atomic_load(at), *other = NULL;

    if (made)
        return made;
    made = process_page();
    if (made && !atomic_compare_exchange_strong(at, &other, made)) {
        process_page_free(made);
        made = other;
    }
    return made;
}

/* ---- holds ------------------------------------------------------------------------------ */

/* A hold's word: 0: free; else bits of the holders' epoch, their number, and whether a thread of
 * their process forks, which keeps others out. */
#define FORKS      ((uint64_t)1)
#define HOLDER     ((uint64_t)2)
#define EPOCH_BITS 40
#define EPOCH_MASK (~(uint64_t)0 << (64 - EPOCH_BITS))

#define HOLD_YIELDS                                                                                \
    64                    /* yields before a waiting thread sleeps: the holder may have a lower    \
                           * priority */
#define FORK_PAUSES 50000 /* of a tenth of a millisecond: a fork's wait for a shared hold */

/* Registered before other handlers, and so called last before a fork: a thread that waits for a
 * hold may have a lock that other handlers wait for. */
static struct {
    atomic_int handled;
    _Atomic(struct process_hold *) first;
    uint64_t forking; /* the epoch bits of the process that forks */
} holds;

static _Thread_local unsigned shares __attribute__((tls_model("initial-exec")));

static uint64_t epoch_bits(uint64_t epoch)
{
    return epoch << (64 - EPOCH_BITS);
}

static uint64_t holders_in(uint64_t word)
{
    return (word & ~EPOCH_MASK) / HOLDER;
}

/* 0: no epoch was started, so no thread of this process has a hold. */
static uint64_t own_epoch(void)
{
    return atomic_load(atomic_load(&process_epoch_page));
}

static void pause_in_wait(unsigned tries)
{
    const struct timespec pause = {.tv_nsec = 50000};

    if (tries < HOLD_YIELDS)
        sched_yield();
    else
        nanosleep(&pause, NULL);
}

static bool is_others(uint64_t word, uint64_t bits)
{
    return word && (word & EPOCH_MASK) != bits;
}

/* A thread that shares the hold is not kept out: a fork waits for it. */
static bool is_open(const struct process_hold *hold, uint64_t word)
{
    return hold->shared ? !(word & FORKS) || shares : !word;
}

static bool take_hold(struct process_hold *hold, uint64_t bits)
{
    uint64_t found = atomic_load(&hold->holders);

    for (unsigned tries = 0; !is_others(found, bits);) {
        if (!is_open(hold, found)) {
            pause_in_wait(tries++);
            found = atomic_load(&hold->holders);
        } else if (atomic_compare_exchange_weak(&hold->holders, &found, (found | bits) + HOLDER)) {
            shares += hold->shared;
            return true;
        }
    }
    return false;
}

/* What is left when no thread holds it is 0, since the epoch may be another's next. */
static void take_off(struct process_hold *hold, uint64_t bits, uint64_t what)
{
    uint64_t found = atomic_load(&hold->holders), left;

    do {
        if (is_others(found, bits))
            return;
        left = found - what;
    } while (!atomic_compare_exchange_weak(&hold->holders, &found, left & ~EPOCH_MASK ? left : 0));
}

/* False: a thread of a parent held it at the fork. */
static bool keep_others_out(struct process_hold *hold, uint64_t bits)
{
    uint64_t found = atomic_load(&hold->holders);

    for (unsigned tries = 0; !is_others(found, bits);) {
        if (found & FORKS) { /* another thread forks too */
            pause_in_wait(tries++);
            found = atomic_load(&hold->holders);
        } else if (atomic_compare_exchange_weak(&hold->holders, &found, found | bits | FORKS)) {
            return true;
        }
    }
    return false;
}

static void await_holders(struct process_hold *hold)
{
    unsigned own = hold->shared ? shares : 0;

    for (unsigned tries = 0; holders_in(atomic_load(&hold->holders)) > own; tries++) {
        if (hold->shared && tries == FORK_PAUSES)
            return;
        pause_in_wait(tries);
    }
}

static void hold_all(void)
{
    uint64_t epoch = own_epoch();

    holds.forking = epoch_bits(epoch);
    for (struct process_hold *at = epoch ? atomic_load(&holds.first) : NULL; at; at = at->next)
        if (keep_others_out(at, holds.forking))
            await_holders(at);
}

static void release_all(void)
{
    for (struct process_hold *at = atomic_load(&holds.first); at; at = at->next)
        if (atomic_load(&at->holders) & FORKS)
            take_off(at, holds.forking, FORKS);
}

static void release_all_in_child(void)
{
    _Atomic uint64_t *page = atomic_load(&process_epoch_page);

    process_once_done(&holds.handled);
    if (page != &process_no_epoch)
        atomic_store(&page[EPOCH_IS_NOT_BARE], 1);
    release_all();
}

static bool hold_at_forks(void)
{
    return pthread_atfork(hold_all, release_all, release_all_in_child) == 0;
}

static void list_hold(struct process_hold *hold)
{
    if (atomic_exchange(&hold->listed, true))
        return;
    hold->next = atomic_load(&holds.first);
    while (!atomic_compare_exchange_weak(&holds.first, &hold->next, hold))
        continue;
}

bool process_hold_take(struct process_hold *hold)
{
    uint64_t epoch = own_epoch();

    if (!epoch)
        epoch = process_epoch_start();
    if (!atomic_load(&hold->listed))
        list_hold(hold);
    return epoch && take_hold(hold, epoch_bits(epoch));
}

/* Not in a child that was forked by a signal handler meanwhile: there it stays the parent's. */
void process_hold_release(struct process_hold *hold)
{
    shares -= hold->shared;
    take_off(hold, epoch_bits(own_epoch()), HOLDER);
}

/* ---- the epoch -------------------------------------------------------------------------- */

/* Allocates the page of the epoch. A child inherits the page, but not its content. NULL: no
 * memory. */
static _Atomic uint64_t *make_page(void)
{
    _Atomic uint64_t *made = process_page();
    _Atomic uint64_t *other = &process_no_epoch;

    if (made)
        atomic_store(&made[EPOCH_IS_NOT_BARE], 1);
    if (made && !atomic_compare_exchange_strong(&process_epoch_page, &other, made)) {
        process_page_free((void *)made);
        return other;
    }
    return made;
}

static uint64_t new_epoch(void)
{
    uint32_t chance = 0;
    struct timespec now;

    /* Not libc's getrandom(), which maps pages since glibc 2.41. */
    if (syscall(SYS_getrandom, &chance, sizeof(chance), GRND_NONBLOCK) != sizeof(chance)) {
        clock_gettime(CLOCK_REALTIME, &now);
        chance = (uint32_t)now.tv_nsec ^ (uint32_t)now.tv_sec;
    }
    return (uint64_t)getpid() << 32 | chance;
}

uint64_t process_epoch_start(void)
{
    _Atomic uint64_t *page = atomic_load(&process_epoch_page);
    uint64_t epoch = 0, fresh;

    if (page == &process_no_epoch)
        page = make_page();
    if (!page) {
        hmreg_fail(-ENOMEM, "hmreg has no memory for the process's epoch");
        return 0;
    }
    /* Failure is harmless: without a handler a child may find a hold taken, and process_hold_take()
     * detects that. */
    (void)process_once(&holds.handled, hold_at_forks);
    fresh = new_epoch();
    /* If two threads start it, the first compare-and-swap decides. */
    return atomic_compare_exchange_strong(page, &epoch, fresh) ? fresh : epoch;
}
