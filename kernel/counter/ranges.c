/* SPDX-License-Identifier: GPL-2.0-only
 *
 * Why no change is seen before it is counted. Whatever takes a page from behind an address, in this
 * process or another (munmap and its kin by unmap_vmas(), mremap by move_page_tables(), madvise and
 * truncation by zap_page_range_single() and unmap_mapping_range(), copy-on-write by wp_page_copy(),
 * reclaim, migration and compaction by try_to_unmap() and try_to_migrate(), KSM by replace_page(),
 * khugepaged by collapse_huge_page(), UFFDIO_MOVE by move_pages()), does this:
 *
 *   1. mmu_notifier_invalidate_range_start(), which calls on_start()
 *   2. under the page table's lock: ptep_clear_flush() or the like, and perhaps set_pte_at()
 *   3. mmu_notifier_invalidate_range_end(), which calls on_end()
 *   4. the page's reference is dropped; the call returns, or the lock of the mappings is released
 *
 * on_start() has stored the slot, the ring's entry, and then `generation` with smp_store_release().
 * Other contents at the address appear by a page table entry that is set under the same lock after
 * step 2, so the setter, having acquired the lock, is ordered behind these stores; and who reads
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
 * Callbacks run in any context, reclaim included. They take only `lock`, under which nothing is
 * allocated and nothing else is taken.
 */
#include <linux/interval_tree.h>
#include <linux/mm.h>
#include <linux/nospec.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>

#include "counter.h"

#define NONE U32_MAX

struct watched {
    struct interval_tree_node node;
    u32 slot;
    bool counted; /* it is not in the tree */
};

static struct kmem_cache *cache;

int ranges_init(void)
{
    cache = kmem_cache_create("hmreg_watched", sizeof(struct watched), 0, SLAB_ACCOUNT, NULL);
    return cache ? 0 : -ENOMEM;
}

void ranges_exit(void)
{
    kmem_cache_destroy(cache);
}

/* ---- changes under way ------------------------------------------------------------------- */

static void begin_change(struct ranges *ranges, unsigned long start, unsigned long last)
{
    if (ranges->changing_count == MAX_CHANGING) {
        ranges->unlisted++;
        return;
    }
    ranges->changing[ranges->changing_count].start = start;
    ranges->changing[ranges->changing_count].last = last;
    ranges->changing_count++;
}

static void end_change(struct ranges *ranges, unsigned long start, unsigned long last)
{
    unsigned int i;

    for (i = 0; i < ranges->changing_count; i++) {
        if (ranges->changing[i].start != start || ranges->changing[i].last != last)
            continue;
        ranges->changing[i] = ranges->changing[--ranges->changing_count];
        return;
    }
    if (!WARN_ON_ONCE(!ranges->unlisted))
        ranges->unlisted--;
}

static bool is_changing(const struct ranges *ranges, unsigned long start, unsigned long last)
{
    unsigned int i;

    if (ranges->unlisted)
        return true;
    for (i = 0; i < ranges->changing_count; i++)
        if (ranges->changing[i].start <= last && start <= ranges->changing[i].last)
            return true;
    return false;
}

static bool is_quiet(struct ranges *ranges, unsigned long start, unsigned long last)
{
    bool quiet;

    spin_lock(&ranges->lock);
    quiet = !is_changing(ranges, start, last);
    spin_unlock(&ranges->lock);
    return quiet;
}

/* ---- counting ---------------------------------------------------------------------------- */

static void bump(struct ranges *ranges, u32 slot)
{
    WRITE_ONCE(ranges->slot[slot], ranges->slot[slot] + 1);
}

static struct watched *first_watched(struct ranges *ranges, unsigned long start, unsigned long last)
{
    struct interval_tree_node *node = interval_tree_iter_first(&ranges->tree, start, last);

    return node ? container_of(node, struct watched, node) : NULL;
}

static void write_change(struct hmreg_counter_change *change, const struct watched *watched,
                         unsigned long start, unsigned long last)
{
    WRITE_ONCE(change->start, max(start, watched->node.start));
    WRITE_ONCE(change->end, min(last, watched->node.last) + 1);
}

/* Counts at most a batch of the ranges that overlap, under one hold of the lock. Returns true if it
 * has counted any. */
static bool count_batch(struct ranges *ranges, unsigned long start, unsigned long last)
{
    u64 generation = ranges->page->generation;
    struct watched *watched;
    unsigned int n;

    for (n = 0; n < HMREG_COUNTER_BATCH; n++) {
        watched = first_watched(ranges, start, last);
        if (!watched)
            break;
        interval_tree_remove(&watched->node, &ranges->tree);
        watched->counted = true;
        bump(ranges, watched->slot);
        write_change(&ranges->ring[generation & (ranges->slots - 1)], watched, start, last);
        generation++;
    }
    if (n)
        smp_store_release(&ranges->page->generation, generation);
    return n;
}

/* All other events take pages away, or may. */
static bool keeps_pages(const struct mmu_notifier_range *range)
{
    return range->event == MMU_NOTIFY_PROTECTION_VMA ||
           range->event == MMU_NOTIFY_PROTECTION_PAGE || range->event == MMU_NOTIFY_SOFT_DIRTY;
}

static int on_start(struct mmu_notifier *notifier, const struct mmu_notifier_range *range)
{
    struct ranges *ranges = container_of(notifier, struct ranges, notifier);
    bool any;

    if (keeps_pages(range))
        return 0;
    spin_lock(&ranges->lock);
    begin_change(ranges, range->start, range->end - 1);
    any = count_batch(ranges, range->start, range->end - 1);
    while (first_watched(ranges, range->start, range->end - 1)) {
        spin_unlock(&ranges->lock);
        if (mmu_notifier_range_blockable(range))
            cond_resched();
        spin_lock(&ranges->lock);
        count_batch(ranges, range->start, range->end - 1);
    }
    spin_unlock(&ranges->lock);
    if (any && wq_has_sleeper(&ranges->counted))
        wake_up_interruptible(&ranges->counted);
    return 0;
}

static void on_end(struct mmu_notifier *notifier, const struct mmu_notifier_range *range)
{
    struct ranges *ranges = container_of(notifier, struct ranges, notifier);

    if (keeps_pages(range))
        return;
    spin_lock(&ranges->lock);
    end_change(ranges, range->start, range->end - 1);
    spin_unlock(&ranges->lock);
    if (wq_has_sleeper(&ranges->quiet))
        wake_up(&ranges->quiet);
}

/* When the address space ends, no reader is left: nothing is to be counted. */
static const struct mmu_notifier_ops ops = {
    .invalidate_range_start = on_start,
    .invalidate_range_end = on_end,
};

/* ---- life -------------------------------------------------------------------------------- */

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

int ranges_open(struct ranges *ranges, u32 slots, void *page)
{
    int rc;

    ranges->slots = slots;
    fill_in_page(ranges, page);
    spin_lock_init(&ranges->lock);
    init_waitqueue_head(&ranges->quiet);
    init_waitqueue_head(&ranges->counted);
    ranges->tree = RB_ROOT_CACHED;
    ranges->changing_count = ranges->unlisted = 0;
    rc = make_slots(ranges);
    if (rc)
        return rc;
    ranges->notifier.ops = &ops;
    rc = mmu_notifier_register(&ranges->notifier, current->mm);
    if (rc)
        free_slots(ranges);
    return rc;
}

void ranges_close(struct ranges *ranges, struct mm_struct *mm)
{
    u32 i;

    mmu_notifier_unregister(&ranges->notifier, mm);
    for (i = 0; i < ranges->slots; i++) {
        if (ranges->of_slot[i])
            kmem_cache_free(cache, ranges->of_slot[i]);
        cond_resched();
    }
    free_slots(ranges);
}

/* ---- watching ---------------------------------------------------------------------------- */

/* -EAGAIN: the range is changing. */
static int insert(struct ranges *ranges, struct watched *watched, struct hmreg_counter_range *out)
{
    u32 slot;
    int rc = 0;

    spin_lock(&ranges->lock);
    slot = ranges->first_free;
    if (slot == NONE) {
        rc = -ENOSPC;
    } else if (is_changing(ranges, watched->node.start, watched->node.last)) {
        rc = -EAGAIN;
    } else {
        ranges->first_free = ranges->next_free[slot];
        ranges->of_slot[slot] = watched;
        watched->slot = slot;
        interval_tree_insert(&watched->node, &ranges->tree);
        out->slot = slot;
        out->seq = ranges->slot[slot];
    }
    spin_unlock(&ranges->lock);
    return rc;
}

int ranges_watch(struct ranges *ranges, struct hmreg_counter_range *range)
{
    struct watched *watched;
    int rc;

    if (range->start >= range->end || range->end > TASK_SIZE || range->unused)
        return -EINVAL;
    watched = kmem_cache_zalloc(cache, GFP_KERNEL);
    if (!watched)
        return -ENOMEM;
    watched->node.start = range->start & PAGE_MASK;
    watched->node.last = PAGE_ALIGN(range->end) - 1;
    do {
        rc = insert(ranges, watched, range);
        if (rc == -EAGAIN &&
            wait_event_killable(ranges->quiet,
                                is_quiet(ranges, watched->node.start, watched->node.last)))
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
    spin_lock(&ranges->lock);
    watched = ranges->of_slot[slot];
    if (watched) {
        if (!watched->counted) {
            interval_tree_remove(&watched->node, &ranges->tree);
            bump(ranges, slot); /* for those who still compare it */
        }
        ranges->of_slot[slot] = NULL;
        ranges->next_free[slot] = ranges->first_free;
        ranges->first_free = slot;
    }
    spin_unlock(&ranges->lock);
    if (!watched)
        return -ENOENT;
    kmem_cache_free(cache, watched);
    return 0;
}
