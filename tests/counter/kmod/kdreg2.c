// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
/*
 * A stand-in for HPE's module kdreg2, with what the library uses of its interface: a page of
 * counters that opening maps, ranges that are watched by cookies, an event for each that changes.
 * As there, a change is noticed in invalidate_range_end() only, and only one that the process
 * itself makes; any event of the kernel's ends a watch, and closing the file unmaps the page.
 */
#include <linux/list.h>
#include <linux/miscdevice.h>
#include <linux/mm.h>
#include <linux/mman.h>
#include <linux/mmu_notifier.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/poll.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include <linux/vmalloc.h>

struct status {
    u64 version;
    size_t most;
    atomic64_t pending, total, active;
    const void __user *states;
};

struct config {
    size_t most;
    const struct status __user *status;
};

struct params {
    size_t location;
    u32 generation;
};

struct monitored {
    u64 addr;
    size_t len;
    u64 cookie;
    struct params params;
};

struct unmonitored {
    u64 cookie;
    struct params params;
};

struct event {
    u32 type, unused;
    u64 addr, len, cookie;
};

struct watched {
    struct list_head node;
    struct monitored range;
};

struct context {
    struct mmu_notifier notifier;
    struct mm_struct *mm;
    struct mutex lock;
    struct status *status;
    unsigned long user_page;
    struct list_head watched;
    size_t most, count, first, pending;
    bool overflowed;
    struct event *events; /* a ring */
    wait_queue_head_t wait;
};

static void add_event(struct context *context, const struct monitored *range)
{
    if (context->pending == context->most) {
        context->overflowed = true;
        return;
    }
    context->events[(context->first + context->pending++) % context->most] =
        (struct event){1, 0, range->addr, range->len, range->cookie};
    atomic64_set(&context->status->pending, context->pending);
    atomic64_inc(&context->status->total);
    wake_up_interruptible(&context->wait);
}

static void on_end(struct mmu_notifier *notifier, const struct mmu_notifier_range *range)
{
    struct context *context = container_of(notifier, struct context, notifier);
    struct watched *watched, *next;

    if (current->mm != context->mm)
        return;
    mutex_lock(&context->lock);
    list_for_each_entry_safe(watched, next, &context->watched, node)
    {
        u64 end = watched->range.addr + watched->range.len;

        if (watched->range.addr >= range->end || end <= range->start)
            continue;
        add_event(context, &watched->range);
        list_del(&watched->node);
        kfree(watched);
        context->count--;
    }
    mutex_unlock(&context->lock);
}

static const struct mmu_notifier_ops ops = {.invalidate_range_end = on_end};

/* ---- calls ------------------------------------------------------------------------------- */

static long do_config(struct context *context, void __user *arg)
{
    struct config config;

    if (copy_from_user(&config, arg, sizeof(config)))
        return -EFAULT;
    if (context->events)
        return -EBUSY;
    if (config.most > 1 << 20)
        return -ENOSPC;
    context->events = vcalloc(config.most, sizeof(*context->events));
    if (!context->events)
        return -ENOMEM;
    context->most = context->status->most = config.most;
    config.status = (const void __user *)context->user_page;
    if (mmu_notifier_register(&context->notifier, context->mm))
        return -ENOMEM;
    return copy_to_user(arg, &config, sizeof(config)) ? -EFAULT : 0;
}

static long do_monitor(struct context *context, void __user *arg)
{
    struct watched *watched = kzalloc(sizeof(*watched), GFP_KERNEL);
    long rc = 0;

    if (!watched)
        return -ENOMEM;
    if (copy_from_user(&watched->range, arg, sizeof(watched->range)))
        rc = -EFAULT;
    else if (!watched->range.len || watched->range.cookie == (u64)-1)
        rc = -EINVAL;
    if (rc) {
        kfree(watched);
        return rc;
    }
    mutex_lock(&context->lock);
    if (context->count == context->most) {
        rc = -ENOSPC;
        kfree(watched);
    } else {
        watched->range.params.location = context->count++;
        list_add(&watched->node, &context->watched);
        if (copy_to_user(arg, &watched->range, sizeof(watched->range)))
            rc = -EFAULT;
    }
    mutex_unlock(&context->lock);
    return rc;
}

static long do_unmonitor(struct context *context, void __user *arg)
{
    struct unmonitored ask;
    struct watched *watched, *next;

    if (copy_from_user(&ask, arg, sizeof(ask)))
        return -EFAULT;
    mutex_lock(&context->lock);
    list_for_each_entry_safe(watched, next, &context->watched,
                             node) if (watched->range.cookie == ask.cookie)
    {
        list_del(&watched->node);
        kfree(watched);
        context->count--;
    }
    mutex_unlock(&context->lock);
    return 0;
}

static long do_flush(struct context *context)
{
    mutex_lock(&context->lock);
    context->pending = context->first = 0;
    context->overflowed = false;
    atomic64_set(&context->status->pending, 0);
    mutex_unlock(&context->lock);
    return 0;
}

static long kdreg2_ioctl(struct file *file, unsigned int command, unsigned long arg)
{
    struct context *context = file->private_data;
    void __user *user = (void __user *)arg;

    if (current->mm != context->mm)
        return -EIO;
    switch (command) {
    case _IOWR('k', 1, struct config):
        return do_config(context, user);
    case _IOWR('k', 2, struct monitored):
        return do_monitor(context, user);
    case _IOW('k', 3, struct unmonitored):
        return do_unmonitor(context, user);
    case _IO('k', 5):
        return do_flush(context);
    default:
        return -ENOTTY;
    }
}

static ssize_t kdreg2_read(struct file *file, char __user *to, size_t size, loff_t *position)
{
    struct context *context = file->private_data;
    ssize_t done = 0;

    if (current->mm != context->mm)
        return -EIO;
    mutex_lock(&context->lock);
    while (!context->overflowed && context->pending && size - done >= sizeof(struct event)) {
        if (copy_to_user(to + done, &context->events[context->first], sizeof(struct event)))
            break;
        context->first = (context->first + 1) % context->most;
        context->pending--;
        done += sizeof(struct event);
    }
    atomic64_set(&context->status->pending, context->pending);
    if (!done)
        done = context->overflowed ? -ENOSPC : -EAGAIN;
    mutex_unlock(&context->lock);
    return done;
}

static __poll_t kdreg2_poll(struct file *file, poll_table *table)
{
    struct context *context = file->private_data;

    poll_wait(file, &context->wait, table);
    return READ_ONCE(context->pending) ? EPOLLIN | EPOLLRDNORM : 0;
}

/* ---- life -------------------------------------------------------------------------------- */

static int map_status(struct context *context)
{
    struct vm_area_struct *vma;
    int rc = -ENOMEM;

    context->status = vmalloc_user(PAGE_SIZE);
    if (!context->status)
        return -ENOMEM;
    context->user_page = vm_mmap(NULL, 0, PAGE_SIZE, PROT_READ, MAP_ANONYMOUS | MAP_SHARED, 0);
    if (IS_ERR_VALUE(context->user_page))
        goto free;
    mmap_write_lock(current->mm);
    vma = find_vma(current->mm, context->user_page);
    rc = vma ? remap_vmalloc_range(vma, context->status, 0) : -EINVAL;
    mmap_write_unlock(current->mm);
    if (!rc)
        return 0;
    vm_munmap(context->user_page, PAGE_SIZE);
free:
    vfree(context->status);
    return rc;
}

static int kdreg2_open(struct inode *inode, struct file *file)
{
    struct context *context = kzalloc(sizeof(*context), GFP_KERNEL);
    int rc;

    if (!context)
        return -ENOMEM;
    context->mm = get_task_mm(current);
    context->notifier.ops = &ops;
    mutex_init(&context->lock);
    init_waitqueue_head(&context->wait);
    INIT_LIST_HEAD(&context->watched);
    rc = map_status(context);
    if (rc) {
        mmput(context->mm);
        kfree(context);
        return rc;
    }
    file->private_data = context;
    return 0;
}

static int kdreg2_release(struct inode *inode, struct file *file)
{
    struct context *context = file->private_data;
    struct watched *watched, *next;

    if (context->events)
        mmu_notifier_unregister(&context->notifier, context->mm);
    list_for_each_entry_safe(watched, next, &context->watched, node) kfree(watched);
    if (current->mm)
        vm_munmap(context->user_page, PAGE_SIZE);
    vfree(context->status);
    vfree(context->events);
    mmput(context->mm);
    kfree(context);
    return 0;
}

static const struct file_operations operations = {
    .owner = THIS_MODULE,
    .open = kdreg2_open,
    .release = kdreg2_release,
    .unlocked_ioctl = kdreg2_ioctl,
    .read = kdreg2_read,
    .poll = kdreg2_poll,
};

static struct miscdevice device = {
    .minor = MISC_DYNAMIC_MINOR, .name = "kdreg2", .mode = 0666, .fops = &operations};

module_misc_device(device);
MODULE_LICENSE("Dual BSD/GPL");
MODULE_DESCRIPTION("For tests: the interface of HPE's kdreg2");
