/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See userfault.h. Pages are registered for write protection and never protected: no fault is ever
 * taken, only the events matter.
 *
 * In the kernel a thread that unmaps or moves watched memory first changes the mappings, then
 * queues an event and sleeps until the event is read (for MADV_DONTNEED and the like it sleeps
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
 * The reading thread takes no lock and allocates nothing: a thread that sleeps in munmap(2) may
 * hold any lock, malloc's too, and so may a thread that the sleeper has stopped. It is also the
 * thread that ends the watches at the end: see end_watches().
 *
 * The thread has a table of descriptors of its own, so that it reads on when the program closes the
 * library's descriptor. Else a child that has a copy of that would keep the file open: the kernel
 * would still wait for each event to be read, and no thread would read. The thread begins before
 * the first range is watched and may rest when none is: before and after, nothing of the process
 * is registered with the userfaultfd, the thread's own memory included.
 *
 * A sandbox that begins later may refuse the thread read(2). Then only the end of the file lets the
 * sleepers go on: the thread closes its descriptor, and the reaper the program's.
 *
 * Locks: sharing.h's (what is open) is taken only by open, close and fork. `lock` guards the thread
 * and what is watched: it serializes the kernel's registrations with the clients' needs.
 * client_lock guards the list of clients, whose needs() is called under it. The order is
 * sharing.h's, `lock`, client_lock.
 *
 * The kernel reports neither shmat(SHM_REMAP) over watched memory nor MADV_GUARD_INSTALL in it. An
 * application that does either to registered memory calls hmreg_invalidate().
 */
#include "core/monitor/userfaultfd/userfault.h"

#include "core/patch/code.h"
#include "core/base/error.h"
#include "core/base/maps.h"
#include "core/base/process.h"
#include "core/base/thread.h"
#include "core/monitor/change/change_queue.h"
#include "core/monitor/change/sharing.h"
#include "core/monitor/userfaultfd/uffd.h"

#include <errno.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define SETTLE_NS    20000 /* in ns; an event takes about 100 us */
#define SETTLE_TRIES 5000  /* with the overhead of sleeping, tenths of a second */
#define BATCH        16    /* events read at once */
#define ASK_TRIES                                                                                  \
    10             /* tries to ask whether memory is watched, while other threads change           \
                    * mappings */
#define PAUSE_MS 1 /* pause between looks for an event */

struct userfault {
    struct owned_fd file;
    bool strict;    /* uffd_is_strict() */
    uint64_t epoch; /* of the process that opened it */
    char *memory;   /* the thread's stack, and above it the stop page: see map_own_memory() */
    char *stop_page;
    size_t page;
    bool has_table;       /* the thread's descriptors are its own; used by the thread only */
    atomic_bool lost;     /* the program has closed the descriptor, or `unread` */
    atomic_bool unread;   /* the thread may not read events */
    atomic_uint readings; /* odd: events are being read and pushed */
    _Atomic uint64_t events;
    pthread_mutex_t client_lock;
    struct userfault_client *clients;
    pthread_mutex_t lock; /* guards the fields below */
    atomic_bool runs;     /* the thread runs, or must still be joined */
    bool begins;          /* the thread was started, and its begin was not awaited yet */
    pthread_t thread;
    pid_t task;
    sem_t begun;
    int begun_rc;          /* result of the thread's begin; written before `begun` is posted */
    atomic_bool ending;    /* the thread must end */
    atomic_bool discarded; /* the stop page is discarded: no thread waits for its event any more */
    bool moved;            /* memory moved since the thread cleared this; used by the thread only */
    bool stuck;            /* the thread could not end the watches; written before it ends */
    struct watching watching;
};

/* The thread's stack and the stop page. */
static size_t own_size(const struct userfault *userfault)
{
    return THREAD_STACK_BYTES + userfault->page;
}

static atomic_uint settle_tries = SETTLE_TRIES;

static struct userfault *shared; /* the process's monitor; NULL without clients */

/* The program's descriptor of an unread file; valid while `there`. It outlives its monitor. */
static struct {
    atomic_bool there;
    struct owned_fd file;
} to_release;

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
        push(event->arg.remove.start, event->arg.remove.end, true);
        break;
    case UFFD_EVENT_REMOVE:
        push(event->arg.remove.start, event->arg.remove.end, false);
        break;
    case UFFD_EVENT_REMAP: /* the old range may stay mapped (MREMAP_DONTUNMAP), and watched */
        push(event->arg.remap.from, event->arg.remap.from + event->arg.remap.len, false);
        userfault->moved = true;
        watching_note_move(&userfault->watching, event->arg.remap.to,
                           event->arg.remap.to + event->arg.remap.len);
        break;
    }
}

/* Skips the stop page, whose discard ends the thread: no domain has a region there. */
static bool is_of_stop(const struct userfault *userfault, const struct uffd_msg *event)
{
    return event->event != UFFD_EVENT_REMAP &&
           event->arg.remove.start == (uintptr_t)userfault->stop_page;
}

/* No other thread can close descriptors of the thread's own table. */
static bool is_open(const struct userfault *userfault)
{
    return userfault->has_table || owned_fd_is_open(&userfault->file);
}

static bool may_read(const struct userfault *userfault)
{
    return !atomic_load(&userfault->unread) && is_open(userfault);
}

static void read_events(struct userfault *userfault)
{
    struct uffd_msg batch[BATCH];
    ssize_t count;

    atomic_fetch_add(&userfault->readings, 1);
    gates_begin_reading();
    count = read(userfault->file.fd, batch, sizeof(batch));
    if (count < 0 && errno != EAGAIN && errno != EINTR)
        atomic_store(&userfault->unread, true);
    count /= (ssize_t)sizeof(batch[0]);
    for (ssize_t i = 0; i < count; i++) {
        if (is_of_stop(userfault, &batch[i]))
            continue;
        push_event(userfault, &batch[i]);
        atomic_fetch_add(&userfault->events, 1);
    }
    gates_end_reading();
    atomic_fetch_add(&userfault->readings, 1);
}

/* No memory is watched any more: pushes a change of all memory, once. */
static void lose(struct userfault *userfault)
{
    if (!atomic_exchange(&userfault->lost, true))
        push(0, UINT64_MAX, true);
}

/* Closes the thread's descriptor; the push wakes the reaper, which closes the program's if that is
 * another. */
static void lose_unread(struct userfault *userfault)
{
    to_release.file = userfault->file;
    atomic_store(&to_release.there, userfault->has_table);
    atomic_store(&userfault->lost, true);
    push(0, UINT64_MAX, true);
    if (is_open(userfault))
        close(userfault->file.fd);
}

void userfault_release_unread(void)
{
    if (atomic_load(&to_release.there) && atomic_exchange(&to_release.there, false))
        owned_fd_close(&to_release.file);
}

/* ---- the thread's end ------------------------------------------------------------------- */

/* If a sandbox refuses poll(2) by now, the thread polls for events by reading. */
static bool await_event(const struct userfault *userfault, int ms)
{
    static const struct timespec pause = {.tv_nsec = PAUSE_MS * 1000000};
    struct pollfd poller = {.fd = userfault->file.fd, .events = POLLIN};
    int rc = poll(&poller, 1, ms);

    if (rc < 0)
        nanosleep(&pause, NULL);
    return rc && may_read(userfault);
}

/* While a change is under way the kernel does not answer: then the event is read first. */
static bool may_be_watched(struct userfault *userfault, uint64_t addr)
{
    int rc = uffd_ask_watched(userfault->file.fd, addr, userfault->page);

    for (int i = 0; rc == -EAGAIN && i < ASK_TRIES; i++) {
        if (await_event(userfault, PAUSE_MS))
            read_events(userfault);
        rc = uffd_ask_watched(userfault->file.fd, addr, userfault->page);
    }
    return rc != -ENOENT;
}

static void read_some(void *arg)
{
    read_events(arg);
}

/* Ends the watches of the mappings that touch a range; known: it is watched, and its watch ends
 * also where the list of mappings cannot be read (chroot(2)). */
static void end_in(struct userfault *userfault, const struct span *span, bool known)
{
    uint64_t at = span->start;
    struct maps maps;
    struct map map;
    int rc = 1;

    maps_begin(&maps, &userfault->watching.maps);
    while (at < span->end && (rc = maps_next(&maps, at, &map)) == 1 && map.start < span->end) {
        if (!known && userfault->strict)
            uffd_leave_own(userfault->file.fd, map.start, map.end, read_some, userfault);
        else if (known || may_be_watched(userfault, map.start))
            uffd_leave(userfault->file.fd, map.start, map.end, read_some, userfault);
        at = map.end;
    }
    maps_end(&maps);
    if (rc < 0 && known)
        uffd_leave(userfault->file.fd, at, span->end, read_some, userfault);
}

/* Ends every watch, and returns when no thread sleeps for an event any more. A child made without
 * fork handlers may have a copy of the descriptor that keeps the file open: a thread that changes
 * memory still registered would then sleep for ever.
 *
 * First the spans are unregistered. No other thread touches them: the thread that stops this one
 * has the lock or is the last, and waits. Watched memory outside of spans (moves without room,
 * grown and split mappings, the stop page) is in some mapping. So on a strict kernel every mapping
 * is unregistered; another kernel is first asked whether each is watched, which it answers while no
 * watched memory changes. Memory that moves meanwhile may be missed, but its event is not. */
static void end_watches(struct userfault *userfault)
{
    static const struct span all = {0, UINT64_MAX};
    const struct watching *watching = &userfault->watching;
    uint64_t at = (uintptr_t)userfault->memory;
    struct span own = {at, at + own_size(userfault)};

    do {
        userfault->moved = false;
        end_in(userfault, &own, true);
        for (size_t i = 0; i < watching->count; i++)
            end_in(userfault, &watching->spans[i], true);
        end_in(userfault, &all, false);
        while (may_read(userfault) && uffd_ask_changing(userfault->file.fd) == -EAGAIN)
            if (await_event(userfault, PAUSE_MS))
                read_events(userfault);
    } while (userfault->moved);
}

/* Is the stop page not watched any more? False too if a sandbox refuses ioctl(2) by now. */
static bool have_ended(const struct userfault *userfault)
{
    int rc = uffd_ask_watched(userfault->file.fd, (uintptr_t)userfault->stop_page, userfault->page);

    return rc == -ENOENT || (rc == -ENOMEM && !uffd_ask_changing(userfault->file.fd));
}

/* ---- the thread's start and end --------------------------------------------------------- */

/* Gives the thread a table of descriptors of its own. False: it shares the program's, and detects
 * at the next change that the descriptor was closed, or is another file. If the list's descriptor
 * is meanwhile the program's file, the thread must not keep that open. */
static bool keep_files(struct userfault *userfault)
{
    struct owned_fd *list = &userfault->watching.maps;

    if (!thread_keep_only(userfault->file.fd, list->fd))
        return false;
    if (list->fd >= 0 && !owned_fd_is_open(list))
        close(list->fd);
    return true;
}

static int begin(struct userfault *userfault)
{
    uint64_t own = (uintptr_t)userfault->memory;
    bool kept = keep_files(userfault);

    userfault->task = thread_task();
    userfault->has_table = false;
    if (!owned_fd_is_open(&userfault->file))
        return -EBADF;
    userfault->has_table = kept;
    return uffd_watch(userfault->file.fd, own, own + own_size(userfault));
}

/* If a sandbox refuses ioctl(2) by now, the stop page stays watched: the thread that discards it
 * may only now begin to wait for its event. */
static void await_discard(struct userfault *userfault)
{
    while (!atomic_load(&userfault->discarded) && may_read(userfault))
        if (await_event(userfault, PAUSE_MS))
            read_events(userfault);
}

/* If the table is shared with the program, poll(2) holds our file until it returns, so the thread
 * never reads another file by mistake. After a close, sleeping threads continue before this thread
 * can push a change. A poll(2) of another file would never end, so the loop checks the file
 * first. */
static void *listen_to_events(void *arg)
{
    struct userfault *userfault = arg;
    int rc;

    thread_name("hmreg-monitor");
    userfault->begun_rc = rc = begin(userfault);
    sem_post(&userfault->begun);
    if (rc)
        return NULL;
    while (!atomic_load(&userfault->ending) && may_read(userfault))
        if (await_event(userfault, -1))
            read_events(userfault);
    if (may_read(userfault)) {
        end_watches(userfault);
        await_discard(userfault);
        userfault->stuck = !have_ended(userfault);
    }
    if (atomic_load(&userfault->unread))
        lose_unread(userfault);
    else if (!is_open(userfault))
        lose(userfault);
    return NULL;
}

static int start_thread(struct userfault *userfault)
{
    struct thread_stack stack = {userfault->memory, THREAD_STACK_BYTES};
    int rc;

    atomic_store(&userfault->ending, false);
    atomic_store(&userfault->discarded, false);
    userfault->stuck = false;
    rc = thread_start(&userfault->thread, &stack, listen_to_events, userfault,
                      "to monitor host memory");
    userfault->begins = !rc;
    return rc;
}

/* The thread has begun, or has ended with an error. */
static int end_begin(struct userfault *userfault)
{
    int rc = userfault->begun_rc;

    userfault->begins = false;
    atomic_store(&userfault->runs, !rc);
    if (!rc)
        return 0;
    thread_join(userfault->thread, &userfault->task);
    return rc == -EBADF
               ? rc
               : hmreg_fail_os(-rc, "userfaultfd refused to watch one of hmreg's own pages");
}

int userfault_have_thread(struct userfault *userfault)
{
    bool starts;
    int rc;

    if (atomic_load(&userfault->runs))
        return 0;
    if (!userfault_is_usable(userfault))
        return -EBADF;
    rc = thread_lock_to_start(&userfault->lock);
    if (rc)
        return rc;
    starts = !userfault->runs && !userfault->begins;
    rc = starts ? start_thread(userfault) : 0;
    if (!rc && userfault->begins) {
        rc = thread_await_begin(&userfault->begun, starts);
        rc = rc ? rc : end_begin(userfault);
    }
    pthread_mutex_unlock(&userfault->lock);
    return rc;
}

static void await_begin(struct userfault *userfault)
{
    while (sem_wait(&userfault->begun)) /* EINTR */
        ;
    (void)end_begin(userfault);
}

/* No thread reads events any more, but memory is watched: closing the file ends the watches. */
static void give_up(struct userfault *userfault)
{
    lose(userfault);
    if (owned_fd_is_open(&userfault->file))
        close(userfault->file.fd);
}

/* The discard of the stop page wakes the thread; it returns when the event is read. The stop page
 * is first registered again, in case the program gave an adjacent mapping the same flags, so that
 * the two merged and were unwatched together: before `ending`, after which the thread may not end
 * that. If read(2) is refused, the program's descriptor is closed first: then the discard lasts
 * until the thread has closed its own. */
static void stop_thread(struct userfault *userfault)
{
    uint64_t at = (uintptr_t)userfault->stop_page;

    if (userfault->begins)
        await_begin(userfault);
    if (!userfault->runs)
        return;
    if (owned_fd_is_open(&userfault->file)) {
        uffd_watch(userfault->file.fd, at, at + userfault->page);
        if (!uffd_may_read(userfault->file.fd))
            give_up(userfault);
    }
    atomic_store(&userfault->ending, true);
    thread_discard(userfault->stop_page, userfault->page);
    atomic_store(&userfault->discarded, true);
    thread_join(userfault->thread, &userfault->task);
    userfault->runs = false;
    if (userfault->stuck)
        give_up(userfault);
    watching_reset(&userfault->watching);
}

/* ---- opening and closing ---------------------------------------------------------------- */

static bool clients_need(struct userfault *userfault, uint64_t start_addr, uint64_t end)
{
    struct userfault_client *client;
    struct span piece;
    bool needed = false;

    pthread_mutex_lock(&userfault->client_lock);
    for (client = userfault->clients; client && !needed; client = client->next)
        needed = client->needs(client, start_addr, end, &piece);
    pthread_mutex_unlock(&userfault->client_lock);
    return needed;
}

/* Does a client need the range, or does it touch our own stack and stop page? */
static bool is_needed(void *arg, uint64_t start_addr, uint64_t end)
{
    struct userfault *userfault = arg;
    uint64_t own = (uintptr_t)userfault->memory;

    return (start_addr < own + own_size(userfault) && own < end) ||
           clients_need(userfault, start_addr, end);
}

/* Makes the stop page: a page that is watched while the thread runs, and whose discard ends it. An
 * eventfd would be one more descriptor that the application may close. The thread's stack is in the
 * same mapping, and so is watched, too, which has no effect as long as it is not discarded.
 * MADV_DONTDUMP keeps the mapping from merging with an adjacent watched one, with which it would be
 * unwatched. The stack has no guard page: only this file, maps.c and watching_note_move() run on
 * it. */
static int map_own_memory(struct userfault *userfault)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), size = THREAD_STACK_BYTES + page;
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (memory == MAP_FAILED)
        return hmreg_fail_os(errno, "hmreg has no memory for the monitor");
    madvise(memory, size, MADV_DONTDUMP);
    userfault->memory = memory;
    userfault->stop_page = userfault->memory + THREAD_STACK_BYTES;
    userfault->page = page;
    return 0;
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
    userfault->strict = uffd_is_strict(userfault->file.fd, by_name);
    pthread_mutex_init(&userfault->client_lock, NULL);
    pthread_mutex_init(&userfault->lock, NULL);
    sem_init(&userfault->begun, 0, 0);
    watching_open(&userfault->watching, userfault->file.fd, is_needed, userfault);
    *out = userfault;
    return 0;

close_descriptor:
    owned_fd_close(&userfault->file);
free_userfault:
    free(userfault);
    return rc;
}

/* Closes the monitor after its last client. */
static void stop(struct userfault *userfault)
{
    stop_thread(userfault);
    munmap(userfault->memory, own_size(userfault));
    watching_close(&userfault->watching);
    owned_fd_close(&userfault->file);
    sem_destroy(&userfault->begun);
    pthread_mutex_destroy(&userfault->lock);
    pthread_mutex_destroy(&userfault->client_lock);
    free(userfault);
}

/* ---- fork ------------------------------------------------------------------------------- */

/* The child must not keep the parent's userfaultfd open. Suppose the parent's thread shares the
 * program's table of descriptors, and the parent closes its descriptor: the kernel would still
 * report the parent's changes, and the parent's threads would sleep for ever. Nothing is watched in
 * the child. The stack stays mapped: in a child made without fork handlers libc still lists the
 * thread, by data that lies on the stack. Nor are the spans freed: a thread of the parent may have
 * been about to replace them. */
static void forget_parents(void)
{
    if (!shared)
        return;
    owned_fd_close(&shared->watching.maps);
    owned_fd_close(&shared->file);
    munmap(shared->stop_page, shared->page);
    shared = NULL;
}

/* ---- clients ---------------------------------------------------------------------------- */

/* In a child made without fork handlers (_Fork, clone) `shared` is still the parent's. */
int userfault_open(struct userfault_client *client, bool by_name, struct userfault **out)
{
    int rc = 0;

    /* A thread that unmaps watched memory waits in the kernel for the monitor's thread, which
     * cannot run.
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

/* Caller may register memory only if true: without the thread no event would be read. True: the
 * lock is held. */
static bool lock_watched(struct userfault *userfault)
{
    if (!userfault_is_usable(userfault) || !atomic_load(&userfault->runs))
        return false;
    pthread_mutex_lock(&userfault->lock);
    if (userfault->runs)
        return true;
    pthread_mutex_unlock(&userfault->lock);
    return false;
}

int userfault_watch(struct userfault *userfault, uint64_t start_addr, uint64_t end)
{
    bool added;

    if (!userfault_is_usable(userfault))
        return -EBADF;
    if (!lock_watched(userfault))
        return -ESRCH;
    added = watching_add(&userfault->watching, start_addr, end);
    pthread_mutex_unlock(&userfault->lock);
    return added ? 0 : -EINVAL;
}

void userfault_unwatch(struct userfault *userfault, uint64_t start_addr, uint64_t end,
                       bool unmapped)
{
    if (!lock_watched(userfault))
        return;
    watching_leave(&userfault->watching, start_addr, end, unmapped);
    pthread_mutex_unlock(&userfault->lock);
}

bool userfault_tidy(struct userfault *userfault)
{
    bool left;

    if (!lock_watched(userfault))
        return false;
    left = watching_tidy(&userfault->watching);
    pthread_mutex_unlock(&userfault->lock);
    return left;
}

/* A client lists its need of a range before it has the range watched under the lock. */
bool userfault_rest(struct userfault *userfault)
{
    bool rests;

    pthread_mutex_lock(&userfault->lock);
    if (userfault->begins && thread_has_begun(&userfault->begun))
        (void)end_begin(userfault);
    if (!userfault->begins && !clients_need(userfault, 0, UINT64_MAX))
        stop_thread(userfault);
    rests = !userfault->begins && !userfault->runs;
    pthread_mutex_unlock(&userfault->lock);
    return rests;
}

/* ---- settling --------------------------------------------------------------------------- */

/* If the descriptor is lost, its number may be another file's: ignore the answer. */
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
