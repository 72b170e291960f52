/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The memhooks monitor: hooks in libc's code that push a change to the change queue
 * (change_queue.h) before libc asks the kernel for it: munmap, mmap over existing memory, mremap,
 * madvise, brk, shmat, process_madvise, and each of them through syscall(2), called from any code.
 * One set of hooks serves the process; they are in place while a library is open that uses them. A
 * hook runs where its caller is: in malloc with its locks held, in the dynamic linker, in a signal
 * handler; it takes no lock. Code that enters the kernel past libc is not noticed; memhooks
 * searches for files with such code, and is no default if it finds one (bypass.h, own_calls.h).
 */
#ifndef HMREG_CORE_MONITOR_MEMHOOKS_MEMHOOKS_H
#define HMREG_CORE_MONITOR_MEMHOOKS_MEMHOOKS_H

#include <stdbool.h>
#include <stdint.h>

/* Installs the hooks, or joins; each open is paired with one close. asked: chosen by name; else the
 * hooks are also refused if code is known that changes mappings past them. What another thread
 * loads meanwhile may be missed: call memhooks_look() before any memory is watched. -EOPNOTSUPP:
 * not possible here; the error text names the function that cannot be hooked, and why. -EBUSY: not
 * yet, as memhooks_look(); never if asked, but where a file is being unloaded. -ENOMEM.
 */
int memhooks_open(bool asked);
void memhooks_close(void);

/* Call when code may have been loaded since the last call (GATE_LOOKING): hooks its sites. *seen:
 * the number of loads at this call. -EBUSY: the linker is loading or unloading files, or loaded
 * code is not all searched; call again. 0, or as memhooks_open(): the hooks do not notice every
 * change any more. */
int memhooks_look(bool asked, uint64_t *seen);
uint64_t memhooks_loads(void);

/* watch: changes that touch the range are pushed from now on; changes of other memory may be.
 * unwatch: ends one watch of exactly the same range. -EBUSY: as memhooks_look(). -EOPNOTSUPP: other
 * code has changed libc's code since it was hooked, so calls would go unnoticed, and it cannot be
 * hooked again, as the error text says; the range is not watched. Whenever other code has changed
 * it, a change of all memory is pushed. */
int memhooks_watch(uint64_t start, uint64_t end);
void memhooks_unwatch(uint64_t start, uint64_t end);

/* Changes pushed so far. */
uint64_t memhooks_calls(void);

/* is_quiet, false: calls that may change mappings are under way, or this processor's stubs do not
 * count them. True: *when is the argument for none_since, which says whether no such call has begun
 * since. */
bool memhooks_is_quiet(uint64_t *when);
bool memhooks_none_since(uint64_t when);
/* Counts as a call that may change mappings: the application reports one that bypasses the
 * hooks. */
void memhooks_count_notice(void);

#endif
