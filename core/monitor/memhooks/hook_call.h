/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * What a stub calls: finds the range that a system call is about to change, and pushes it if it is
 * watched.
 *
 * hook_call() and all that it calls (changes_push()) run on any thread, also one that clone(2) made
 * without libc: they use no thread-local data, not even errno or a stack protector's canary, call
 * no function of libc, and, compiled for general registers only (core/CMakeLists.txt), leave vector
 * registers alone, which the stubs therefore need not save. They touch a few hundred bytes of
 * stack.
 */
#ifndef HMREG_CORE_MONITOR_MEMHOOKS_HOOK_CALL_H
#define HMREG_CORE_MONITOR_MEMHOOKS_HOOK_CALL_H

#include "core/monitor/memhooks/hook_state.h"

/* Before the first call. */
void hook_call_begin(struct hook_state *hooks, uint64_t page);

void hook_call(const struct hook_call *call);

/* Counts the end of calls that will never end, as far as it can tell: a signal handler that
 * interrupted them did not return (siglongjmp), or their thread has ended. */
void hook_call_end_abandoned(struct hook_state *hooks);

/* Pushes a change of all memory, if any is watched. */
void hook_call_push_all(void);

/* Mappings of code from files that were about to be made, and parts of files that the dynamic
 * linker was about to map: each marks the gates (gate.h), since the code may change mappings past
 * the hooks. */
uint64_t hook_call_loads(void);

/* A note of what the dynamic linker has mapped last, or is about to map: an address of the file, 0
 * if the kernel chooses it, and in the bits of an offset a number, by which notes of one address
 * differ. 0: none. To be read after hook_call_loads(). forget: makes it 0, if it is still this one.
 */
#define HOOK_CALL_NOTE_NUMBERS  UINT64_C(4096)
#define HOOK_CALL_ADDRESS(note) ((note) & ~(HOOK_CALL_NOTE_NUMBERS - 1))
uint64_t hook_call_linker_mapped(void);
void hook_call_forget_mapped(uint64_t note);

/* Changes pushed since hook_call_begin(). */
uint64_t hook_call_count(void);

#endif
