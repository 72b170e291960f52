/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * What libc is asked to do to memory, pushed to the queue of changes (changes.h) before it is done:
 * munmap, mmap over something, mremap, madvise, brk, shmat, shmdt, process_madvise, and each of
 * them by syscall(2), by whomever they are called. One set of hooks serves the process, put into
 * libc's code while a library is open that asks for it. A hook runs wherever its caller is: in
 * malloc with its locks, in the dynamic linker, in a signal handler; it takes no lock. Who enters
 * the kernel past libc is not heard: see monitor.h for the net.
 */
#ifndef HMREG_CORE_MONITOR_MEMHOOKS_MEMHOOKS_H
#define HMREG_CORE_MONITOR_MEMHOOKS_MEMHOOKS_H

#include <stdbool.h>
#include <stdint.h>

/* Hooks, or joins; each open is ended by one close. -EOPNOTSUPP: it cannot be done here; the
 * sentence says which function is in the way and why. -ENOMEM. */
int memhooks_open(void);
void memhooks_close(void);

/* Changes that touch a range that is watched are pushed; others may be. The range is the same at
 * both calls. False: others have changed libc's code since it was hooked, so that calls would not
 * be heard, and it cannot be hooked again; nothing is watched. Whenever others have changed it,
 * a change of all memory is pushed. */
bool memhooks_watch(uint64_t start, uint64_t end);
void memhooks_unwatch(uint64_t start, uint64_t end);

/* Changes pushed so far. */
uint64_t memhooks_calls(void);

/* False: calls that may change what is mapped are under way, or such calls are not counted here.
 * True: *when is to be given to memhooks_none_since(), which says whether any has begun since. */
bool memhooks_is_quiet(uint64_t *when);
bool memhooks_none_since(uint64_t when);

#endif
