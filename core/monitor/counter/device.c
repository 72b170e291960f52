/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See device.h.
 */
#include "core/monitor/counter/device.h"

#include "core/base/error.h"
#include "core/base/high_fd.h"
#include "core/monitor/change/change_queue.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define PATH   "/dev/hmreg"
#define FEWEST 512u /* fewest slots worth using */

static int fail_open(int error)
{
    if (error == ENOENT || error == ENXIO || error == ENODEV)
        return hmreg_fail(-ENOENT, "counter: there is no " PATH
                                   ", the kernel module hmreg_counter is not loaded");
    return hmreg_fail_os(error, "counter: " PATH " cannot be opened");
}

/* Retries: a signal interrupts the call (mm_take_all_locks()). */
static int ask_for(int fd, struct hmreg_counter_setup *setup)
{
    int rc;

    do
        rc = ioctl(fd, HMREG_COUNTER_SETUP, setup) ? -errno : 0;
    while (rc == -EINTR);
    return rc;
}

/* An operator, the user's quota or memory may permit fewer slots. */
static int set_up(int fd, uint32_t most, struct counter_device *out)
{
    struct hmreg_counter_setup setup;
    int rc = -EINVAL;

    for (uint32_t slots = most; rc && slots >= FEWEST; slots /= 2) {
        setup = (struct hmreg_counter_setup){.slots = slots};
        rc = ask_for(fd, &setup);
        if (rc != -EINVAL && rc != -EDQUOT && rc != -ENOMEM)
            break;
    }
    if (rc)
        return hmreg_fail_os(-rc, "counter: " PATH " cannot be set up");
    out->bytes = (size_t)setup.bytes;
    out->slots = setup.slots;
    return 0;
}

bool counter_device_is_there(void)
{
    struct stat found;

    return stat(PATH, &found) == 0;
}

static int map(int fd, struct counter_device *out)
{
    void *page = mmap(NULL, out->bytes, PROT_READ, MAP_SHARED, fd, 0);
    uint32_t version;

    if (page == MAP_FAILED)
        return hmreg_fail_os(errno, "counter: " PATH " cannot be mapped");
    out->page = page;
    version = out->page->version;
    if (version == HMREG_COUNTER_VERSION)
        return 0;
    munmap(page, out->bytes);
    return hmreg_fail(-EOPNOTSUPP, "counter: " PATH " has interface %u, but this library knows %u",
                      version, HMREG_COUNTER_VERSION);
}

/* ---- operations -------------------------------------------------------------------------- */

int counter_device_update(const struct counter_device *device, const uint32_t *unwatch,
                          uint32_t count, struct hmreg_counter_range *watch)
{
    struct hmreg_counter_update update = {.unwatch = (uintptr_t)unwatch,
                                          .unwatch_count = count,
                                          .watch = (uintptr_t)watch,
                                          .watch_count = watch ? 1 : 0};

    return ioctl(device->file.fd, HMREG_COUNTER_UPDATE, &update) ? -errno : 0;
}

/* If the kernel may have overwritten the entry, it is lost, and all memory counts as changed. */
uint64_t counter_device_read(const struct counter_device *device, uint64_t index)
{
    const char *page = (const char *)device->page;
    const struct hmreg_counter_change *entry =
        (const struct hmreg_counter_change *)(page + device->page->ring_offset) +
        index % device->slots;
    struct change change = {__atomic_load_n(&entry->start, __ATOMIC_ACQUIRE),
                            __atomic_load_n(&entry->end, __ATOMIC_ACQUIRE),
                            .source = CHANGE_KERNEL};
    uint64_t generation = __atomic_load_n(device->made, __ATOMIC_ACQUIRE);

    if (generation - index > device->slots - HMREG_COUNTER_BATCH) {
        changes_push(&(struct change){0, UINT64_MAX, .source = CHANGE_KERNEL});
        return generation;
    }
    changes_push(&change);
    return index + 1;
}

bool counter_device_acknowledge(const struct counter_device *device)
{
    uint64_t generation;

    return read(device->file.fd, &generation, sizeof(generation)) > 0;
}

void counter_device_close(struct counter_device *device)
{
    munmap((void *)(uintptr_t)device->page, device->bytes);
    owned_fd_close(&device->file);
}

int counter_device_open(uint32_t most, struct counter_device *out)
{
    struct counter_device made = {.file = {.fd = -1}};
    int fd = -1, rc;

    /* Without the device a lack of descriptors does not matter. */
    if (counter_device_is_there())
        fd = high_fd(open(PATH, O_RDWR | O_CLOEXEC));
    if (fd < 0)
        return fail_open(errno);
    rc = set_up(fd, most, &made);
    rc = rc ? rc : map(fd, &made);
    if (rc) {
        close(fd);
        return rc;
    }
    made.file = owned_fd_take(fd);
    made.made = (const uint64_t *)&made.page->generation;
    made.counts = (const uint64_t *)((uintptr_t)made.page + made.page->slot_offset);
    *out = made;
    return 0;
}
