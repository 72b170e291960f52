/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See linker_list.h.
 */
#include "core/base/linker_list.h"

#include "core/base/process.h"

#include <stdbool.h>

static struct process_hold reading;
static _Thread_local bool reads __attribute__((tls_model("initial-exec")));

int linker_list_read(int (*read)(struct dl_phdr_info *, size_t, void *), void *arg)
{
    int rc;

    if (reads)
        return dl_iterate_phdr(read, arg);
    if (!process_hold_take(&reading))
        return -1;
    reads = true;
    rc = dl_iterate_phdr(read, arg);
    reads = false;
    process_hold_release(&reading);
    return rc;
}
