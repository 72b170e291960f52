/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The built-in domain: no fabric needed. Regions have keys and rights like any other; peers are
 * processes of the same user on the same machine. The target checks every access itself, so a
 * peer that breaks a rule fails and changes nothing. For tests, for programs that run on one
 * machine, and as the measure of what this library costs above a fabric.
 */
#ifndef HMREG_LOOPBACK_H
#define HMREG_LOOPBACK_H

#include <hmreg/hmreg.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

struct hmreg_loopback_config {
    size_t size;        /* sizeof(struct hmreg_loopback_config) */
    uint32_t mr_mode;   /* of HMREG_MR_LOCAL, VIRT_ADDR, ALLOCATED, PROV_KEY, HMEM */
    uint32_t key_size;  /* bytes of a key, 1 to 8; 0: 8 */
    uint32_t iov_limit; /* ranges of one region, 1 to 64; 0: 64 */
    uint64_t max_len;   /* longest region; 0: no limit */
};

/*
 * Opens a domain that needs no fabric. loopback and config may be NULL for defaults.
 * -EINVAL: lib or out is NULL, or a size, key_size or iov_limit out of range.
 * -EOPNOTSUPP: an mr_mode bit it does not have. -HMREG_EBADFLAGS: config->flags. -ENOMEM.
 */
int hmreg_domain_open_loopback(struct hmreg *lib, const struct hmreg_loopback_config *loopback,
                               const struct hmreg_domain_config *config, struct hmreg_domain **out);

/*
 * RMA: copies len bytes from local memory to raddr of the region that key names at the peer
 * that remote's token came from, or the other way; returns when done. raddr and key are those of
 * hmreg_remote_addr(). Local memory may be any memory hmreg_query() knows.
 * desc: hmreg_mr_desc() of a region that covers the local range with HMREG_WRITE (for a write) or
 * HMREG_READ (for a read): needed where our domain has HMREG_MR_LOCAL, and for device memory where
 * it has HMREG_MR_HMEM; else NULL will do.
 * -EINVAL: an argument is NULL, len is 0, remote is not a loopback one, or desc is missing, not
 * of an open region, or its region does not cover the range or grant the access.
 * Errors found by the peer, nothing was changed: -EKEYREJECTED: no region has this key (it may
 * have been closed). -EACCES: the region does not grant this access. -ERANGE: outside it.
 * -EHOSTUNREACH: the peer's process or domain is gone. -EIO, -EFAULT: copying failed.
 */
int hmreg_loopback_write(struct hmreg_remote *remote, const void *local, size_t len, void *desc,
                         uint64_t raddr, uint64_t key);
int hmreg_loopback_read(struct hmreg_remote *remote, void *local, size_t len, void *desc,
                        uint64_t raddr, uint64_t key);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
