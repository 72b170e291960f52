/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A NIC, and links to other processes over it: a reliable queue pair each. Calls return 0 or a
 * negative error number.
 */
#ifndef EXAMPLES_NIC_H
#define EXAMPLES_NIC_H

#include "../common/queue_pair.h"

#include <infiniband/verbs.h>
#include <stdint.h>

struct nic {
    struct ibv_context *device;
    struct ibv_pd *pd;
    uint8_t port;
};

struct link {
    struct nic *nic;
    struct ibv_cq *cq;
    struct ibv_qp *qp;
    int gid_index;
};

/* Of the NIC of this name. After a failure, too, call nic_close(), after its links' closes. */
int nic_open(struct nic *nic, const char *name);
void nic_close(struct nic *nic);

/* After a failure, too, call link_close(). card: to be sent to the other process. */
int link_open(struct link *link, struct nic *nic, struct queue_card *card);
/* card: the other process's. Its writes arrive from now on. */
int link_connect(struct link *link, const struct queue_card *card);
/* One RDMA WRITE; returns after its completion. -EIO: refused, or the other process is gone. */
int link_write(struct link *link, const void *from, uint32_t len, uint32_t lkey, uint64_t addr,
               uint32_t rkey);
void link_close(struct link *link);

#endif
