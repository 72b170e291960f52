/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The libfabric code that the examples share: one reliable endpoint that can write and read a
 * peer's memory. Only its mr_mode concerns hmreg: it requests the bits whose requirements hmreg
 * fulfils for the caller. Calls return 0 or libfabric's negative error number.
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
    int patience; /* timeout of an operation, seconds */
};

#define ENDPOINT_ADDRESS_BYTES 128

/* What to request: a provider ("tcp", "shm"), and capabilities besides RMA. Zeroes are valid. */
struct endpoint_hints {
    const char *provider;
    const char *address;         /* this host's, on the NIC to use; NULL: 127.0.0.1 */
    uint64_t caps;               /* FI_HMEM */
    uint64_t wishes;             /* the same, left out where the provider does not grant it */
    uint64_t msg_order;          /* FI_ORDER_* */
    enum fi_threading threading; /* 0: what the provider grants, FI_THREAD_SAFE */
    int old_mr_mode;             /* FI_MR_BASIC or FI_MR_SCALABLE instead of the bits of today */
};

int endpoint_open(const struct endpoint_hints *hints, struct endpoint *out);
/* Also closes an endpoint that endpoint_open() opened partly. */
void endpoint_close(struct endpoint *endpoint);

/* Our address, to be sent to the peer by other means; *size in: capacity, out: bytes. */
int endpoint_address(struct endpoint *endpoint, void *address, size_t *size);
/* Sets the peer's address, to which RMA goes from now on. */
int endpoint_connect(struct endpoint *endpoint, const void *address);
/* Connects the endpoint to itself. */
int endpoint_connect_self(struct endpoint *endpoint);

/* RMA with the connected peer; returns after completion. */
int endpoint_write(struct endpoint *endpoint, const void *local, size_t len, void *desc,
                   uint64_t addr, uint64_t key);
int endpoint_read(struct endpoint *endpoint, void *local, size_t len, void *desc, uint64_t addr,
                  uint64_t key);

/* A part of a transfer, on one of several rails. */
struct endpoint_part {
    void *local;
    size_t len;
    void *desc;
    uint64_t addr, key;
};

#define ENDPOINT_RAILS 4

/* Writes part i on endpoint i, all at once; returns when all are done. It drives the progress of
 * all endpoints: a process that waited on one rail only could make a neighbour wait on another. */
int endpoint_write_parts(struct endpoint *endpoints, const struct endpoint_part *parts, int count);

/* Drives progress: on many fabrics a peer's RMA proceeds only while its target does this. */
void endpoint_progress(struct endpoint *endpoint);

/* The text of an error: hmreg's if the code is its last error's, else libfabric's. */
const char *failure_text(int code);

#endif
