/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Replaces code that is never writable. A page of code with its new content is made beside the
 * code, and the kernel exchanges the two in one step.
 *
 * Beside it is the mapping's "twin": a second mapping of the same part of the same file, readable
 * and executable too. mremap(2) makes it by moving the pages of the code's mapping away and leaving
 * the mapping itself (MREMAP_DONTUNMAP), which reads its file again. That is unnoticed if the pages
 * were the file's, which the kernel says (pagemap). The new content is written through
 * /proc/thread-self/mem: it writes to private mappings whatever their protection is, on a copy of
 * the page. A second mremap(2) moves this page to the place of the code's. Threads that come there
 * meanwhile wait in a page fault; each executes the old page or the new one. The kernel then makes
 * one mapping of the code again, since file, offset and protection are the same. Writing directly
 * to the code's pages would not do: the kernel copies the bytes in any order and sizes.
 *
 * So nothing is writable and executable at any time, no memory is charged for the mapping, and no
 * policy about code that has been modified (SELinux's execmod) is asked. The price: the twin stays,
 * an address range without memory of its own, since the next change needs it.
 *
 * Nothing is changed if the kernel is older than Linux 5.13, or /proc is missing or does not write
 * so (proc_mem.force_override). Nor if the code has no file, is locked in memory, which moving
 * would end, or has a page that other code modified before its twin was made. Nor if the process
 * already has more addresses than it may have now.
 */
#include "core/patch/code.h"

#include "core/base/high_fd.h"
#include "core/base/process.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef MREMAP_DONTUNMAP
#define MREMAP_DONTUNMAP 4
#endif

#define TWINS 16 /* mappings of code */

/* Under `hold` no child is forked: not while the descriptor of the process's memory is open, nor
 * while a table is changed. */
static struct process_hold hold;
static struct twin {
    uintptr_t start, end; /* the code's mapping */
    uintptr_t twin;       /* start of its twin */
} twins[TWINS];
static unsigned twin_count;
static enum { UNKNOWN, WORKS, FAILS } here;

/* The number is read from memory, so that searches for inlined calls (inlined.h), another copy's
 * too, do not find these. */
static long map_call(long number, long a, long b, long c, long d, long e, long f)
{
    volatile long from_memory = number;

    return kernel_call(from_memory, a, b, c, d, e, f);
}

static uintptr_t page_size(void)
{
    return (uintptr_t)sysconf(_SC_PAGESIZE);
}

/* to 0: the kernel chooses. Returns 0 on failure. Not by libc's function, as below: its code may be
 * the code to change, and half an instruction until then (patch_mend()). */
static uintptr_t move(uintptr_t from, size_t size, uintptr_t to)
{
    int flags = MREMAP_MAYMOVE | MREMAP_DONTUNMAP | (to ? MREMAP_FIXED : 0);
    long made = map_call(SYS_mremap, (long)from, (long)size, (long)size, flags, (long)to, 0);

    return made < 0 ? 0 : (uintptr_t)made;
}

/* Writes to memory whatever its protection is. */
static bool force_write(int mem, uintptr_t to, const void *from, size_t size)
{
    return pwrite(mem, from, size, (off_t)to) == (ssize_t)size &&
           memcmp((const void *)to, from, size) == 0;
}

/* ---- does it work here? ----------------------------------------------------------------- */

/* Asks the kernel, which answers EFAULT where a load might fault. */
static bool is_readable(uintptr_t at)
{
    return syscall(SYS_rt_sigprocmask, SIG_BLOCK, at, NULL, sizeof(uint64_t)) == 0;
}

/* Moves a page away and back. An emulator may forget the mapping that stays. */
static bool try_moving(char *page, size_t size)
{
    uintptr_t moved;
    bool works;

    *page = 'x';
    moved = move((uintptr_t)page, size, 0);
    if (!moved)
        return false;
    works = *(char *)moved == 'x' && is_readable((uintptr_t)page) &&
            move(moved, size, (uintptr_t)page) && *page == 'x';
    map_call(SYS_munmap, (long)moved, (long)size, 0, 0, 0, 0);
    return works;
}

/* Tries both on a new page. */
static bool try_both(int mem)
{
    size_t size = page_size();
    char *page = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    bool works;

    if (page == MAP_FAILED)
        return false;
    works = try_moving(page, size) && !mprotect(page, size, PROT_READ) &&
            force_write(mem, (uintptr_t)page, "y", 1);
    munmap(page, size);
    return works;
}

static bool works_here(int mem)
{
    if (here == UNKNOWN)
        here = try_both(mem) ? WORKS : FAILS;
    return here == WORKS;
}

/* Can the process have more memory of this size? A move to a given place checks RLIMIT_AS only
 * after the kernel has unmapped the place. */
static bool has_room(size_t size)
{
    long room = map_call(SYS_mmap, 0, (long)size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (room >= 0)
        map_call(SYS_munmap, room, (long)size, 0, 0, 0, 0);
    return room >= 0;
}

/* A mapping whose pages move away loses its lock (mlock(2)). msync(2) invalidates no cache that
 * Linux has, and refuses that for locked memory. */
static bool is_locked(const struct code_text *text)
{
    return msync((void *)text->start, text->end - text->start, MS_INVALIDATE) != 0;
}

/* ---- twins ------------------------------------------------------------------------------ */

#define PRESENT (UINT64_C(1) << 63)
#define SWAPPED (UINT64_C(1) << 62)
#define OF_FILE (UINT64_C(1) << 61)

static bool is_of_file(uint64_t page)
{
    return page & PRESENT ? (page & OF_FILE) != 0 : !(page & SWAPPED);
}

static bool are_of_file(int pagemap, const struct code_text *text)
{
    uint64_t pages[256];

    for (uintptr_t at = text->start / page_size(), end = text->end / page_size(); at < end;) {
        size_t count = end - at < 256 ? end - at : 256;
        ssize_t size = pread(pagemap, pages, count * sizeof(*pages), (off_t)(at * sizeof(*pages)));

        if (size != (ssize_t)(count * sizeof(*pages)))
            return false;
        for (size_t i = 0; i < count; i++)
            if (!is_of_file(pages[i]))
                return false;
        at += count;
    }
    return true;
}

/* Is every page of the mapping the file's? */
static bool is_as_file(const struct code_text *text)
{
    int pagemap = high_fd(open("/proc/thread-self/pagemap", O_RDONLY | O_CLOEXEC));
    bool is = pagemap >= 0 && are_of_file(pagemap, text);

    if (pagemap >= 0)
        close(pagemap);
    return is;
}

/* 0: The start of the code's twin; 0: it has none and can have none. */
static uintptr_t twin_of(const struct code_text *text)
{
    struct twin *twin = &twins[twin_count];

    for (unsigned i = 0; i < twin_count; i++)
        if (twins[i].start == text->start && twins[i].end == text->end)
            return twins[i].twin;
    if (twin_count == TWINS || !is_as_file(text))
        return 0;
    *twin = (struct twin){text->start, text->end, 0};
    twin->twin = move(text->start, text->end - text->start, 0);
    __atomic_store_n(&twin_count, twin_count + (twin->twin != 0), __ATOMIC_RELEASE);
    return twin->twin;
}

bool code_is_twin(uintptr_t at)
{
    unsigned count = __atomic_load_n(&twin_count, __ATOMIC_ACQUIRE);

    for (unsigned i = 0; i < count; i++)
        if (at - twins[i].twin < twins[i].end - twins[i].start)
            return true;
    return false;
}

/* ---- replacing -------------------------------------------------------------------------- */

/* The pages that a change touches. */
static uintptr_t first_page(const struct code_change *change)
{
    return (uintptr_t)change->at & ~(page_size() - 1);
}

static size_t pages_size(const struct code_change *change)
{
    uintptr_t end = (uintptr_t)change->at + change->size + page_size() - 1;

    return (end & ~(page_size() - 1)) - first_page(change);
}

/* Makes the first change and those in a row that touch the same pages. Returns how many. away: from
 * the code to its twin. */
static size_t exchange(int mem, uintptr_t away, const struct code_change *changes, size_t count)
{
    uintptr_t page = first_page(&changes[0]);
    size_t size = pages_size(&changes[0]), made = 0;

    if (!force_write(mem, page + away, (const void *)page, size))
        return 0;
    for (; made < count && first_page(&changes[made]) == page && pages_size(&changes[made]) == size;
         made++)
        if (!force_write(mem, (uintptr_t)changes[made].at + away, changes[made].bytes,
                         changes[made].size))
            return 0;
    return has_room(size) && move(page + away, size, page) == page ? made : 0;
}

static size_t replace(int mem, const struct code_text *text, const struct code_change *changes,
                      size_t count)
{
    uintptr_t twin = works_here(mem) && !is_locked(text) ? twin_of(text) : 0;
    size_t made = 0, more = twin != 0;

    for (; more && made < count; made += more)
        more = exchange(mem, twin - text->start, changes + made, count - made);
    return made;
}

size_t code_replace_by_twin(const struct code_text *text, const struct code_change *changes,
                            size_t count)
{
    int before = errno, mem;
    size_t made = 0;

    if (!text->of_file || !process_hold_take(&hold))
        return 0;
    mem = here == FAILS ? -1 : high_fd(open("/proc/thread-self/mem", O_RDWR | O_CLOEXEC));
    if (mem >= 0) {
        made = replace(mem, text, changes, count);
        close(mem);
    }
    process_hold_release(&hold);
    errno = before;
    return made;
}
