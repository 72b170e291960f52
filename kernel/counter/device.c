// SPDX-License-Identifier: GPL-2.0-only
/*
 * /dev/hmreg; see hmreg_counter.h. Any user may open it, for memory of their own: all calls but
 * close(2) fail in another address space than the opener's. A child of fork(2) inherits the file,
 * not the mapping.
 */
#include <linux/cred.h>
#include <linux/fs.h>
#include <linux/log2.h>
#include <linux/miscdevice.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/poll.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include <linux/vmalloc.h>

#include "counter.h"

static unsigned int max_slots = 1 << 17;
module_param(max_slots, uint, 0644);
MODULE_PARM_DESC(max_slots, "slots of a process, in all its files");

/* The ring holds a batch. */
#define MIN_SLOTS 512
#define MOST_SLOTS 16777216u

struct counter {
	struct mm_struct *mm;
	struct mutex setup_lock; /* of set_up() */
	bool ready;		 /* set with release, once all below is there */
	struct page **pages;
	unsigned int page_count;
	void *mapped; /* the pages, by the kernel's address */
	struct ranges ranges;
	wait_queue_head_t counted; /* waits for `generation` to grow, or the file's set-up */
	u64 seen;		   /* the generation that read(2) returned last */
};

/* ---- the pages --------------------------------------------------------------------------- */

static void free_pages_of(struct counter *counter)
{
	unsigned int i;

	vunmap(counter->mapped);
	for (i = 0; i < counter->page_count; i++)
		put_page(counter->pages[i]);
	kvfree(counter->pages);
}

/* One by one, since vmalloc_user() does not charge them to the control group. */
static int make_pages(struct counter *counter, unsigned int count)
{
	counter->page_count = 0;
	counter->mapped = NULL;
	counter->pages = kvcalloc(count, sizeof(*counter->pages), GFP_KERNEL_ACCOUNT);
	if (!counter->pages)
		return -ENOMEM;
	while (counter->page_count < count) {
		struct page *page = alloc_page(GFP_KERNEL_ACCOUNT | __GFP_ZERO);

		if (!page)
			goto free;
		counter->pages[counter->page_count++] = page;
	}
	counter->mapped = vmap(counter->pages, count, VM_MAP, PAGE_KERNEL);
	if (counter->mapped)
		return 0;
free:
	free_pages_of(counter);
	return -ENOMEM;
}

static bool is_ready(const struct counter *counter)
{
	return smp_load_acquire(&counter->ready); /* pairs with do_setup() */
}

/* ---- calls ------------------------------------------------------------------------------- */

static int set_up(struct counter *counter, u32 slots)
{
	int rc = make_pages(counter, ranges_bytes(slots) >> PAGE_SHIFT);

	if (rc)
		return rc;
	rc = ranges_open(&counter->ranges, slots, max(READ_ONCE(max_slots), MIN_SLOTS),
			 counter->mapped, &counter->counted);
	if (rc)
		free_pages_of(counter);
	return rc;
}

/* Not in mmap(2) or open(2): mmu_notifier_get() takes the mappings' lock, and has a cost that an
 * opener may not want.
 */
static long do_setup(struct counter *counter, void __user *arg)
{
	struct hmreg_counter_setup setup;
	int rc = -EBUSY;

	if (copy_from_user(&setup, arg, sizeof(setup)))
		return -EFAULT;
	if (!setup.slots || setup.slots > MOST_SLOTS || setup.unused)
		return -EINVAL;
	setup.slots = roundup_pow_of_two(max_t(u32, setup.slots, MIN_SLOTS));
	if (setup.slots > max(READ_ONCE(max_slots), MIN_SLOTS))
		return -EINVAL;
	setup.bytes = ranges_bytes(setup.slots);
	if (mutex_lock_killable(&counter->setup_lock))
		return -EINTR;
	if (!counter->ready)
		rc = set_up(counter, setup.slots);
	if (!rc)
		smp_store_release(&counter->ready, true); /* pairs with is_ready() */
	mutex_unlock(&counter->setup_lock);
	if (rc)
		return rc;
	wake_up_interruptible(&counter->counted); /* who polls it already */
	return copy_to_user(arg, &setup, sizeof(setup)) ? -EFAULT : 0;
}

static int unwatch_all(struct ranges *ranges, struct hmreg_counter_update *update)
{
	const u32 __user *slots = u64_to_user_ptr(update->unwatch);
	u32 slot;
	int rc;

	for (; update->unwatched < update->unwatch_count; update->unwatched++) {
		if (get_user(slot, &slots[update->unwatched]))
			return -EFAULT;
		rc = ranges_unwatch(ranges, slot);
		if (rc)
			return rc;
	}
	return 0;
}

static int watch_all(struct ranges *ranges, struct hmreg_counter_update *update)
{
	struct hmreg_counter_range __user *in = u64_to_user_ptr(update->watch);
	struct hmreg_counter_range range;
	int rc;

	for (; update->watched < update->watch_count; update->watched++) {
		if (copy_from_user(&range, &in[update->watched], sizeof(range)))
			return -EFAULT;
		rc = ranges_watch(ranges, &range);
		if (rc)
			return rc;
		if (copy_to_user(&in[update->watched], &range, sizeof(range))) {
			ranges_unwatch(ranges, range.slot);
			return -EFAULT;
		}
	}
	return 0;
}

static long do_update(struct counter *counter, void __user *arg)
{
	struct hmreg_counter_update update;
	int rc;

	if (copy_from_user(&update, arg, sizeof(update)))
		return -EFAULT;
	if (update.unwatch_count > HMREG_COUNTER_MAX_UPDATE ||
	    update.watch_count > HMREG_COUNTER_MAX_UPDATE)
		return -EINVAL;
	update.unwatched = 0;
	update.watched = 0;
	rc = unwatch_all(&counter->ranges, &update);
	rc = rc ? rc : watch_all(&counter->ranges, &update);
	return copy_to_user(arg, &update, sizeof(update)) ? -EFAULT : rc;
}

static long counter_ioctl(struct file *file, unsigned int command, unsigned long arg)
{
	struct counter *counter = file->private_data;
	void __user *user = (void __user *)arg;

	if (current->mm != counter->mm)
		return -EPERM;
	if (command == HMREG_COUNTER_SETUP)
		return do_setup(counter, user);
	if (command != HMREG_COUNTER_UPDATE)
		return -ENOTTY;
	return is_ready(counter) ? do_update(counter, user) : -EINVAL;
}

static ssize_t counter_read(struct file *file, char __user *buffer, size_t size, loff_t *position)
{
	struct counter *counter = file->private_data;
	u64 generation;

	if (current->mm != counter->mm)
		return -EPERM;
	if (size < sizeof(generation) || !is_ready(counter))
		return -EINVAL;
	generation = READ_ONCE(counter->ranges.page->generation);
	if (copy_to_user(buffer, &generation, sizeof(generation)))
		return -EFAULT;
	WRITE_ONCE(counter->seen, generation);
	return sizeof(generation);
}

static __poll_t counter_poll(struct file *file, poll_table *table)
{
	struct counter *counter = file->private_data;

	if (current->mm != counter->mm)
		return EPOLLERR;
	poll_wait(file, &counter->counted, table);
	smp_mb(); /* pairs with wq_has_sleeper() in count_one() and wake() */
	if (!is_ready(counter))
		return EPOLLERR;
	return READ_ONCE(counter->ranges.page->generation) == READ_ONCE(counter->seen)
		       ? 0
		       : EPOLLIN | EPOLLRDNORM;
}

/* VM_DONTCOPY: a child of fork(2) has other memory than is counted here. VM_IO: madvise(2) refuses
 * MADV_DOFORK, which would take that flag away.
 */
static int counter_mmap(struct file *file, struct vm_area_struct *vma)
{
	const unsigned long set = VM_IO | VM_DONTCOPY | VM_DONTEXPAND | VM_DONTDUMP;
	const unsigned long clear = VM_MAYWRITE | VM_MAYEXEC;
	struct counter *counter = file->private_data;

	if (vma->vm_mm != counter->mm)
		return -EPERM;
	if (vma->vm_flags & (VM_WRITE | VM_EXEC))
		return -EACCES;
	if (!is_ready(counter) || !(vma->vm_flags & VM_SHARED) || vma->vm_pgoff ||
	    vma_pages(vma) > counter->page_count)
		return -EINVAL;
#ifdef HAVE_VM_FLAGS_MOD
	vm_flags_mod(vma, set, clear);
#else
	vma->vm_flags = (vma->vm_flags | set) & ~clear;
#endif
	return vm_map_pages(vma, counter->pages, counter->page_count);
}

/* ---- opening and closing ----------------------------------------------------------------- */

static int counter_open(struct inode *inode, struct file *file)
{
	struct counter *counter;

	if (!current->mm)
		return -EPERM;
	counter = kzalloc(sizeof(*counter), GFP_KERNEL_ACCOUNT);
	if (!counter)
		return -ENOMEM;
	counter->mm = current->mm;
	mmgrab(counter->mm);
	mutex_init(&counter->setup_lock);
	init_waitqueue_head(&counter->counted);
	file->private_data = counter;
	return nonseekable_open(inode, file);
}

/* A mapping holds the file, so none exists any more. */
static int counter_release(struct inode *inode, struct file *file)
{
	struct counter *counter = file->private_data;

	if (counter->ready) {
		ranges_close(&counter->ranges);
		free_pages_of(counter);
	}
	mmdrop(counter->mm);
	kfree(counter);
	return 0;
}

static const struct file_operations operations = {
	.owner = THIS_MODULE,
	.open = counter_open,
	.release = counter_release,
	.unlocked_ioctl = counter_ioctl,
	.compat_ioctl = compat_ptr_ioctl,
	.read = counter_read,
	.poll = counter_poll,
	.mmap = counter_mmap,
};

static struct miscdevice device = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "hmreg",
	.mode = 0666,
	.fops = &operations,
};

static int __init counter_init(void)
{
	int rc = ranges_init();

	users_init();
	if (rc)
		return rc;
	rc = misc_register(&device);
	if (rc)
		ranges_exit();
	return rc;
}

static void __exit counter_exit(void)
{
	misc_deregister(&device);
	ranges_exit();
}

module_init(counter_init);
module_exit(counter_exit);
MODULE_LICENSE("GPL");
MODULE_AUTHOR("hmreg developers");
MODULE_DESCRIPTION("/dev/hmreg: counts changes of watched memory before they can be seen");
MODULE_VERSION("1");
