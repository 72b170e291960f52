/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * What is this pointer? Every present runtime is asked; only when each has said "not mine" is
 * it host memory of the system.
 */
#ifndef HMREG_CORE_CONTEXT_RESOLVE_H
#define HMREG_CORE_CONTEXT_RESOLVE_H

#include "core/context/context.h"

struct resolved {
    enum hmreg_iface iface;
    struct hmem_range range;
};

/* The range's owner among the runtimes. For system memory range is {device -1, HOST, host_addr}
 * only: whether it is mapped is not looked up. -ERANGE, -EIO, -EEXIST. */
int resolve(struct hmreg *lib, uint64_t addr, size_t len, struct resolved *out);

/* The same, and system memory must be mapped throughout (-EFAULT). */
int resolve_fully(struct hmreg *lib, uint64_t addr, size_t len, struct resolved *out);

#endif
