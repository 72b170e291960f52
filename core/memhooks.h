/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * What libc is asked to do to memory, told before it is done: munmap, mmap over something, mremap,
 * madvise, brk, shmat, shmdt, process_madvise, and each of them by syscall(2), by whomever they
 * are called. One set of hooks serves the process, put into libc's code while a library is open
 * that asks for it. Who enters the kernel past libc is not heard: see monitor.h for the net.
 */
#ifndef HMREG_CORE_MEMHOOKS_H
#define HMREG_CORE_MEMHOOKS_H

#include "core/userfault.h"

/* changed() is called on the thread that is about to change memory, wherever it is: in malloc with
 * its locks, in the dynamic linker, in a signal's handler. It takes quiet locks only (quiet.h).
 * Where its thread was interrupted inside one of these it is not called: the change is left as
 * doubt in all pulses that are hooked (pulse.h). */
struct memhooks_client {
    struct memhooks_client *next;
    void (*changed)(struct memhooks_client *client, const struct change *change);
};

/* Hooks, or joins. -EOPNOTSUPP: it cannot be done here; the sentence says which function is in the
 * way and why. -ENOMEM. */
int memhooks_open(struct memhooks_client *client);
void memhooks_close(struct memhooks_client *client);

/* Changes that touch a range somebody watches are told; others may be. The range is the same at
 * both calls. False: others have changed libc's code since it was hooked, so that calls would not
 * be heard, and it cannot be hooked again; nothing is watched. Whenever others have changed it,
 * everybody is told that everything has changed. */
bool memhooks_watch(uint64_t start, uint64_t end);
void memhooks_unwatch(uint64_t start, uint64_t end);

/* Changes told so far, and such as could only be doubted. */
uint64_t memhooks_calls(void);

#endif
