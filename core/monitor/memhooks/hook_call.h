/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Stubs call this: it finds the range that a system call is about to change, and pushes it if it is
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

/* Call before the first hook_call(). */
void hook_call_begin(struct hook_state *hooks, uint64_t page);

void hook_call(const struct hook_call *call);

/* Counts calls as ended that never return, as far as it can tell: a signal handler jumped out of
 * them (siglongjmp), or their thread has ended. */
void hook_call_end_abandoned(struct hook_state *hooks);

/* Pushes a change of all memory, if any is watched. */
void hook_call_push_all(void);

/* The number of mappings of code from files about to be made, and of parts of files that the
 * dynamic linker was about to map. Each marks the gates (gate.h), since the code may change
 * mappings past the hooks. */
uint64_t hook_call_loads(void);

/* A note of the file that the dynamic linker mapped last, or is about to map: an address of the
 * file (0: the kernel chooses it), and in the bits of the page offset a number that distinguishes
 * notes of one address. 0: no note. Read it after hook_call_loads(). forget: makes the note 0 if it
 * is still this one.
 */
#define HOOK_CALL_NOTE_NUMBERS  UINT64_C(4096)
#define HOOK_CALL_ADDRESS(note) ((note) & ~(HOOK_CALL_NOTE_NUMBERS - 1))
uint64_t hook_call_linker_mapped(void);
void hook_call_forget_mapped(uint64_t note);

/* Changes pushed since hook_call_begin(). */
uint64_t hook_call_count(void);

#endif
