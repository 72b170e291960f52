// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
/*
 * A module that gives peers a buffer of the kernel's: on each RDMA device it registers the buffer
 * for remote reads and writes, says at which address by which key peers reach it, and takes that
 * back when the device or the module goes.
 *
 * Peers use the key on a queue pair of the same protection domain, which a module connects by
 * rdma_cm. This one connects none.
 */
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>

#include "hmreg_kfi.h"

#define BYTES (64 * 1024)

struct shared {
    struct ib_pd *pd;
    struct kfid_domain *domain;
    struct kfid_mr *mr;
    void *buffer;
};

static struct ib_client client;

static void unshare(struct shared *shared)
{
    /* In this order: what a later line ends, an earlier one uses. */
    if (shared->mr && kfi_close(&shared->mr->fid))
        pr_err("kernel_memory: the device keeps the region\n");
    if (shared->domain && kfi_close(&shared->domain->fid))
        pr_err("kernel_memory: the domain is in use\n");
    if (!IS_ERR_OR_NULL(shared->pd))
        ib_dealloc_pd(shared->pd);
    vfree(shared->buffer);
    kfree(shared);
}

/* 0, or what the first call that failed returned. */
static int share(struct shared *shared, struct ib_device *device)
{
    /* All zeros: the domain makes the queue pair by which it registers, and any number of regions.
     */
    const struct hmreg_kfi_attr attr = {};
    int rc;

    shared->buffer = vzalloc(BYTES);
    if (!shared->buffer)
        return -ENOMEM;
    shared->pd = ib_alloc_pd(device, 0);
    if (IS_ERR(shared->pd))
        return PTR_ERR(shared->pd);
    rc = hmreg_kfi_domain_open(shared->pd, &attr, &shared->domain);
    if (rc)
        return rc;
    return kfi_mr_reg(shared->domain, shared->buffer, BYTES, KFI_REMOTE_READ | KFI_REMOTE_WRITE, 0,
                      0, 0, &shared->mr, NULL);
}

static int add_device(struct ib_device *device)
{
    struct shared *shared = kzalloc(sizeof(*shared), GFP_KERNEL);
    int rc;

    if (!shared)
        return -ENOMEM;
    rc = share(shared, device);
    if (rc) {
        unshare(shared);
        /* Not an error of the module's: this device cannot register memory of the kernel. */
        dev_info(&device->dev, "kernel_memory: %d\n", rc);
        return -EOPNOTSUPP;
    }
    ib_set_client_data(device, &client, shared);
    dev_info(&device->dev, "kernel_memory: %d bytes at %#llx by key %#llx\n", BYTES,
             shared->mr->iova, kfi_mr_key(shared->mr));
    return 0;
}

static void remove_device(struct ib_device *device, void *data)
{
    unshare(data);
}

static struct ib_client client = {
    .name = "kernel_memory", .add = add_device, .remove = remove_device};

static int __init kernel_memory_init(void)
{
    return ib_register_client(&client);
}

static void __exit kernel_memory_exit(void)
{
    ib_unregister_client(&client);
}

module_init(kernel_memory_init);
module_exit(kernel_memory_exit);
MODULE_DESCRIPTION("Example: kernel memory that RDMA peers may read and write");
MODULE_LICENSE("Dual BSD/GPL");
