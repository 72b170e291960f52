/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Which slot of the device watches which range. Ranges may be equal. Its caller serializes calls.
 */
#ifndef HMREG_CORE_MONITOR_COUNTER_SLOTS_H
#define HMREG_CORE_MONITOR_COUNTER_SLOTS_H

#include <stdbool.h>
#include <stdint.h>

#define SLOTS_NONE UINT32_MAX

struct slots {
    const uint64_t *counts; /* by the device */
    struct slot *all;
    uint32_t *heads; /* of chains of equal hashes */
    uint32_t number; /* a power of two */
};

/* Makes `number` slots, a power of two, which no range has yet. counts: the device's, of each slot;
 * they stay the device's. False: no memory; nothing is to be closed. */
bool slots_open(struct slots *slots, uint32_t number, const uint64_t *counts);
void slots_close(struct slots *slots);

/* seq: the slot's count as long as the range has not changed. */
void slots_enter(struct slots *slots, uint32_t slot, uint64_t seq, uint64_t start, uint64_t end);
/* Takes out a slot of the range, one that was counted if there is one: of two equal ranges the
 * older has changed, and the younger is still needed. SLOTS_NONE: there is none. */
uint32_t slots_leave(struct slots *slots, uint64_t start, uint64_t end);

#endif
