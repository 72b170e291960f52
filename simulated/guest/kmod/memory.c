/* SPDX-License-Identifier: GPL-2.0-only
 *
 * /dev/softgpu, as softgpu.h describes it: a dynamic dmabuf exporter (importers pin, or receive
 * move notices), whose operations can be made to fail. While the parameter nvidia is on, buffers
 * are made with the rules of NVIDIA's exporter: no pin, no move, mapped when attached, at other
 * addresses each time. While the parameter pages is off, buffers have no pages.
 *
 * A CPU mapping is filled by page number when touched, so that get_user_pages() refuses it, and
 * emptied when the buffer moves. The pages of a buffer change only under its reservation lock;
 * every user of the pages holds it: the kernel calls map_dma_buf with it, faults and moves take it.
 */
#include <linux/delay.h>
#include <linux/dma-buf.h>
#include <linux/dma-mapping.h>
#include <linux/dma-resv.h>
#include <linux/fs.h>
#include <linux/highmem.h>
#include <linux/miscdevice.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include <linux/version.h>

#include "kmod.h"
#include "softgpu.h"

#define MAX_PAGES    (1ul << 20)
#define NVIDIA_PAGES (SOFTGPU_NVIDIA_PAGE >> PAGE_SHIFT)

struct buffer {
    unsigned long pages;
    u32 flags;
    bool nvidia, pageless;
    u64 bus; /* the address of the last map, for SOFTGPU_STAT */
    atomic_t attached, pinned, mapped, moved;
    struct kref refs;      /* its dmabuf, and duplicates */
    struct buffer *parent; /* a duplicate: whose memory it names */
    atomic_t duplicates;   /* they keep the memory where it is; more of them under its lock */
    unsigned long pfn[];
};

static atomic_t buffers_alive;

static bool nvidia;
module_param(nvidia, bool, 0644);
MODULE_PARM_DESC(nvidia, "new buffers follow the rules of NVIDIA's exporter");
static bool with_pages = true;
module_param_named(pages, with_pages, bool, 0644);
MODULE_PARM_DESC(pages, "new buffers have pages; 0: they are in a PCI BAR, which has none");
static unsigned long bar1_kib;
module_param(bar1_kib, ulong, 0644);
MODULE_PARM_DESC(bar1_kib, "what importers can map of buffers with NVIDIA's rules; 0: anything");
static atomic_long_t bar1_used; /* pages */

/* ---- failures on request ---------------------------------------------------------------- */

static struct softgpu_fault faults[SOFTGPU_OPS];
static DEFINE_SPINLOCK(fault_lock);

static int fault(enum softgpu_op op)
{
    struct softgpu_fault now = {};

    spin_lock(&fault_lock);
    if (faults[op].count) {
        faults[op].count--;
        now = faults[op];
    }
    spin_unlock(&fault_lock);
    if (now.delay_ms)
        msleep(now.delay_ms);
    return -(int)now.err;
}

static int ask_fault(const struct softgpu_fault *wanted)
{
    if (wanted->op >= SOFTGPU_OPS || wanted->err > MAX_ERRNO)
        return -EINVAL;
    spin_lock(&fault_lock);
    faults[wanted->op] = *wanted;
    spin_unlock(&fault_lock);
    return 0;
}

/* ---- pages ------------------------------------------------------------------------------ */

/* 0: there is none. */
static unsigned long new_pfn(const struct buffer *buffer)
{
    struct page *page;

    if (buffer->pageless)
        return bar_get();
    page = alloc_page(GFP_HIGHUSER | __GFP_ZERO | __GFP_NOWARN);
    return page ? page_to_pfn(page) : 0;
}

static void put_pfn(unsigned long pfn)
{
    if (bar_has(pfn))
        bar_put(pfn);
    else
        put_page(pfn_to_page(pfn));
}

static void buffer_free(struct buffer *buffer)
{
    unsigned long owned = buffer->parent ? 0 : buffer->pages;

    for (unsigned long i = 0; i < owned && buffer->pfn[i]; i++)
        put_pfn(buffer->pfn[i]);
    kvfree(buffer);
    atomic_dec(&buffers_alive);
}

static void buffer_released(struct kref *refs)
{
    struct buffer *buffer = container_of(refs, struct buffer, refs), *parent = buffer->parent;

    buffer_free(buffer);
    if (!parent)
        return;
    atomic_dec(&parent->duplicates);
    kref_put(&parent->refs, buffer_released);
}

static void buffer_put(struct buffer *buffer)
{
    kref_put(&buffer->refs, buffer_released);
}

static struct buffer *buffer_new(unsigned long pages, u32 flags)
{
    struct buffer *buffer = kvzalloc(struct_size(buffer, pfn, pages), GFP_KERNEL);

    if (!buffer)
        return NULL;
    kref_init(&buffer->refs);
    buffer->pages = pages;
    buffer->flags = flags;
    buffer->nvidia = nvidia;
    buffer->pageless = !with_pages;
    atomic_inc(&buffers_alive);
    for (unsigned long i = 0; i < pages; i++) {
        buffer->pfn[i] = new_pfn(buffer);
        if (!buffer->pfn[i]) {
            buffer_free(buffer);
            return NULL;
        }
    }
    return buffer;
}

/* Another name for some of a buffer's memory, which exists as long as it. */
static struct buffer *buffer_duplicate(struct buffer *parent, unsigned long first,
                                       unsigned long pages)
{
    struct buffer *buffer = kvzalloc(struct_size(buffer, pfn, pages), GFP_KERNEL);

    if (!buffer)
        return NULL;
    kref_init(&buffer->refs);
    kref_get(&parent->refs);
    buffer->parent = parent;
    buffer->pages = pages;
    buffer->nvidia = true;
    buffer->pageless = parent->pageless;
    memcpy(buffer->pfn, parent->pfn + first, pages * sizeof(buffer->pfn[0]));
    atomic_inc(&parent->duplicates);
    atomic_inc(&buffers_alive);
    return buffer;
}

/* Others with the same bytes. Of pages, an importer that did not release the old ones keeps them by
 * references of its own. */
static int exchange_pages(struct buffer *buffer)
{
    bus_lose(buffer->pfn);
    for (unsigned long i = 0; i < buffer->pages; i++) {
        unsigned long pfn = new_pfn(buffer), old = buffer->pfn[i];

        if (!pfn)
            return -ENOMEM;
        memcpy(memory_bytes(pfn), memory_bytes(old), PAGE_SIZE);
        buffer->pfn[i] = pfn;
        put_pfn(old);
    }
    return 0;
}

/* ---- importers' calls ------------------------------------------------------------------- */

static int attach(struct dma_buf *dmabuf, struct dma_buf_attachment *attachment)
{
    struct buffer *buffer = dmabuf->priv;
    int rc = fault(SOFTGPU_OP_ATTACH);

    if (!rc)
        atomic_inc(&buffer->attached);
    return rc;
}

static void detach(struct dma_buf *dmabuf, struct dma_buf_attachment *attachment)
{
    struct buffer *buffer = dmabuf->priv;

    atomic_dec(&buffer->attached);
}

static int pin(struct dma_buf_attachment *attachment)
{
    struct buffer *buffer = attachment->dmabuf->priv;
    int rc = fault(SOFTGPU_OP_PIN);

    if (!rc)
        atomic_inc(&buffer->pinned);
    return rc;
}

static void unpin(struct dma_buf_attachment *attachment)
{
    struct buffer *buffer = attachment->dmabuf->priv;

    atomic_dec(&buffer->pinned);
}

/* Addresses of this map alone. */
static int map_on_bus(struct sg_table *table, struct buffer *buffer)
{
    u64 address = bus_map(buffer->pfn, buffer->pages);
    struct scatterlist *entry;
    int i;

    if (!address)
        return -ENOMEM;
    buffer->bus = address;
    for_each_sgtable_sg(table, entry, i)
    {
        sg_dma_address(entry) = address + ((u64)i << PAGE_SHIFT);
        sg_dma_len(entry) = PAGE_SIZE;
    }
    return 0;
}

static bool is_on_bus(const struct buffer *buffer)
{
    return buffer->nvidia || buffer->pageless;
}

static int fill_table(struct sg_table *table, struct buffer *buffer, struct device *device,
                      enum dma_data_direction direction)
{
    int rc = sg_alloc_table(table, buffer->pages, GFP_KERNEL), i;
    struct scatterlist *entry;

    if (rc)
        return rc;
    for_each_sgtable_sg(table, entry, i)
        sg_set_page(entry, buffer->pageless ? NULL : pfn_to_page(buffer->pfn[i]), PAGE_SIZE, 0);
    rc = is_on_bus(buffer) ? map_on_bus(table, buffer)
                           : dma_map_sgtable(device, table, direction, DMA_ATTR_SKIP_CPU_SYNC);
    if (rc)
        sg_free_table(table);
    return rc;
}

static struct sg_table *map(struct dma_buf_attachment *attachment,
                            enum dma_data_direction direction)
{
    struct buffer *buffer = attachment->dmabuf->priv;
    struct sg_table *table;
    int rc = fault(SOFTGPU_OP_MAP);

    if (rc)
        return ERR_PTR(rc);
    table = kzalloc(sizeof(*table), GFP_KERNEL);
    if (!table)
        return ERR_PTR(-ENOMEM);
    rc = fill_table(table, buffer, attachment->dev, direction);
    if (rc) {
        kfree(table);
        return ERR_PTR(rc);
    }
    atomic_inc(&buffer->mapped);
    return table;
}

static void unmap(struct dma_buf_attachment *attachment, struct sg_table *table,
                  enum dma_data_direction direction)
{
    struct buffer *buffer = attachment->dmabuf->priv;

    if (is_on_bus(buffer))
        bus_unmap(sg_dma_address(table->sgl));
    else
        dma_unmap_sgtable(attachment->dev, table, direction, DMA_ATTR_SKIP_CPU_SYNC);
    sg_free_table(table);
    kfree(table);
    atomic_dec(&buffer->mapped);
}

/* Is there place for it in BAR1? All its imports share one; they are under its lock. */
static bool has_window(const struct buffer *buffer)
{
    long budget = (long)(bar1_kib >> (PAGE_SHIFT - 10));

    if (atomic_read(&buffer->mapped) || !budget)
        return true;
    return (long)(atomic_long_read(&bar1_used) + buffer->pages) <= budget;
}

/* NVIDIA's exporter answers NULL for any failure, which becomes -ENOMEM. */
static struct sg_table *nvidia_map(struct dma_buf_attachment *attachment,
                                   enum dma_data_direction direction)
{
    struct buffer *buffer = attachment->dmabuf->priv;
    struct sg_table *table = NULL;

    if (attachment->importer_ops && !attachment->peer2peer)
        return NULL;
    if (has_window(buffer))
        table = map(attachment, direction);
    if (IS_ERR_OR_NULL(table))
        return NULL;
    if (atomic_read(&buffer->mapped) == 1)
        atomic_long_add(buffer->pages, &bar1_used);
    return table;
}

static void nvidia_unmap(struct dma_buf_attachment *attachment, struct sg_table *table,
                         enum dma_data_direction direction)
{
    struct buffer *buffer = attachment->dmabuf->priv;

    unmap(attachment, table, direction);
    if (!atomic_read(&buffer->mapped))
        atomic_long_sub(buffer->pages, &bar1_used);
}

static void release(struct dma_buf *dmabuf)
{
    buffer_put(dmabuf->priv);
}

/* ---- CPU mappings ----------------------------------------------------------------------- */

static vm_fault_t touched(struct vm_fault *vmf)
{
    struct dma_buf *dmabuf = vmf->vma->vm_private_data;
    struct buffer *buffer = dmabuf->priv;
    vm_fault_t result = VM_FAULT_SIGBUS;

    dma_resv_lock(dmabuf->resv, NULL);
    if (vmf->pgoff < buffer->pages)
        result = vmf_insert_pfn(vmf->vma, vmf->address, buffer->pfn[vmf->pgoff]);
    dma_resv_unlock(dmabuf->resv);
    return result;
}

/* To the drivers of peer memory, the end of the mapping is the end of the memory. */
static void unmapped(struct vm_area_struct *vma)
{
    u64 start = (u64)vma->vm_pgoff << PAGE_SHIFT;

    regions_freed(vma->vm_private_data, vma->vm_mm, start, start + vma->vm_end - vma->vm_start);
}

static const struct vm_operations_struct vm_ops = {.fault = touched, .close = unmapped};

static void mark_as_bar(struct vm_area_struct *vma)
{
    unsigned long flags = VM_IO | VM_PFNMAP | VM_DONTEXPAND | VM_DONTDUMP;

#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 3, 0)
    vma->vm_flags |= flags;
#else
    vm_flags_set(vma, flags);
#endif
}

static int map_for_cpu(struct dma_buf *dmabuf, struct vm_area_struct *vma)
{
    struct buffer *buffer = dmabuf->priv;

    if (buffer->parent) /* as NVIDIA's */
        return -ENOTSUPP;
    if (buffer->flags & SOFTGPU_NO_MMAP)
        return -ENODEV;
    if (!(vma->vm_flags & VM_SHARED))
        return -EINVAL;
    mark_as_bar(vma);
    vma->vm_private_data = dmabuf;
    vma->vm_ops = &vm_ops;
    return 0;
}

struct dma_buf *memory_at(u64 start, u64 length, u64 *offset)
{
    struct dma_buf *dmabuf = NULL;
    struct vm_area_struct *vma;

    if (!current->mm)
        return NULL;
    mmap_read_lock(current->mm);
    vma = find_vma(current->mm, start);
    if (vma && vma->vm_ops == &vm_ops && vma->vm_start <= start && length <= vma->vm_end - start) {
        dmabuf = vma->vm_private_data;
        get_dma_buf(dmabuf);
        *offset = start - vma->vm_start + ((u64)vma->vm_pgoff << PAGE_SHIFT);
    }
    mmap_read_unlock(current->mm);
    return dmabuf;
}
EXPORT_SYMBOL_GPL(memory_at);

static const struct dma_buf_ops dmabuf_ops = {
    .attach = attach,
    .detach = detach,
    .pin = pin,
    .unpin = unpin,
    .map_dma_buf = map,
    .unmap_dma_buf = unmap,
    .mmap = map_for_cpu,
    .release = release,
};

static const struct dma_buf_ops nvidia_ops = {
    .attach = attach,
    .detach = detach,
    .map_dma_buf = nvidia_map,
    .unmap_dma_buf = nvidia_unmap,
    .mmap = map_for_cpu,
    .release = release,
};

static bool is_softgpu(const struct dma_buf *dmabuf)
{
    return dmabuf->ops == &dmabuf_ops || dmabuf->ops == &nvidia_ops;
}

bool memory_is_on_bus(const struct dma_buf *dmabuf)
{
    return is_softgpu(dmabuf) && is_on_bus(dmabuf->priv);
}
EXPORT_SYMBOL_GPL(memory_is_on_bus);

/* ---- /dev/softgpu ----------------------------------------------------------------------- */

static int export(struct buffer *buffer)
{
    DEFINE_DMA_BUF_EXPORT_INFO(info);
    struct dma_buf *dmabuf;
    int fd;

    info.ops = buffer->nvidia ? &nvidia_ops : &dmabuf_ops;
    info.size = buffer->pages << PAGE_SHIFT;
    info.flags = O_RDWR;
    info.priv = buffer;
    dmabuf = dma_buf_export(&info);
    if (IS_ERR(dmabuf)) {
        buffer_put(buffer);
        return PTR_ERR(dmabuf);
    }
    fd = dma_buf_fd(dmabuf, O_CLOEXEC);
    if (fd < 0)
        dma_buf_put(dmabuf);
    return fd;
}

static int do_alloc(struct softgpu_alloc *request)
{
    unsigned long pages = DIV_ROUND_UP_ULL(request->size, PAGE_SIZE);
    struct buffer *buffer;
    int rc = fault(SOFTGPU_OP_ALLOC);

    if (rc)
        return rc;
    if (!pages || pages > MAX_PAGES)
        return -EINVAL;
    if (nvidia)
        pages = round_up(pages, NVIDIA_PAGES);
    buffer = buffer_new(pages, request->flags);
    if (!buffer)
        return -ENOMEM;
    rc = export(buffer);
    if (rc < 0)
        return rc;
    request->fd = rc;
    return 0;
}

static struct dma_buf *get(int fd)
{
    struct dma_buf *dmabuf = dma_buf_get(fd);

    if (IS_ERR(dmabuf) || is_softgpu(dmabuf))
        return dmabuf;
    dma_buf_put(dmabuf);
    return ERR_PTR(-EINVAL);
}

/* Its memory does not move meanwhile. */
static struct buffer *duplicate(struct dma_buf *dmabuf, const struct softgpu_duplicate *request)
{
    struct buffer *parent = dmabuf->priv, *made;

    if (!parent->nvidia || parent->parent || !request->size ||
        !PAGE_ALIGNED(request->offset | request->size) || request->offset > dmabuf->size ||
        request->size > dmabuf->size - request->offset)
        return ERR_PTR(-EINVAL);
    dma_resv_lock(dmabuf->resv, NULL);
    made = buffer_duplicate(parent, request->offset >> PAGE_SHIFT, request->size >> PAGE_SHIFT);
    dma_resv_unlock(dmabuf->resv);
    return made ? made : ERR_PTR(-ENOMEM);
}

static int do_duplicate(struct softgpu_duplicate *request)
{
    struct dma_buf *dmabuf = get(request->fd);
    struct buffer *made;
    int rc;

    if (IS_ERR(dmabuf))
        return PTR_ERR(dmabuf);
    made = duplicate(dmabuf, request);
    dma_buf_put(dmabuf);
    rc = IS_ERR(made) ? (int)PTR_ERR(made) : export(made);
    if (rc < 0)
        return rc;
    request->duplicate = rc;
    return 0;
}

static int do_stat(struct softgpu_stat *stat)
{
    struct softgpu_stat found = {.fd = stat->fd};
    struct dma_buf *dmabuf;
    struct buffer *buffer;

    if (stat->fd < 0) {
        found.buffers = atomic_read(&buffers_alive);
        found.regions = atomic_read(&regions_alive);
        found.moved = atomic_read(&regions_moved);
        *stat = found;
        return 0;
    }
    dmabuf = get(stat->fd);
    if (IS_ERR(dmabuf))
        return PTR_ERR(dmabuf);
    buffer = dmabuf->priv;
    found.attached = atomic_read(&buffer->attached);
    found.pinned = atomic_read(&buffer->pinned);
    found.mapped = atomic_read(&buffer->mapped);
    found.moved = atomic_read(&buffer->moved);
    found.bus = buffer->bus;
    *stat = found;
    dma_buf_put(dmabuf);
    return 0;
}

static int move(struct dma_buf *dmabuf, bool force)
{
    struct buffer *buffer = dmabuf->priv;
    int rc = fault(SOFTGPU_OP_MOVE);

    if (rc)
        return rc;
    dma_resv_lock(dmabuf->resv, NULL);
    if (buffer->parent || atomic_read(&buffer->duplicates) ||
        ((buffer->nvidia || atomic_read(&buffer->pinned)) && !force)) {
        dma_resv_unlock(dmabuf->resv);
        return -EBUSY;
    }
    if (!buffer->nvidia)
        dma_buf_move_notify(dmabuf);
    unmap_mapping_range(dmabuf->file->f_mapping, 0, 0, 1);
    rc = exchange_pages(buffer);
    atomic_inc(&buffer->moved);
    dma_resv_unlock(dmabuf->resv);
    return rc;
}

static int do_move(const struct softgpu_move *request)
{
    struct dma_buf *dmabuf = get(request->fd);
    int rc;

    if (IS_ERR(dmabuf))
        return PTR_ERR(dmabuf);
    rc = move(dmabuf, request->force);
    dma_buf_put(dmabuf);
    return rc;
}

static int do_peek(struct softgpu_peek *peek)
{
    return bus_copy(peek->bus, &peek->bytes, sizeof(peek->bytes), false);
}

union argument {
    struct softgpu_alloc alloc;
    struct softgpu_stat stat;
    struct softgpu_move move;
    struct softgpu_fault fault;
    struct softgpu_peek peek;
    struct softgpu_duplicate duplicate;
};

static int dispatch(unsigned int command, union argument *argument)
{
    switch (command) {
    case SOFTGPU_ALLOC:
        return do_alloc(&argument->alloc);
    case SOFTGPU_STAT:
        return do_stat(&argument->stat);
    case SOFTGPU_MOVE:
        return do_move(&argument->move);
    case SOFTGPU_FAULT:
        return ask_fault(&argument->fault);
    case SOFTGPU_PEEK:
        return do_peek(&argument->peek);
    case SOFTGPU_DUPLICATE:
        return do_duplicate(&argument->duplicate);
    default:
        return -ENOTTY;
    }
}

static long asked(struct file *file, unsigned int command, unsigned long address)
{
    void __user *user = (void __user *)address;
    size_t size = _IOC_SIZE(command);
    union argument argument;
    int rc;

    if (size > sizeof(argument))
        return -ENOTTY;
    if (copy_from_user(&argument, user, size))
        return -EFAULT;
    rc = dispatch(command, &argument);
    if (rc || !(command & IOC_OUT))
        return rc;
    return copy_to_user(user, &argument, size) ? -EFAULT : 0;
}

static const struct file_operations device_ops = {.owner = THIS_MODULE, .unlocked_ioctl = asked};
static struct miscdevice device = {
    .minor = MISC_DYNAMIC_MINOR,
    .name = "softgpu",
    .fops = &device_ops,
    .mode = 0666,
};

int memory_init(void)
{
    return misc_register(&device);
}

void memory_exit(void)
{
    misc_deregister(&device);
}
