/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Searches the code of loaded files for system calls of their own that change mappings, past every
 * hook in libc (core/patch/inlined.h says in which form). docs/raw-calls.md names the programs
 * that make them, and what the search does not find.
 *
 * Not searched: libc and the dynamic linker, whose calls are hooked; a statically linked program;
 * code that is not resident, since it would have to be read from its file; other link namespaces.
 * A file that the process has searched is not searched again, nor one with its build ID.
 */
#ifndef HMREG_CORE_MONITOR_MEMHOOKS_OWN_CALLS_H
#define HMREG_CORE_MONITOR_MEMHOOKS_OWN_CALLS_H

#include <stddef.h>

/* The most bytes of code that one look searches. */
#define OWN_CALLS_EACH ((size_t)64 << 20)

/* Searches loaded code that was not searched yet, `most` bytes at most, rounded up to 1 MiB. 0: all
 * is searched, and no call matters: none was found, it is hooked, or its file changes only its own
 * mappings. -EBUSY: call again: code is left, or another thread is searching. -EOPNOTSUPP: a file
 * changes mappings by calls of its own; the error text names it and the call. -ENOMEM. */
int own_calls_check(size_t most);

#endif
