// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
/* Completions that come late: the device does what the work request says, and the module learns it
 * when the test wants. */
#include "faults.h"
#include "internal.h"

struct held {
    struct list_head entry;
    struct ib_cqe cqe, *given;
    struct ib_cq *cq;
    struct ib_wc wc;
    bool stuck; /* not even the queue pair's error state ends it */
    bool has_come, released;
};

static DEFINE_SPINLOCK(lock);
static LIST_HEAD(all);

static void pass_on(struct held *held)
{
    held->wc.wr_cqe = held->given;
    held->given->done(held->cq, &held->wc);
    kfree(held);
}

static void on_held(struct ib_cq *cq, struct ib_wc *wc)
{
    struct held *held = container_of(wc->wr_cqe, struct held, cqe);
    bool released;

    spin_lock_bh(&lock);
    held->cq = cq;
    held->wc = *wc;
    held->has_come = true;
    released = held->released;
    if (released)
        list_del(&held->entry);
    spin_unlock_bh(&lock);
    if (released)
        pass_on(held);
}

int hmreg_kfi_post_held(struct ib_qp *qp, struct ib_send_wr *wr, bool stuck)
{
    struct held *held = kzalloc(sizeof(*held), GFP_KERNEL);
    int rc;

    if (!held)
        return -ENOMEM;
    *held = (struct held){.cqe.done = on_held, .given = wr->wr_cqe, .stuck = stuck};
    spin_lock_bh(&lock);
    list_add(&held->entry, &all);
    spin_unlock_bh(&lock);
    wr->wr_cqe = &held->cqe;
    rc = ib_post_send(qp, wr, NULL);
    wr->wr_cqe = held->given;
    if (rc) {
        spin_lock_bh(&lock);
        list_del(&held->entry);
        spin_unlock_bh(&lock);
        kfree(held);
    }
    return rc;
}

void hmreg_kfi_release_held(bool stuck)
{
    struct held *held, *next;
    LIST_HEAD(come);

    spin_lock_bh(&lock);
    list_for_each_entry_safe(held, next, &all, entry)
    {
        if (held->stuck && !stuck)
            continue;
        held->released = true;
        if (held->has_come)
            list_move(&held->entry, &come);
    }
    spin_unlock_bh(&lock);
    list_for_each_entry_safe(held, next, &come, entry) pass_on(held);
}
EXPORT_SYMBOL_GPL(hmreg_kfi_release_held);

unsigned int hmreg_kfi_held(void)
{
    struct held *held;
    unsigned int count = 0;

    spin_lock_bh(&lock);
    list_for_each_entry(held, &all, entry) count += held->has_come;
    spin_unlock_bh(&lock);
    return count;
}
EXPORT_SYMBOL_GPL(hmreg_kfi_held);

int hmreg_kfi_modify_qp(struct ib_qp *qp, struct ib_qp_attr *attr, int mask)
{
    int rc = ib_modify_qp(qp, attr, mask);

    if (!rc && attr->qp_state == IB_QPS_ERR)
        hmreg_kfi_release_held(false);
    return rc;
}

/* The key of a region that was given up, which no caller has. */
void hmreg_kfi_secret(struct kfid_mr *fid, u64 *key, u64 *iova)
{
    struct hmreg_kfi_mr *mr = container_of(fid, struct hmreg_kfi_mr, fid);

    *key = mr->mr ? mr->mr->rkey : KFI_KEY_NOTAVAIL;
    *iova = mr->mr ? mr->mr->iova : 0;
}
EXPORT_SYMBOL_GPL(hmreg_kfi_secret);
