/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * /dev/hmreg: reports changes of its memory to a process, before they can be seen. One open file
 * serves the address space that opened it.
 *
 *     fd = open("/dev/hmreg", O_RDWR | O_CLOEXEC);
 *     ioctl(fd, HMREG_COUNTER_SETUP, &setup);               slots wanted -> bytes to map
 *     page = mmap(NULL, setup.bytes, PROT_READ, MAP_SHARED, fd, 0);
 *     ioctl(fd, HMREG_COUNTER_UPDATE, &update);             range -> slot, seq; THEN pin the pages
 *     valid: page->generation == seen                       of all ranges, by one load (acquire)
 *        or: slots[slot] == seq                             of one range
 *     read:  for (; seen != page->generation; seen++)
 *                changed(ring[seen % page->slots]);
 *
 * The first change that takes pages of a watched range away adds 1 to the range's slot, writes to
 * the ring which part of the range it concerns, and then increments `generation`, all before the
 * kernel takes the first page. From then on the range is not watched; its slot stays its own until
 * it is unwatched. A change that leaves the pages in place (fork(2), mprotect(2), a userfaultfd's
 * write protection) is not counted.
 *
 * Each watch is counted at most once, so a reader that keeps up finds every count in the ring. A
 * slow reader may be overtaken, and can detect that: if `generation`, loaded after an entry, is
 * more than `slots` - HMREG_COUNTER_BATCH ahead of it, the entry may be a later one, and any range
 * may have changed.
 */
#ifndef HMREG_COUNTER_H
#define HMREG_COUNTER_H

#include <linux/ioctl.h>
#include <linux/types.h>

#define HMREG_COUNTER_VERSION 1

#define HMREG_COUNTER_BATCH 64 /* entries that may be written before `generation` counts them */

/* The beginning of the mapping, which is read-only. */
struct hmreg_counter_page {
	__u32 version;	   /* HMREG_COUNTER_VERSION */
	__u32 slots;	   /* a power of two */
	__u32 slot_offset; /* offset of __u64[slots], in bytes */
	__u32 ring_offset; /* of struct hmreg_counter_change[slots] */
	__u64 unused[14];
	__u64 generation; /* the counts so far; a pair of cache lines of its own */
	__u64 unused_too[15];
};

/* An entry of the ring: pages of a watched range, [start, end). */
struct hmreg_counter_change {
	__u64 start, end;
};

struct hmreg_counter_setup {
	__u32 slots;  /* in: how many ranges to watch at once; out: how many can be watched */
	__u32 unused; /* 0 */
	__u64 bytes;  /* out: the size of the mapping */
};

struct hmreg_counter_range {
	__u64 start, end; /* in: [start, end), extended to whole pages */
	__u64 seq;	  /* out: the slot's value while the range is unchanged */
	__u32 slot;	  /* out */
	__u32 unused;	  /* 0 */
};

/* First unwatches, then watches, in the order of the arrays, up to the first failure. */
struct hmreg_counter_update {
	__u64 unwatch; /* a pointer to __u32[unwatch_count]: slots */
	__u64 watch;   /* a pointer to struct hmreg_counter_range[watch_count] */
	__u32 unwatch_count, watch_count;
	__u32 unwatched, watched; /* out, also when it fails: how many were done */
};

#define HMREG_COUNTER_MAX_UPDATE 1024 /* unwatch_count and watch_count, each */

/* EBUSY: done before; EINVAL: no slots, or more than the module permits one process; EDQUOT: with
 * the process's other files more than that, or the user's processes have all that the module
 * permits one user; ENOMEM; EINTR: a signal came, call again.
 */
#define HMREG_COUNTER_SETUP _IOWR('h', 1, struct hmreg_counter_setup)
/* EINVAL: not set up, a count above the maximum, a range that is empty or ends behind the address
 * space, a slot that does not exist; ENOENT: a slot that no range has; ENOSPC: no slot is free;
 * EDQUOT: the user's processes watch as much as the module permits one user, of which each process
 * has 512 ranges in any case (earlier modules charged all slots at SETUP); ENOMEM; EFAULT; EINTR: a
 * fatal signal. A range of which pages are just being taken away is watched as soon as they are
 * gone: the call waits for that.
 */
#define HMREG_COUNTER_UPDATE _IOWR('h', 2, struct hmreg_counter_update)

/* Both, mmap(2) and read(2): EPERM in another address space than the one that opened the file.
 * mmap(2) with PROT_WRITE or PROT_EXEC: EACCES.
 * read(2) of 8 bytes or more returns `generation`, and never blocks. poll(2) reports POLLIN as long
 * as `generation` is not what read(2) returned last; at first that is 0. Before SETUP, and in other
 * address spaces, it reports POLLERR.
 */

#endif
