/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * What counts changes of memory, and /dev/hmreg, the device of the kernel module hmreg_counter
 * (kernel/counter/hmreg_counter.h): its descriptor, and the page by which the kernel tells what it
 * has counted.
 */
#ifndef HMREG_CORE_MONITOR_COUNTER_DEVICE_H
#define HMREG_CORE_MONITOR_COUNTER_DEVICE_H

#include "core/base/owned_fd.h"

#include "kernel/counter/hmreg_counter.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct counter_device;
struct kdreg2;

struct counter_device_ops {
    const char *path;
    /* First frees slots, then watches a range, whose slot and seq it sets. -ENOSPC: no slot is
     * free; -ENOMEM; -EBADF or another: the descriptor is not the device. Not recorded. */
    int (*update)(const struct counter_device *device, const uint32_t *unwatch, uint32_t count,
                  struct hmreg_counter_range *watch);
    /* Pushes what was counted as number `index`, and perhaps what follows. Returns the next. */
    uint64_t (*read)(const struct counter_device *device, uint64_t index);
    /* Before poll(2) again: the counts so far were seen. NULL: reading them says so. */
    bool (*acknowledge)(const struct counter_device *device);
    /* Called by the thread hmreg-monitor first. NULL: nothing to be done. */
    bool (*keep)(const struct counter_device *device);
    void (*close)(struct counter_device *device);
};

struct counter_device {
    const struct counter_device_ops *ops;
    struct owned_fd file;
    const uint64_t *made; /* how many changes were counted */
    uint64_t *counts;     /* by slot: how often it was counted */
    uint32_t slots;
    const struct hmreg_counter_page *page; /* no child of a fork has it */
    size_t bytes;
    struct kdreg2 *kdreg2; /* see kdreg2.c */
};

/* Opens the device for `most` slots, or as many as it permits. -ENOENT: the module is not loaded;
 * -EACCES; -EOPNOTSUPP: it has another interface; -EDQUOT; -ENOMEM, -EMFILE, -ENFILE. Recorded. */
int counter_device_open(uint32_t most, struct counter_device *out);

bool counter_device_is_there(void);

#endif
