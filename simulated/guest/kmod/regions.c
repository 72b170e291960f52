/* SPDX-License-Identifier: GPL-2.0-only
 *
 * Soft-RoCE devices take dmabufs: these functions replace their registration calls. A dmabuf is
 * attached, pinned and mapped as a hardware driver does. Its pages are put into a temporary mapping
 * of the calling process, rxe registers that mapping, which takes references to the pages, and the
 * mapping is removed; the attachment lasts as long as the region. It works with every exporter
 * whose table has pages: softgpu, udmabuf, the dma-heaps, vgem. Of softgpu's memory that has
 * addresses on the bus (bus.c) only these are used, and where it has no pages, pageless.c. With
 * peers_enabled() a CPU mapping of softgpu's memory is registered in the same way, or by the
 * addresses that a driver of peer memory has for it.
 *
 * Also, uverbs may now remove a device from processes that have it open, as it does for hardware;
 * for plain rxe it waits until they close it, since what they have mapped needs the device.
 */
#include <linux/anon_inodes.h>
#include <linux/dma-buf.h>
#include <linux/dma-mapping.h>
#include <linux/dma-resv.h>
#include <linux/file.h>
#include <linux/hashtable.h>
#include <linux/mm.h>
#include <linux/mman.h>
#include <linux/module.h>
#include <linux/platform_device.h>
#include <linux/slab.h>
#include <linux/version.h>
#include <rdma/ib_verbs.h>
#include <rdma/uverbs_ioctl.h>

#include "kmod.h"
#include "softgpu.h"

/* What a registration of later kernels has before its last parameter. */
#if LINUX_VERSION_CODE < KERNEL_VERSION(7, 0, 0)
#define DMAH(dmah)
#else
#define DMAH(dmah) dmah,
#endif

struct region {
    struct hlist_node node;
    struct ib_mr *mr;
    const struct mm_struct *mm; /* registered by an address of it; NULL: by a descriptor */
    u64 start, end;             /* in the buffer */
    struct import import;
    struct peers_lease *lease; /* in the place of a dmabuf */
    u64 bus; /* where softgpu's memory is mapped; 0: another exporter's, reached by its pages */
    struct page *decoy; /* it has no pages */
    struct pageless pageless;
};

atomic_t regions_alive, regions_moved;

static struct platform_device *dma_device; /* the device of the attachments */
static DEFINE_HASHTABLE(regions, 6);
static DEFINE_SPINLOCK(regions_lock);
/* The driver's own calls: one set, as every rxe device has the same. */
static struct ib_mr *(*driver_reg)(struct ib_pd *, u64, u64, u64, int,
                                   DMAH(struct ib_dmah *) struct ib_udata *);
static int (*driver_dereg)(struct ib_mr *, struct ib_udata *);
static int (*driver_mmap)(struct ib_ucontext *, struct vm_area_struct *);

/* ---- the import ------------------------------------------------------------------------- */

/* A pinned region cannot follow a move; hardware drivers do no more than this. */
static void on_move(struct dma_buf_attachment *attachment)
{
    atomic_inc(&regions_moved);
}

static bool peer2peer = true;
module_param(peer2peer, bool, 0644);
MODULE_PARM_DESC(peer2peer, "registrations import memory that is no system memory");

static const struct dma_buf_attach_ops attach_ops = {.allow_peer2peer = true,
                                                     .move_notify = on_move},
                                       system_ops = {.move_notify = on_move};

static int pin_and_map(struct import *import)
{
    int rc = dma_buf_pin(import->attachment);

    if (rc)
        return rc;
    import->table = dma_buf_map_attachment(import->attachment, DMA_BIDIRECTIONAL);
    if (!IS_ERR(import->table))
        return 0;
    rc = PTR_ERR(import->table);
    import->table = NULL;
    dma_buf_unpin(import->attachment);
    return rc;
}

int import_begin(struct import *import)
{
    struct dma_buf_attachment *attachment = dma_buf_dynamic_attach(
        import->dmabuf, &dma_device->dev, peer2peer ? &attach_ops : &system_ops, import);
    int rc;

    if (IS_ERR(attachment))
        return PTR_ERR(attachment);
    import->attachment = attachment;
    dma_resv_lock(import->dmabuf->resv, NULL);
    rc = pin_and_map(import);
    dma_resv_unlock(import->dmabuf->resv);
    return rc;
}
EXPORT_SYMBOL_GPL(import_begin);

void import_end(struct import *import)
{
    struct dma_buf *dmabuf = import->dmabuf;

    if (import->table) {
        dma_resv_lock(dmabuf->resv, NULL);
        dma_buf_unmap_attachment(import->attachment, import->table, DMA_BIDIRECTIONAL);
        dma_buf_unpin(import->attachment);
        dma_resv_unlock(dmabuf->resv);
    }
    if (import->attachment)
        dma_buf_detach(dmabuf, import->attachment);
    dma_buf_put(dmabuf);
}
EXPORT_SYMBOL_GPL(import_end);

static void region_free(struct region *region)
{
    if (region->decoy)
        pageless_decoy_free(region->decoy);
    if (region->lease)
        region->lease->end(region->lease);
    else
        import_end(&region->import);
    kfree(region);
}

/* ---- the temporary mapping -------------------------------------------------------------- */

static int fill_by_address(const struct region *region, struct vm_area_struct *vma)
{
    u64 bus = region->bus + ((u64)vma->vm_pgoff << PAGE_SHIFT);
    int rc = 0;

    for (unsigned long at = vma->vm_start; at < vma->vm_end && !rc; at += PAGE_SIZE) {
        struct page *page = region->decoy ? region->decoy : bus_page(bus + at - vma->vm_start);

        rc = page ? vm_insert_page(vma, at, page) : -EFAULT;
    }
    return rc;
}

static int fill_window(struct file *file, struct vm_area_struct *vma)
{
    struct region *region = file->private_data;
    unsigned long left = vma_pages(vma), addr = vma->vm_start;
    struct sg_page_iter iter;

    if (region->bus)
        return fill_by_address(region, vma);
    for_each_sgtable_page(region->import.table, &iter, vma->vm_pgoff)
    {
        struct page *page = sg_page_iter_page(&iter);
        int rc;

        if (!left--)
            break;
        rc = page ? vm_insert_page(vma, addr, page) : -EFAULT;
        if (rc)
            return rc;
        addr += PAGE_SIZE;
    }
    return 0;
}

static const struct file_operations window_ops = {.owner = THIS_MODULE, .mmap = fill_window};

/* The arguments of a registration. */
struct span {
    u64 offset, length, iova;
    int access;
    /* Of what: one of these; mm as in struct region. */
    struct dma_buf *dmabuf;
    struct peers_lease *lease;
    const struct mm_struct *mm;
};

static struct ib_mr *register_pages(struct ib_pd *pd, struct region *region,
                                    const struct span *span, struct ib_udata *udata)
{
    u64 first = span->offset & PAGE_MASK;
    unsigned long len = PAGE_ALIGN(span->offset + span->length) - first, addr;
    struct file *file = anon_inode_getfile("softgpu-region", &window_ops, region, O_RDWR);
    struct ib_mr *mr;

    if (IS_ERR(file))
        return ERR_CAST(file);
    addr = vm_mmap(file, 0, len, PROT_READ | PROT_WRITE, MAP_SHARED, first);
    if (IS_ERR_VALUE(addr)) {
        mr = ERR_PTR((long)addr);
    } else {
        mr = driver_reg(pd, addr + offset_in_page(span->offset), span->length, span->iova,
                        span->access, DMAH(NULL) udata);
        vm_munmap(addr, len);
    }
    fput(file);
    return mr;
}

/* ---- regions ---------------------------------------------------------------------------- */

static void enter(struct region *region, struct ib_mr *mr)
{
    region->mr = mr;
    spin_lock(&regions_lock);
    hash_add(regions, &region->node, (unsigned long)mr);
    if (region->lease && region->lease->revoked)
        mr->length = 0;
    spin_unlock(&regions_lock);
}

static struct region *leave(struct ib_mr *mr)
{
    struct region *region, *found = NULL;

    spin_lock(&regions_lock);
    hash_for_each_possible(regions, region, node, (unsigned long)mr) if (region->mr == mr) found =
        region;
    if (found)
        hash_del(&found->node);
    spin_unlock(&regions_lock);
    return found;
}

static const struct peers_driver *peers_driver;

void peers_use(const struct peers_driver *driver)
{
    WRITE_ONCE(peers_driver, driver);
}
EXPORT_SYMBOL_GPL(peers_use);

/* No access passes rxe's check against a length of 0. */
void regions_revoke(struct peers_lease *lease)
{
    struct region *region;
    int bucket;

    spin_lock(&regions_lock);
    lease->revoked = true;
    hash_for_each(regions, bucket, region, node) if (region->lease == lease) region->mr->length = 0;
    spin_unlock(&regions_lock);
}
EXPORT_SYMBOL_GPL(regions_revoke);

void regions_freed(const struct dma_buf *dmabuf, const struct mm_struct *mm, u64 start, u64 end)
{
    const struct peers_driver *driver = READ_ONCE(peers_driver);
    struct region *region;
    int bucket;

    if (driver)
        driver->freed(dmabuf, mm, start, end);
    if (peers_client() != PEERS_NV_MEM)
        return;
    spin_lock(&regions_lock);
    hash_for_each(regions, bucket, region,
                  node) if (region->mm == mm && region->import.dmabuf == dmabuf &&
                            region->start < end && start < region->end) region->mr->length = 0;
    spin_unlock(&regions_lock);
}

/* Makes the memory stay where it is. */
static int hold(struct region *region, const struct span *span)
{
    int rc;

    if (region->lease) {
        region->bus = region->lease->bus;
        return 0;
    }
    if (!span->length || region->end < region->start || region->end > region->import.dmabuf->size)
        return -EINVAL;
    rc = import_begin(&region->import);
    if (!rc && memory_is_on_bus(region->import.dmabuf))
        region->bus = sg_dma_address(region->import.table->sgl);
    return rc;
}

static struct ib_mr *make(struct ib_pd *pd, struct region *region, const struct span *span,
                          struct ib_udata *udata)
{
    int rc = hold(region, span);
    struct ib_mr *mr;

    if (rc)
        return ERR_PTR(rc);
    if (region->bus && !bus_page(region->bus)) {
        struct page *decoy = pageless_decoy(span->access);

        if (IS_ERR(decoy))
            return ERR_CAST(decoy);
        region->decoy = decoy;
    }
    mr = register_pages(pd, region, span, udata);
    if (IS_ERR(mr))
        return mr;
    /* rxe checks accesses against these; uverbs sets them for regions by address only. */
    mr->iova = span->iova;
    mr->length = span->length;
    if (region->decoy)
        pageless_enter(&region->pageless, mr, region->bus + span->offset);
    return mr;
}

/* Takes over the dmabuf or the lease. */
static struct ib_mr *reg(struct ib_pd *pd, const struct span *span, struct ib_udata *udata)
{
    struct region *region = kzalloc(sizeof(*region), GFP_KERNEL);
    struct ib_mr *mr;

    if (!region) {
        if (span->lease)
            span->lease->end(span->lease);
        else
            dma_buf_put(span->dmabuf);
        return ERR_PTR(-ENOMEM);
    }
    region->import.dmabuf = span->dmabuf;
    region->lease = span->lease;
    region->mm = span->mm;
    region->start = span->offset;
    region->end = span->offset + span->length;
    mr = make(pd, region, span, udata);
    if (IS_ERR(mr)) {
        region_free(region);
        return mr;
    }
    __module_get(THIS_MODULE);
    atomic_inc(&regions_alive);
    enter(region, mr);
    return mr;
}

/* ---- the device's calls, replaced ------------------------------------------------------- */

static struct ib_mr *reg_fd(struct ib_pd *pd, int fd, struct span *span, struct ib_udata *udata)
{
    span->dmabuf = dma_buf_get(fd);
    if (IS_ERR(span->dmabuf))
        return ERR_CAST(span->dmabuf);
    return reg(pd, span, udata);
}

#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 10, 0)
static struct ib_mr *hook_reg_dmabuf(struct ib_pd *pd, u64 offset, u64 length, u64 iova, int fd,
                                     int access, struct ib_udata *udata)
{
    struct span span = {offset, length, iova, access};

    return reg_fd(pd, fd, &span, udata);
}
#else
static struct ib_mr *hook_reg_dmabuf(struct ib_pd *pd, u64 offset, u64 length, u64 iova, int fd,
                                     int access,
                                     DMAH(struct ib_dmah *dmah) struct uverbs_attr_bundle *attrs)
{
    struct span span = {offset, length, iova, access};

    return reg_fd(pd, fd, &span, &attrs->driver_udata);
}
#endif

/* The dmabuf of the range; nvidia-peermem's clients take whole pages of 64 KiB around it. */
static struct dma_buf *imitated(u64 start, u64 length, u64 *offset)
{
    u64 page = peers_client() == PEERS_SOFTGPU ? 1 : SOFTGPU_NVIDIA_PAGE;
    u64 first = ALIGN_DOWN(start, page);
    struct dma_buf *dmabuf = memory_at(first, ALIGN(start + length, page) - first, offset);

    *offset += start - first;
    return dmabuf;
}

static struct ib_mr *hook_reg(struct ib_pd *pd, u64 start, u64 length, u64 iova, int access,
                              DMAH(struct ib_dmah *dmah) struct ib_udata *udata)
{
    const struct peers_driver *driver = READ_ONCE(peers_driver);
    struct span span = {.length = length, .iova = iova, .access = access};
    struct ib_mr *mr = NULL;

    if (peers_enabled() && driver && peers_client() != PEERS_SOFTGPU) {
        span.lease = driver->begin(start, length);
        span.offset = offset_in_page(start);
    } else if (peers_enabled()) {
        span.dmabuf = imitated(start, length, &span.offset);
        span.mm = current->mm;
    }
    if (IS_ERR(span.lease))
        return ERR_CAST(span.lease);
    if (span.lease || span.dmabuf)
        mr = reg(pd, &span, udata);
    /* Where nvidia-peermem cannot map memory, it says that the memory is not its. */
    if (span.dmabuf && peers_client() != PEERS_SOFTGPU && PTR_ERR(mr) == -ENOMEM)
        mr = NULL;
    return mr ? mr : driver_reg(pd, start, length, iova, access, DMAH(dmah) udata);
}

/* Remove it from the table first: the driver frees mr, and its address can be reused. */
static int hook_dereg(struct ib_mr *mr, struct ib_udata *udata)
{
    struct region *region = leave(mr);
    int rc = driver_dereg(mr, udata);

    if (!region)
        return rc;
    if (rc) {
        enter(region, mr);
        return rc;
    }
    if (region->decoy)
        pageless_leave(&region->pageless); /* the driver waited for what was under way */
    region_free(region);
    atomic_dec(&regions_alive);
    module_put(THIS_MODULE);
    return 0;
}

static void hook_disassociate(struct ib_ucontext *context)
{
}

/* How the driver's notes of a mapping begin. When the mapping ends it looks for the device through
 * the context, of which neither is left if the device was removed meanwhile. */
struct driver_mapping {
    struct list_head pending;
    struct ib_ucontext *context;
};

static struct ib_client client;

static int hook_mmap(struct ib_ucontext *context, struct vm_area_struct *vma)
{
    struct ib_ucontext *lasting = ib_get_client_data(context->device, &client);
    int rc = driver_mmap(context, vma);
    struct driver_mapping *mapping = vma->vm_private_data;

    if (!rc && !WARN_ON(mapping->context != context))
        mapping->context = lasting;
    return rc;
}

/* ---- devices ---------------------------------------------------------------------------- */

static bool unloading;

/* A context for mappings, which like the device's memory is never freed. */
static bool make_lasting(struct ib_device *device)
{
    struct ib_ucontext *lasting = kzalloc(sizeof(*lasting), GFP_KERNEL);

    if (!lasting)
        return false;
    lasting->device = device;
    get_device(&device->dev);
    ib_set_client_data(device, &client, lasting);
    return true;
}

static int device_comes(struct ib_device *device)
{
    if (device->ops.driver_id != RDMA_DRIVER_RXE || device->ops.reg_user_mr_dmabuf)
        return -EOPNOTSUPP;
    if (!make_lasting(device))
        return -ENOMEM;
    driver_mmap = device->ops.mmap;
    device->ops.mmap = hook_mmap;
    driver_reg = device->ops.reg_user_mr;
    driver_dereg = device->ops.dereg_mr;
    device->ops.reg_user_mr = hook_reg;
    device->ops.dereg_mr = hook_dereg;
    device->ops.reg_user_mr_dmabuf = hook_reg_dmabuf;
    if (!device->ops.disassociate_ucontext)
        device->ops.disassociate_ucontext = hook_disassociate;
    return 0;
}

/* A device that is removed still needs our dereg: uverbs may be notified after us. */
static void device_goes(struct ib_device *device, void *data)
{
    if (!unloading)
        return;
    if (device->ops.disassociate_ucontext == hook_disassociate)
        device->ops.disassociate_ucontext = NULL;
    device->ops.mmap = driver_mmap;
    device->ops.reg_user_mr = driver_reg;
    device->ops.dereg_mr = driver_dereg;
    device->ops.reg_user_mr_dmabuf = NULL;
}

static struct ib_client client = {
    .name = "softgpu",
    .add = device_comes,
    .remove = device_goes,
};

int regions_init(void)
{
    int rc;

    dma_device = platform_device_register_simple("softgpu", -1, NULL, 0);
    if (IS_ERR(dma_device))
        return PTR_ERR(dma_device);
    rc = dma_coerce_mask_and_coherent(&dma_device->dev, DMA_BIT_MASK(64));
    rc = rc ? rc : ib_register_client(&client);
    if (rc)
        platform_device_unregister(dma_device);
    return rc;
}

void regions_exit(void)
{
    unloading = true; /* no region is left: each holds the module */
    ib_unregister_client(&client);
    pageless_exit();
    platform_device_unregister(dma_device);
}
