/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * /dev/hmreg, the device of the kernel module hmreg_counter (kernel/counter/hmreg_counter.h): its
 * descriptor, and the page by which the kernel tells what it has counted.
 */
#ifndef HMREG_CORE_MONITOR_COUNTER_DEVICE_H
#define HMREG_CORE_MONITOR_COUNTER_DEVICE_H

#include "core/base/owned_fd.h"

#include "kernel/counter/hmreg_counter.h"

#include <stddef.h>
#include <stdint.h>

struct counter_device {
    struct owned_fd file;
    const struct hmreg_counter_page *page; /* no child of a fork has it */
    size_t bytes;
    uint32_t slots;
};

/* Opens the device for `most` slots, or as many as it permits. -ENOENT: the module is not loaded;
 * -EACCES; -EOPNOTSUPP: it has another interface; -EDQUOT; -ENOMEM, -EMFILE, -ENFILE. Recorded. */
int counter_device_open(uint32_t most, struct counter_device *out);
void counter_device_close(struct counter_device *device);

/* First frees slots, then watches a range, whose slot and seq it sets. -ENOSPC: no slot is free;
 * -ENOMEM; -EBADF or another: the descriptor is not the device. Not recorded. */
int counter_device_update(const struct counter_device *device, const uint32_t *unwatch,
                          uint32_t count, struct hmreg_counter_range *watch);

/* An acquire: changes that are not counted in it cannot be seen yet. */
static inline uint64_t counter_device_generation(const struct counter_device *device)
{
    return __atomic_load_n(&device->page->generation, __ATOMIC_ACQUIRE);
}

/* By slot: how often it was counted. */
static inline const uint64_t *counter_device_counts(const struct counter_device *device)
{
    return (const uint64_t *)((const char *)device->page + device->page->slot_offset);
}

/* What was counted as number `index`, if it is one of the last `slots`. */
static inline struct hmreg_counter_change counter_device_change(const struct counter_device *device,
                                                                uint64_t index)
{
    const char *page = (const char *)device->page;
    const struct hmreg_counter_change *change =
        (const struct hmreg_counter_change *)(page + device->page->ring_offset) +
        index % device->slots;

    return (struct hmreg_counter_change){__atomic_load_n(&change->start, __ATOMIC_ACQUIRE),
                                         __atomic_load_n(&change->end, __ATOMIC_ACQUIRE)};
}

#endif
