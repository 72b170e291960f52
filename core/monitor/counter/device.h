/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * /dev/hmreg, the device of the kernel module hmreg_counter (kernel/counter/hmreg_counter.h): its
 * descriptor, and the page in which the kernel counts.
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
    const uint64_t *counts; /* count of each slot */
    uint32_t slots;
    const struct hmreg_counter_page *page; /* not inherited by forked children */
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
/* Pushes the change with number `index`, and perhaps later ones. Returns the next number. */
uint64_t counter_device_read(const struct counter_device *device, uint64_t index);
/* Acknowledges the counts so far. Call before poll(2) again. */
bool counter_device_acknowledge(const struct counter_device *device);

#endif
