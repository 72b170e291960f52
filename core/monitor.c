/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See monitor.h.
 */
#include "core/monitor.h"

#include "core/error.h"

#include <errno.h>
#include <stdlib.h>

struct monitor {
    enum hmreg_monitor kind;
};

int monitor_open(enum hmreg_monitor choice, struct monitor **out)
{
    struct monitor *monitor = calloc(1, sizeof(*monitor));

    if (!monitor)
        return hmreg_fail(-ENOMEM, "no memory for the monitor");
    monitor->kind = choice == HMREG_MONITOR_DEFAULT ? HMREG_MONITOR_DISABLED : choice;
    *out = monitor;
    return 0;
}

void monitor_close(struct monitor *monitor)
{
    free(monitor);
}
