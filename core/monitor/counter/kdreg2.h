/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * /dev/kdreg2, the device of HPE's kernel module, as another source of counts. It counts a change
 * when it has been made, and only one that this process makes: docs/monitors.md says what it
 * misses.
 */
#ifndef HMREG_CORE_MONITOR_COUNTER_KDREG2_H
#define HMREG_CORE_MONITOR_COUNTER_KDREG2_H

#include "core/monitor/counter/device.h"

/* As counter_device_open(). */
int kdreg2_open(uint32_t most, struct counter_device *out);

bool kdreg2_is_there(void);

#endif
