/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * /dev/hmreg (kernel/counter/hmreg_counter.h) as its tests use it.
 */
#ifndef TESTS_COUNTER_DEVICE_H
#define TESTS_COUNTER_DEVICE_H

#include "kernel/counter/hmreg_counter.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PAGE ((size_t)4096)

struct device {
    int fd;
    size_t bytes;
    const struct hmreg_counter_page *page;
};

/* Opens, sets up and maps it, or fails the test. */
struct device device_open(uint32_t slots);
void device_close(const struct device *device);

/* Each of the following returns 0 or a positive errno. */
int device_setup(int fd, struct hmreg_counter_setup *setup);
int device_update(int fd, struct hmreg_counter_update *update);
int device_watch_many(int fd, struct hmreg_counter_range *ranges, uint32_t count);
int device_unwatch(int fd, uint32_t slot);

/* Watches a range, or fails the test. */
struct hmreg_counter_range device_watch(const struct device *device, const void *start,
                                        size_t size);

uint64_t device_generation(const struct device *device); /* an acquire */
uint64_t device_slot(const struct device *device, uint32_t slot);
struct hmreg_counter_change device_change(const struct device *device, uint64_t index);

static inline bool device_counted(const struct device *device,
                                  const struct hmreg_counter_range *range)
{
    return device_slot(device, range->slot) != range->seq;
}

/* New private memory, filled with a byte. */
char *memory_new(size_t size, char byte);

/* Runs f in a child of fork(2): its exit status, or -the signal that ended it. */
int in_child(int (*f)(void *), void *arg);

#endif
