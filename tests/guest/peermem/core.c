/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Peer memory, which no kernel of Debian's has: the two functions of ib_core that nvidia-peermem
 * calls, with the rules of MLNX_OFED's. Clients are asked in the order in which they came, those
 * that want to revoke regions only of a device that can (softgpu's parameter client is then
 * nv_mem); the first that says "mine" has the range, and what it answers then is the registration's
 * result.
 */
#include <linux/device.h>
#include <linux/list.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/pci.h>
#include <linux/slab.h>
#include <linux/xarray.h>

#include "peer_mem.h"

#include "p2p.h"

struct client {
    struct list_head node;
    const struct peer_memory_client *calls;
    bool revokes;
};

struct umem {
    struct peers_lease lease;
    const struct peer_memory_client *calls;
    void *context; /* the client's */
    u32 id;        /* for revoking; 0: the client does not */
    bool mapped;
    struct sg_table table;
};

static LIST_HEAD(clients);
static DEFINE_MUTEX(clients_lock);
static DEFINE_XARRAY_FLAGS(umems, XA_FLAGS_ALLOC1); /* its lock is that of `mapped` */
static struct pci_dev *nic;

static void unmap(struct umem *umem)
{
    umem->calls->dma_unmap(&umem->table, umem->context, &nic->dev);
    umem->calls->put_pages(&umem->table, umem->context);
}

/* Whether it is still mapped, and so the caller's to unmap. */
static bool end_mapping(struct umem *umem)
{
    bool mapped;

    xa_lock(&umems);
    mapped = umem->mapped;
    umem->mapped = false;
    if (umem->id)
        __xa_erase(&umems, umem->id);
    xa_unlock(&umems);
    return mapped;
}

/* Does the client unmap by itself when its call of the function below has returned? */
static bool unmaps_itself(const struct peer_memory_client *calls)
{
    const struct peer_memory_client_ex *more =
        container_of(calls, const struct peer_memory_client_ex, client);

    return calls->version[IB_PEER_MEMORY_VER_MAX - 1] && more->ex_size >= sizeof(*more) &&
           more->flags & PEER_MEM_INVALIDATE_UNMAPS;
}

static int revoke(void *handle, u64 id)
{
    struct umem *umem;
    bool mapped = false;

    xa_lock(&umems);
    umem = xa_load(&umems, id);
    if (umem) {
        mapped = umem->mapped;
        umem->mapped = false;
        regions_revoke(&umem->lease);
    }
    xa_unlock(&umems);
    if (mapped && !unmaps_itself(umem->calls))
        unmap(umem);
    return 0;
}

static void end(struct peers_lease *lease)
{
    struct umem *umem = container_of(lease, struct umem, lease);

    if (end_mapping(umem))
        unmap(umem);
    umem->calls->release(umem->context);
    kfree(umem);
}

static int map(struct umem *umem, u64 start, u64 length)
{
    u64 page;
    int count, rc;

    rc = umem->calls->get_pages(start, length, 1, 0, NULL, umem->context, umem->id);
    if (rc)
        return rc;
    rc = umem->calls->dma_map(&umem->table, umem->context, &nic->dev, 0, &count);
    if (rc) {
        umem->calls->put_pages(&umem->table, umem->context);
        return rc;
    }
    page = umem->calls->get_page_size(umem->context);
    /* The entries follow one another on the bus, as p2p.c makes them. */
    umem->lease.bus =
        sg_dma_address(umem->table.sgl) + ALIGN_DOWN(start, PAGE_SIZE) - ALIGN_DOWN(start, page);
    umem->mapped = true;
    return 0;
}

/* NULL: no client says that it has the range. */
static const struct client *ask(u64 start, u64 length, void **context)
{
    struct client *client, *found = NULL;

    mutex_lock(&clients_lock);
    list_for_each_entry(client, &clients, node)
    {
        if (client->revokes && peers_client() != PEERS_NV_MEM)
            continue;
        if (client->calls->acquire(start, length, NULL, NULL, context) <= 0)
            continue;
        found = client;
        break;
    }
    mutex_unlock(&clients_lock);
    return found;
}

static struct peers_lease *begin(u64 start, u64 length)
{
    struct umem *umem = kzalloc(sizeof(*umem), GFP_KERNEL);
    const struct client *client;
    int rc = 0;

    if (!umem)
        return ERR_PTR(-ENOMEM);
    client = ask(start, length, &umem->context);
    if (!client) {
        kfree(umem);
        return NULL;
    }
    umem->calls = client->calls;
    umem->lease.end = end;
    if (client->revokes)
        rc = xa_alloc(&umems, &umem->id, umem, xa_limit_31b, GFP_KERNEL);
    rc = rc ? rc : map(umem, start, length);
    if (!rc)
        return &umem->lease;
    end(&umem->lease);
    return ERR_PTR(rc);
}

/* ---- the functions of ib_core ----------------------------------------------------------- */

void *ib_register_peer_memory_client(const struct peer_memory_client *calls,
                                     invalidate_peer_memory *callback)
{
    struct client *client = kzalloc(sizeof(*client), GFP_KERNEL);

    if (!client)
        return NULL;
    client->calls = calls;
    client->revokes = callback;
    if (callback)
        *callback = revoke;
    mutex_lock(&clients_lock);
    list_add_tail(&client->node, &clients);
    mutex_unlock(&clients_lock);
    return client;
}
EXPORT_SYMBOL_GPL(ib_register_peer_memory_client);

/* A region of the client's keeps its module. */
void ib_unregister_peer_memory_client(void *handle)
{
    struct client *client = handle;

    mutex_lock(&clients_lock);
    list_del(&client->node);
    mutex_unlock(&clients_lock);
    kfree(client);
}
EXPORT_SYMBOL_GPL(ib_unregister_peer_memory_client);

static const struct peers_driver driver = {.begin = begin, .freed = p2p_freed};

/* A device on the PCI bus, which nvidia-peermem takes every NIC for: QEMU's ivshmem. */
static int __init init(void)
{
    nic = pci_get_device(0x1af4, 0x1110, NULL);
    if (!nic)
        return -ENODEV;
    peers_use(&driver);
    return 0;
}

static void __exit done(void)
{
    peers_use(NULL);
    pci_dev_put(nic);
}

module_init(init);
module_exit(done);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("For tests only: what nvidia-peermem calls, on softgpu's memory");
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 13, 0)
MODULE_IMPORT_NS(DMA_BUF);
#else
MODULE_IMPORT_NS("DMA_BUF");
#endif
