/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Reads the dynamic linker's list of files. dl_iterate_phdr(3) holds a lock meanwhile, which a
 * child of fork(2) would inherit for ever: no dlopen(3), and no exception of C++, would return
 * there. So fork(2) waits for a thread that reads by this function.
 */
#ifndef HMREG_CORE_BASE_LINKER_LIST_H
#define HMREG_CORE_BASE_LINKER_LIST_H

#include <link.h>
#include <stddef.h>

/* As dl_iterate_phdr(3); `read` may call it too. It must not take a lock that a fork handler takes,
 * so it must not allocate: before a `read` that records errors, hmreg_error_prepare(). -1, and
 * nothing was read: a thread of this process's parent read the list at the fork, which did not wait
 * for it (process.h). That thread has the linker's lock for ever. */
int linker_list_read(int (*read)(struct dl_phdr_info *, size_t, void *), void *arg);

#endif
