/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * /dev/hmreg, the device of the kernel module hmreg_counter (kernel/counter/hmreg_counter.h): its
 * descriptor, and the page by which the kernel tells what it has counted.
 */
#ifndef HMREG_CORE_MONITOR_COUNTER_DEVICE_H
#define HMREG_CORE_MONITOR_COUNTER_DEVICE_H

#include "core/base/owned_fd.h"

#include "kernel/counter/hmreg_counter.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct counter_device {
    struct owned_fd file;
    const uint64_t *made;   /* how many changes were counted */
    const uint64_t *counts; /* by slot: how often it was counted */
    uint32_t slots;
    const struct hmreg_counter_page *page; /* no child of a fork has it */
    size_t bytes;
};

/* Opens the device for `most` slots, or as many as it permits. -ENOENT: the module is not loaded;
 * -EACCES; -EOPNOTSUPP: it has another interface; -EDQUOT; -ENOMEM, -EMFILE, -ENFILE. Recorded. */
int counter_device_open(uint32_t most, struct counter_device *out);
void counter_device_close(struct counter_device *device);

bool counter_device_is_there(void);

/* First frees slots, then watches a range, whose slot and seq it sets. -ENOSPC: no slot is free;
 * -ENOMEM; -EBADF or another: the descriptor is not the device. Not recorded. */
int counter_device_update(const struct counter_device *device, const uint32_t *unwatch,
                          uint32_t count, struct hmreg_counter_range *watch);
/* Pushes what was counted as number `index`, and perhaps what follows. Returns the next. */
uint64_t counter_device_read(const struct counter_device *device, uint64_t index);
/* Before poll(2) again: the counts so far were seen. */
bool counter_device_acknowledge(const struct counter_device *device);

#endif
