// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
/* The handler of events: each deed that docs/kernel.md permits in one. */
#include "client.h"

#include <linux/slab.h>

#define RIGHTS (KFI_REMOTE_READ | KFI_REMOTE_WRITE)

static enum client_handler deed;
static atomic_t calls, expected;
static int result;
static DECLARE_COMPLETION(wake);

/* Of the next event, which it reads. -EAGAIN: there is none. */
static int close_region_of_event(struct kfid_eq *queue)
{
    struct kfi_eq_entry entry;
    struct region *region;
    u32 event;
    int rc;

    rc = kfi_eq_read(queue, &event, &entry, sizeof(entry), 0);
    if (rc != sizeof(entry))
        return rc;
    region = entry.context;
    if (region->mr != container_of(entry.fid, struct kfid_mr, fid))
        return -EBADE;
    rc = kfi_close(entry.fid);
    if (!rc)
        region->mr = NULL;
    return rc;
}

/* Of an event that is not read. */
static int close_any_region(void)
{
    int i, rc;

    for (i = 0; i < REGIONS; i++) {
        if (!client_regions[i].mr)
            continue;
        rc = kfi_close(&client_regions[i].mr->fid);
        if (!rc)
            client_regions[i].mr = NULL;
        return rc;
    }
    return -EAGAIN;
}

static int register_and_close(void)
{
    static struct region spare;
    void *buffer = kmalloc(100, GFP_KERNEL);
    int rc;

    if (!buffer)
        return -ENOMEM;
    rc = kfi_mr_reg(client_domain, buffer, 100, RIGHTS, 0, 0, 0, &spare.mr, &spare);
    if (!rc) {
        handler_expect();
        rc = kfi_close(&spare.mr->fid);
    }
    kfree(buffer);
    return rc;
}

static int close_domain(struct kfid_eq *queue)
{
    int rc = kfi_close(&client_domain->fid);

    if (rc)
        return rc;
    client_domain = NULL;
    return kfi_close(&queue->fid) == -KFI_EBUSY ? 0 : -EBADE;
}

static int act(struct kfid_eq *queue)
{
    int rc;

    if (deed == HANDLER_COUNTS)
        return 0;
    rc = deed == HANDLER_CLOSES_UNREAD ? close_any_region() : close_region_of_event(queue);
    if (rc)
        return rc == -KFI_EAGAIN ? 0 : rc;
    if (deed == HANDLER_REPLACES)
        return register_and_close();
    if (deed == HANDLER_CLOSES_DOMAIN || deed == HANDLER_CLOSES_DOMAIN_AND_SLEEPS)
        rc = close_domain(queue);
    if (deed == HANDLER_SLEEPS || deed == HANDLER_CLOSES_DOMAIN_AND_SLEEPS)
        wait_for_completion(&wake);
    return rc;
}

static void on_event(struct kfid_eq *queue, void *context)
{
    int rc = act(queue);

    if (rc)
        result = rc;
    atomic_inc(&calls);
}

kfi_event_handler handler_begin(enum client_handler which)
{
    deed = which;
    result = 0;
    atomic_set(&calls, 0);
    atomic_set(&expected, 0);
    reinit_completion(&wake);
    return which == HANDLER_NONE ? NULL : on_event;
}

void handler_expect(void)
{
    atomic_inc(&expected);
}

bool handler_is_done(void)
{
    return deed == HANDLER_NONE || atomic_read(&calls) == atomic_read(&expected);
}

void handler_wake(void)
{
    complete_all(&wake);
}

static void wake_it(struct work_struct *work)
{
    handler_wake();
}

static DECLARE_DELAYED_WORK(later, wake_it);

void handler_wake_later(void)
{
    schedule_delayed_work(&later, HZ / 10);
}

void handler_wake_now(void)
{
    flush_delayed_work(&later);
}

int handler_calls(int *rc)
{
    *rc = result;
    return atomic_read(&calls);
}
