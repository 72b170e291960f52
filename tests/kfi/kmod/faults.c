// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
/* The table of faults: one call that is to fail, and how often it did. See faults.h. */
#include "faults.h"

static DEFINE_SPINLOCK(lock);
static char armed[64]; /* names of calls */
static unsigned int skip_first, left, hit;
static unsigned int allocations, with_io;
static struct ib_mr *bridging; /* takes gaps */

bool hmreg_kfi_fails(const char *call)
{
    bool fails = false;

    spin_lock(&lock);
    if (left && strstr(armed, call)) {
        if (skip_first) {
            skip_first--;
        } else {
            fails = true;
            left--;
            hit++;
        }
    }
    spin_unlock(&lock);
    return fails;
}

bool hmreg_kfi_allocation_fails(const char *call)
{
    spin_lock(&lock);
    allocations++;
    with_io += !(current->flags & PF_MEMALLOC_NOIO);
    spin_unlock(&lock);
    return hmreg_kfi_fails(call);
}

int hmreg_kfi_post_send(struct ib_qp *qp, struct ib_send_wr *wr)
{
    struct ib_send_wr bad = {
        .wr_cqe = wr->wr_cqe,
        .opcode = IB_WR_LOCAL_INV,
        .send_flags = wr->send_flags,
        .ex.invalidate_rkey = 0x12345678,
    };

    if (hmreg_kfi_fails("held"))
        return hmreg_kfi_post_held(qp, wr, false);
    if (hmreg_kfi_fails("stuck"))
        return hmreg_kfi_post_held(qp, wr, true);
    return ib_post_send(qp, hmreg_kfi_fails("completion") ? &bad : wr, NULL);
}

struct ib_mr *hmreg_kfi_alloc_mr(struct ib_pd *pd, enum ib_mr_type type, u32 elements)
{
    struct ib_mr *mr;

    if (hmreg_kfi_fails("late_mr"))
        return ERR_PTR(-ETIMEDOUT);
    mr = ib_alloc_mr(pd, IB_MR_TYPE_MEM_REG, elements);
    if (type == IB_MR_TYPE_SG_GAPS)
        bridging = mr;
    return mr;
}

int hmreg_kfi_map_mr_sg(struct ib_mr *mr, struct scatterlist *sg, int count)
{
    int i, n = ib_map_mr_sg(mr, sg, count, NULL, PAGE_SIZE);

    if (n <= 0 || n == count || mr != bridging)
        return n;
    mr->length = 0;
    for (i = 0; i < count; i++, sg = sg_next(sg))
        mr->length += sg_dma_len(sg);
    return count;
}

void hmreg_kfi_arm(const char *call, unsigned int skip, unsigned int times)
{
    spin_lock(&lock);
    strscpy(armed, call, sizeof(armed));
    skip_first = skip;
    left = times;
    hit = 0;
    spin_unlock(&lock);
}
EXPORT_SYMBOL_GPL(hmreg_kfi_arm);

unsigned int hmreg_kfi_hits(void)
{
    return hit;
}
EXPORT_SYMBOL_GPL(hmreg_kfi_hits);

/* Since the last call. */
void hmreg_kfi_counted(unsigned int *all, unsigned int *io)
{
    spin_lock(&lock);
    *all = allocations;
    *io = with_io;
    allocations = 0;
    with_io = 0;
    spin_unlock(&lock);
}
EXPORT_SYMBOL_GPL(hmreg_kfi_counted);
