/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The memory of a key table: how its entries are replaced under readers (<hmreg/table.h> has the
 * protocol, tests/model/protocol/table.pml its model).
 */
#ifndef HMREG_CORE_TABLE_PUBLISH_H
#define HMREG_CORE_TABLE_PUBLISH_H

#include "core/remote/remote.h"

#include <hmreg/table.h>

struct table_memory {
    struct hmreg *lib;
    char *place;       /* address of the first entry, for the CPU or for hmreg_copy() */
    char *shadow;      /* the same entries in host memory; NULL: the CPU stores at place */
    uint32_t flags;    /* HMREG_TABLE_* */
    uint32_t sequence; /* sequence of the last change, even */
};

/* Resolves the memory, and writes its entries as not filled. -EFAULT: it is not mapped for writing.
 * -ENOMEM; errors of hmreg_query() and hmreg_copy(). */
int table_memory_open(struct table_memory *memory, struct hmreg *lib, void *place, size_t entries,
                      uint32_t flags);
void table_memory_close(struct table_memory *memory);

/* Replaces entries under readers. Errors of hmreg_copy(), if the CPU cannot store there. */
int table_publish(struct table_memory *memory, size_t first, size_t count,
                  const struct remote_link *links);

#endif
