/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Changing code that other threads execute: room for code of our own within a branch's reach of
 * other code, and the replacement of one instruction by another. code_x86_64.c, code_arm64.c and,
 * for any other processor, none.c have what depends on the processor.
 *
 * Pages for code ("islands") are written while they are not executable, and never again once they
 * are. They are never unmapped, since a thread may be interrupted in such code at any time and
 * continue much later.
 *
 * If the kernel permits the method of code_twin.c, other code is never writable. Else its whole
 * mapping is writable while an instruction is replaced. Not just one page: the kernel charges the
 * process for memory that has been writable and records that in a flag of the mapping, so the page
 * would remain a separate mapping. Other threads execute the code meanwhile, so it stays
 * executable. mprotect(2) changes the mapping's protection in one step, from read and execute to
 * read, write and execute, and back. A thread that faults on one of its pages in between waits in
 * the page fault, and continues. Without execute such a thread would end. Only the instruction's
 * page is written and so copied, and the copy is complete when the kernel maps it. The thread that
 * does this blocks signals meanwhile; the caller's lock keeps other writers of ours out.
 */
#ifndef HMREG_CORE_PATCH_CODE_H
#define HMREG_CORE_PATCH_CODE_H

#include "core/base/kernel_call.h"

#include <linux/membarrier.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>

/* The size of a branch, and its reach less room for its target, in bytes. */
#if defined(__aarch64__)
#define CODE_BRANCH 4
#define CODE_REACH  (UINT64_C(126) << 20)
#else
#define CODE_BRANCH 5
#define CODE_REACH  (UINT64_C(2040) << 20)
#endif
#define CODE_SHORT 2 /* the size of a short branch: x86-64 alone has one */

/* Does Valgrind run this process? It executes translations of the code, one thread at a time. */
bool code_is_translated(void);

/* Returns NULL, or the reason why no code can be changed here. */
const char *code_refusal(void);

/* ---- room for code ---------------------------------------------------------------------- */

#define CODE_ISLANDS 64

struct code_islands {
    struct {
        uint8_t *start;
        size_t used;
        bool sealed; /* executable, and never written again */
    } island[CODE_ISLANDS];
};

/* Allocates writable room within a branch's reach of `near_by`. NULL: no addresses are free. */
uint8_t *code_take_room(struct code_islands *islands, const uint8_t *near_by, size_t size);

/* Makes all room of the islands executable. Before the call returns all processors' instruction
 * caches have dropped old contents of its addresses. 0, or the negative error of mprotect(2) or
 * membarrier(2). */
int code_seal(struct code_islands *islands);

/* ---- reading code ----------------------------------------------------------------------- */

/* Lets the kernel read memory that may be unmapped. False: it is. */
bool code_read(uintptr_t from, void *to, size_t size);

/* The target of a branch of CODE_BRANCH bytes; NULL: there is none. */
const uint8_t *code_target(const uint8_t *at);

/* The target of a jump at a function's beginning, in a form that other libraries write; NULL: there
 * is none. *size: bytes up to and including the jump. */
const uint8_t *code_leads_to(const uint8_t *function, size_t readable, size_t *size);

/* On x86-64: finds a pad, CODE_BRANCH bytes of filler between functions that no thread executes;
 * NULL: none. behind: after the function's last byte, up to the next function; before: directly
 * before its first byte, readable from `from` on. */
uint8_t *code_pad_behind(const uint8_t *end);
uint8_t *code_pad_before(uint8_t *start, const uint8_t *from);
/* The place of the pad that code_pad_behind() would return, even if it is not filler. */
uint8_t *code_pad_place(const uint8_t *end);

/* ---- writing code ----------------------------------------------------------------------- */

/* Writes to `to` a branch from `at` to `target`. False: the target is out of reach. */
bool code_branch(uint8_t to[CODE_BRANCH], const uint8_t *at, const uint8_t *target);
/* Writes a short branch, of CODE_SHORT bytes. */
bool code_short_branch(uint8_t to[CODE_SHORT], const uint8_t *at, const uint8_t *target);

/* Prepares the process for code_fetch_anew(). False: the kernel cannot synchronize code. */
bool code_start(void);

/* Can `count` bytes at the beginning of one instruction be replaced by an instruction of that size,
 * while threads execute them? */
bool code_can_replace(const uint8_t *at, size_t count);

/* Memory whose protection is changed: a mapping, or a page. */
struct code_text {
    uintptr_t start, end;
    int protection; /* PROT_*, before the change */
    bool of_file;   /* a private mapping of a file, not writable */
};

/* Finds the executable mapping that contains the address, perhaps *last. False: the kernel's list
 * of mappings cannot be read. */
bool code_find(struct code_text *last, const uint8_t *at);

/* Bytes to replace: code_can_replace() allows it, or no thread executes them. */
struct code_change {
    uint8_t *at;
    const uint8_t *bytes;
    size_t size;
};

/* Makes the changes in this order. Each thread executes either the old instruction or the new one,
 * and only new ones after the call. Changes in a row that lie on one page cost little more than
 * one. last: zeroed by the caller before the first of several calls. 0, or the negative error of
 * mprotect(2): then the first changes may have been made. */
long code_write(struct code_text *last, const struct code_change *changes, size_t count);

/* Excludes other copies of this library in the process, which change the same code: no copy reads
 * or writes code between both calls. Do not nest them. Without the lock (no /proc, no descriptor is
 * left) the caller continues. code_unlock() takes what code_lock() returned. */
int code_lock(void);
void code_unlock(int lock);

/* ---- for code.c ------------------------------------------------------------------------- */

/* Makes the changes as code_write(), in one mapping, without making code writable (code_twin.c).
 * Returns how many were made: fewer if that is not possible here. */
size_t code_replace_by_twin(const struct code_text *text, const struct code_change *changes,
                            size_t count);
/* Is this address in a twin, which the dynamic linker does not know? */
bool code_is_twin(uintptr_t at);

/* ---- of the processor, for code.c ------------------------------------------------------- */

/* Replaces bytes on a writable page. Calls no function of libc. */
void code_replace(uint8_t *at, const uint8_t *bytes, size_t count);

/* Returns when every thread of the process has passed a context synchronization event, and so
 * executes the current code. False: the kernel cannot do this. */
static inline bool code_fetch_anew(void)
{
    return kernel_call(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED_SYNC_CORE, 0, 0, 0, 0, 0) ==
           0;
}

#endif
