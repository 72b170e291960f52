/* SPDX-License-Identifier: GPL-2.0-only
 *
 * Soft-RoCE on memory without pages. It registers pages only: ib_umem_get() pins them, and
 * rxe_mr_copy(), by which all data goes from and to a region, reaches them through the kernel's own
 * mapping of memory, which a BAR is not part of. So such a region is registered with a decoy in the
 * place of each of its pages, and while there are any, rxe_mr_copy() of them ends here, by a
 * kprobe, and copies by their addresses on the bus.
 *
 * rxe's atomic operations do not pass that function (iova_to_vaddr() in 6.1, rxe_mr_do_atomic_op()
 * in 6.12): such a region is refused the right to them. Nothing may touch a decoy; the kernel warns
 * where that happened.
 */
#include <linux/kprobes.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/string.h>
#include <rdma/ib_verbs.h>

#include "kmod.h"

#define DECOY_BYTE 0xdb
/* rxe's own object contains the ib_mr, begins fewer bytes before it, and has at least as many. */
#define OBJECT_BYTES 256

static LIST_HEAD(regions);
static DEFINE_SPINLOCK(lock); /* taken in tasklets and in the probe */
static DEFINE_MUTEX(probe_lock);
static bool probed;

/* Of rxe's object; with its key, as a freed object's place is used again. */
static bool is_of(const struct pageless *region, const void *object)
{
    size_t distance = (size_t)((const char *)region->mr - (const char *)object);

    return distance < OBJECT_BYTES && region->mr->lkey == region->lkey;
}

static bool find(const void *object, u64 iova, size_t length, u64 *address)
{
    struct pageless *region;
    unsigned long flags;
    bool found = false;

    spin_lock_irqsave(&lock, flags);
    list_for_each_entry(region, &regions, node)
    {
        u64 offset = iova - region->mr->iova;

        if (!is_of(region, object))
            continue;
        found = true;
        *address = offset <= region->mr->length && length <= region->mr->length - offset
                       ? region->bus + offset
                       : 0;
        break;
    }
    spin_unlock_irqrestore(&lock, flags);
    return found;
}

/* In the place of rxe_mr_copy(): direction 0 is to the region. */
static int copy(void *object, u64 iova, void *bytes, unsigned int length, int direction)
{
    u64 address = 0;

    if (!length)
        return 0;
    if (!find(object, iova, length, &address) || !address)
        return -EINVAL;
    return bus_copy(address, bytes, length, !direction);
}

static int before_copy(struct kprobe *probe, struct pt_regs *regs)
{
    u64 address;

    if (list_empty_careful(&regions) || !find((void *)regs->di, 0, 0, &address))
        return 0;
    instruction_pointer_set(regs, (unsigned long)copy);
    return 1;
}

/* With one, the kernel does not replace the probe by a jump, which could not lead elsewhere. */
static void after_copy(struct kprobe *probe, struct pt_regs *regs, unsigned long flags)
{
}

static struct kprobe probe = {
    .symbol_name = "rdma_rxe:rxe_mr_copy",
    .pre_handler = before_copy,
    .post_handler = after_copy,
};

/* From the first region on: other copies pay for it. */
static int place_probe(void)
{
    int rc = 0;

    mutex_lock(&probe_lock);
    if (!probed)
        rc = register_kprobe(&probe);
    probed = !rc;
    mutex_unlock(&probe_lock);
    return rc;
}

struct page *pageless_decoy(int access)
{
    struct page *decoy;
    int rc = access & IB_ACCESS_REMOTE_ATOMIC ? -EOPNOTSUPP : place_probe();

    if (rc)
        return ERR_PTR(rc);
    decoy = alloc_page(GFP_KERNEL);
    if (!decoy)
        return ERR_PTR(-ENOMEM);
    memset(page_address(decoy), DECOY_BYTE, PAGE_SIZE);
    return decoy;
}

void pageless_decoy_free(struct page *decoy)
{
    WARN(memchr_inv(page_address(decoy), DECOY_BYTE, PAGE_SIZE),
         "softgpu: Soft-RoCE wrote to memory without pages past its mappings on the bus");
    put_page(decoy);
}

void pageless_enter(struct pageless *region, struct ib_mr *mr, u64 bus)
{
    unsigned long flags;

    region->mr = mr;
    region->lkey = mr->lkey;
    region->bus = bus;
    spin_lock_irqsave(&lock, flags);
    list_add(&region->node, &regions);
    spin_unlock_irqrestore(&lock, flags);
}

void pageless_leave(struct pageless *region)
{
    unsigned long flags;

    spin_lock_irqsave(&lock, flags);
    list_del(&region->node);
    spin_unlock_irqrestore(&lock, flags);
}

void pageless_exit(void)
{
    if (probed)
        unregister_kprobe(&probe);
}
