// SPDX-License-Identifier: GPL-2.0-only
/*
 * Why no change is seen before it is counted. Every operation that takes a page from behind an
 * address, in this process or another (munmap and its kin by unmap_vmas(), mremap by
 * move_page_tables(), madvise and truncation by zap_page_range_single() and unmap_mapping_range(),
 * copy-on-write by wp_page_copy(), reclaim, migration and compaction by try_to_unmap() and
 * try_to_migrate(), KSM by replace_page(), khugepaged by collapse_huge_page(), UFFDIO_MOVE by
 * move_pages()), does this:
 *
 *   1. mmu_notifier_invalidate_range_start(), which calls on_start()
 *   2. under the page table's lock: ptep_clear_flush() or the like, and perhaps set_pte_at()
 *   3. mmu_notifier_invalidate_range_end(), which calls on_end()
 *   4. the page's reference is dropped; the call returns, or the lock of the mappings is released
 *
 * on_start() has stored the slot, the ring's entry, and then `generation` with smp_store_release().
 * Other contents at the address appear by a page table entry that is set under the same lock after
 * step 2, so the setter, having acquired the lock, is ordered behind these stores; and a reader
 * through that entry is ordered behind its setter. New memory at an address whose mapping was taken
 * away appears only after step 4: mmap(2) takes the mappings' lock, which munmap(2) holds until
 * then. So a reader that has seen the new contents, or knows that the call has returned, loads the
 * new `generation`.
 *
 * A watch that begins between 1 and 3 would miss the count, although the caller may yet pin the old
 * pages. So on_start() lists the change, on_end() removes it, and ranges_watch() waits until no
 * listed change overlaps its range. The lock makes it one or the other: on_start() finds the range
 * in the tree, or ranges_watch() finds the change in the list. Starts and ends come in pairs:
 * mmu_notifier_register() waits by mm_take_all_locks() until no change is under way, and on_start()
 * never fails. Step 3 may come before the processors' TLBs are flushed, as in
 * zap_page_range_single(): a load may still find the old page then, but get_user_pages() cannot,
 * which reads the page tables. on_start() may let the lock go between two batches: no range joins
 * those it has to count, since the change is listed already.
 *
 * Each address space has one notifier for all its files, so that their number costs nothing when
 * others change a file that is mapped here. It is kept until the last file is closed.
 *
 * Callbacks run in any context, reclaim included. They take only `lock`, under which nothing is
 * allocated, and inside it the users' lock and a workqueue's.
 */
#include <linux/interval_tree.h>
#include <linux/mm.h>
#include <linux/nospec.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include <linux/vmalloc.h>

#include "counter.h"

#define NONE U32_MAX

struct watched {
	struct interval_tree_node node;
	struct ranges *ranges;
	u32 slot;
	bool counted; /* it is not in the tree */
};

static struct kmem_cache *cache;
static struct workqueue_struct *wakes;
static atomic_t spaces;
static DECLARE_WAIT_QUEUE_HEAD(no_spaces);

int ranges_init(void)
{
	cache = kmem_cache_create("hmreg_watched", sizeof(struct watched), 0, SLAB_ACCOUNT, NULL);
	wakes = alloc_workqueue("hmreg_counter", WQ_UNBOUND | WQ_MEM_RECLAIM, 0);
	if (cache && wakes)
		return 0;
	if (wakes)
		destroy_workqueue(wakes);
	kmem_cache_destroy(cache);
	return -ENOMEM;
}

/* mmu_notifier_synchronize() waits for readers, but not for free_space() on every processor. That
 * runs where bottom halves are disabled, for which synchronize_rcu() waits.
 */
void ranges_exit(void)
{
	mmu_notifier_synchronize();
	wait_event(no_spaces, !atomic_read(&spaces));
	synchronize_rcu();
	destroy_workqueue(wakes);
	kmem_cache_destroy(cache);
}

/* ---- changes under way ------------------------------------------------------------------- */

static void begin_change(struct space *space, unsigned long start, unsigned long last)
{
	if (space->changing_count == MAX_CHANGING) {
		space->unlisted++;
		return;
	}
	space->changing[space->changing_count].start = start;
	space->changing[space->changing_count].last = last;
	space->changing_count++;
}

static void end_change(struct space *space, unsigned long start, unsigned long last)
{
	unsigned int i;

	for (i = 0; i < space->changing_count; i++) {
		if (space->changing[i].start != start || space->changing[i].last != last)
			continue;
		space->changing[i] = space->changing[--space->changing_count];
		return;
	}
	if (!WARN_ON_ONCE(!space->unlisted))
		space->unlisted--;
}

static bool is_changing(const struct space *space, unsigned long start, unsigned long last)
{
	unsigned int i;

	if (space->unlisted)
		return true;
	for (i = 0; i < space->changing_count; i++)
		if (space->changing[i].start <= last && start <= space->changing[i].last)
			return true;
	return false;
}

static bool is_quiet(struct space *space, unsigned long start, unsigned long last)
{
	bool quiet;

	spin_lock(&space->lock);
	quiet = !is_changing(space, start, last);
	spin_unlock(&space->lock);
	return quiet;
}

/* ---- counting ---------------------------------------------------------------------------- */

static void bump(struct ranges *ranges, u32 slot)
{
	WRITE_ONCE(ranges->slot[slot], ranges->slot[slot] + 1);
}

static struct watched *first_watched(struct space *space, unsigned long start, unsigned long last)
{
	struct interval_tree_node *node = interval_tree_iter_first(&space->tree, start, last);

	return node ? container_of(node, struct watched, node) : NULL;
}

static void count_one(struct watched *watched, unsigned long start, unsigned long last)
{
	struct ranges *ranges = watched->ranges;
	u64 generation = ranges->page->generation;
	struct hmreg_counter_change *change = &ranges->ring[generation & (ranges->slots - 1)];

	interval_tree_remove(&watched->node, &ranges->space->tree);
	watched->counted = true;
	bump(ranges, watched->slot);
	WRITE_ONCE(change->start, max(start, watched->node.start));
	WRITE_ONCE(change->end, min(last, watched->node.last) + 1);
	/* A reader that loads it with acquire finds the slot and the ring's entry. */
	smp_store_release(&ranges->page->generation, generation + 1);
	if (wq_has_sleeper(ranges->counted))
		queue_work(wakes, &ranges->wake);
}

/* Not by the thread that changes the memory, which may be another user's: a process may wait on a
 * file by any number of epolls.
 */
static void wake(struct work_struct *work)
{
	struct ranges *ranges = container_of(work, struct ranges, wake);

	if (wq_has_sleeper(ranges->counted))
		wake_up_interruptible(ranges->counted);
}

/* Counts at most a batch of the ranges that overlap, under one hold of the lock. Returns true if
 * more may be left.
 */
static bool count_batch(struct space *space, unsigned long start, unsigned long last)
{
	struct watched *watched;
	unsigned int n;

	for (n = 0; n < HMREG_COUNTER_BATCH; n++) {
		watched = first_watched(space, start, last);
		if (!watched)
			break;
		count_one(watched, start, last);
	}
	return n == HMREG_COUNTER_BATCH;
}

/* All other events take pages away, or may. */
static bool keeps_pages(const struct mmu_notifier_range *range)
{
	return range->event == MMU_NOTIFY_PROTECTION_VMA ||
	       range->event == MMU_NOTIFY_PROTECTION_PAGE || range->event == MMU_NOTIFY_SOFT_DIRTY;
}

static int on_start(struct mmu_notifier *notifier, const struct mmu_notifier_range *range)
{
	struct space *space = container_of(notifier, struct space, notifier);

	if (keeps_pages(range))
		return 0;
	spin_lock(&space->lock);
	begin_change(space, range->start, range->end - 1);
	while (count_batch(space, range->start, range->end - 1)) {
		spin_unlock(&space->lock);
		if (mmu_notifier_range_blockable(range))
			cond_resched();
		spin_lock(&space->lock);
	}
	spin_unlock(&space->lock);
	return 0;
}

static void on_end(struct mmu_notifier *notifier, const struct mmu_notifier_range *range)
{
	struct space *space = container_of(notifier, struct space, notifier);
	bool sleeps;

	if (keeps_pages(range))
		return;
	spin_lock(&space->lock);
	end_change(space, range->start, range->end - 1);
	/* A sleeper joined the queue before it took the lock and found the change listed. */
	sleeps = waitqueue_active(&space->quiet);
	spin_unlock(&space->lock);
	if (sleeps)
		wake_up(&space->quiet);
}

/* ---- address spaces ---------------------------------------------------------------------- */

static struct mmu_notifier *make_space(struct mm_struct *mm)
{
	struct space *space = kzalloc(sizeof(*space), GFP_KERNEL_ACCOUNT);

	if (!space)
		return ERR_PTR(-ENOMEM);
	space->users = users_get();
	if (!space->users) {
		kfree(space);
		return ERR_PTR(-ENOMEM);
	}
	spin_lock_init(&space->lock);
	space->tree = RB_ROOT_CACHED;
	init_waitqueue_head(&space->quiet);
	atomic_inc(&spaces);
	return &space->notifier;
}

static void free_space(struct mmu_notifier *notifier)
{
	struct space *space = container_of(notifier, struct space, notifier);

	users_put(space->users);
	kfree(space);
	if (atomic_dec_and_test(&spaces))
		wake_up(&no_spaces);
}

/* When the address space ends, no reader is left: counts nothing. */
static const struct mmu_notifier_ops ops = {
	.invalidate_range_start = on_start,
	.invalidate_range_end = on_end,
	.alloc_notifier = make_space,
	.free_notifier = free_space,
};

/* ---- opening and closing ----------------------------------------------------------------- */

static size_t slot_offset(void)
{
	return ALIGN(sizeof(struct hmreg_counter_page), PAGE_SIZE);
}

static size_t ring_offset(u32 slots)
{
	return slot_offset() + (size_t)slots * sizeof(u64);
}

size_t ranges_bytes(u32 slots)
{
	return PAGE_ALIGN(ring_offset(slots) + (size_t)slots * sizeof(struct hmreg_counter_change));
}

static void fill_in_page(struct ranges *ranges, void *page)
{
	ranges->page = page;
	ranges->slot = page + slot_offset();
	ranges->ring = page + ring_offset(ranges->slots);
	ranges->page->version = HMREG_COUNTER_VERSION;
	ranges->page->slots = ranges->slots;
	ranges->page->slot_offset = slot_offset();
	ranges->page->ring_offset = ring_offset(ranges->slots);
}

static void free_slots(struct ranges *ranges)
{
	kvfree(ranges->of_slot);
	kvfree(ranges->next_free);
}

static int make_slots(struct ranges *ranges)
{
	u32 i;

	ranges->of_slot = kvcalloc(ranges->slots, sizeof(*ranges->of_slot), GFP_KERNEL_ACCOUNT);
	ranges->next_free = kvmalloc_array(ranges->slots, sizeof(u32), GFP_KERNEL_ACCOUNT);
	if (!ranges->of_slot || !ranges->next_free) {
		free_slots(ranges);
		return -ENOMEM;
	}
	for (i = 0; i < ranges->slots; i++)
		ranges->next_free[i] = i + 1 < ranges->slots ? i + 1 : NONE;
	ranges->first_free = 0;
	return 0;
}

/* The address space keeps the first CHARGE while it has a file. */
static int join(struct space *space, u32 slots, u32 most)
{
	int rc = 0;

	spin_lock(&space->lock);
	if (slots > most || space->slots > most - slots)
		rc = -EDQUOT;
	if (!rc && !space->files) {
		rc = users_charge(space->users, true);
		space->charged = rc ? 0 : CHARGE;
	}
	if (!rc) {
		space->files++;
		space->slots += slots;
	}
	spin_unlock(&space->lock);
	return rc;
}

static void part(struct space *space, u32 slots)
{
	spin_lock(&space->lock);
	space->slots -= slots;
	if (!--space->files)
		users_uncharge(space->users);
	spin_unlock(&space->lock);
}

int ranges_open(struct ranges *ranges, u32 slots, u32 most, void *page, wait_queue_head_t *counted)
{
	struct mmu_notifier *notifier;
	int rc;

	ranges->slots = slots;
	ranges->counted = counted;
	INIT_WORK(&ranges->wake, wake);
	fill_in_page(ranges, page);
	rc = make_slots(ranges);
	if (rc)
		return rc;
	notifier = mmu_notifier_get(&ops, current->mm);
	if (IS_ERR(notifier)) {
		free_slots(ranges);
		return PTR_ERR(notifier);
	}
	ranges->space = container_of(notifier, struct space, notifier);
	rc = join(ranges->space, slots, most);
	if (rc) {
		mmu_notifier_put(notifier);
		free_slots(ranges);
	}
	return rc;
}

/* ---- watching ---------------------------------------------------------------------------- */

/* Caller holds the lock, as for enter() and leave(). */
static int charge(struct space *space)
{
	if (space->watched == space->charged) {
		int rc = users_charge(space->users, false);

		if (rc)
			return rc;
		space->charged += CHARGE;
	}
	space->watched++;
	return 0;
}

/* Keeps half of CHARGE in excess of the watched ranges, so that a watch and its end do not charge
 * each time.
 */
static void uncharge(struct space *space)
{
	space->watched--;
	if (space->charged - space->watched < CHARGE + CHARGE / 2)
		return;
	users_uncharge(space->users);
	space->charged -= CHARGE;
}

/* -EAGAIN: the range is changing. */
static int enter(struct ranges *ranges, struct watched *watched)
{
	struct space *space = ranges->space;
	u32 slot = ranges->first_free;
	int rc;

	if (slot == NONE)
		return -ENOSPC;
	if (is_changing(space, watched->node.start, watched->node.last))
		return -EAGAIN;
	rc = charge(space);
	if (rc)
		return rc;
	ranges->first_free = ranges->next_free[slot];
	ranges->of_slot[slot] = watched;
	watched->slot = slot;
	watched->ranges = ranges;
	interval_tree_insert(&watched->node, &space->tree);
	return 0;
}

static struct watched *leave(struct ranges *ranges, u32 slot)
{
	struct watched *watched = ranges->of_slot[slot];

	if (!watched)
		return NULL;
	if (!watched->counted) {
		interval_tree_remove(&watched->node, &ranges->space->tree);
		bump(ranges, slot); /* for readers that still compare it */
	}
	ranges->of_slot[slot] = NULL;
	ranges->next_free[slot] = ranges->first_free;
	ranges->first_free = slot;
	uncharge(ranges->space);
	return watched;
}

static int insert(struct ranges *ranges, struct watched *watched, struct hmreg_counter_range *out)
{
	int rc;

	spin_lock(&ranges->space->lock);
	rc = enter(ranges, watched);
	if (!rc) {
		out->slot = watched->slot;
		out->seq = ranges->slot[watched->slot];
	}
	spin_unlock(&ranges->space->lock);
	return rc;
}

static struct watched *watched_new(const struct hmreg_counter_range *range)
{
	unsigned long start = untagged_addr((unsigned long)range->start);
	unsigned long end = untagged_addr((unsigned long)range->end);
	struct watched *watched;

	if (start >= end || end > TASK_SIZE || range->unused)
		return ERR_PTR(-EINVAL);
	watched = kmem_cache_zalloc(cache, GFP_KERNEL);
	if (!watched)
		return ERR_PTR(-ENOMEM);
	watched->node.start = start & PAGE_MASK;
	watched->node.last = PAGE_ALIGN(end) - 1;
	return watched;
}

int ranges_watch(struct ranges *ranges, struct hmreg_counter_range *range)
{
	struct watched *watched = watched_new(range);
	struct space *space = ranges->space;
	int rc;

	if (IS_ERR(watched))
		return PTR_ERR(watched);
	do {
		rc = insert(ranges, watched, range);
		if (rc == -EAGAIN &&
		    wait_event_killable(space->quiet,
					is_quiet(space, watched->node.start, watched->node.last)))
			rc = -EINTR;
	} while (rc == -EAGAIN);
	if (rc)
		kmem_cache_free(cache, watched);
	return rc;
}

int ranges_unwatch(struct ranges *ranges, u32 slot)
{
	struct watched *watched;

	if (slot >= ranges->slots)
		return -EINVAL;
	slot = array_index_nospec(slot, ranges->slots);
	spin_lock(&ranges->space->lock);
	watched = leave(ranges, slot);
	spin_unlock(&ranges->space->lock);
	if (!watched)
		return -ENOENT;
	kmem_cache_free(cache, watched);
	return 0;
}

/* No callback finds the file once none of its ranges is watched. */
void ranges_close(struct ranges *ranges)
{
	u32 slot;

	for (slot = 0; slot < ranges->slots; slot++) {
		ranges_unwatch(ranges, slot);
		cond_resched();
	}
	cancel_work_sync(&ranges->wake);
	part(ranges->space, ranges->slots);
	mmu_notifier_put(&ranges->space->notifier);
	free_slots(ranges);
}
