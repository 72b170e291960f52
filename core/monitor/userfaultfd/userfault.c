/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See userfault.h. Pages are registered for write protection and never protected: no fault is ever
 * taken, only the events matter.
 *
 * What the kernel does: a thread that unmaps or moves watched memory first changes the mappings,
 * then queues an event and sleeps until the event is read (for MADV_DONTNEED and the like it sleeps
 * first and discards the pages afterwards). From before the change until that thread continues, the
 * userfaultfd is "changing" in the kernel, and its ioctls answer EAGAIN. Other threads do not
 * sleep: one may have new memory at the old address before the event is even queued.
 *
 * So a look-up is valid only if every change that has happened is in the queue. userfault_sync()
 * waits for that: the kernel is not changing, hence every event is read; and no event is between
 * being read and being pushed, which `readings` shows by being odd. uffd_ask_changing() asks
 * whether the kernel is changing. `readings` becomes odd before the read: until the read the kernel
 * cannot stop changing, and the sleeper cannot continue. The fast path asks neither: the gates say
 * READING meanwhile.
 *
 * The reading thread takes no lock: a thread that sleeps in munmap(2) may hold any lock, and so may
 * a thread that the sleeper has stopped.
 *
 * Locks: sharing.h's (what is open) is taken only by open, close and fork. The lock of watched.c
 * serializes the kernel's registrations with the clients' needs. client_lock guards the list of
 * clients, whose needs() is called under it. The order is sharing.h's, watched.c's,
 * client_lock.
 *
 * The kernel reports neither shmat(SHM_REMAP) over watched memory nor MADV_GUARD_INSTALL in it. An
 * application that does either to registered memory calls hmreg_invalidate().
 */
#include "core/monitor/userfaultfd/userfault.h"

#include "core/base/code.h"
#include "core/base/error.h"
#include "core/base/process.h"
#include "core/base/thread.h"
#include "core/monitor/change_queue.h"
#include "core/monitor/sharing.h"
#include "core/monitor/userfaultfd/uffd.h"

#include <errno.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define SETTLE_NS    20000 /* in ns; an event takes about 100 us */
#define SETTLE_TRIES 5000  /* with the overhead of sleeping, some tenths of a second */
#define BATCH        16    /* events read at once */

struct userfault {
    struct owned_fd file;
    uint64_t epoch; /* of the process that opened it */
    char *memory;   /* the thread's stack, and above it the stop page: see map_own_memory() */
    char *stop_page;
    size_t page;
    pthread_t thread;
    bool stopping; /* the stop page's event was read; used by the thread only */
    atomic_bool lost;
    atomic_uint readings; /* odd: events are being read and pushed */
    _Atomic uint64_t events;
    pthread_mutex_t client_lock;
    struct userfault_client *clients;
    struct watching watching;
};

static atomic_uint settle_tries = SETTLE_TRIES;

static struct userfault *shared; /* the process's; NULL without clients */

/* ---- the thread ------------------------------------------------------------------------- */

static void push(uint64_t start, uint64_t end, bool unmapped)
{
    struct change change = {start, end, .source = CHANGE_KERNEL, .unmapped = unmapped};

    changes_push(&change);
}

static void push_event(struct userfault *userfault, const struct uffd_msg *event)
{
    switch (event->event) {
    case UFFD_EVENT_UNMAP:
        userfault->stopping |= event->arg.remove.start == (uintptr_t)userfault->stop_page;
        push(event->arg.remove.start, event->arg.remove.end, true);
        break;
    case UFFD_EVENT_REMOVE:
        userfault->stopping |= event->arg.remove.start == (uintptr_t)userfault->stop_page;
        push(event->arg.remove.start, event->arg.remove.end, false);
        break;
    case UFFD_EVENT_REMAP: /* the old range may stay mapped (MREMAP_DONTUNMAP), and watched */
        push(event->arg.remap.from, event->arg.remap.from + event->arg.remap.len, false);
        watching_note_move(&userfault->watching, event->arg.remap.to,
                           event->arg.remap.to + event->arg.remap.len);
        break;
    }
}

static void read_events(struct userfault *userfault)
{
    struct uffd_msg batch[BATCH];
    ssize_t count;

    atomic_fetch_add(&userfault->readings, 1);
    gates_begin_reading();
    count = read(userfault->file.fd, batch, sizeof(batch)) / (ssize_t)sizeof(batch[0]);
    for (ssize_t i = 0; i < count; i++)
        push_event(userfault, &batch[i]);
    gates_end_reading();
    if (count > 0)
        atomic_fetch_add(&userfault->events, (uint64_t)count);
    atomic_fetch_add(&userfault->readings, 1);
}

/* Nothing is watched any more: pushes a change of all memory, once. */
static void lose(struct userfault *userfault)
{
    if (!atomic_exchange(&userfault->lost, true))
        push(0, UINT64_MAX, true);
}

/* The application may close the descriptor and open another file under its number. poll(2) holds
 * our file until it returns, so the thread never reads another file by mistake; but then threads
 * that sleep in the kernel continue before this thread can push a change. Nothing would end a
 * poll(2) of the other file. */
static void *listen_to_events(void *arg)
{
    struct userfault *userfault = arg;
    struct pollfd poller = {.fd = userfault->file.fd, .events = POLLIN};

    thread_name("hmreg-monitor");
    while (!userfault->stopping && !atomic_load(&userfault->lost)) {
        if (!owned_fd_is_open(&userfault->file))
            lose(userfault);
        else if (poll(&poller, 1, -1) > 0 && owned_fd_is_open(&userfault->file))
            read_events(userfault);
    }
    return NULL;
}

/* ---- life ------------------------------------------------------------------------------- */

/* Does a client need the range, or does it touch our own stack and stop page? */
static bool is_needed(void *arg, uint64_t start_addr, uint64_t end)
{
    struct userfault *userfault = arg;
    struct userfault_client *client;
    struct span piece;
    uint64_t own = (uintptr_t)userfault->memory;
    bool needed = start_addr < own + THREAD_STACK_BYTES + userfault->page && own < end;

    pthread_mutex_lock(&userfault->client_lock);
    for (client = userfault->clients; client && !needed; client = client->next)
        needed = client->needs(client, start_addr, end, &piece);
    pthread_mutex_unlock(&userfault->client_lock);
    return needed;
}

/* Makes the stop page: a page that is always watched, whose discard ends the thread. An eventfd
 * would be one more descriptor that the application may close. The thread's stack is in the same
 * mapping, and so is watched, too, which has no effect as long as it is not discarded.
 * MADV_DONTDUMP keeps the mapping from merging with an adjacent watched one, with which it would be
 * unwatched. The stack has no guard page: only this file and watching_note_move() run on it. */
static int map_own_memory(struct userfault *userfault)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), size = THREAD_STACK_BYTES + page;
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int rc;

    if (memory == MAP_FAILED)
        return hmreg_fail_os(errno, "hmreg has no memory for the monitor");
    madvise(memory, size, MADV_DONTDUMP);
    rc = uffd_watch(userfault->file.fd, (uintptr_t)memory, (uintptr_t)memory + size);
    if (rc) {
        munmap(memory, size);
        return hmreg_fail_os(-rc, "userfaultfd refused to watch a page of hmreg's own");
    }
    userfault->memory = memory;
    userfault->stop_page = userfault->memory + THREAD_STACK_BYTES;
    userfault->page = page;
    return 0;
}

/* Ends the thread: returns when it has read the event, or the descriptor is closed. The stop page
 * is first registered again, in case the program gave an adjacent mapping the same flags, so that
 * the two merged and were unwatched together. Where a sandbox refuses madvise(2), a new page takes
 * its place, which unmaps it. */
static void signal_stop(const struct userfault *userfault)
{
    uint64_t at = (uintptr_t)userfault->stop_page;

    if (owned_fd_is_open(&userfault->file))
        uffd_watch(userfault->file.fd, at, at + userfault->page);
    if (madvise(userfault->stop_page, userfault->page, MADV_DONTNEED))
        (void)mmap(userfault->stop_page, userfault->page, PROT_NONE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
}

/* Frees the stop page and the stack. They must not be watched when they are unmapped: munmap(2)
 * would wait for its event to be read. */
static void unmap_own_memory(struct userfault *userfault)
{
    size_t size = THREAD_STACK_BYTES + userfault->page;
    uint64_t at = (uintptr_t)userfault->memory;

    if (owned_fd_is_open(&userfault->file))
        uffd_unwatch(userfault->file.fd, at, at + size);
    munmap(userfault->memory, size);
}

static int start_thread(struct userfault *userfault)
{
    struct thread_stack stack = {userfault->memory, THREAD_STACK_BYTES};

    return thread_start(&userfault->thread, &stack, listen_to_events, userfault,
                        "to monitor host memory");
}

static int start(bool by_name, struct userfault **out)
{
    struct userfault *userfault = calloc(1, sizeof(*userfault));
    int rc;

    if (!userfault)
        return hmreg_fail(-ENOMEM, "hmreg has no memory for the monitor");
    userfault->epoch = process_epoch_start();
    rc = userfault->epoch ? uffd_open(by_name, &userfault->file) : -ENOMEM;
    if (rc)
        goto free_userfault;
    rc = map_own_memory(userfault);
    if (rc)
        goto close_descriptor;
    pthread_mutex_init(&userfault->client_lock, NULL);
    watching_open(&userfault->watching, userfault->file.fd, is_needed, userfault);
    rc = start_thread(userfault);
    if (rc)
        goto close_watching;
    *out = userfault;
    return 0;

close_watching:
    watching_forget(&userfault->watching);
    pthread_mutex_destroy(&userfault->client_lock);
    unmap_own_memory(userfault);
close_descriptor:
    owned_fd_close(&userfault->file);
free_userfault:
    free(userfault);
    return rc;
}

/* Ends every watch before the descriptor is closed: a child made without fork handlers may have a
 * copy of the descriptor, which would keep the file open with no thread to read it. Waits for a
 * thread that still sleeps for an earlier event. */
static void stop(struct userfault *userfault)
{
    if (!atomic_load(&userfault->lost))
        watching_close(&userfault->watching);
    else
        watching_forget(&userfault->watching);
    userfault_sync(userfault);
    signal_stop(userfault);
    pthread_join(userfault->thread, NULL);
    unmap_own_memory(userfault);
    owned_fd_close(&userfault->file);
    pthread_mutex_destroy(&userfault->client_lock);
    free(userfault);
}

/* ---- fork ------------------------------------------------------------------------------- */

/* The child must not keep the parent's userfaultfd open: if the parent closed its own descriptor,
 * the kernel would still report the parent's changes to it, and the parent's threads would sleep
 * for ever. Nothing is watched in the child. The stack stays mapped: in a child made without fork
 * handlers libc still lists the thread, by data that lies on the stack. */
static void forget_parents(void)
{
    if (!shared)
        return;
    watching_forget(&shared->watching);
    owned_fd_close(&shared->file);
    munmap(shared->stop_page, shared->page);
    shared = NULL;
}

/* ---- clients ---------------------------------------------------------------------------- */

/* In a child made without fork handlers (_Fork, clone) `shared` is still the parent's. */
int userfault_open(struct userfault_client *client, bool by_name, struct userfault **out)
{
    int rc = 0;

    /* A thread that unmaps watched memory waits in the kernel for the monitor's, which cannot run.
     */
    if (code_is_translated())
        return hmreg_fail(-EOPNOTSUPP, "userfaultfd: valgrind runs one thread at a time");
    if (!sharing_starts(forget_parents))
        return hmreg_fail(-ENOMEM, "hmreg has no memory for the monitor's fork handlers");
    sharing_lock();
    if (shared && !process_is(shared->epoch))
        forget_parents();
    if (!shared)
        rc = start(by_name, &shared);
    if (!rc) {
        pthread_mutex_lock(&shared->client_lock);
        client->next = shared->clients;
        shared->clients = client;
        pthread_mutex_unlock(&shared->client_lock);
        *out = shared;
    }
    sharing_unlock();
    return rc;
}

void userfault_close(struct userfault *userfault, struct userfault_client *client)
{
    struct userfault_client **link = &userfault->clients;
    bool last;

    sharing_lock();
    pthread_mutex_lock(&userfault->client_lock);
    while (*link != client)
        link = &(*link)->next;
    *link = client->next;
    last = !userfault->clients;
    pthread_mutex_unlock(&userfault->client_lock);
    if (last) {
        shared = NULL;
        stop(userfault);
    }
    sharing_unlock();
}

/* ---- watching --------------------------------------------------------------------------- */

bool userfault_is_usable(struct userfault *userfault)
{
    if (!owned_fd_is_open(&userfault->file))
        lose(userfault);
    return !atomic_load(&userfault->lost);
}

bool userfault_watch(struct userfault *userfault, uint64_t start_addr, uint64_t end)
{
    return userfault_is_usable(userfault) && watching_add(&userfault->watching, start_addr, end);
}

void userfault_unwatch(struct userfault *userfault, uint64_t start_addr, uint64_t end,
                       bool unmapped)
{
    if (userfault_is_usable(userfault))
        watching_leave(&userfault->watching, start_addr, end, unmapped);
}

bool userfault_tidy(struct userfault *userfault)
{
    return userfault_is_usable(userfault) && watching_tidy(&userfault->watching);
}

/* ---- settling --------------------------------------------------------------------------- */

/* If the descriptor is lost, its number may belong to another file, whose answer means nothing. */
static int ask_changing(const struct userfault *userfault)
{
    return atomic_load(&userfault->lost) ? -EBADF : uffd_ask_changing(userfault->file.fd);
}

bool userfault_is_read(const struct userfault *userfault)
{
    return ask_changing(userfault) == 0;
}

void userfault_set_tries(unsigned tries)
{
    atomic_store(&settle_tries, tries);
}

/* The thread reads events without waiting for any other thread; 100 us are usual. */
static bool await_read(const struct userfault *userfault)
{
    static const struct timespec pause = {.tv_nsec = SETTLE_NS};
    unsigned tries = atomic_load(&settle_tries);
    int rc = ask_changing(userfault);

    for (unsigned i = 0; rc == -EAGAIN && i < tries; i++) {
        nanosleep(&pause, NULL);
        rc = ask_changing(userfault);
    }
    return rc == 0;
}

void userfault_await_reading(const struct userfault *userfault)
{
    static const struct timespec pause = {.tv_nsec = SETTLE_NS};
    unsigned readings = atomic_load(&userfault->readings);

    while (readings % 2 && atomic_load(&userfault->readings) == readings)
        nanosleep(&pause, NULL);
}

bool userfault_sync(const struct userfault *userfault)
{
    if (!await_read(userfault))
        return false;
    userfault_await_reading(userfault);
    return true;
}

uint64_t userfault_events(const struct userfault *userfault)
{
    return atomic_load(&userfault->events);
}
