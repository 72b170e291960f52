/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * What every program on libfabric needs before it can send its first byte, and what the examples
 * are not about: one reliable endpoint that can write and read a peer's memory. Nothing of this
 * is hmreg's, but for the mr_mode bits that are asked for: they are those hmreg meets for its user.
 *
 * Calls return 0 or libfabric's negative error number.
 */
#ifndef EXAMPLES_ENDPOINT_H
#define EXAMPLES_ENDPOINT_H

#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <stddef.h>
#include <stdint.h>

struct endpoint {
    struct fi_info *info;
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    struct fid_av *av;
    struct fid_cq *cq;
    struct fid_ep *ep;
    fi_addr_t peer;
    int patience; /* seconds an operation may take until it is given up */
};

#define ENDPOINT_ADDRESS_BYTES 128

/* What to ask for: a provider ("tcp", "shm"), and what else than RMA. Zeroes are good. */
struct endpoint_hints {
    const char *provider;
    uint64_t caps;      /* FI_HMEM */
    uint64_t msg_order; /* FI_ORDER_* */
    int old_mr_mode;    /* FI_MR_BASIC or FI_MR_SCALABLE instead of the bits of today */
};

int endpoint_open(const struct endpoint_hints *hints, struct endpoint *out);
/* Also what endpoint_open() left half done. */
void endpoint_close(struct endpoint *endpoint);

/* Our address, to be sent to the peer by other means; *size in: room, out: bytes. */
int endpoint_address(struct endpoint *endpoint, void *address, size_t *size);
/* The peer's address: RMA goes there from now on. */
int endpoint_connect(struct endpoint *endpoint, const void *address);
/* We are our own peer. */
int endpoint_connect_self(struct endpoint *endpoint);

/* RMA with the connected peer; returns when it is done. */
int endpoint_write(struct endpoint *endpoint, const void *local, size_t len, void *desc,
                   uint64_t addr, uint64_t key);
int endpoint_read(struct endpoint *endpoint, void *local, size_t len, void *desc, uint64_t addr,
                  uint64_t key);

/* Lets libfabric work: on many fabrics a peer's RMA moves only while its target does this. */
void endpoint_progress(struct endpoint *endpoint);

/* What is wrong, in hmreg's words if the code is its last error's, else in libfabric's. */
const char *failure_text(int code);

#endif
