/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Finds which runtime owns the memory behind a pointer. Each present runtime is queried; memory
 * that no runtime knows is system memory.
 */
#ifndef HMREG_CORE_CONTEXT_RESOLVE_H
#define HMREG_CORE_CONTEXT_RESOLVE_H

#include "core/context/context.h"

struct resolved {
    enum hmreg_iface iface;
    struct hmem_range range;
};

/* A range of system memory, by its address alone. */
static inline struct resolved resolved_as_system(uint64_t addr)
{
    return (struct resolved){
        .iface = HMREG_IFACE_SYSTEM,
        .range = {.device = -1, .kind = HMREG_MEM_HOST, .segments = 1, .host_addr = addr}};
}

static inline bool resolved_is_host(const struct resolved *found)
{
    return found->range.kind == HMREG_MEM_HOST || found->range.kind == HMREG_MEM_HOST_PINNED;
}

/* Treats host memory that a runtime pinned as the system's: its pages are the process's own, at the
 * same address for the CPU. */
static inline void resolved_leave_to_system(struct resolved *found)
{
    uint64_t host_addr = found->range.host_addr;

    if (found->iface == HMREG_IFACE_SYSTEM)
        return;
    *found = resolved_as_system(host_addr);
}

/* Finds the runtime that owns a range. For system memory out->range has device -1, HOST and
 * host_addr only; whether it is mapped is not checked. -ERANGE, -EIO, -EEXIST: *out is undefined.
 */
int resolve(struct hmreg *lib, uint64_t addr, size_t len, struct resolved *out);

/* Describes system memory by its mappings, without asking whether a runtime owns it. -EFAULT: not
 * mapped throughout. */
int resolve_mapped(struct hmreg *lib, uint64_t addr, size_t len, struct hmem_range *out);

/* The text about system memory that the process cannot read. */
#define RESOLVE_UNREADABLE                                                                         \
    "no runtime knows the memory, and the process cannot read all of it: nothing is mapped "       \
    "there, "                                                                                      \
    "or it is mapped without rights, as memory is that a runtime has freed or reserved"

/* Can the process read all of this system memory? Also true if unknown. */
bool resolve_is_readable(struct hmreg *lib, const struct iovec *range);

/* As resolve(); also checks that system memory is mapped throughout (-EFAULT). */
int resolve_fully(struct hmreg *lib, uint64_t addr, size_t len, struct resolved *out);

/* Asks the vendor whether [start, end) still has this identity throughout. */
bool resolve_is_same(struct hmreg *lib, enum hmreg_iface iface, uint64_t start, uint64_t end,
                     uint64_t identity);

#endif
