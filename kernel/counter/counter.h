/* SPDX-License-Identifier: GPL-2.0-only
 *
 * The parts of the module hmreg_counter; hmreg_counter.h says what it does.
 *   device.c   /dev/hmreg: who may use it, and the memory that the process maps
 *   ranges.c   the watched ranges of an address space, and the counting of changes
 *   users.c    how many ranges each user watches
 */
#ifndef KERNEL_COUNTER_COUNTER_H
#define KERNEL_COUNTER_COUNTER_H

#include <linux/mmu_notifier.h>
#include <linux/rbtree.h>
#include <linux/spinlock.h>
#include <linux/types.h>
#include <linux/wait.h>
#include <linux/workqueue.h>

#include "hmreg_counter.h"

/* Changes under way that are listed one by one; with more, all memory counts as changing. */
#define MAX_CHANGING 16

/* Ranges are charged to users in lots of CHARGE; the first lot when a process sets up a file, so
 * that each process has at least one.
 */
#define CHARGE 512

struct users;
struct watched;

/* An address space. It is shared by all files that it has set up, so that a change costs one
 * callback.
 */
struct space {
	struct mmu_notifier notifier;
	struct users *users; /* who are charged */

	/* Guards all below, and the ranges of the files. Under it only the users' lock and a
	 * workqueue's are taken.
	 */
	spinlock_t lock;
	struct rb_root_cached tree; /* watched ranges that were not counted yet */
	u32 files, slots;
	u32 watched, charged; /* ranges; CHARGE or a multiple */
	struct {
		unsigned long start, last;
	} changing[MAX_CHANGING];
	unsigned int changing_count, unlisted;

	wait_queue_head_t quiet; /* waits for the end of changes */
};

/* The ranges of a file. */
struct ranges {
	struct space *space;
	u32 slots;

	/* Shared with the process, read-only there. */
	struct hmreg_counter_page *page;
	u64 *slot;
	struct hmreg_counter_change *ring;

	/* Guarded by the space's lock. */
	struct watched **of_slot; /* NULL: the slot is free */
	u32 *next_free;
	u32 first_free;

	wait_queue_head_t *counted; /* for `generation` to grow */
	struct work_struct wake;    /* wakes it */
};

int ranges_init(void);
void ranges_exit(void);

/* The bytes of a page for so many slots, a power of two. */
size_t ranges_bytes(u32 slots);
/* Counts changes of current's address space from now on, and wakes `counted`. page: zeroed,
 * ranges_bytes(slots) long. -EDQUOT: the space's files would have more than `most` slots; or an
 * error of users_charge().
 */
int ranges_open(struct ranges *ranges, u32 slots, u32 most, void *page, wait_queue_head_t *counted);
/* Ends the counting in the page. The address space may have ended already. */
void ranges_close(struct ranges *ranges);

/* Fills in the range's slot and seq. -EDQUOT: from users_charge(); -EINTR: a fatal signal came
 * during the wait.
 */
int ranges_watch(struct ranges *ranges, struct hmreg_counter_range *range);
int ranges_unwatch(struct ranges *ranges, u32 slot);

void users_init(void);
/* The users to charge for current's watches; NULL: no memory. */
struct users *users_get(void);
void users_put(struct users *users);

/* Charges CHARGE more ranges. -EDQUOT: one of the users would have more than max_user_slots. The
 * last quarter is reserved for address spaces that have none yet.
 */
int users_charge(struct users *users, bool first);
void users_uncharge(struct users *users);

#endif
