/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A fid_domain of the test's own: libfabric's calls on a domain and its regions are calls through
 * its tables, so these need no provider. The executable defines fi_version() too, which precedes
 * libfabric's.
 */
#ifndef TESTS_FAKE_FABRIC_H
#define TESTS_FAKE_FABRIC_H

#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#define FAKE_RAW_BYTES 24

/* struct fi_mr_dmabuf of libfabric 1.20. */
struct fake_dmabuf {
    int fd;
    uint64_t offset;
    size_t len;
    void *base_addr;
};
_Static_assert(sizeof(struct fake_dmabuf) == 32 && offsetof(struct fake_dmabuf, base_addr) == 24,
               "as libfabric 1.20 has it");

struct fake_fabric {
    struct fid_domain domain;
    struct fi_info
        *info;        /* "tcp;ofi_rxm", API 1.17, no mode, keys of 8 bytes; a test may change it */
    uint32_t version; /* the result of fi_version() */
    int last_iface;   /* the last FI_HMEM_* that fi_tostr() names */

    /* Results; 0: success. */
    int reg_code;
    int reg_failures; /* number of calls that return reg_code; -1: all */
    unsigned room; /* regions at a time, beyond which fi_mr_regattr() returns full_code; 0: any */
    int full_code;
    bool litter; /* a failing fi_mr_regattr() writes its output nevertheless */
    int close_code, raw_code, map_code, unmap_code;
    size_t raw_bytes; /* of a key; 0: FAKE_RAW_BYTES */
    uint64_t key;     /* the result of fi_mr_key(), unless the caller chooses */
    int bind_code, enable_code, refresh_code;
    /* Called at the end of each successful fi_mr_regattr(): other threads may see its event. */
    void (*registered)(struct fid_mr *mr);
    /* Called inside the next call, once. */
    void (*on_call)(void);
    /* Asked by each call. True: it fails with gone_errno; a region that is closed is closed. */
    bool (*each_call)(void);
    int gone_errno;
    /* Threads inside a call, and calls that began while another thread was. */
    atomic_uint inside, overlaps;

    /* The arguments of the last fi_mr_regattr(). */
    union {
        struct fi_mr_attr attr;
        uint64_t words[14]; /* as libfabric 2 reads it: 112 bytes */
    } given;
    struct iovec iov[4];
    struct fake_dmabuf dmabuf; /* with FI_MR_DMABUF */
    bool dmabuf_fd_open;
    uint64_t flags;
    /* The arguments of the last fi_mr_map_raw() and fi_mr_unmap_key(). */
    uint64_t raw_base;
    unsigned char raw[FAKE_RAW_BYTES];
    size_t raw_size;
    uint64_t unmapped;
    /* The arguments of the last fi_mr_bind() and fi_mr_refresh(). */
    const struct fid *bound;
    uint64_t bind_flags;
    struct fi_mr_modify refreshed;
    struct iovec refreshed_part; /* the first segment */

    atomic_uint regs, live, maps, mapped;
    unsigned binds, enables, refreshes;
};
extern struct fake_fabric fake_fabric;

/* Resets it. fake_fabric_end() frees its info, and fails the test if a region or a mapped key is
 * left. */
struct fid_domain *fake_fabric_begin(void);
void fake_fabric_end(void);

#endif
