/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See counter.h. Before a change can be seen the kernel increments the page's `generation`, and
 * writes the changed part of a watched range to its ring. `read` counts the changes read from the
 * ring: their ranges are in the change queue, and the gates are marked. So a look-up is valid if it
 * finds `generation` and `read` equal, and then the gate live. A change that a thread can have seen
 * is in `generation`, and a change in `read` has marked the gate. gate_state() compares them
 * without a system call.
 *
 * Any thread that finds them different reads the ring (counter_monitor_sync()). The thread
 * hmreg-monitor, which sleeps in poll(2), does so for changes after which no get comes, and so
 * wakes the reaper.
 *
 * The thread exists while a range is watched, and until counter_monitor_rest(). A watch counts
 * itself under the lock, and then looks whether the thread runs; under the lock a rest sees no
 * watch, and says that the thread does not run.
 *
 * Slots are unwatched with the next watch, or UNWATCH_MOST at a time. Until then a change of the
 * range may be counted, which ends regions for which it was counted as well. A ring that was
 * overtaken is a change of all memory.
 *
 * Locks: sharing.h's (which libraries have opened it) is taken by open, close and fork, and by the
 * watch that starts the thread and the rest that ends it. `lock` guards the table of slots and the
 * reading of the ring; no system call is made under it, except by reaper_wake(). The thread does
 * not wait for it, nor for sharing.h's, under which it is joined.
 */
#include "core/monitor/counter/counter.h"

#include "core/base/error.h"
#include "core/base/process.h"
#include "core/base/thread.h"
#include "core/monitor/change/change_queue.h"
#include "core/monitor/counter/device.h"
#include "core/monitor/counter/slots.h"
#include "core/monitor/change/sharing.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define MOST_RANGES  32768u
#define UNWATCH_MOST 64
#define REST_NS      3000000 /* pause of the thread between two readings */

struct counter_monitor {
    struct counter_device device;
    uint64_t epoch; /* of the process that opened it */
    unsigned users; /* under sharing.h's lock */
    char *memory;   /* the thread's stack, and above it the stop page: see stop() */
    char *stop_page;
    size_t page;
    pthread_t thread;
    pid_t task;                      /* the thread's */
    struct hmreg_counter_range stop; /* the thread's watch of the stop page; end 0: none */
    bool running;                    /* a thread must be joined; under sharing.h's lock */
    bool begins;                     /* its begin was not awaited yet; under that lock */
    atomic_bool runs;                /* the thread serves watches; cleared under the lock */
    atomic_bool stopping, lost;
    sem_t begun;
    struct gate_counts counts;
    pthread_mutex_t lock;
    struct slots slots;
    uint32_t watches;            /* ranges that are watched, or about to be */
    uint32_t left[UNWATCH_MOST]; /* slots to be unwatched */
    uint32_t left_count;
};

/* The process's monitor; NULL: no library has opened it. */
static struct counter_monitor *shared;

/* ---- reading ----------------------------------------------------------------------------- */

/* Caller holds the lock. `read` grows only after its changes are pushed: an acquire of it finds the
 * gates marked. */
static void read_ring(struct counter_monitor *counter)
{
    uint64_t index = atomic_load(&counter->counts.read);

    while (index != __atomic_load_n(counter->device.made, __ATOMIC_ACQUIRE)) {
        index = counter_device_read(&counter->device, index);
        atomic_store(&counter->counts.read, index);
    }
}

const struct gate_counts *counter_monitor_counts(const struct counter_monitor *counter)
{
    return &counter->counts;
}

void counter_monitor_sync(struct counter_monitor *counter)
{
    if (gate_counts_are_read(&counter->counts))
        return;
    pthread_mutex_lock(&counter->lock);
    read_ring(counter);
    pthread_mutex_unlock(&counter->lock);
}

uint64_t counter_monitor_events(const struct counter_monitor *counter)
{
    return atomic_load(&counter->counts.read);
}

/* ---- the thread -------------------------------------------------------------------------- */

/* The kernel still counts changes of watched ranges in the page, but no more ranges can be
 * watched. */
static void lose(struct counter_monitor *counter)
{
    if (!atomic_exchange(&counter->lost, true))
        changes_push(&(struct change){0, UINT64_MAX, .source = CHANGE_KERNEL});
}

static bool is_usable(struct counter_monitor *counter)
{
    if (!owned_fd_is_open(&counter->device.file))
        lose(counter);
    return !atomic_load(&counter->lost);
}

static void sleep_between_reads(void)
{
    nanosleep(&(struct timespec){.tv_nsec = REST_NS}, NULL);
}

static bool try_to_read(struct counter_monitor *counter)
{
    if (gate_counts_are_read(&counter->counts))
        return true;
    if (pthread_mutex_trylock(&counter->lock))
        return false;
    read_ring(counter);
    pthread_mutex_unlock(&counter->lock);
    return true;
}

/* Watches the stop page anew if its slot was counted, as by a migration: a slot counts only once.
 * False: it cannot be watched. */
static bool watch_stop_page(struct counter_monitor *counter)
{
    struct hmreg_counter_range *stop = &counter->stop;

    if (stop->end &&
        __atomic_load_n(&counter->device.counts[stop->slot], __ATOMIC_ACQUIRE) == stop->seq)
        return true;
    if (stop->end)
        counter_device_update(&counter->device, &stop->slot, 1, NULL);
    *stop = (struct hmreg_counter_range){.start = (uintptr_t)counter->stop_page,
                                         .end = (uintptr_t)counter->stop_page + 1};
    if (!counter_device_update(&counter->device, NULL, 0, stop))
        return true;
    stop->end = 0;
    return false;
}

#define PATIENCE 1000 /* ms */

/* Waits for an unacknowledged count, at most PATIENCE: a stop before the stop page was watched is
 * not counted, and another file under the descriptor's number would not wake the thread. */
static bool await_count(struct counter_monitor *counter)
{
    struct pollfd poller = {.fd = counter->device.file.fd, .events = POLLIN};
    bool wakes = watch_stop_page(counter);

    if (atomic_load(&counter->stopping) || !is_usable(counter) ||
        poll(&poller, 1, wakes ? -1 : PATIENCE) < 0 || !is_usable(counter))
        return false;
    return counter_device_acknowledge(&counter->device);
}

static void await(sem_t *semaphore)
{
    while (sem_wait(semaphore) && errno == EINTR)
        ;
}

/* The program may close the descriptor and open another file under its number. poll(2) holds our
 * file until it returns. */
static void *listen_to_counts(void *arg)
{
    struct counter_monitor *counter = arg;

    thread_name("hmreg-monitor");
    counter->task = thread_task();
    if (!owned_fd_is_open(&counter->device.file))
        lose(counter);
    sem_post(&counter->begun);
    while (!atomic_load(&counter->stopping) && !atomic_load(&counter->lost)) {
        if (!await_count(counter))
            continue;
        do
            sleep_between_reads();
        while (!try_to_read(counter));
    }
    return NULL;
}

/* ---- opening and closing ----------------------------------------------------------------- */

static int map_own_memory(struct counter_monitor *counter)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    void *memory = mmap(NULL, THREAD_STACK_BYTES + page, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (memory == MAP_FAILED)
        return hmreg_fail_os(errno, "hmreg has no memory for the monitor");
    counter->memory = memory;
    counter->stop_page = counter->memory + THREAD_STACK_BYTES;
    counter->page = page;
    return 0;
}

/* Caller holds sharing.h's lock. */
static int start_thread(struct counter_monitor *counter)
{
    struct thread_stack stack = {counter->memory, THREAD_STACK_BYTES};
    bool starts = !counter->running;
    int rc;

    if (starts) {
        atomic_store(&counter->stopping, false);
        rc = thread_start(&counter->thread, &stack, listen_to_counts, counter,
                          "to monitor host memory");
        if (rc)
            return rc;
        counter->running = counter->begins = true;
    }
    rc = counter->begins ? thread_await_begin(&counter->begun, starts) : 0;
    if (rc)
        return rc;
    counter->begins = false;
    atomic_store(&counter->runs, true);
    return 0;
}

/* Discards the stop page. That is counted even if the program has closed the descriptor, and wakes
 * the thread. An eventfd would be one more descriptor that the program may close. Caller holds
 * sharing.h's lock. */
static void stop_thread(struct counter_monitor *counter)
{
    if (!counter->running)
        return;
    if (counter->begins)
        await(&counter->begun);
    counter->begins = false;
    atomic_store(&counter->stopping, true);
    thread_discard(counter->stop_page, counter->page);
    thread_join(counter->thread, &counter->task);
    counter->running = false;
}

static int start(struct counter_monitor **out)
{
    struct counter_monitor *counter = calloc(1, sizeof(*counter));
    int rc;

    if (!counter)
        return hmreg_fail(-ENOMEM, "hmreg has no memory for the monitor");
    counter->epoch = process_epoch_start();
    rc = counter->epoch ? counter_device_open(MOST_RANGES, &counter->device) : -ENOMEM;
    if (rc)
        goto free_counter;
    counter->counts.made = counter->device.made;
    rc = -ENOMEM;
    if (!slots_open(&counter->slots, counter->device.slots, counter->device.counts)) {
        hmreg_fail(-ENOMEM, "hmreg has no memory for the monitor");
        goto close_device;
    }
    rc = map_own_memory(counter);
    if (rc)
        goto close_slots;
    pthread_mutex_init(&counter->lock, NULL);
    sem_init(&counter->begun, 0, 0);
    *out = counter;
    return 0;

close_slots:
    slots_close(&counter->slots);
close_device:
    counter_device_close(&counter->device);
free_counter:
    free(counter);
    return rc;
}

static void stop(struct counter_monitor *counter)
{
    stop_thread(counter);
    munmap(counter->memory, THREAD_STACK_BYTES + counter->page);
    slots_close(&counter->slots);
    counter_device_close(&counter->device);
    sem_destroy(&counter->begun);
    pthread_mutex_destroy(&counter->lock);
    free(counter);
}

/* ---- fork -------------------------------------------------------------------------------- */

/* The device's page is not the child's, and other memory may be there. The stack stays mapped: in a
 * child made without fork handlers libc still lists the thread, by data that lies on the stack. */
static void forget_parents(void)
{
    owned_fd_close(&shared->device.file);
    munmap(shared->stop_page, shared->page);
    shared = NULL;
}

static void forget_in_child(void)
{
    if (shared)
        forget_parents();
}

/* ---- clients ----------------------------------------------------------------------------- */

/* In a child made without fork handlers (_Fork, clone) `shared` is still the parent's. */
int counter_monitor_open(struct counter_monitor **out)
{
    int rc = 0;

    if (!sharing_starts(forget_in_child))
        return hmreg_fail(-ENOMEM, "hmreg has no memory for the monitor's fork handlers");
    sharing_lock();
    if (shared && !process_is(shared->epoch))
        forget_parents();
    if (!shared)
        rc = start(&shared);
    if (!rc) {
        shared->users++;
        *out = shared;
    }
    sharing_unlock();
    return rc;
}

void counter_monitor_close(struct counter_monitor *counter)
{
    sharing_lock();
    if (!--counter->users) {
        shared = NULL;
        stop(counter);
    }
    sharing_unlock();
}

/* ---- watching ---------------------------------------------------------------------------- */

/* Caller holds the lock. */
static uint32_t take_left(struct counter_monitor *counter, uint32_t left[UNWATCH_MOST])
{
    uint32_t count = counter->left_count;

    memcpy(left, counter->left, count * sizeof(*left));
    counter->left_count = 0;
    return count;
}

static int fail_watch(int rc)
{
    if (rc == -ENOSPC)
        return hmreg_fail(rc, "/dev/hmreg permits no more watched ranges");
    if (rc == -EDQUOT)
        return hmreg_fail(-ENOSPC, "the user's processes watch as many ranges as /dev/hmreg "
                                   "permits per user (max_user_slots of hmreg_counter)");
    return hmreg_fail_os(-rc, "/dev/hmreg cannot watch the range");
}

/* Counts the watch before making it, so that no idle check ends the thread meanwhile. */
static void count_watch(struct counter_monitor *counter)
{
    pthread_mutex_lock(&counter->lock);
    counter->watches++;
    pthread_mutex_unlock(&counter->lock);
}

static void uncount_watch(struct counter_monitor *counter)
{
    pthread_mutex_lock(&counter->lock);
    counter->watches--;
    pthread_mutex_unlock(&counter->lock);
}

static int fail_closed(void)
{
    return hmreg_fail(-EBADF, "the program has closed the monitor's descriptor of /dev/hmreg");
}

int counter_monitor_have_thread(struct counter_monitor *counter)
{
    int rc;

    if (atomic_load(&counter->runs))
        return 0;
    if (!is_usable(counter))
        return fail_closed();
    rc = sharing_lock_to_start();
    if (rc)
        return rc;
    rc = start_thread(counter);
    sharing_unlock();
    return rc;
}

static int watch(struct counter_monitor *counter, struct hmreg_counter_range *range)
{
    uint32_t left[UNWATCH_MOST], count;
    int rc;

    if (!atomic_load(&counter->runs))
        return -ESRCH;
    pthread_mutex_lock(&counter->lock);
    count = take_left(counter, left);
    pthread_mutex_unlock(&counter->lock);
    rc = counter_device_update(&counter->device, left, count, range);
    if (rc)
        return fail_watch(rc);
    pthread_mutex_lock(&counter->lock);
    slots_enter(&counter->slots, range->slot, range->seq, range->start, range->end);
    pthread_mutex_unlock(&counter->lock);
    return 0;
}

int counter_monitor_watch(struct counter_monitor *counter, uint64_t start_addr, uint64_t end)
{
    struct hmreg_counter_range range = {.start = start_addr, .end = end};
    int rc;

    if (!is_usable(counter))
        return fail_closed();
    count_watch(counter);
    rc = watch(counter, &range);
    if (rc)
        uncount_watch(counter);
    return rc;
}

void counter_monitor_unwatch(struct counter_monitor *counter, uint64_t start_addr, uint64_t end)
{
    uint32_t left[UNWATCH_MOST], count = 0, slot;

    pthread_mutex_lock(&counter->lock);
    slot = slots_leave(&counter->slots, start_addr, end);
    if (slot != SLOTS_NONE) {
        counter->left[counter->left_count++] = slot;
        counter->watches--;
    }
    if (counter->left_count == UNWATCH_MOST)
        count = take_left(counter, left);
    pthread_mutex_unlock(&counter->lock);
    if (count && is_usable(counter))
        counter_device_update(&counter->device, left, count, NULL);
}

/* ---- resting ----------------------------------------------------------------------------- */

/* A thread that has not begun does not end itself: waiting for its begin is not allowed here. */
static bool may_rest(struct counter_monitor *counter)
{
    bool may;

    if (counter->begins && thread_has_begun(&counter->begun))
        counter->begins = false;
    pthread_mutex_lock(&counter->lock);
    may =
        counter->running && !counter->begins && (!counter->watches || atomic_load(&counter->lost));
    if (may)
        atomic_store(&counter->runs, false);
    pthread_mutex_unlock(&counter->lock);
    return may;
}

/* Unwatches the remaining slots, the stop page's too. */
static void leave_all(struct counter_monitor *counter)
{
    uint32_t left[UNWATCH_MOST], count;

    pthread_mutex_lock(&counter->lock);
    count = take_left(counter, left);
    pthread_mutex_unlock(&counter->lock);
    if (!is_usable(counter))
        return;
    if (count)
        counter_device_update(&counter->device, left, count, NULL);
    if (counter->stop.end)
        counter_device_update(&counter->device, &counter->stop.slot, 1, NULL);
    counter->stop.end = 0;
}

void counter_monitor_rest(struct counter_monitor *counter)
{
    sharing_lock();
    if (may_rest(counter)) {
        stop_thread(counter);
        leave_all(counter);
    }
    sharing_unlock();
}
