/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The parts of `hmreg info` that need no fabric, each as JSON; hmreg(1) documents the keys.
 */
#ifndef HMREG_TOOLS_MACHINE_H
#define HMREG_TOOLS_MACHINE_H

#include "tools/document.h"

json_t *machine_system(void);
json_t *machine_runtimes(struct hmreg *lib);
json_t *machine_devices(struct hmreg *lib);
json_t *machine_limits(struct hmreg *lib);
json_t *machine_environment(void);
json_t *machine_cache_limits(struct hmreg *lib);
/* The monitor of a library opened in this environment. */
json_t *machine_active_monitor(struct hmreg *lib);
/* Tests whether the kernel lets this process watch its memory. */
json_t *machine_monitor(void);

/* The number of an iface's devices; 0 if its runtime is not usable. */
int machine_device_count(struct hmreg *lib, enum hmreg_iface iface);

#endif
