/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Maps each watched range to its slot of the device. Ranges may be equal. The caller serializes
 * calls.
 */
#ifndef HMREG_CORE_MONITOR_COUNTER_SLOTS_H
#define HMREG_CORE_MONITOR_COUNTER_SLOTS_H

#include <stdbool.h>
#include <stdint.h>

#define SLOTS_NONE UINT32_MAX

struct slots {
    const uint64_t *counts; /* written by the device */
    struct slot *all;
    uint32_t *heads; /* heads of chains with equal hashes */
    uint32_t number; /* a power of two */
};

/* Makes `number` free slots, a power of two. counts: the device's, borrowed. False: no memory; do
 * not call slots_close(). */
bool slots_open(struct slots *slots, uint32_t number, const uint64_t *counts);
void slots_close(struct slots *slots);

/* Enters a range. seq: the slot's count while the range is unchanged. */
void slots_enter(struct slots *slots, uint32_t slot, uint64_t seq, uint64_t start, uint64_t end);
/* Takes out a slot of the range, preferably a counted one: if two ranges are equal, the older has
 * changed, and the younger is still needed. SLOTS_NONE: there is none. */
uint32_t slots_leave(struct slots *slots, uint64_t start, uint64_t end);

#endif
