// SPDX-License-Identifier: GPL-2.0-only
/*
 * The queue pair on which a domain posts the work requests that make keys valid (IB_WR_REG_MR) and
 * invalid (IB_WR_LOCAL_INV). Any connected queue pair of the protection domain serves. Unless its
 * client gives one, a domain makes a reliable queue pair that is connected to itself and carries no
 * data.
 *
 * A work request that fails takes its queue pair into the error state, which flushes the others.
 * The domain's own queue pair is then reset and connected anew, and flushed work requests are
 * posted again. So a peer that makes a LOCAL_INV fail, by invalidating the key itself, does not end
 * the domain for others.
 */
#include <rdma/ib_cache.h>

#include "internal.h"

#define OWN_SENDS 64
#define TRIES 3

static void give_entry(struct hmreg_kfi_domain *domain)
{
	atomic_dec(&domain->posted);
	wake_up(&domain->answered);
}

static void on_sent(struct ib_cq *cq, struct ib_wc *wc)
{
	struct hmreg_kfi_mr *mr = container_of(wc->wr_cqe, struct hmreg_kfi_mr, cqe);

	mr->status = wc->status;
	give_entry(mr->domain);
	/* Must be last: from here on the region and its domain may end. */
	complete(&mr->sent);
}

static int find_gid(struct hmreg_kfi_domain *domain, int entries, struct rdma_ah_attr *ah)
{
	u8 mac[ETH_ALEN];
	int i, found = -ENODEV;

	for (i = 0; i < entries; i++) {
		const struct ib_gid_attr *gid;

		gid = rdma_get_gid_attr(domain->device, domain->attr.port, i);
		if (IS_ERR(gid))
			continue;
		if ((found < 0 || gid->gid_type == IB_GID_TYPE_ROCE_UDP_ENCAP) &&
		    !rdma_read_gid_l2_fields(gid, NULL, mac)) {
			/* ib_modify_qp() resolves the peer's MAC for user space only. */
			memcpy(ah->roce.dmac, mac, ETH_ALEN);
			rdma_ah_set_grh(ah, (union ib_gid *)&gid->gid, 0, i, 1, 0);
			found = 0;
		}
		rdma_put_gid_attr(gid);
	}
	return found;
}

/* On InfiniBand, if the port demands a global route: virtual functions, several hosts on one NIC.
 */
static int set_route(struct hmreg_kfi_domain *domain, struct rdma_ah_attr *ah)
{
	union ib_gid gid;
	int rc;

	rc = rdma_query_gid(domain->device, domain->attr.port, 0, &gid);
	if (!rc)
		rdma_ah_set_grh(ah, &gid, 0, 0, 1, 0);
	return rc;
}

static int set_path(struct hmreg_kfi_domain *domain, struct ib_qp_attr *attr)
{
	struct rdma_ah_attr *ah = &attr->ah_attr;
	u32 number = domain->attr.port;
	struct ib_port_attr port;
	int rc;

	rc = ib_query_port(domain->device, number, &port);
	if (rc)
		return rc;
	attr->path_mtu = port.active_mtu;
	ah->type = rdma_ah_find_type(domain->device, number);
	rdma_ah_set_port_num(ah, number);
	if (ah->type == RDMA_AH_ATTR_TYPE_ROCE)
		return find_gid(domain, port.gid_tbl_len, ah);
	rdma_ah_set_dlid(ah, port.lid);
	return rdma_is_grh_required(domain->device, number) ? set_route(domain, ah) : 0;
}

static int connect_own(struct hmreg_kfi_domain *domain)
{
	struct ib_qp_attr attr = {.qp_state = IB_QPS_INIT, .port_num = domain->attr.port};
	int rc;

	rc = ib_modify_qp(domain->qp, &attr,
			  IB_QP_STATE | IB_QP_PKEY_INDEX | IB_QP_PORT | IB_QP_ACCESS_FLAGS);
	if (rc)
		return rc;
	rc = set_path(domain, &attr);
	if (rc)
		return rc;
	attr.qp_state = IB_QPS_RTR;
	attr.dest_qp_num = domain->qp->qp_num;
	attr.min_rnr_timer = 12;
	rc = ib_modify_qp(domain->qp, &attr,
			  IB_QP_STATE | IB_QP_AV | IB_QP_PATH_MTU | IB_QP_DEST_QPN | IB_QP_RQ_PSN |
				  IB_QP_MAX_DEST_RD_ATOMIC | IB_QP_MIN_RNR_TIMER);
	if (rc)
		return rc;
	attr.qp_state = IB_QPS_RTS;
	attr.timeout = 14;
	attr.retry_cnt = 7;
	attr.rnr_retry = 7;
	rc = ib_modify_qp(domain->qp, &attr,
			  IB_QP_STATE | IB_QP_TIMEOUT | IB_QP_RETRY_CNT | IB_QP_RNR_RETRY |
				  IB_QP_SQ_PSN | IB_QP_MAX_QP_RD_ATOMIC);
	domain->connected = !rc;
	return rc;
}

/* Flushes the pending work requests: each gets its completion. */
static int disconnect_own(struct hmreg_kfi_domain *domain)
{
	struct ib_qp_attr attr = {.qp_state = IB_QPS_ERR};
	long left;
	int rc;

	if (domain->connected) {
		rc = ib_modify_qp(domain->qp, &attr, IB_QP_STATE);
		if (rc)
			return rc;
		domain->connected = false;
	}
	left = wait_event_killable_timeout(domain->answered, !atomic_read(&domain->posted),
					   hmreg_kfi_limit());
	return hmreg_kfi_waited(left);
}

/* Restarts the queue pair, unless another thread has since the caller saw it fail
 * (domain->restarts).
 */
static int restart(struct hmreg_kfi_domain *domain, unsigned int seen)
{
	struct ib_qp_attr attr = {.qp_state = IB_QPS_RESET};
	int rc;

	rc = down_write_killable(&domain->restart);
	if (rc)
		return rc;
	if (domain->restarts == seen) {
		rc = disconnect_own(domain);
		if (!rc)
			rc = ib_modify_qp(domain->qp, &attr, IB_QP_STATE);
		if (!rc)
			rc = connect_own(domain);
		if (!rc)
			domain->restarts++;
	}
	up_write(&domain->restart);
	return rc;
}

static int post(struct hmreg_kfi_mr *mr, struct ib_send_wr *wr)
{
	struct hmreg_kfi_domain *domain = mr->domain;
	long left;
	int rc;

	if (domain->cq && !domain->connected)
		return -ECONNABORTED;
	left = wait_event_killable_timeout(domain->answered,
					   atomic_add_unless(&domain->posted, 1, domain->sends),
					   hmreg_kfi_limit());
	rc = hmreg_kfi_waited(left);
	if (rc)
		return rc;
	reinit_completion(&mr->sent);
	rc = ib_post_send(domain->qp, wr, NULL);
	if (rc)
		give_entry(domain);
	mr->posted = !rc;
	return rc;
}

/* -ECONNABORTED: the queue pair is in the error state, but not because of this work request.
 * -EINTR, -ETIMEDOUT: there is no completion yet.
 */
static int await(struct hmreg_kfi_mr *mr)
{
	long left = wait_for_completion_killable_timeout(&mr->sent, hmreg_kfi_limit());
	int rc = hmreg_kfi_waited(left);

	if (rc)
		return rc;
	mr->posted = false;
	if (mr->status == IB_WC_WR_FLUSH_ERR)
		return -ECONNABORTED;
	return mr->status == IB_WC_SUCCESS ? 0 : -EIO;
}

static int send_once(struct hmreg_kfi_mr *mr, struct ib_send_wr *wr, unsigned int *seen)
{
	struct hmreg_kfi_domain *domain = mr->domain;
	int rc;

	rc = down_read_killable(&domain->restart);
	if (rc)
		return rc;
	*seen = domain->restarts;
	rc = post(mr, wr);
	up_read(&domain->restart);
	return rc ? rc : await(mr);
}

/* Posts the work request and waits for its completion. If mr->posted after an error, the device has
 * still to answer.
 */
int hmreg_kfi_send(struct hmreg_kfi_mr *mr, struct ib_send_wr *wr)
{
	unsigned int seen, tries = 0;
	int rc;

	mr->cqe.done = on_sent;
	wr->wr_cqe = &mr->cqe;
	wr->send_flags = IB_SEND_SIGNALED;
	for (;;) {
		rc = send_once(mr, wr, &seen);
		if (rc != -ECONNABORTED)
			return rc;
		if (!mr->domain->cq || ++tries == TRIES)
			return -EIO;
		rc = restart(mr->domain, seen);
		if (rc)
			return rc;
	}
}

/* Waits for the completion of a work request that an earlier call has given up. On the domain's own
 * queue pair a restart ends it; on the client's queue pair the client does.
 */
int hmreg_kfi_settle(struct hmreg_kfi_mr *mr)
{
	struct hmreg_kfi_domain *domain = mr->domain;
	int rc;

	if (!mr->posted)
		return 0;
	rc = await(mr);
	if (rc == -ETIMEDOUT && domain->cq && !restart(domain, READ_ONCE(domain->restarts)))
		rc = await(mr);
	return mr->posted ? rc : 0;
}

static int open_own(struct hmreg_kfi_domain *domain)
{
	struct ib_qp_init_attr init = {
		.qp_type = IB_QPT_RC,
		.sq_sig_type = IB_SIGNAL_REQ_WR,
		.cap = {.max_send_wr = OWN_SENDS, .max_recv_wr = 1},
	};
	int rc;

	init.cap.max_send_sge = 1;
	init.cap.max_recv_sge = 1;
	domain->cq = ib_alloc_cq_any(domain->device, domain, OWN_SENDS + 1, IB_POLL_WORKQUEUE);
	if (IS_ERR(domain->cq))
		return PTR_ERR(domain->cq);
	init.send_cq = domain->cq;
	init.recv_cq = domain->cq;
	domain->qp = ib_create_qp(domain->pd, &init);
	if (IS_ERR(domain->qp)) {
		rc = PTR_ERR(domain->qp);
		goto free_cq;
	}
	rc = connect_own(domain);
	if (rc)
		goto destroy_qp;
	return 0;
destroy_qp:
	ib_destroy_qp(domain->qp);
free_cq:
	ib_free_cq(domain->cq);
	return rc;
}

int hmreg_kfi_queue_open(struct hmreg_kfi_domain *domain)
{
	init_rwsem(&domain->restart);
	init_waitqueue_head(&domain->answered);
	if (domain->attr.qp) {
		domain->qp = domain->attr.qp;
		domain->sends = max(domain->attr.sends, 1u);
		return 0;
	}
	domain->sends = OWN_SENDS;
	/* Only a connection manager connects queue pairs of iWARP. */
	if (rdma_protocol_iwarp(domain->device, domain->attr.port))
		return -EOPNOTSUPP;
	return open_own(domain);
}

/* Each work request has had its completion, as all regions are closed. */
void hmreg_kfi_queue_close(struct hmreg_kfi_domain *domain)
{
	if (!domain->cq)
		return;
	ib_destroy_qp(domain->qp);
	ib_free_cq(domain->cq);
}
