/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See userfault.h. Pages are registered for write protection and never protected: no fault is
 * ever taken, and only the events are of interest.
 *
 * What the kernel does: a thread that unmaps or moves watched memory first changes the mappings,
 * then queues an event and sleeps until it is read (for MADV_DONTNEED and its like it sleeps first
 * and throws the pages away then). From before the change until that thread runs on, the
 * userfaultfd is "changing" in the kernel, and its ioctls answer EAGAIN. Other threads do not
 * sleep: one may already have new memory at the old address before the event is even queued.
 *
 * So a look-up is right only if all that has happened is in the queue, and that is what
 * userfault_settle() waits for: the kernel is not changing (asked by a copy of nothing, which
 * answers EAGAIN while it is, and EINVAL for the nothing else; no other ioctl is as cheap, and this
 * one takes no lock of the address space), hence every event is read; and no event is between being
 * read and being pushed, which `readings` says by being odd. It becomes odd before the read: the
 * kernel cannot stop changing, and the sleeper cannot run on, until after that. For hits, which ask
 * nobody, the gates say READING during that time.
 *
 * The thread that reads takes no lock: a thread that sleeps in munmap(2) may hold any, and so may
 * one that the sleeper has stopped.
 *
 * Locks: shared_lock (who is open) is taken by open, close and fork only. watch_lock serializes
 * the kernel's idea of what is watched with the clients'. client_lock guards the list of clients,
 * which are asked under it. The order is shared_lock or watch_lock, then client_lock.
 *
 * What the kernel does not tell: shmat(SHM_REMAP) over watched memory, and MADV_GUARD_INSTALL in
 * it. An application that does either to memory it has registered calls hmreg_invalidate().
 */
#include "core/userfault.h"

#include "core/changes.h"
#include "core/error.h"
#include "core/process.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define EVENTS       (UFFD_FEATURE_EVENT_REMAP | UFFD_FEATURE_EVENT_REMOVE | UFFD_FEATURE_EVENT_UNMAP)
#define SETTLE_NS    20000         /* an event takes about 100 us */
#define SETTLE_TRIES 5000          /* with the sleep's own overhead, some tenths of a second */
#define BATCH        16            /* events read at once */
#define PIECE        (16ull << 20) /* of whose pages so many bytes the kernel is soon done */

struct userfault {
    int fd;
    int stop; /* an eventfd */
    size_t page_size;
    pthread_t thread;
    atomic_uint readings; /* odd: events are being read and pushed */
    _Atomic uint64_t events;
    pthread_mutex_t client_lock;
    struct userfault_client *clients;
    pthread_mutex_t watch_lock;
};

static pthread_mutex_t shared_lock = PTHREAD_MUTEX_INITIALIZER;
static struct userfault *shared; /* the process's, while it has clients */

/* ---- the kernel's calls ----------------------------------------------------------------- */

static int enable(struct userfault *userfault, uint64_t start, uint64_t end)
{
    struct uffdio_register range = {.range = {start, end - start}, .mode = UFFDIO_REGISTER_MODE_WP};

    return ioctl(userfault->fd, UFFDIO_REGISTER, &range) ? -errno : 0;
}

/* What is mapped there now may be of a kind that cannot be watched: -EINVAL, and nothing to do. */
static int disable(struct userfault *userfault, uint64_t start, uint64_t end)
{
    struct uffdio_range range = {start, end - start};

    return ioctl(userfault->fd, UFFDIO_UNREGISTER, &range) ? -errno : 0;
}

/* 0: every event is read. -EAGAIN: one is to come. Else there is no telling. */
static int ask_changing(const struct userfault *userfault)
{
    struct uffdio_copy nothing = {.len = 0};

    (void)ioctl(userfault->fd, UFFDIO_COPY, &nothing);
    return errno == EINVAL ? 0 : -errno;
}

/* ---- the thread ------------------------------------------------------------------------- */

static void push(uint64_t start, uint64_t end, bool unmapped)
{
    struct change change = {start, end, .source = CHANGE_KERNEL, .unmapped = unmapped};

    changes_push(&change);
}

/* Memory that moved takes its watch along. It is stopped before the change is pushed: whoever
 * watches the new place afterwards keeps it, and who did so before drops its region. */
static void push_move(struct userfault *userfault, uint64_t from, uint64_t to, uint64_t len)
{
    disable(userfault, to, to + len);
    push(from, from + len, true);
    push(to, to + len, true);
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
    case UFFD_EVENT_REMAP:
        push_move(userfault, event->arg.remap.from, event->arg.remap.to, event->arg.remap.len);
        break;
    }
}

static void read_events(struct userfault *userfault)
{
    struct uffd_msg batch[BATCH];
    ssize_t count;

    atomic_fetch_add(&userfault->readings, 1);
    gates_begin_reading();
    count = read(userfault->fd, batch, sizeof(batch)) / (ssize_t)sizeof(batch[0]);
    for (ssize_t i = 0; i < count; i++)
        push_event(userfault, &batch[i]);
    gates_end_reading();
    if (count > 0)
        atomic_fetch_add(&userfault->events, (uint64_t)count);
    atomic_fetch_add(&userfault->readings, 1);
}

static void *listen_to_events(void *arg)
{
    struct userfault *userfault = arg;
    struct pollfd fds[] = {{.fd = userfault->fd, .events = POLLIN},
                           {.fd = userfault->stop, .events = POLLIN}};

    while (!fds[1].revents) {
        if (poll(fds, 2, -1) > 0 && fds[0].revents)
            read_events(userfault);
    }
    return NULL;
}

/* No signal is handled on it: a handler may take locks that a sleeping thread holds. */
static int start_thread(struct userfault *userfault)
{
    sigset_t all, before;
    int rc;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    rc = pthread_create(&userfault->thread, NULL, listen_to_events, userfault);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (rc)
        return hmreg_fail_os(rc, "no thread to monitor host memory");
    pthread_setname_np(userfault->thread, "hmreg-monitor");
    return 0;
}

/* ---- life ------------------------------------------------------------------------------- */

/* Only user-mode faults: all a process without privileges may have, and no fault is taken. */
static int open_descriptor(struct userfault *userfault)
{
    struct uffdio_api api = {.api = UFFD_API, .features = EVENTS | UFFD_FEATURE_PAGEFAULT_FLAG_WP};

    userfault->fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY);
    if (userfault->fd < 0) /* EINVAL: too old for a flag */
        return hmreg_fail_os(errno == EINVAL ? ENOSYS : errno,
                             "userfaultfd is not to be had: host memory is not monitored");
    if (ioctl(userfault->fd, UFFDIO_API, &api)) {
        close(userfault->fd);
        return hmreg_fail(-ENOSYS,
                          "this kernel's userfaultfd has no write protection or no events: "
                          "host memory is not monitored");
    }
    return 0;
}

/* Does this kernel do what we need of it? Tried on a page of our own. */
static int try_watching(struct userfault *userfault, void *page)
{
    uint64_t at = (uint64_t)(uintptr_t)page;
    int rc = enable(userfault, at, at + userfault->page_size);

    rc = rc ? rc : ask_changing(userfault);
    rc = rc ? rc : disable(userfault, at, at + userfault->page_size);
    if (rc)
        return hmreg_fail(rc == -ENOMEM ? rc : -ENOSYS,
                          "this kernel's userfaultfd does not watch memory: %s",
                          hmreg_strerror(rc));
    return 0;
}

/* A page that is still watched must not go before the descriptor: nobody reads the event. */
static int open_watching(struct userfault *userfault)
{
    size_t size = userfault->page_size;
    void *page = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int rc;

    if (page == MAP_FAILED)
        return hmreg_fail_os(errno, "no memory for the monitor");
    rc = open_descriptor(userfault);
    if (!rc) {
        rc = try_watching(userfault, page);
        if (rc)
            close(userfault->fd);
    }
    munmap(page, size);
    return rc;
}

static int start(struct userfault **out)
{
    struct userfault *userfault = calloc(1, sizeof(*userfault));
    int rc;

    if (!userfault)
        return hmreg_fail(-ENOMEM, "no memory for the monitor");
    userfault->page_size = (size_t)sysconf(_SC_PAGESIZE);
    rc = open_watching(userfault);
    if (rc)
        goto free_userfault;
    userfault->stop = eventfd(0, EFD_CLOEXEC);
    if (userfault->stop < 0) {
        rc = hmreg_fail_os(errno, "no descriptor for the monitor");
        goto close_descriptor;
    }
    pthread_mutex_init(&userfault->client_lock, NULL);
    pthread_mutex_init(&userfault->watch_lock, NULL);
    rc = start_thread(userfault);
    if (rc)
        goto close_stop;
    *out = userfault;
    return 0;

close_stop:
    close(userfault->stop);
close_descriptor:
    close(userfault->fd);
free_userfault:
    free(userfault);
    return rc;
}

/* Nothing is watched any more. A thread still asleep for an event of before is awaited,
 * and woken by the last close of the descriptor at the latest. */
static void stop(struct userfault *userfault)
{
    userfault_settle(userfault);
    eventfd_write(userfault->stop, 1);
    pthread_join(userfault->thread, NULL);
    close(userfault->fd);
    close(userfault->stop);
    pthread_mutex_destroy(&userfault->client_lock);
    pthread_mutex_destroy(&userfault->watch_lock);
    free(userfault);
}

/* ---- fork ------------------------------------------------------------------------------- */

static void before_fork(void)
{
    pthread_mutex_lock(&shared_lock);
}

static void in_parent(void)
{
    pthread_mutex_unlock(&shared_lock);
}

static atomic_int forks_handled;

/* The parent's userfaultfd must not stay open here: it would go on watching for a parent that
 * has closed it, whose threads would sleep for ever. */
static void in_child(void)
{
    if (shared) {
        close(shared->fd);
        close(shared->stop);
        shared = NULL;
    }
    process_once_done(&forks_handled);
    pthread_mutex_unlock(&shared_lock);
}

static bool handle_forks(void)
{
    return pthread_atfork(before_fork, in_parent, in_child) == 0;
}

/* ---- clients ---------------------------------------------------------------------------- */

int userfault_open(struct userfault_client *client, struct userfault **out)
{
    int rc = 0;

    if (!process_once(&forks_handled, handle_forks))
        return hmreg_fail(-ENOMEM, "no memory for the monitor's fork handlers");
    pthread_mutex_lock(&shared_lock);
    if (!shared)
        rc = start(&shared);
    if (!rc) {
        pthread_mutex_lock(&shared->client_lock);
        client->next = shared->clients;
        shared->clients = client;
        pthread_mutex_unlock(&shared->client_lock);
        *out = shared;
    }
    pthread_mutex_unlock(&shared_lock);
    return rc;
}

void userfault_close(struct userfault *userfault, struct userfault_client *client)
{
    struct userfault_client **link = &userfault->clients;
    bool last;

    pthread_mutex_lock(&shared_lock);
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
    pthread_mutex_unlock(&shared_lock);
}

/* ---- watching --------------------------------------------------------------------------- */

static struct span whole_pages(const struct userfault *userfault, uint64_t start_addr, uint64_t end)
{
    uint64_t mask = userfault->page_size - 1;

    return (struct span){start_addr & ~mask, (end + mask) & ~mask};
}

bool userfault_watch(struct userfault *userfault, uint64_t start_addr, uint64_t end)
{
    struct span span = whole_pages(userfault, start_addr, end);
    int rc;

    pthread_mutex_lock(&userfault->watch_lock);
    /* Also where it is watched already: the memory may be new since. */
    rc = enable(userfault, span.start, span.end);
    pthread_mutex_unlock(&userfault->watch_lock);
    return rc == 0;
}

/* What a client needs first of a span; else what is behind the span. */
static struct span first_needed(struct userfault *userfault, const struct span *span)
{
    struct span first = {span->end, span->end}, needed;
    struct userfault_client *client;

    pthread_mutex_lock(&userfault->client_lock);
    for (client = userfault->clients; client; client = client->next)
        if (client->needs(client, span->start, span->end, &needed) && needed.start < first.start)
            first = whole_pages(userfault, needed.start, needed.end);
    pthread_mutex_unlock(&userfault->client_lock);
    return first;
}

/* A piece of what is no longer needed, and on to what is left. */
static void unwatch_piece(struct userfault *userfault, struct span *rest)
{
    struct span piece = *rest, needed;

    if (piece.end - piece.start > PIECE)
        piece.end = piece.start + PIECE;
    pthread_mutex_lock(&userfault->watch_lock);
    needed = first_needed(userfault, &piece);
    if (needed.start > piece.start)
        disable(userfault, piece.start, needed.start);
    pthread_mutex_unlock(&userfault->watch_lock);
    rest->start = needed.end;
}

void userfault_unwatch(struct userfault *userfault, uint64_t start_addr, uint64_t end)
{
    struct span rest = whole_pages(userfault, start_addr, end);

    while (rest.start < rest.end)
        unwatch_piece(userfault, &rest);
}

bool userfault_is_read(const struct userfault *userfault)
{
    return ask_changing(userfault) == 0;
}

/* Events are read as fast as the thread runs: 100 us are usual, and it waits for nobody. */
static bool await_read(const struct userfault *userfault)
{
    static const struct timespec pause = {.tv_nsec = SETTLE_NS};
    int rc = ask_changing(userfault);

    for (int i = 0; rc == -EAGAIN && i < SETTLE_TRIES; i++) {
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

bool userfault_settle(const struct userfault *userfault)
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
