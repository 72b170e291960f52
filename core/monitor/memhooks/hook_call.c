/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See hook_call.h. A change is pushed before the kernel makes it: once the pages are gone, another
 * thread may immediately get new memory at the same address. A get that races with the change
 * itself may register the old pages; that is a mistake of its caller, as it would be without a
 * cache.
 *
 * shmdt(2) unmaps only shared memory, which is never watched.
 */
#include "core/monitor/memhooks/hook_call.h"

#include "core/base/kernel_call.h"
#include "core/monitor/change/change_queue.h"
#include "core/monitor/change/gate.h"
#include "core/monitor/memhooks/hook_arch.h"

#include <errno.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#ifndef MADV_DONTNEED_LOCKED
#define MADV_DONTNEED_LOCKED 24
#endif
#ifndef MADV_GUARD_INSTALL
#define MADV_GUARD_INSTALL 102
#endif
#ifndef MREMAP_DONTUNMAP
#define MREMAP_DONTUNMAP 4
#endif
#ifndef SYS_process_madvise
#define SYS_process_madvise 440
#endif

static _Atomic(struct hook_state *) state;
static _Atomic uint64_t page_size;
static _Atomic uint64_t calls, loads;
static _Atomic uint64_t linker_mapped; /* note of the dynamic linker's last mapping */

void hook_call_begin(struct hook_state *hooks, uint64_t page)
{
    atomic_store(&state, hooks);
    atomic_store(&page_size, page);
    atomic_store(&calls, 0);
    atomic_store(&linker_mapped, 0);
}

uint64_t hook_call_count(void)
{
    return atomic_load(&calls);
}

uint64_t hook_call_loads(void)
{
    return atomic_load(&loads);
}

uint64_t hook_call_linker_mapped(void)
{
    return atomic_load(&linker_mapped);
}

void hook_call_forget_mapped(uint64_t note)
{
    atomic_compare_exchange_strong(&linker_mapped, &note, 0);
}

/* ---- pushing ---------------------------------------------------------------------------- */

static bool is_watched(uint64_t start, uint64_t end)
{
    struct hook_state *hooks = atomic_load(&state);
    uint64_t last = (end - 1) >> HOOK_GRANULE_SHIFT;
    uint64_t at = start >> HOOK_GRANULE_SHIFT;

    if (last - at >= HOOK_GRANULES)
        return atomic_load(&hooks->watched);
    while (at <= last)
        if (atomic_load(&hooks->granules[at++ % HOOK_GRANULES]))
            return true;
    return false;
}

/* Pushes a change of [start, start + len), which is about to happen: up to the end of its last
 * page, or to the top of the address space if it wraps. */
static void push(uint64_t start, uint64_t len)
{
    uint64_t mask = atomic_load(&page_size) - 1;
    struct change change = {.start = hook_arch_untagged(start), .source = CHANGE_HOOKS};

    change.end =
        len > UINT64_MAX - mask - change.start ? UINT64_MAX : (change.start + len + mask) & ~mask;
    if (!len || !is_watched(change.start, change.end))
        return;
    atomic_fetch_add(&calls, 1);
    changes_push(&change);
}

void hook_call_push_all(void)
{
    push(0, UINT64_MAX);
}

/* ---- calls that never end --------------------------------------------------------------- */

/* Lets the kernel compare memory with a value, since the memory may be unmapped. futex(2) is
 * permitted to every program, and here waits for nothing and wakes nothing. Returns 0 if they are
 * equal, else -EAGAIN. A page that is not resident is not touched: the program may serve its fault
 * (userfaultfd), perhaps on this thread. */
static long compare(uint64_t address, uint32_t value)
{
    uint64_t page = atomic_load(&page_size);
    unsigned char resident = 0;
    uint32_t other = 0;

    if (kernel_call(SYS_mincore, (long)(address & ~(page - 1)), (long)page, (long)&resident, 0, 0,
                    0) ||
        !(resident & 1))
        return -EFAULT;
    return kernel_call(SYS_futex, (long)address, FUTEX_CMP_REQUEUE_PRIVATE, 0, 0, (long)&other,
                       value);
}

/* Has the call's mark gone from its stack? While a call is under way its thread uses no stack in or
 * above the frame, whatever stack its handlers run on, and the stub writes the mark only where the
 * call itself does not change it. So if the mark is gone, the call has ended. */
static bool is_gone(uint64_t stack, uint64_t number)
{
    long rc = compare(stack + HOOK_FRAME_MARKED, (uint32_t)number);

    rc = rc ? rc : compare(stack + HOOK_FRAME_MARKED + sizeof(uint32_t), (uint32_t)(number >> 32));
    return rc == -EAGAIN;
}

/* Reads the number first. Numbers do not recur: if the number can be taken, the frame had it all
 * the time, and the stack read meanwhile belongs to that call. */
static void end_if_gone(struct hook_state *hooks, struct hook_frame *frame)
{
    uint64_t number = atomic_load(&frame->number), stack = atomic_load(&frame->stack);

    if (!stack || !number || number & HOOK_FRAME_UNMARKED || !is_gone(stack, number) ||
        !atomic_compare_exchange_strong(&frame->number, &number, 0))
        return;
    atomic_store(&frame->stack, 0);
    atomic_fetch_add(&hooks->ended, 1);
}

void hook_call_end_abandoned(struct hook_state *hooks)
{
    for (size_t i = 0; i < HOOK_FRAMES + HOOK_PROBES; i++)
        end_if_gone(hooks, &hooks->frames[i]);
}

/* ---- calls ------------------------------------------------------------------------------ */

/* The kernel takes an int and ignores the register's upper half. */
static bool throws_away(uint64_t arg)
{
    int advice = (int)arg;

    return advice == MADV_DONTNEED || advice == MADV_FREE || advice == MADV_REMOVE ||
           advice == MADV_DONTNEED_LOCKED || advice == MADV_GUARD_INSTALL;
}

/* In a mapping of huge pages the kernel rounds the length of mmap(2), mremap(2) and shmat(2) up to
 * the huge page's size, and wants the address to be aligned to that. So a length at an aligned
 * address counts as rounded, whatever the mapping is. */
static uint64_t up_to_huge_page(uint64_t start, uint64_t len)
{
#if defined(__x86_64__)
    static const unsigned shifts[] = {30, 21};
#else
    static const unsigned shifts[] = {34, 30, 29, 25, 21, 16};
#endif

    for (size_t i = 0; i < sizeof(shifts) / sizeof(shifts[0]); i++) {
        uint64_t mask = (UINT64_C(1) << shifts[i]) - 1;

        if (!(start & mask))
            return len > UINT64_MAX - mask ? UINT64_MAX : (len + mask) & ~mask;
    }
    return len;
}

/* Memory that shrinks in place loses its tail; memory that grows may move. */
static void on_mremap(const uint64_t *args)
{
    uint64_t mask = atomic_load(&page_size) - 1;
    uint64_t before = up_to_huge_page(args[0], args[1]);
    uint64_t after = (args[2] + mask) & ~mask, flags = args[3];

    if (flags & (MREMAP_FIXED | MREMAP_DONTUNMAP) || (flags & MREMAP_MAYMOVE && after > args[1]))
        push(args[0], before);
    else if (after < before)
        push(args[0] + after, before - after);
    if (flags & MREMAP_FIXED)
        push(args[4], up_to_huge_page(args[4], args[2]));
}

/* The number is never 0. */
static uint64_t note_of(uint64_t address)
{
    return HOOK_CALL_ADDRESS(address) | (atomic_load(&loads) % (HOOK_CALL_NOTE_NUMBERS - 1) + 1);
}

/* Only glibc's linker still passes MAP_DENYWRITE, which the kernel ignores. It maps a file's first
 * segment where the kernel chooses, and the others into that range. */
static void on_file(const uint64_t *args)
{
    bool is_linkers = args[3] & MAP_DENYWRITE, is_fixed = args[3] & MAP_FIXED;
    bool is_code = args[2] & PROT_EXEC;

    if (is_linkers && (is_fixed || is_code))
        atomic_store(&linker_mapped, note_of(is_fixed ? args[0] : 0));
    if (is_code || (is_linkers && is_fixed)) {
        atomic_fetch_add(&loads, 1);
        gates_begin_looking();
    }
}

static void on_mmap(const uint64_t *args)
{
    bool maybe_huge = !(args[3] & MAP_ANONYMOUS) || args[3] & MAP_HUGETLB;

    if (!(args[3] & MAP_ANONYMOUS))
        on_file(args);
    if (args[3] & MAP_FIXED)
        push(args[0], maybe_huge ? up_to_huge_page(args[0], args[1]) : args[1]);
}

/* Asks the kernel for the heap's end: it may have been moved past libc. */
static void on_brk(uint64_t end)
{
    uint64_t now = end ? (uint64_t)kernel_call(SYS_brk, 0, 0, 0, 0, 0, 0) : 0;

    if (end < now)
        push(end, now - end);
}

/* If the kernel does not report the segment's size, it may be any. */
static void on_shmat(const uint64_t *args)
{
    struct shmid_ds segment = {.shm_segsz = SIZE_MAX}; /* the stack's content, if a policy answers
                                                        * for the kernel */
    uint64_t start = args[1], len = UINT64_MAX;

    if (!(args[2] & SHM_REMAP))
        return;
    start -= args[2] & SHM_RND ? start & (atomic_load(&page_size) - 1) : 0;
    if (!kernel_call(SYS_shmctl, (long)args[0], IPC_STAT, (long)&segment, 0, 0, 0))
        len = up_to_huge_page(start, segment.shm_segsz);
    push(start, len);
}

#define SOME 8 /* ranges read at once */

/* Reads the ranges as the kernel will. All memory counts as changed if they cannot be read so (a
 * policy or their memory forbids it), or are more than the kernel takes. */
static void on_process_madvise(const uint64_t *args)
{
    long self = kernel_call(SYS_getpid, 0, 0, 0, 0, 0, 0);
    struct iovec *ranges = (struct iovec *)(uintptr_t)args[1];
    uint64_t count = throws_away(args[3]) ? args[2] : 0;
    struct iovec some[SOME], local = {some, 0};

    if (count > UIO_MAXIOV) {
        push(0, UINT64_MAX);
        return;
    }
    for (uint64_t at = 0; at < count; at += SOME) {
        uint64_t now = count - at < SOME ? count - at : SOME;
        struct iovec remote = {ranges + at, now * sizeof(some[0])};

        local.iov_len = remote.iov_len;
        if (kernel_call(SYS_process_vm_readv, self, (long)&local, 1, (long)&remote, 1, 0) !=
            (long)remote.iov_len) {
            push(0, UINT64_MAX);
            return;
        }
        for (uint64_t i = 0; i < now; i++)
            push((uintptr_t)some[i].iov_base, some[i].iov_len);
    }
}

void hook_call(const struct hook_call *call)
{
    const uint64_t *args = call->args;

    if (hook_arch_is_x32(call->number))
        push(0, UINT64_MAX);
    switch (hook_arch_number(call->number)) {
    case SYS_munmap:
        push(args[0], args[1]);
        break;
    case SYS_mmap:
        on_mmap(args);
        break;
    case SYS_mremap:
        on_mremap(args);
        break;
    case SYS_madvise:
        if (throws_away(args[2]))
            push(args[0], args[1]);
        break;
    case SYS_brk:
        on_brk(args[0]);
        break;
    case SYS_shmat:
        on_shmat(args);
        break;
    case SYS_process_madvise:
        on_process_madvise(args);
        break;
    }
}
