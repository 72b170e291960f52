// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
/*
 * A client of hmreg_kfi: it registers memory of the kernel as a program asks by ioctl(2), which
 * then reads and writes it by RDMA. All that a program opened ends with its descriptor, or with the
 * device.
 */
#include "client.h"
#include "faults.h"

#include <linux/fs.h>
#include <linux/miscdevice.h>
#include <linux/mutex.h>
#include <linux/uaccess.h>
#include <linux/version.h>

struct ib_device *client_device;
struct ib_pd *client_pd;
struct kfid_domain *client_domain;
struct region client_regions[REGIONS];
static struct kfid_eq *eq;
static struct kfid endpoint = {.fclass = KFI_CLASS_EP};
static bool bound;
static DEFINE_MUTEX(lock);

/* ---- events ---- */

static void read_event(struct client_event *event)
{
    struct kfi_eq_err_entry entry = {};
    struct region *region;

    event->handled = handler_calls(&event->result);
    event->domain_is_open = !!READ_ONCE(client_domain);
    if (event->unread)
        return;
    if (event->error)
        event->rc = kfi_eq_readerr(eq, &entry, 0);
    else
        event->rc =
            kfi_eq_read(eq, &event->event, &entry, event->size ?: sizeof(struct kfi_eq_entry), 0);
    if (event->rc <= 0)
        return;
    region = entry.context;
    event->index = region->index;
    event->is_mr = entry.fid == &region->mr->fid;
    event->err = entry.err;
    if (event->error)
        kfi_eq_strerror(eq, entry.prov_errno, entry.err_data, event->text, sizeof(event->text));
}

/* ---- domain ---- */

static int open_domain(struct client_open *open)
{
    struct hmreg_kfi_attr attr = {
        .sends = open->sends, .regions = open->regions, .pages = open->pages};
    int rc;

    open->max_pages = client_device->attrs.max_fast_reg_page_list_len;
    if (open->client_qp == QP_CONNECTED_TO_PROGRAM)
        attr.qp = client_qp;
    else if (open->client_qp == QP_USUAL && client_is_iwarp())
        attr.qp = iwarp_own();
    if (IS_ERR(attr.qp))
        return PTR_ERR(attr.qp);
    rc = hmreg_kfi_domain_open(client_pd, &attr, &client_domain);
    if (rc || !open->asynchronous)
        return rc;
    rc = hmreg_kfi_eq_open(handler_begin(open->handler), NULL, &eq);
    if (!rc)
        rc = kfi_domain_bind(client_domain, &eq->fid, 0) == -KFI_EBADFLAGS
                 ? kfi_domain_bind(client_domain, &eq->fid, KFI_REG_MR)
                 : -ENOTRECOVERABLE;
    bound = !rc;
    return rc;
}

/* A handler that sleeps does so until after the domain's close has begun, which waits for it. */
static int close_bound_domain(bool sleeps_on)
{
    int rc;

    if (!sleeps_on)
        handler_wake_later();
    rc = kfi_close(&client_domain->fid);
    if (!rc) {
        client_domain = NULL;
        rc = bound && !handler_is_done() ? -ENOTRECOVERABLE : 0;
    }
    handler_wake_now();
    return rc;
}

static int close_domain(bool sleeps_on)
{
    int rc = 0;

    if (bound && client_domain && kfi_close(&eq->fid) != -KFI_EBUSY)
        return -ENOTRECOVERABLE;
    if (client_domain)
        rc = close_bound_domain(sleeps_on);
    if (rc)
        return rc;
    bound = false;
    if (eq)
        rc = kfi_close(&eq->fid);
    if (!rc)
        eq = NULL;
    return rc;
}

/* ---- regions ---- */

static struct kfid_mr *const untouched = (void *)8;

/* By a list that does not outlive the call. */
static int register_list(struct region *region, struct client_reg *reg)
{
    size_t size = region->list.orig_nents * sizeof(struct scatterlist);
    struct scatterlist *list = kmemdup(region->list.sgl, size, GFP_KERNEL);
    int rc;

    if (!list)
        return -ENOMEM;
    rc = kfi_mr_regsgl(client_domain, list, region->count, reg->access, reg->offset,
                       reg->requested_key, reg->flags, &region->mr, region);
    memset(list, 0x5a, size);
    kfree(list);
    return rc;
}

static int register_by(struct region *region, struct client_reg *reg)
{
    struct kfi_mr_attr attr = {.type = KFI_KVEC,
                               .mr_iov = region->piece,
                               .iov_count = 1,
                               .access = reg->access,
                               .offset = reg->offset,
                               .requested_key = reg->requested_key,
                               .context = region,
                               .auth_key_size = reg->auth_key_size};

    if (reg->memory == MEMORY_ATTR)
        return kfi_mr_regattr(client_domain, &attr, reg->flags, &region->mr);
    if (region->list.sgl)
        return register_list(region, reg);
    if (region->vectors)
        return kfi_mr_regbv(client_domain, region->vectors, region->count, reg->access, reg->offset,
                            reg->requested_key, reg->flags, &region->mr, region);
    if (region->pieces == 1)
        return kfi_mr_reg(client_domain, region->piece[0].iov_base, region->length, reg->access,
                          reg->offset, reg->requested_key, reg->flags, &region->mr, region);
    return kfi_mr_regv(client_domain, region->piece, region->pieces, reg->access, reg->offset,
                       reg->requested_key, reg->flags, &region->mr, region);
}

static int do_register(struct client_reg *reg)
{
    struct region *region = client_regions;
    u32 before[2];

    while (region->mr || region->length)
        if (++region == client_regions + REGIONS)
            return -ENOSPC;
    reg->index = region->index;
    reg->rc = memory_make(region, reg);
    if (reg->rc) {
        memory_end(region);
        return 0;
    }
    region->mr = untouched;
    hmreg_kfi_counted(&before[0], &before[1]);
    reg->rc = register_by(region, reg);
    hmreg_kfi_counted(&reg->allocations, &reg->with_io);
    reg->length = region->length;
    reg->output_untouched = region->mr == untouched;
    if (!reg->rc && eq)
        handler_expect();
    if (reg->output_untouched) {
        memory_end(region);
    } else if (reg->rc) {
        hmreg_kfi_secret(region->mr, &reg->key, &reg->iova);
    } else if (region->mr && !eq) {
        reg->key = kfi_mr_key(region->mr);
        reg->iova = region->mr->iova;
    }
    return 0;
}

static int close_region(struct region *region, struct client_close *close)
{
    int rc = 0;

    hmreg_kfi_counted(&close->allocations, &close->with_io);
    if (region->mr)
        rc = kfi_close(&region->mr->fid);
    hmreg_kfi_counted(&close->allocations, &close->with_io);
    if (!rc)
        memory_end(region);
    return rc;
}

/* Of a region that an event has completed. */
static void keys_of_event(struct client_reg *reg)
{
    struct region *region = &client_regions[reg->index % REGIONS];

    reg->key = kfi_mr_key(region->mr);
    reg->iova = region->mr->iova;
}

static int do_bind(struct client_bind *bind)
{
    struct region *region = &client_regions[bind->index % REGIONS];

    if (bind->undo) {
        bind->rc = hmreg_kfi_unbind(region->mr);
        return 0;
    }
    endpoint.fclass = bind->class;
    bind->rc = kfi_mr_bind(region->mr, bind->class ? &endpoint : NULL, bind->flags);
    return 0;
}

/* ---- the program's calls ---- */

static void end_all(void)
{
    struct client_close close;
    int i;

    hmreg_kfi_arm("", 0, 0);
    hmreg_kfi_release_held(true);
    handler_wake();
    WARN_ON(fuzz_end(NULL));
    for (i = 0; i < REGIONS; i++)
        WARN_ON(close_region(&client_regions[i], &close));
    WARN_ON(close_domain(false));
    connection_close();
    iwarp_close();
    if (client_pd)
        ib_dealloc_pd(client_pd);
    client_pd = NULL;
}

union call {
    struct client_open open;
    struct client_reg reg;
    struct client_bytes bytes;
    struct client_connect connect;
    struct client_close close;
    struct client_bind bind;
    struct client_event event;
    struct client_push push;
    struct client_fault fault;
    struct client_wrong wrong;
    struct client_fuzz fuzz;
    struct client_fuzzed fuzzed;
};

static long call(unsigned int command, union call *u)
{
    switch (command) {
    case CLIENT_OPEN:
        u->open.rc = open_domain(&u->open);
        return 0;
    case CLIENT_REG:
        return do_register(&u->reg);
    case CLIENT_KEYS:
        keys_of_event(&u->reg);
        return 0;
    case CLIENT_BYTES:
        u->bytes.wrong = memory_bytes(&client_regions[u->bytes.index % REGIONS], u->bytes.seed,
                                      u->bytes.compare);
        return 0;
    case CLIENT_CONNECT:
        return connection_open(&u->connect);
    case CLIENT_CLOSE:
        u->close.rc = close_region(&client_regions[u->close.index % REGIONS], &u->close);
        return 0;
    case CLIENT_BIND:
        return do_bind(&u->bind);
    case CLIENT_EVENT:
        read_event(&u->event);
        return 0;
    case CLIENT_PUSH:
        u->push.rc = connection_push(client_regions[u->push.index % REGIONS].mr, &u->push);
        return 0;
    case CLIENT_WRONG:
        u->wrong.rc = wrong_call(client_domain, u->wrong.call);
        return 0;
    case CLIENT_FUZZ_END:
        u->fuzzed.rc = fuzz_end(u->fuzzed.counts);
        return 0;
    case CLIENT_FAULT:
        u->fault.hits = hmreg_kfi_hits();
        hmreg_kfi_arm(u->fault.call, u->fault.skip, u->fault.times);
        return 0;
    default:
        return -ENOTTY;
    }
}

static long tell_invalidated(struct region *region)
{
    hmreg_kfi_invalidated(region->mr);
    return 0;
}

static long wake_handler(void)
{
    handler_wake();
    return 0;
}

static long release_held(void)
{
    hmreg_kfi_release_held(true);
    return 0;
}

static long client_ioctl(struct file *file, unsigned int command, unsigned long arg)
{
    size_t size = _IOC_DIR(command) == _IOC_NONE ? 0 : _IOC_SIZE(command);
    union call u;
    long rc;

    if (size > sizeof(u) || copy_from_user(&u, (void __user *)arg, size))
        return -EFAULT;
    if (command == CLIENT_HELD)
        return hmreg_kfi_held();
    if (command == CLIENT_FUZZ) {
        fuzz(&u.fuzz);
        return 0;
    }
    mutex_lock(&lock);
    if (!client_pd)
        rc = -ENODEV;
    else if (command == CLIENT_FINISH)
        rc = close_domain(arg);
    else if (command == CLIENT_WAKE)
        rc = wake_handler();
    else if (command == CLIENT_RELEASE)
        rc = release_held();
    else if (command == CLIENT_INVALIDATED)
        rc = tell_invalidated(&client_regions[arg % REGIONS]);
    else
        rc = call(command, &u);
    mutex_unlock(&lock);
    if (!rc && size && copy_to_user((void __user *)arg, &u, size))
        return -EFAULT;
    return rc;
}

static int client_open(struct inode *inode, struct file *file)
{
    int rc = -ENODEV;

    mutex_lock(&lock);
    if (client_pd) {
        rc = -EBUSY;
    } else if (client_device) {
        client_pd = ib_alloc_pd(client_device, 0);
        rc = PTR_ERR_OR_ZERO(client_pd);
        if (rc)
            client_pd = NULL;
    }
    mutex_unlock(&lock);
    return rc;
}

static int client_release(struct inode *inode, struct file *file)
{
    mutex_lock(&lock);
    end_all();
    mutex_unlock(&lock);
    return 0;
}

static const struct file_operations operations = {
    .owner = THIS_MODULE,
    .open = client_open,
    .release = client_release,
    .unlocked_ioctl = client_ioctl,
};
static struct miscdevice misc = {
    .minor = MISC_DYNAMIC_MINOR, .name = "hmreg_kfi_client", .fops = &operations};

/* ---- the device, and the module ---- */

static char *device_name = "";
module_param_named(device, device_name, charp, 0);
MODULE_PARM_DESC(device, "the device to use; none: the first");

static int add_device(struct ib_device *device)
{
    if (!client_device && (!*device_name || !strcmp(device_name, dev_name(&device->dev))))
        client_device = device;
    return 0;
}

static void remove_device(struct ib_device *device, void *data)
{
    mutex_lock(&lock);
    if (client_device == device) {
        end_all();
        client_device = NULL;
    }
    mutex_unlock(&lock);
}

static struct ib_client client = {
    .name = "hmreg_kfi_client", .add = add_device, .remove = remove_device};

static int __init client_init(void)
{
    int i, rc;

    for (i = 0; i < REGIONS; i++)
        client_regions[i].index = i;
    fuzz_init();
    rc = memories_init();
    if (rc)
        return rc;
    rc = ib_register_client(&client);
    if (rc)
        goto exit_memories;
    rc = misc_register(&misc);
    if (rc)
        goto unregister_client;
    return 0;
unregister_client:
    ib_unregister_client(&client);
exit_memories:
    memories_exit();
    return rc;
}

static void __exit client_exit(void)
{
    misc_deregister(&misc);
    ib_unregister_client(&client);
    memories_exit();
}

module_init(client_init);
module_exit(client_exit);
MODULE_DESCRIPTION("For tests only: a client of hmreg_kfi");
MODULE_LICENSE("Dual BSD/GPL");
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 13, 0)
MODULE_IMPORT_NS(DMA_BUF);
#else
MODULE_IMPORT_NS("DMA_BUF");
#endif
