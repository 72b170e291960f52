/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See linker_list.h.
 */
#include "core/base/linker_list.h"

#include "core/base/process.h"

/* Shared: a thread that waits for the linker's lock may wait for one that calls this library in its
 * own dl_iterate_phdr(3). */
static struct process_hold reading = {.shared = true};

int linker_list_read(int (*read)(struct dl_phdr_info *, size_t, void *), void *arg)
{
    int rc;

    if (!process_hold_take(&reading))
        return -1;
    rc = dl_iterate_phdr(read, arg);
    process_hold_release(&reading);
    return rc;
}
