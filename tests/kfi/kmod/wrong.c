// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
/* Calls with wrong arguments, which only the kernel can make. */
#include "client.h"

#include <linux/io.h>
#include <linux/slab.h>

#define RIGHTS (KFI_REMOTE_READ | KFI_REMOTE_WRITE)

#define HPET 0xfed00000 /* where PCs have it */

static int registers_of_a_device(struct kfid_domain *domain, struct kfid_mr **mr)
{
    void __iomem *registers = ioremap(HPET, 100);
    int rc;

    if (!registers)
        return -ENOMEM;
    rc = kfi_mr_reg(domain, (__force void *)registers, 100, RIGHTS, 0, 0, 0, mr, NULL);
    iounmap(registers);
    return rc;
}

static int wrong_region(struct kfid_domain *domain, enum client_wrong_call call, char *buffer,
                        struct kfid_mr **mr)
{
    struct kfi_mr_attr attr = {.type = 99, .access = RIGHTS, .iov_count = 1};
    struct bio_vec vector = {.bv_len = 100};
    struct scatterlist sg;
    struct kvec iov = {buffer, 100};

    sg_init_one(&sg, buffer, 100);
    sg_dma_address(&sg) = 4096;
    sg_dma_len(&sg) = 0;
    attr.mr_iov = &iov;
    switch (call) {
    case WRONG_NO_OUTPUT:
        return kfi_mr_reg(domain, buffer, 100, RIGHTS, 0, 0, 0, NULL, NULL);
    case WRONG_NO_BUFFER:
        return kfi_mr_reg(domain, NULL, 100, RIGHTS, 0, 0, 0, mr, NULL);
    case WRONG_NO_LENGTH:
        return kfi_mr_reg(domain, buffer, 0, RIGHTS, 0, 0, 0, mr, NULL);
    case WRONG_NO_COUNT:
        return kfi_mr_regv(domain, &iov, 0, RIGHTS, 0, 0, 0, mr, NULL);
    case WRONG_NO_ATTR:
        return kfi_mr_regattr(domain, NULL, 0, mr);
    case WRONG_TYPE:
        return kfi_mr_regattr(domain, &attr, 0, mr);
    case WRONG_USER_ADDRESS:
        return kfi_mr_reg(domain, (void *)0x400000, 100, RIGHTS, 0, 0, 0, mr, NULL);
    case WRONG_REGISTERS:
        return registers_of_a_device(domain, mr);
    case WRONG_END:
        return kfi_mr_reg(domain, buffer, SIZE_MAX - 100, RIGHTS, 0, 0, 0, mr, NULL);
    case WRONG_NO_PAGE:
        return kfi_mr_regbv(domain, &vector, 1, RIGHTS, 0, 0, 0, mr, NULL);
    case WRONG_EMPTY_VECTOR:
        vector = (struct bio_vec){.bv_page = virt_to_page(buffer)};
        return kfi_mr_regbv(domain, &vector, 1, RIGHTS, 0, 0, 0, mr, NULL);
    default:
        return kfi_mr_regsgl(domain, &sg, 1, RIGHTS, 0, 0, 0, mr, NULL);
    }
}

static int wrong_queue_pair(void)
{
    struct ib_pd *other = ib_alloc_pd(client_device, 0);
    struct hmreg_kfi_attr attr = {.qp = client_qp};
    struct kfid_domain *domain;
    int rc;

    if (IS_ERR(other))
        return PTR_ERR(other);
    rc = hmreg_kfi_domain_open(other, &attr, &domain);
    ib_dealloc_pd(other);
    return rc;
}

static int queue_pair_that_is_not_polled(void)
{
    struct ib_cq *cq = ib_alloc_cq(client_device, NULL, 4, 0, IB_POLL_DIRECT);
    struct ib_qp_init_attr init = {
        .send_cq = cq,
        .recv_cq = cq,
        .qp_type = IB_QPT_RC,
        .cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1}};
    struct hmreg_kfi_attr attr = {};
    struct kfid_domain *domain;
    int rc;

    if (IS_ERR(cq))
        return PTR_ERR(cq);
    attr.qp = ib_create_qp(client_pd, &init);
    rc = PTR_ERR_OR_ZERO(attr.qp);
    if (!rc) {
        rc = hmreg_kfi_domain_open(client_pd, &attr, &domain);
        ib_destroy_qp(attr.qp);
    }
    ib_free_cq(cq);
    return rc;
}

static int wrong_open(enum client_wrong_call call, struct kfid_domain **domain)
{
    struct hmreg_kfi_attr attr = {};

    switch (call) {
    case WRONG_OPEN_NO_PD:
        return hmreg_kfi_domain_open(NULL, NULL, domain);
    case WRONG_OPEN_NO_OUTPUT:
        return hmreg_kfi_domain_open(client_pd, NULL, NULL);
    case WRONG_OPEN_PORT:
        attr.port = 99;
        return hmreg_kfi_domain_open(client_pd, &attr, domain);
    case WRONG_OPEN_PAGES:
        attr.qp = client_qp;
        attr.regions = 1;
        attr.pages = client_device->attrs.max_fast_reg_page_list_len + 1;
        return hmreg_kfi_domain_open(client_pd, &attr, domain);
    case WRONG_OPEN_QP_DIRECT:
        return queue_pair_that_is_not_polled();
    default:
        return wrong_queue_pair();
    }
}

static int wrong_event(struct kfid_domain *domain, struct kfid_eq *eq, enum client_wrong_call call)
{
    struct kfid counter = {.fclass = KFI_CLASS_CNTR}, stranger = {.fclass = KFI_CLASS_EQ};
    struct kfi_eq_err_entry entry;
    u32 event;

    switch (call) {
    case WRONG_BIND_NULL:
        return kfi_domain_bind(domain, NULL, KFI_REG_MR);
    case WRONG_BIND_CLASS:
        return kfi_domain_bind(domain, &counter, KFI_REG_MR)
                   ?: kfi_domain_bind(domain, &stranger, KFI_REG_MR);
    case WRONG_BIND_TWICE:
        return kfi_domain_bind(domain, &eq->fid, KFI_REG_MR);
    case WRONG_EQ_READ_FLAGS:
        return kfi_eq_read(eq, &event, &entry, sizeof(entry), 1);
    case WRONG_EQ_READERR_FLAGS:
        return kfi_eq_readerr(eq, &entry, 1);
    case WRONG_EQ_READ_NULL:
        return kfi_eq_read(eq, NULL, &entry, sizeof(entry), 0);
    default:
        return eq->ops->sread(eq, &event, &entry, sizeof(entry), 0, 0);
    }
}

int wrong_call(struct kfid_domain *domain, enum client_wrong_call call)
{
    struct kfid_domain *opened = (void *)8;
    struct kfid_mr *mr = (void *)8;
    struct kfid_eq *eq;
    void *buffer;
    int rc;

    if (call == WRONG_EQ_NO_OUTPUT)
        return hmreg_kfi_eq_open(NULL, NULL, NULL);
    if (call == WRONG_SGE_NULL)
        return hmreg_kfi_sge(NULL, 0, 1, NULL, 1);
    if (call >= WRONG_OPEN_NO_PD && call <= WRONG_OPEN_QP_DIRECT) {
        rc = wrong_open(call, &opened);
        return opened == (void *)8 ? rc : -EBADE;
    }
    if (call >= WRONG_BIND_NULL) {
        rc = hmreg_kfi_eq_open(NULL, NULL, &eq);
        if (rc)
            return rc;
        rc = wrong_event(domain, eq, call);
        return kfi_close(&eq->fid) ?: rc;
    }
    buffer = kmalloc(100, GFP_KERNEL);
    if (!buffer)
        return -ENOMEM;
    rc = wrong_region(domain, call, buffer, &mr);
    kfree(buffer);
    return mr == (void *)8 ? rc : -EBADE;
}
