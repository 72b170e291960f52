// SPDX-License-Identifier: GPL-2.0-only
/*
 * Event queues. A registration's event is part of its region, so that none is lost for lack of
 * memory; it ends with the region.
 *
 * Handlers run in a work item of their queue. A work item per region would not do: a handler may
 * close the region, and the next caller to register with it would wait until that handler has
 * returned.
 */
#include <linux/slab.h>

#include "internal.h"

static struct hmreg_kfi_eq *eq_of(struct kfid_eq *eq)
{
	return container_of(eq, struct hmreg_kfi_eq, fid);
}

/* Takes the first event, if it is of this kind, and fills in the fields common to both kinds of
 * entries.
 */
static int take(struct hmreg_kfi_eq *eq, bool failed, struct kfi_eq_err_entry *entry)
{
	struct hmreg_kfi_mr *mr;
	int rc = 0;

	spin_lock(&eq->lock);
	mr = list_first_entry_or_null(&eq->events, struct hmreg_kfi_mr, event);
	if (!mr || (failed && !mr->error)) {
		rc = -KFI_EAGAIN;
	} else if (!failed && mr->error) {
		rc = -KFI_EAVAIL;
	} else {
		*entry = (struct kfi_eq_err_entry){.fid = &mr->fid.fid,
						   .context = mr->fid.fid.context,
						   .err = -mr->error,
						   .prov_errno = mr->status};
		list_del_init(&mr->event);
	}
	spin_unlock(&eq->lock);
	return rc;
}

static ssize_t eq_read(struct kfid_eq *fid, u32 *event, void *buf, size_t len, u64 flags)
{
	struct kfi_eq_err_entry entry;
	struct kfi_eq_entry *out = buf;
	int rc;

	if (!event || !buf)
		return -KFI_EINVAL;
	if (flags)
		return -KFI_EBADFLAGS;
	if (len < sizeof(*out))
		return -KFI_ETOOSMALL;
	rc = take(eq_of(fid), false, &entry);
	if (rc)
		return rc;
	*event = KFI_MR_COMPLETE;
	*out = (struct kfi_eq_entry){.fid = entry.fid, .context = entry.context};
	return sizeof(*out);
}

static ssize_t eq_readerr(struct kfid_eq *fid, struct kfi_eq_err_entry *buf, u64 flags)
{
	int rc;

	if (!buf)
		return -KFI_EINVAL;
	if (flags)
		return -KFI_EBADFLAGS;
	rc = take(eq_of(fid), true, buf);
	return rc ? rc : sizeof(*buf);
}

static ssize_t eq_write(struct kfid_eq *eq, u32 event, const void *buf, size_t len, u64 flags)
{
	return -KFI_ENOSYS;
}

static ssize_t eq_sread(struct kfid_eq *eq, u32 *event, void *buf, size_t len, int timeout,
			u64 flags)
{
	return -KFI_ENOSYS;
}

static const char *eq_strerror(struct kfid_eq *eq, int prov_errno, const void *err_data, char *buf,
			       size_t len)
{
	const char *text = ib_wc_status_msg(prov_errno);

	if (buf && len)
		strscpy(buf, text, len);
	return text;
}

static struct kfi_ops_eq eq_ops = {
	.size = sizeof(eq_ops),
	.read = eq_read,
	.readerr = eq_readerr,
	.write = eq_write,
	.sread = eq_sread,
	.strerror = eq_strerror,
};

static bool called_by_handler(struct hmreg_kfi_eq *eq)
{
	return current_work() == &eq->delivery;
}

/* Waits until the handler has returned from each of its calls. */
static int settle(struct hmreg_kfi_eq *eq)
{
	long left = wait_event_killable_timeout(eq->returned, !atomic_read(&eq->undelivered),
						hmreg_kfi_limit());

	return hmreg_kfi_waited(left);
}

static int eq_close(struct kfid *fid)
{
	struct hmreg_kfi_eq *eq = container_of(fid, struct hmreg_kfi_eq, fid.fid);
	int rc;

	if (atomic_read(&fid->ref_cnt) || called_by_handler(eq))
		return -KFI_EBUSY;
	rc = settle(eq);
	if (rc)
		return rc;
	if (eq->work)
		destroy_workqueue(eq->work);
	kfree(eq);
	return 0;
}

static int eq_bind(struct kfid *fid, struct kfid *bfid, u64 flags)
{
	return -KFI_ENOSYS;
}

static int eq_control(struct kfid *fid, int command, void *arg)
{
	return -KFI_ENOSYS;
}

static int eq_ops_open(struct kfid *fid, const char *name, u64 flags, void **ops, void *context)
{
	return -KFI_ENOSYS;
}

static struct kfi_ops eq_fid_ops = {
	.size = sizeof(eq_fid_ops),
	.close = eq_close,
	.bind = eq_bind,
	.control = eq_control,
	.ops_open = eq_ops_open,
};

/* Calls the handler once for each event, however many came while it ran. */
static void deliver(struct work_struct *work)
{
	struct hmreg_kfi_eq *eq = container_of(work, struct hmreg_kfi_eq, delivery);

	while (atomic_read(&eq->undelivered)) {
		eq->fid.event_handler(&eq->fid, eq->fid.fid.context);
		atomic_dec(&eq->undelivered);
		wake_up(&eq->returned);
	}
}

/* Linux 7.2 warns of a queue that is neither per processor nor unbound. */
#define WORKQUEUE (WQ_UNBOUND | WQ_MEM_RECLAIM)

int hmreg_kfi_eq_open(kfi_event_handler handler, void *context, struct kfid_eq **out)
{
	struct hmreg_kfi_eq *eq;

	if (!out)
		return -KFI_EINVAL;
	eq = kzalloc(sizeof(*eq), GFP_KERNEL);
	if (!eq)
		return -ENOMEM;
	/* Not the domains' queue: a handler may wait for a registration while memory is short. */
	if (handler) {
		eq->work = alloc_workqueue("hmreg_kfi_eq", WORKQUEUE, 0);
		if (!eq->work) {
			kfree(eq);
			return -ENOMEM;
		}
	}
	INIT_WORK(&eq->delivery, deliver);
	eq->fid.fid.fclass = KFI_CLASS_EQ;
	eq->fid.fid.context = context;
	eq->fid.fid.ops = &eq_fid_ops;
	init_completion(&eq->fid.fid.comp);
	eq->fid.ops = &eq_ops;
	eq->fid.event_handler = handler;
	spin_lock_init(&eq->lock);
	INIT_LIST_HEAD(&eq->events);
	init_waitqueue_head(&eq->returned);
	*out = &eq->fid;
	return 0;
}
EXPORT_SYMBOL_GPL(hmreg_kfi_eq_open);

int hmreg_kfi_events_bind(struct hmreg_kfi_domain *domain, struct kfid *fid)
{
	if (fid->ops != &eq_fid_ops)
		return -KFI_EINVAL;
	domain->work = alloc_workqueue("hmreg_kfi", WORKQUEUE, 0);
	if (!domain->work)
		return -ENOMEM;
	domain->eq = container_of(fid, struct hmreg_kfi_eq, fid.fid);
	atomic_inc(&fid->ref_cnt);
	return 0;
}

/* Call after all regions were closed. 0: no handler runs, except the calling one. */
int hmreg_kfi_events_settle(struct hmreg_kfi_domain *domain)
{
	if (!domain->eq)
		return 0;
	/* A registration whose region is closed already may be about to queue the handler. */
	flush_workqueue(domain->work);
	return called_by_handler(domain->eq) ? 0 : settle(domain->eq);
}

void hmreg_kfi_events_unbind(struct hmreg_kfi_domain *domain)
{
	struct hmreg_kfi_eq *eq = domain->eq;

	if (!eq)
		return;
	destroy_workqueue(domain->work);
	if (!called_by_handler(eq))
		flush_work(&eq->delivery);
	atomic_dec(&eq->fid.fid.ref_cnt);
}

/* The queue outlives this: a domain's end waits for its registrations. */
void hmreg_kfi_events_add(struct hmreg_kfi_mr *mr, int error)
{
	struct hmreg_kfi_eq *eq = mr->domain->eq;

	mr->error = error;
	spin_lock(&eq->lock);
	list_add_tail(&mr->event, &eq->events);
	spin_unlock(&eq->lock);
	complete_all(&mr->registered);
	/* From here on any thread may have closed the region, and registered with it anew. */
	if (!eq->work)
		return;
	atomic_inc(&eq->undelivered);
	queue_work(eq->work, &eq->delivery);
}

void hmreg_kfi_events_remove(struct hmreg_kfi_mr *mr)
{
	struct hmreg_kfi_eq *eq = mr->domain->eq;

	spin_lock(&eq->lock);
	list_del_init(&mr->event);
	spin_unlock(&eq->lock);
}
