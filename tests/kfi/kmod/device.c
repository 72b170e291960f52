// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
/*
 * An RDMA device (struct ib_device) over the PCI device that QEMU emulates for softgpu's BAR:
 * memory that is registered with it is mapped for a real device, through bounce buffers where the
 * kernel decides so. It answers each work request at once, makes keys, and transfers nothing.
 */
#include <linux/module.h>
#include <linux/pci.h>
#include <linux/slab.h>
#include <linux/version.h>
#include <rdma/ib_verbs.h>

#define IVSHMEM_VENDOR 0x1af4
#define IVSHMEM_DEVICE 0x1110
#define PAGES          512
#define ANSWERS        256 /* more than any queue pair has work requests */

struct queue {
    struct ib_cq ib;
    spinlock_t lock;
    struct ib_wc answers[ANSWERS];
    unsigned int first, count;
    bool armed;
};

struct pair {
    struct ib_qp ib;
    struct queue *sends;
};

struct memory {
    struct ib_mr ib;
    unsigned int pages;
};

struct pd {
    struct ib_pd ib;
};

struct emulated {
    struct ib_device ib;
};

static struct pci_dev *card;
static struct emulated *device;
static atomic_t keys;

/* ---- the device ---- */

static int query_device(struct ib_device *dev, struct ib_device_attr *attr, struct ib_udata *udata)
{
    *attr = (struct ib_device_attr){
        .max_mr_size = U64_MAX,
        .page_size_cap = PAGE_SIZE,
        .max_qp = 64,
        .max_qp_wr = ANSWERS,
        .max_send_sge = 8,
        .max_recv_sge = 8,
        .max_cq = 64,
        .max_cqe = ANSWERS,
        .max_mr = 1024,
        .max_pd = 64,
        .device_cap_flags = IB_DEVICE_MEM_MGT_EXTENSIONS,
        .kernel_cap_flags = IBK_LOCAL_DMA_LKEY,
        .max_fast_reg_page_list_len = PAGES,
    };
    return 0;
}

static int query_port(struct ib_device *dev, u32 port, struct ib_port_attr *attr)
{
    *attr = (struct ib_port_attr){
        .state = IB_PORT_ACTIVE, .max_mtu = IB_MTU_1024, .active_mtu = IB_MTU_1024, .lid = 1};
    return 0;
}

static int get_port_immutable(struct ib_device *dev, u32 port, struct ib_port_immutable *immutable)
{
    return 0;
}

static enum rdma_link_layer get_link_layer(struct ib_device *dev, u32 port)
{
    return IB_LINK_LAYER_INFINIBAND;
}

static int alloc_pd(struct ib_pd *pd, struct ib_udata *udata)
{
    return 0;
}

static int dealloc_pd(struct ib_pd *pd, struct ib_udata *udata)
{
    return 0;
}

/* ---- queues ---- */

#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 11, 0)
static int create_cq(struct ib_cq *cq, const struct ib_cq_init_attr *attr, struct ib_udata *udata)
#else
static int create_cq(struct ib_cq *cq, const struct ib_cq_init_attr *attr,
                     struct uverbs_attr_bundle *attrs)
#endif
{
    spin_lock_init(&container_of(cq, struct queue, ib)->lock);
    cq->cqe = ANSWERS;
    return 0;
}

static int destroy_cq(struct ib_cq *cq, struct ib_udata *udata)
{
    return 0;
}

static int poll_cq(struct ib_cq *cq, int most, struct ib_wc *wc)
{
    struct queue *queue = container_of(cq, struct queue, ib);
    unsigned long flags;
    int n;

    spin_lock_irqsave(&queue->lock, flags);
    for (n = 0; n < most && queue->count; n++, queue->count--)
        wc[n] = queue->answers[queue->first++ % ANSWERS];
    spin_unlock_irqrestore(&queue->lock, flags);
    return n;
}

static int req_notify_cq(struct ib_cq *cq, enum ib_cq_notify_flags flag)
{
    struct queue *queue = container_of(cq, struct queue, ib);
    unsigned long flags;
    bool missed;

    spin_lock_irqsave(&queue->lock, flags);
    queue->armed = true;
    missed = queue->count;
    spin_unlock_irqrestore(&queue->lock, flags);
    return missed && (flag & IB_CQ_REPORT_MISSED_EVENTS);
}

static void answer(struct queue *queue, struct ib_wc wc)
{
    unsigned long flags;
    bool tell;

    spin_lock_irqsave(&queue->lock, flags);
    queue->answers[(queue->first + queue->count++) % ANSWERS] = wc;
    tell = queue->armed;
    queue->armed = false;
    spin_unlock_irqrestore(&queue->lock, flags);
    if (tell)
        queue->ib.comp_handler(&queue->ib, queue->ib.cq_context);
}

static int create_qp(struct ib_qp *qp, struct ib_qp_init_attr *init, struct ib_udata *udata)
{
    container_of(qp, struct pair, ib)->sends = container_of(init->send_cq, struct queue, ib);
    qp->qp_num = 2;
    return 0;
}

static int modify_qp(struct ib_qp *qp, struct ib_qp_attr *attr, int mask, struct ib_udata *udata)
{
    return 0;
}

static int destroy_qp(struct ib_qp *qp, struct ib_udata *udata)
{
    return 0;
}

static int post_send(struct ib_qp *qp, const struct ib_send_wr *wr, const struct ib_send_wr **bad)
{
    for (; wr; wr = wr->next)
        answer(container_of(qp, struct pair, ib)->sends,
               (struct ib_wc){.wr_cqe = wr->wr_cqe, .status = IB_WC_SUCCESS, .qp = qp});
    return 0;
}

static int post_recv(struct ib_qp *qp, const struct ib_recv_wr *wr, const struct ib_recv_wr **bad)
{
    return -EOPNOTSUPP;
}

/* ---- memory ---- */

static struct ib_mr *alloc_mr(struct ib_pd *pd, enum ib_mr_type type, u32 pages)
{
    struct memory *memory = kzalloc(sizeof(*memory), GFP_KERNEL);

    if (!memory)
        return ERR_PTR(-ENOMEM);
    memory->ib.lkey = memory->ib.rkey = (u32)atomic_inc_return(&keys) << 8;
    return &memory->ib;
}

static struct ib_mr *get_dma_mr(struct ib_pd *pd, int rights)
{
    return ERR_PTR(-EOPNOTSUPP);
}

#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 17, 0)
#define DMA_HANDLE
#else
#define DMA_HANDLE struct ib_dmah *handle,
#endif

static struct ib_mr *reg_user_mr(struct ib_pd *pd, u64 start, u64 length, u64 address, int rights,
                                 DMA_HANDLE struct ib_udata *udata)
{
    return ERR_PTR(-EOPNOTSUPP);
}

static int dereg_mr(struct ib_mr *mr, struct ib_udata *udata)
{
    kfree(container_of(mr, struct memory, ib));
    return 0;
}

static int set_page(struct ib_mr *mr, u64 address)
{
    return container_of(mr, struct memory, ib)->pages++ < PAGES ? 0 : -ENOMEM;
}

static int map_mr_sg(struct ib_mr *mr, struct scatterlist *sg, int count, unsigned int *offset)
{
    container_of(mr, struct memory, ib)->pages = 0;
    return ib_sg_to_pages(mr, sg, count, offset, set_page);
}

static const struct ib_device_ops operations = {
    .owner = THIS_MODULE,
    .driver_id = RDMA_DRIVER_UNKNOWN,
    .query_device = query_device,
    .query_port = query_port,
    .get_port_immutable = get_port_immutable,
    .get_link_layer = get_link_layer,
    .alloc_pd = alloc_pd,
    .dealloc_pd = dealloc_pd,
    .create_cq = create_cq,
    .destroy_cq = destroy_cq,
    .poll_cq = poll_cq,
    .req_notify_cq = req_notify_cq,
    .create_qp = create_qp,
    .modify_qp = modify_qp,
    .destroy_qp = destroy_qp,
    .post_send = post_send,
    .post_recv = post_recv,
    .alloc_mr = alloc_mr,
    .get_dma_mr = get_dma_mr,
    .reg_user_mr = reg_user_mr,
    .dereg_mr = dereg_mr,
    .map_mr_sg = map_mr_sg,
    INIT_RDMA_OBJ_SIZE(ib_pd, pd, ib),
    INIT_RDMA_OBJ_SIZE(ib_cq, queue, ib),
    INIT_RDMA_OBJ_SIZE(ib_qp, pair, ib),
};

static int __init device_init(void)
{
    int rc = -ENODEV;

    card = pci_get_device(IVSHMEM_VENDOR, IVSHMEM_DEVICE, NULL);
    if (!card)
        return rc;
    device = ib_alloc_device(emulated, ib);
    if (!device) {
        rc = -ENOMEM;
        goto put_card;
    }
    device->ib.phys_port_cnt = 1;
    device->ib.node_type = RDMA_NODE_IB_CA;
    device->ib.num_comp_vectors = 1;
    device->ib.dev.parent = &card->dev;
    ib_set_device_ops(&device->ib, &operations);
    rc = ib_register_device(&device->ib, "emulated%d", &card->dev);
    if (!rc)
        return 0;
    ib_dealloc_device(&device->ib);
put_card:
    pci_dev_put(card);
    return rc;
}

static void __exit device_exit(void)
{
    ib_unregister_device(&device->ib);
    ib_dealloc_device(&device->ib);
    pci_dev_put(card);
}

module_init(device_init);
module_exit(device_exit);
MODULE_DESCRIPTION("For tests only: an RDMA device over an emulated PCI device");
MODULE_LICENSE("Dual BSD/GPL");
