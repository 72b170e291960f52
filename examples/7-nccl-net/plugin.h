/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The plugin's parts, and what they demand of each other:
 *
 *     versions.c       NCCL's tables of each version
 *     net.c            communicators: set-up, registration, requests
 *     reg.c            all that hmreg does for a communicator
 *     devices.c        NICs, and devices made of several
 *     verbs.c, ofi.c   transports
 *
 * Functions named net_ are NCCL's, in the types of version 12, and return its codes; all others
 * return 0 or a negative error number. NCCL calls a communicator from one thread at a time, but
 * registers and deregisters from another thread meanwhile.
 */
#ifndef PLUGIN_H
#define PLUGIN_H

#include "nccl_net.h"

#include <hmreg/group.h>
#include <limits.h>
#include <stdbool.h>

/* NCCL passes more than this plugin needs. */
#pragma GCC diagnostic ignored "-Wunused-parameter"

#define RAILS   4                         /* most NICs of a device */
#define GROUPED 8                         /* most receives of one request */
#define SENDS   (NCCL_REQUESTS * GROUPED) /* sends in flight */
#define LONGEST ((size_t)1 << 30)         /* bytes of a message */

struct nic {
    char name[64], pci_path[PATH_MAX];
    uint64_t guid;
    int speed, port;
};

struct device {
    int rails, users;
    const struct nic *nic[RAILS];
    void *native[RAILS];         /* the transport's; open while there are users */
    struct hmreg_domain *domain; /* a group, which owns a domain on each; NULL: not open */
};

/* The device is open from its first user to its last. -ENODEV: there is none of this index. */
int device_open(int index, struct device **out);
void device_close(struct device *device);

/* ---- registration ------------------------------------------------------------------------ */

extern const struct hmreg_domain_config reg_policy; /* of every group */

/* Registers a buffer; a region is NCCL's mhandle. fd: of a dmabuf whose byte `offset` is data's
 * first; -1: none. */
int reg_get(const struct device *device, void *data, size_t size, uint64_t access, int fd,
            uint64_t offset, struct hmreg_mr **out);
void reg_put(struct hmreg_mr *mr);

/* What a transfer needs on a rail: two loads, no call. */
static inline const struct hmreg_mr_keys *reg_keys(const struct hmreg_mr *mr, int rail)
{
    return &hmreg_mr_head_of(mr)->keys[rail];
}

/* ---- communicators ----------------------------------------------------------------------- */

struct message {
    struct request *request;
    size_t size; /* as far as it has arrived */
};

struct request {
    struct comm *comm; /* NULL: free */
    int left, count;   /* completions that it waits for; messages */
    struct message message[GROUPED];
};

struct buffer {
    char *data;
    size_t size;
    int tag;
    const struct hmreg_mr *mr;
};

struct card { /* what each side sends to the other, in this order */
    uint64_t nonce;
    uint32_t rails;
    char transport[12];
    char address[RAILS][128]; /* of our endpoints */
    char ready, bye;          /* our endpoints can receive; we have closed them */
};

struct comm {
    struct device *device;
    bool sends, met;
    int socket; /* to the peer: for set-up, then it reports the end of the peer's process */
    struct card ours, peers;
    size_t sent, got; /* bytes of the cards */
    int failed;       /* the error that ended it */
    unsigned idle, received;
    void *endpoints;               /* the transport's */
    struct request request[SENDS]; /* receives: the first NCCL_REQUESTS, then flushes */
};

struct transport {
    char name[12];
    int rails;                               /* most NICs of a device */
    uint64_t send_access, recv_access;       /* the rights that buffers need, and no more */
    int (*find)(struct nic *nics, int most); /* their number */
    /* Sets *native, also where it fails, and opens a domain on it. */
    int (*nic_open)(const struct nic *nic, struct hmreg *lib, void **native,
                    struct hmreg_domain **domain);
    void (*nic_close)(void *native); /* after the domain; NULL: no effect */
    int (*open)(struct comm *comm);  /* sets endpoints, and our card's addresses */
    int (*connect)(struct comm *comm);
    void (*close)(struct comm *comm);
    /* Start a request, or return -EAGAIN; each completion lessens request->left. */
    int (*send)(struct comm *comm, struct request *request, const struct buffer *from);
    int (*recv)(struct comm *comm, struct request *request, const struct buffer *to);
    int (*flush)(struct comm *comm, struct request *request, const struct buffer *of);
    int (*progress)(struct comm *comm); /* the number of events */
};

extern const struct transport verbs_transport, ofi_transport;
extern const struct transport *transport; /* the one in use */

/* ---- what NCCL calls --------------------------------------------------------------------- */

extern nccl_log *nccl_logger; /* NULL: none */

int nccl_result(int rc, const char *what); /* logs a failure */
int net_devices(int *count);
int net_properties(int device, struct nccl_nic *nic, struct nccl_port *port, int *members,
                   struct nccl_longest *longest);
int net_fuse(int *device, int *members);
int net_listen(void *context, int device, void *handle, void **listener);
int net_connect(void *context, int device, void *handle, void **comm, void **offload);
int net_accept(void *listener, void **comm, void **offload);
int net_reg(void *comm, void *data, size_t size, int type, void **mhandle);
int net_reg_dmabuf(void *comm, void *data, size_t size, int type, uint64_t offset, int fd,
                   void **mhandle);
int net_dereg(void *comm, void *mhandle);
int net_send(void *comm, void *data, size_t size, int tag, void *mhandle, void *profile,
             void **request);
int net_recv(void *comm, int n, void **data, size_t *sizes, int *tags, void **mhandles,
             void **profiles, void **request);
int net_flush(void *comm, int n, void **data, int *sizes, void **mhandles, void **request);
int net_test(void *request, int *done, int *sizes);
int net_close(void *comm);
int net_close_listen(void *listener);

#endif
