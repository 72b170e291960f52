/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See kdreg2.h. The module maps a page into the process, in which `total` is how many ranges have
 * changed. A watched range has a cookie, which comes back with the event of its change; each range
 * has one event at most, and is not watched afterwards.
 *
 * A cookie is the number of a slot, with the slot's count at the watch above it: an event that
 * comes after the range was unwatched names a use of the slot that has ended.
 *
 * The module unmaps the page when the file is closed, so the thread hmreg-monitor keeps it open in
 * a table of descriptors of its own (thread_keep_only()): a program that closes the descriptor does
 * not take the page from hits.
 */
#include "core/monitor/counter/kdreg2.h"

#include "core/base/error.h"
#include "core/base/high_fd.h"
#include "core/base/thread.h"
#include "core/monitor/change_queue.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define PATH      "/dev/kdreg2"
#define FEWEST    512u
#define NONE      UINT32_MAX
#define SOME      64
#define CHANGE_OF 1 /* the only type of events */

/* ---- the module's interface --------------------------------------------------------------- */

struct status {
    uint64_t version;
    size_t most;
    uint64_t pending, total, active; /* total: an acquire finds the events pending */
    const void *states;
};

struct config {
    size_t most;                 /* in: ranges watched at once, and events that can be pending */
    const struct status *status; /* out */
};

struct params {
    size_t location;
    uint32_t generation;
};

struct monitored {
    uint64_t addr;
    size_t len;
    uint64_t cookie;
    struct params params; /* out */
};

struct unmonitored {
    uint64_t cookie;
    struct params params;
};

struct event {
    uint32_t type, unused;
    uint64_t addr, len, cookie;
};

#define IOCTL_CONFIG    _IOWR('k', 1, struct config)
#define IOCTL_MONITOR   _IOWR('k', 2, struct monitored)
#define IOCTL_UNMONITOR _IOW('k', 3, struct unmonitored)
#define IOCTL_FLUSH     _IO('k', 5)

/* ---- slots -------------------------------------------------------------------------------- */

struct slot {
    struct unmonitored watch;
    uint32_t next_free;
};

struct kdreg2 {
    pthread_mutex_t lock; /* of what follows */
    uint32_t first_free;
    struct slot slots[];
};

static uint64_t cookie_of(uint32_t slot, uint64_t seq)
{
    return seq << 32 | slot;
}

/* Ends the use of the slot by which the range was watched. False: it has ended. */
static bool end_use(const struct counter_device *device, uint64_t cookie)
{
    uint64_t *count = &device->counts[(uint32_t)cookie];
    uint64_t seq = __atomic_load_n(count, __ATOMIC_ACQUIRE);

    return cookie_of((uint32_t)cookie, seq) == cookie &&
           __atomic_compare_exchange_n(count, &seq, seq + 1, false, __ATOMIC_ACQ_REL,
                                       __ATOMIC_ACQUIRE);
}

static uint32_t take_slot(struct kdreg2 *kdreg2)
{
    uint32_t slot;

    pthread_mutex_lock(&kdreg2->lock);
    slot = kdreg2->first_free;
    if (slot != NONE)
        kdreg2->first_free = kdreg2->slots[slot].next_free;
    pthread_mutex_unlock(&kdreg2->lock);
    return slot;
}

static void give_slot(struct kdreg2 *kdreg2, uint32_t slot)
{
    pthread_mutex_lock(&kdreg2->lock);
    kdreg2->slots[slot].next_free = kdreg2->first_free;
    kdreg2->first_free = slot;
    pthread_mutex_unlock(&kdreg2->lock);
}

static void unwatch(const struct counter_device *device, uint32_t number)
{
    struct slot *slot = &device->kdreg2->slots[number];

    if (end_use(device, slot->watch.cookie))
        (void)ioctl(device->file.fd, IOCTL_UNMONITOR, &slot->watch);
    give_slot(device->kdreg2, number);
}

static int watch(const struct counter_device *device, struct hmreg_counter_range *range)
{
    uint32_t number = take_slot(device->kdreg2);
    struct monitored monitored = {.addr = range->start, .len = range->end - range->start};
    struct slot *slot;

    if (number == NONE)
        return -ENOSPC;
    slot = &device->kdreg2->slots[number];
    range->slot = number;
    range->seq = __atomic_load_n(&device->counts[number], __ATOMIC_ACQUIRE);
    slot->watch.cookie = monitored.cookie = cookie_of(number, range->seq);
    if (ioctl(device->file.fd, IOCTL_MONITOR, &monitored)) {
        int rc = -errno;

        give_slot(device->kdreg2, number);
        return rc;
    }
    slot->watch.params = monitored.params;
    return 0;
}

static int update(const struct counter_device *device, const uint32_t *slots, uint32_t count,
                  struct hmreg_counter_range *range)
{
    for (uint32_t i = 0; i < count; i++)
        unwatch(device, slots[i]);
    return range ? watch(device, range) : 0;
}

/* ---- events ------------------------------------------------------------------------------- */

/* Where events were lost, or cannot be read, any range may have changed. */
static uint64_t lose_events(const struct counter_device *device, uint64_t total)
{
    if (errno == ENOSPC)
        (void)ioctl(device->file.fd, IOCTL_FLUSH);
    changes_push(&(struct change){0, UINT64_MAX, .source = CHANGE_KERNEL});
    return total;
}

/* The module enters an event before it counts it. */
static uint64_t read_events(const struct counter_device *device, uint64_t index)
{
    uint64_t total = __atomic_load_n(device->made, __ATOMIC_ACQUIRE);
    struct event events[SOME];
    ssize_t bytes;
    size_t count;

    do
        bytes = read(device->file.fd, events, sizeof(events));
    while (bytes < 0 && errno == EINTR);
    if (bytes <= 0)
        return lose_events(device, total);
    count = (size_t)bytes / sizeof(events[0]);
    for (size_t i = 0; i < count; i++) {
        if (events[i].type == CHANGE_OF && (uint32_t)events[i].cookie < device->slots)
            end_use(device, events[i].cookie);
        changes_push(&(struct change){events[i].addr, events[i].addr + events[i].len,
                                      .source = CHANGE_KERNEL});
    }
    return index + count;
}

/* ---- life --------------------------------------------------------------------------------- */

bool kdreg2_is_there(void)
{
    return access(PATH, F_OK) == 0;
}

static bool keep(const struct counter_device *device)
{
    return thread_keep_only(device->file.fd, -1);
}

static void close_device(struct counter_device *device)
{
    owned_fd_close(&device->file);
    pthread_mutex_destroy(&device->kdreg2->lock);
    free(device->kdreg2);
    free(device->counts);
}

static const struct counter_device_ops ops = {
    .path = PATH, .update = update, .read = read_events, .keep = keep, .close = close_device};

/* Twice as many as are watched at once, so that events of ranges that were unwatched meanwhile have
 * room. */
static int set_up(int fd, uint32_t most, struct counter_device *out)
{
    struct config config;
    int rc = -ENOSPC;

    for (out->slots = most; out->slots >= FEWEST; out->slots /= 2) {
        config = (struct config){.most = 2 * (size_t)out->slots};
        rc = ioctl(fd, IOCTL_CONFIG, &config) ? -errno : 0;
        if (!rc)
            out->made = &config.status->total;
        if (rc != -ENOSPC && rc != -ENOMEM)
            break;
    }
    return rc ? hmreg_fail_os(-rc, "kdreg2: " PATH " cannot be set up") : 0;
}

static int make_slots(struct counter_device *out)
{
    struct kdreg2 *kdreg2 = calloc(1, sizeof(*kdreg2) + out->slots * sizeof(kdreg2->slots[0]));

    out->counts = calloc(out->slots, sizeof(*out->counts));
    if (!kdreg2 || !out->counts) {
        free(kdreg2);
        free(out->counts);
        return hmreg_fail(-ENOMEM, "hmreg has no memory for the monitor");
    }
    for (uint32_t i = 0; i < out->slots; i++)
        kdreg2->slots[i].next_free = i + 1 < out->slots ? i + 1 : NONE;
    pthread_mutex_init(&kdreg2->lock, NULL);
    out->kdreg2 = kdreg2;
    return 0;
}

int kdreg2_open(uint32_t most, struct counter_device *out)
{
    struct counter_device made = {.ops = &ops};
    int fd = high_fd(open(PATH, O_RDWR | O_CLOEXEC | O_NONBLOCK)), rc;

    if (fd < 0)
        return hmreg_fail_os(errno, "kdreg2: " PATH " cannot be opened");
    rc = set_up(fd, most, &made);
    rc = rc ? rc : make_slots(&made);
    if (rc) {
        close(fd);
        return rc;
    }
    made.file = owned_fd_take(fd);
    *out = made;
    return 0;
}
