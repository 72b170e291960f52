/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A domain that needs no fabric (libhmreg-loopback). Its regions have keys and access rights, as a
 * fabric's have; peers are loopback domains of the same process. The target checks each access, so
 * an access that breaks a rule fails and changes nothing. Use it for tests, and to measure the cost
 * of this library without a fabric's. Between processes use libfabric's shm or tcp (hmreg/ofi.h).
 */
#ifndef HMREG_LOOPBACK_H
#define HMREG_LOOPBACK_H

#include <hmreg/hmreg.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

struct hmreg_loopback_config {
    size_t size;          /* sizeof(struct hmreg_loopback_config) */
    uint32_t mr_mode;     /* HMREG_MR_*: any combination; BASIC and SCALABLE must be alone */
    uint32_t key_size;    /* bytes of a key, 1 to 8; 0: 8; with HMREG_MR_RAW always 16, of which the
                             caller chooses 8 */
    uint32_t iov_limit;   /* most ranges in one region, 1 to 64; 0: 64 */
    uint64_t max_len;     /* longest region, bytes; 0: no limit */
    size_t auth_key_size; /* bytes at auth_key, at most 64; 0: none */
    const uint8_t *auth_key; /* the domain's authorization key: a region that is registered without
                                a key admits only peers whose domain has this one */
};

/*
 * Opens a loopback domain. loopback and config may be NULL for the defaults.
 * -EINVAL: lib or out is NULL, or a size, key_size or iov_limit is out of range,
 * or mr_mode has an unknown bit, or BASIC or SCALABLE together with another.
 * -HMREG_EBADFLAGS: config->flags. -ENOMEM.
 */
int hmreg_domain_open_loopback(struct hmreg *lib, const struct hmreg_loopback_config *loopback,
                               const struct hmreg_domain_config *config, struct hmreg_domain **out);

/*
 * Objects to which a region or a domain is bound, in the modes that require it. Any thread.
 * Opening: -EINVAL: domain is NULL or not a loopback domain, or out is NULL. -ENOMEM. Closing: NULL
 * is accepted. Closing an endpoint or counter unbinds it from its regions, which cannot be closed
 * while it is bound. Closing a queue returns -EBUSY while its domain is bound to it: until the
 * domain has no region left. hmreg_domain_close() returns -EBUSY while the domain has open objects.
 */
struct hmreg_loopback_ep;      /* stands for an endpoint (HMREG_MR_ENDPOINT) */
struct hmreg_loopback_counter; /* counts remote writes (HMREG_MR_RMA_EVENT) */
struct hmreg_loopback_eq;      /* receives completed registrations (HMREG_BIND_REG_MR) */

int hmreg_loopback_ep_open(struct hmreg_domain *domain, struct hmreg_loopback_ep **out);
int hmreg_loopback_ep_close(struct hmreg_loopback_ep *ep);
int hmreg_loopback_counter_open(struct hmreg_domain *domain, struct hmreg_loopback_counter **out);
int hmreg_loopback_counter_close(struct hmreg_loopback_counter *counter);
/* The number of remote writes counted. 0 for NULL. */
uint64_t hmreg_loopback_counter_read(const struct hmreg_loopback_counter *counter);
int hmreg_loopback_eq_open(struct hmreg_domain *domain, struct hmreg_loopback_eq **out);
int hmreg_loopback_eq_close(struct hmreg_loopback_eq *eq);

/* A completed registration: the region, and the context of its registration. */
struct hmreg_loopback_event {
    size_t size; /* sizeof(struct hmreg_loopback_event) */
    struct hmreg_mr *mr;
    void *context;
};

/* Takes the oldest event off the queue. timeout_ms: the longest wait in milliseconds; -1: no limit,
 * 0: does not wait. -EAGAIN: no event arrived in time. -EINVAL: an argument is NULL, out->size is
 * too small, timeout_ms < -1. */
int hmreg_loopback_eq_read(struct hmreg_loopback_eq *eq, struct hmreg_loopback_event *out,
                           int timeout_ms);

/*
 * RMA write and read: copy len bytes between local memory and the peer's region, at raddr and key
 * from hmreg_remote_addr(). remote is opened from a token of this peer. They return when the copy
 * is complete. hmreg_query() must know the local memory.
 *
 * desc: hmreg_mr_desc() of a region that covers the local range with HMREG_WRITE (for a write) or
 * HMREG_READ (for a read). Without desc, -EINVAL: system memory if the local domain has
 * HMREG_MR_LOCAL; memory that a device's runtime allocated if it has HMREG_MR_HMEM. Otherwise desc
 * may be NULL.
 *
 * If the local domain has HMREG_MR_RAW, key must be from hmreg_domain_map_raw(), as
 * hmreg_remote_addr()'s keys are.
 * -EINVAL: an argument is NULL, len is 0, remote is not a loopback remote, or desc is missing or
 *   not of an open region, or its region does not cover the range or grant the access.
 *
 * Errors that the peer detects before it changes anything:
 * -EKEYREJECTED: no region has this key (the region was closed or is not enabled yet, or the key is
 *   raw and was not mapped).
 * -EACCES: the region does not grant this access, or requires another authorization key than the
 *   local domain's.
 * -ERANGE: outside the region.
 * -EFAULT: pages in the range were never refreshed (HMREG_MR_MMU_NOTIFY).
 * -EHOSTUNREACH: the peer's domain is closed.
 * -EIO, -EFAULT: copying failed.
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
