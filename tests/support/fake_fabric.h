/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A fid_domain made in the test: libfabric's calls on a domain and its regions are calls through
 * its tables, so these need no provider. fi_version() is the test's too, defined in the
 * executable, which comes before libfabric's.
 */
#ifndef TESTS_FAKE_FABRIC_H
#define TESTS_FAKE_FABRIC_H

#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
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
        *info;        /* "tcp;ofi_rxm", API 1.17, no mode, keys of 8 bytes; the test's to change */
    uint32_t version; /* what fi_version() answers */

    /* Answers; 0: it works. */
    int reg_code;
    int reg_failures; /* how often reg_code is answered; -1: always */
    bool litter;      /* a failing fi_mr_regattr() writes its output all the same */
    int close_code, raw_code, map_code, unmap_code;
    uint64_t key; /* fi_mr_key(), where the caller's is not taken */
    int bind_code, enable_code, refresh_code;
    /* Called at the end of each fi_mr_regattr() that works: other threads may see its event. */
    void (*registered)(struct fid_mr *mr);

    /* What the last fi_mr_regattr() was given. */
    union {
        struct fi_mr_attr attr;
        uint64_t words[14]; /* as libfabric 2 reads it: 112 bytes */
    } given;
    struct iovec iov[4];
    struct fake_dmabuf dmabuf; /* with FI_MR_DMABUF */
    bool dmabuf_fd_open;
    uint64_t flags;
    /* What the last fi_mr_map_raw() and fi_mr_unmap_key() were given. */
    uint64_t raw_base;
    unsigned char raw[FAKE_RAW_BYTES];
    size_t raw_size;
    uint64_t unmapped;
    /* What the last fi_mr_bind() and fi_mr_refresh() were given. */
    const struct fid *bound;
    uint64_t bind_flags;
    struct fi_mr_modify refreshed;
    struct iovec refreshed_part; /* its first */

    unsigned regs, live, maps, mapped, binds, enables, refreshes;
};
extern struct fake_fabric fake_fabric;

/* As new. Its info is freed by fake_fabric_end(), which fails the test if a region or a mapped
 * key is left. */
struct fid_domain *fake_fabric_begin(void);
void fake_fabric_end(void);

#endif
