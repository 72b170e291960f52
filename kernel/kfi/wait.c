// SPDX-License-Identifier: GPL-2.0-only
/*
 * How long a call waits.
 */
#include <linux/module.h>

#include "internal.h"

static unsigned int timeout_ms = 60000;
module_param(timeout_ms, uint, 0644);
MODULE_PARM_DESC(timeout_ms,
		 "milliseconds that a call waits for a device or a handler at most; 0: no limit");

long hmreg_kfi_limit(void)
{
	unsigned int limit = READ_ONCE(timeout_ms);

	return limit ? msecs_to_jiffies(limit) : MAX_SCHEDULE_TIMEOUT;
}
