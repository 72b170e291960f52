/* SPDX-License-Identifier: GPL-2.0-only
 *
 * The parts of the module hmreg_counter; hmreg_counter.h says what it does.
 *   device.c   /dev/hmreg: who may use it, and the memory that the process maps
 *   ranges.c   the watched ranges of an address space, and the counting of changes
 *   users.c    how much each user has
 */
#ifndef KERNEL_COUNTER_COUNTER_H
#define KERNEL_COUNTER_COUNTER_H

#include <linux/mmu_notifier.h>
#include <linux/rbtree.h>
#include <linux/spinlock.h>
#include <linux/types.h>
#include <linux/uidgid.h>
#include <linux/version.h>
#include <linux/wait.h>

#include "hmreg_counter.h"

/* 5.14 and 5.15 are compiled for, and untested. */
#if LINUX_VERSION_CODE < KERNEL_VERSION(5, 14, 0)
#error "hmreg_counter needs Linux 5.14 or later"
#endif

/* Changes under way that are listed one by one; with more, all memory counts as changing. */
#define MAX_CHANGING 16

struct watched;

struct ranges {
    struct mmu_notifier notifier;
    u32 slots;

    /* Shared with the process, which can only read it. */
    struct hmreg_counter_page *page;
    u64 *slot;
    struct hmreg_counter_change *ring;

    spinlock_t lock; /* guards all below, and writes to the page; nothing is taken inside it */
    struct rb_root_cached tree; /* what is watched, and not counted yet */
    struct watched **of_slot;   /* NULL: the slot is free */
    u32 *next_free;
    u32 first_free;
    struct {
        unsigned long start, last;
    } changing[MAX_CHANGING];
    unsigned int changing_count, unlisted;

    wait_queue_head_t quiet;   /* for the end of changes */
    wait_queue_head_t counted; /* for `generation` to grow */
};

int ranges_init(void);
void ranges_exit(void);

/* The bytes of a page for so many slots, a power of two. */
size_t ranges_bytes(u32 slots);
/* page: zeroed, of ranges_bytes(slots). Counts changes of current's address space from now on. */
int ranges_open(struct ranges *ranges, u32 slots, void *page);
/* mm: the one of the open, which may have ended. No callback runs afterwards. */
void ranges_close(struct ranges *ranges, struct mm_struct *mm);

/* Fills in the range's slot and seq. -EINTR: a fatal signal came while it waited. */
int ranges_watch(struct ranges *ranges, struct hmreg_counter_range *range);
int ranges_unwatch(struct ranges *ranges, u32 slot);

struct user;

/* -EDQUOT: the user would have more than `most`. *out is passed to users_uncharge(). */
int users_charge(kuid_t uid, u32 slots, u32 most, struct user **out);
void users_uncharge(struct user *user, u32 slots);

#endif
