/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See counter.h. The kernel increments the page's `generation` before a change can be seen, and
 * writes to its ring which part of a watched range it concerns. `read` is how much of the ring has
 * been read: its ranges are in the change queue, and the gates are marked. So a look-up is valid if
 * it finds the two equal, and after that the gate live: a change that a thread can have seen is in
 * `generation`, and a change that is in `read` has marked the gate. gate_state() looks so, without
 * a system call.
 *
 * Any thread that finds the two different reads the ring (counter_monitor_sync()). The thread
 * hmreg-monitor, which sleeps in poll(2), does so for changes after which no get comes, and so
 * wakes the reaper.
 *
 * The thread exists while a range is watched, and until counter_monitor_rest(). A watch counts
 * itself under the lock, and then looks whether the thread runs; under the lock a rest sees no
 * watch, and says that the thread does not run. While it does not, the gates look at a count that
 * equals `read`: no thread keeps the file, without which a device's page may go (kdreg2.h).
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
#include "core/monitor/change_queue.h"
#include "core/monitor/counter/device.h"
#include "core/monitor/counter/kdreg2.h"
#include "core/monitor/counter/slots.h"
#include "core/monitor/sharing.h"

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
#define REST_NS      3000000 /* of the thread, between two readings */

struct counter_monitor {
    struct counter_device device;
    uint64_t epoch; /* of the process that opened it */
    unsigned users; /* under sharing.h's lock */
    char *memory;   /* the thread's stack, and above it the stop page: see stop() */
    char *stop_page;
    size_t page;
    pthread_t thread;
    pid_t task;                      /* its */
    struct hmreg_counter_range stop; /* the thread's watch of the stop page; end 0: none */
    bool running;                    /* there is a thread to be joined; under sharing.h's lock */
    bool begins;                     /* no thread has waited for its beginning; under that lock */
    atomic_bool runs;                /* and it stays; cleared under the lock */
    atomic_bool stopping, lost;
    /* The thread keeps the file, without which a device's page may go; gets read it until the end.
     */
    sem_t begun, ending;
    struct gate_counts counts;
    uint64_t resting; /* what the gates compare while no thread runs */
    pthread_mutex_t lock;
    struct slots slots;
    uint32_t watches;            /* ranges that are watched, or about to be */
    uint32_t left[UNWATCH_MOST]; /* slots to be unwatched */
    uint32_t left_count;
};

/* The process's, by source; NULL: no library has opened it. */
static struct counter_monitor *shared[COUNTER_SOURCES];

/* ---- reading ----------------------------------------------------------------------------- */

/* With the lock held. `read` grows only when what it stands for is pushed: an acquire of it finds
 * the gates marked. */
static void read_ring(struct counter_monitor *counter)
{
    uint64_t index = atomic_load(&counter->counts.read);

    while (index != __atomic_load_n(counter->device.made, __ATOMIC_ACQUIRE)) {
        index = counter->device.ops->read(&counter->device, index);
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

/* What is watched is still counted, in the page, but nothing more can be watched. */
static void lose(struct counter_monitor *counter)
{
    if (!atomic_exchange(&counter->lost, true))
        changes_push(&(struct change){0, UINT64_MAX, .source = CHANGE_KERNEL});
}

static int update(const struct counter_monitor *counter, const uint32_t *unwatch, uint32_t count,
                  struct hmreg_counter_range *watch)
{
    return counter->device.ops->update(&counter->device, unwatch, count, watch);
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

/* The page may have been migrated, say: a slot is counted once. False: it cannot be watched. */
static bool watch_stop_page(struct counter_monitor *counter)
{
    struct hmreg_counter_range *stop = &counter->stop;

    if (stop->end &&
        __atomic_load_n(&counter->device.counts[stop->slot], __ATOMIC_ACQUIRE) == stop->seq)
        return true;
    if (stop->end)
        update(counter, &stop->slot, 1, NULL);
    *stop = (struct hmreg_counter_range){.start = (uintptr_t)counter->stop_page,
                                         .end = (uintptr_t)counter->stop_page + 1};
    if (!update(counter, NULL, 0, stop))
        return true;
    stop->end = 0;
    return false;
}

#define PATIENCE 1000 /* ms */

/* Waits for a count that it has not acknowledged. A stop before the stop page was watched is not
 * counted, and another file that has taken the descriptor's number would not wake the thread.
 * Where reading acknowledges, another thread may read the count of the stop page before this one
 * wakes. */
static bool await_count(struct counter_monitor *counter)
{
    struct pollfd poller = {.fd = counter->device.file.fd, .events = POLLIN};
    bool (*acknowledge)(const struct counter_device *) = counter->device.ops->acknowledge;
    bool wakes = watch_stop_page(counter) && acknowledge;

    if (atomic_load(&counter->stopping) || !is_usable(counter) ||
        poll(&poller, 1, wakes ? -1 : PATIENCE) < 0 || !is_usable(counter))
        return false;
    return !acknowledge || acknowledge(&counter->device);
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
    bool (*keep)(const struct counter_device *) = counter->device.ops->keep;
    bool kept = !keep || keep(&counter->device);

    thread_name("hmreg-monitor");
    counter->task = thread_task();
    if (!kept || !owned_fd_is_open(&counter->device.file))
        lose(counter);
    sem_post(&counter->begun);
    while (!atomic_load(&counter->stopping) && !atomic_load(&counter->lost)) {
        if (!await_count(counter))
            continue;
        do
            sleep_between_reads();
        while (!try_to_read(counter));
    }
    await(&counter->ending);
    if (keep && kept)
        close(counter->device.file.fd); /* the thread's own */
    return NULL;
}

/* ---- life -------------------------------------------------------------------------------- */

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

/* Gates compare the device's count from now on: the thread keeps the file. */
static void begin_counting(struct counter_monitor *counter)
{
    if (!atomic_load(&counter->lost))
        atomic_store(&counter->counts.made, counter->device.made);
}

/* Nothing is watched, or can be. What was counted is read first, while the file is kept. */
static void end_counting(struct counter_monitor *counter)
{
    pthread_mutex_lock(&counter->lock);
    if (!atomic_load(&counter->lost))
        read_ring(counter);
    __atomic_store_n(&counter->resting, atomic_load(&counter->counts.read), __ATOMIC_RELEASE);
    atomic_store(&counter->counts.made, &counter->resting);
    pthread_mutex_unlock(&counter->lock);
}

/* With sharing.h's lock held. */
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
    begin_counting(counter);
    atomic_store(&counter->runs, true);
    return 0;
}

/* The stop page's end is counted, also if the program has closed the descriptor, and wakes the
 * thread: an eventfd would be one more descriptor that the program may close. With sharing.h's lock
 * held. */
static void stop_thread(struct counter_monitor *counter)
{
    if (!counter->running)
        return;
    if (counter->begins)
        await(&counter->begun);
    counter->begins = false;
    atomic_store(&counter->stopping, true);
    thread_discard(counter->stop_page, counter->page);
    end_counting(counter);
    sem_post(&counter->ending);
    thread_join(counter->thread, &counter->task);
    counter->running = false;
}

static int start(enum counter_source source, struct counter_monitor **out)
{
    int (*const opens[])(uint32_t, struct counter_device *) = {counter_device_open, kdreg2_open};
    struct counter_monitor *counter = calloc(1, sizeof(*counter));
    int rc;

    if (!counter)
        return hmreg_fail(-ENOMEM, "hmreg has no memory for the monitor");
    counter->epoch = process_epoch_start();
    rc = counter->epoch ? opens[source](MOST_RANGES, &counter->device) : -ENOMEM;
    if (rc)
        goto free_counter;
    atomic_init(&counter->counts.made, &counter->resting);
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
    sem_init(&counter->ending, 0, 0);
    *out = counter;
    return 0;

close_slots:
    slots_close(&counter->slots);
close_device:
    counter->device.ops->close(&counter->device);
free_counter:
    free(counter);
    return rc;
}

static void stop(struct counter_monitor *counter)
{
    stop_thread(counter);
    munmap(counter->memory, THREAD_STACK_BYTES + counter->page);
    slots_close(&counter->slots);
    counter->device.ops->close(&counter->device);
    sem_destroy(&counter->begun);
    sem_destroy(&counter->ending);
    pthread_mutex_destroy(&counter->lock);
    free(counter);
}

/* ---- fork -------------------------------------------------------------------------------- */

/* The device's page is not the child's, and other memory may be there. The stack stays mapped: in a
 * child made without fork handlers libc still lists the thread, by data that lies on the stack. */
static void forget_parents(enum counter_source source)
{
    owned_fd_close(&shared[source]->device.file);
    munmap(shared[source]->stop_page, shared[source]->page);
    shared[source] = NULL;
}

static void forget_all_parents(void)
{
    for (enum counter_source source = 0; source < COUNTER_SOURCES; source++)
        if (shared[source])
            forget_parents(source);
}

/* ---- clients ----------------------------------------------------------------------------- */

/* In a child made without fork handlers (_Fork, clone) `shared` is still the parent's. */
int counter_monitor_open(enum counter_source source, struct counter_monitor **out)
{
    int rc = 0;

    if (!sharing_starts(forget_all_parents))
        return hmreg_fail(-ENOMEM, "hmreg has no memory for the monitor's fork handlers");
    sharing_lock();
    if (shared[source] && !process_is(shared[source]->epoch))
        forget_parents(source);
    if (!shared[source])
        rc = start(source, &shared[source]);
    if (!rc) {
        shared[source]->users++;
        *out = shared[source];
    }
    sharing_unlock();
    return rc;
}

void counter_monitor_close(struct counter_monitor *counter)
{
    sharing_lock();
    if (!--counter->users) {
        shared[shared[COUNTER_KDREG2] == counter ? COUNTER_KDREG2 : COUNTER_HMREG] = NULL;
        stop(counter);
    }
    sharing_unlock();
}

/* ---- watching ---------------------------------------------------------------------------- */

/* With the lock held. */
static uint32_t take_left(struct counter_monitor *counter, uint32_t left[UNWATCH_MOST])
{
    uint32_t count = counter->left_count;

    memcpy(left, counter->left, count * sizeof(*left));
    counter->left_count = 0;
    return count;
}

static int fail_watch(const char *path, int rc)
{
    if (rc == -ENOSPC)
        return hmreg_fail(rc, "as many ranges are watched as %s permits", path);
    if (rc == -EDQUOT)
        return hmreg_fail(-ENOSPC,
                          "the user's processes watch as many ranges as %s permits one user "
                          "(max_user_slots of hmreg_counter)",
                          path);
    return hmreg_fail_os(-rc, "%s cannot watch the range", path);
}

/* A watch is counted before it is made, so that no rest ends the thread meanwhile. */
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

static int fail_closed(const struct counter_monitor *counter)
{
    return hmreg_fail(-EBADF, "the program has closed the monitor's descriptor of %s",
                      counter->device.ops->path);
}

int counter_monitor_have_thread(struct counter_monitor *counter)
{
    int rc;

    if (atomic_load(&counter->runs))
        return 0;
    if (!is_usable(counter))
        return fail_closed(counter);
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
    rc = update(counter, left, count, range);
    if (rc)
        return fail_watch(counter->device.ops->path, rc);
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
        return fail_closed(counter);
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
        update(counter, left, count, NULL);
}

/* ---- resting ----------------------------------------------------------------------------- */

/* A thread that has not begun does not rest: nothing waits for it here. */
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

/* Unwatches what is left, the stop page too. */
static void leave_all(struct counter_monitor *counter)
{
    uint32_t left[UNWATCH_MOST], count;

    pthread_mutex_lock(&counter->lock);
    count = take_left(counter, left);
    pthread_mutex_unlock(&counter->lock);
    if (!is_usable(counter))
        return;
    if (count)
        update(counter, left, count, NULL);
    if (counter->stop.end)
        update(counter, &counter->stop.slot, 1, NULL);
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
