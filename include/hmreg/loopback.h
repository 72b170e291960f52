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
    size_t size;          /* sizeof(struct hmreg_loopback_config) */
    uint32_t mr_mode;     /* HMREG_MR_*: any combination; BASIC and SCALABLE each alone */
    uint32_t key_size;    /* bytes of a key, 1 to 8; 0: 8; with HMREG_MR_RAW always 16, of which the
                             caller chooses 8 */
    uint32_t iov_limit;   /* ranges of one region, 1 to 64; 0: 64 */
    uint64_t max_len;     /* longest region; 0: no limit */
    size_t auth_key_size; /* bytes at auth_key, at most 64; 0: none */
    const uint8_t *auth_key; /* of this domain's peers: regions without a key of their own admit
                                domains with this one only */
};

/*
 * Opens a domain that needs no fabric. loopback and config may be NULL for defaults.
 * -EINVAL: lib or out is NULL, or a size, key_size or iov_limit out of range,
 * or mr_mode has an unknown bit, or BASIC or SCALABLE together with another.
 * -HMREG_EBADFLAGS: config->flags. -ENOMEM.
 */
int hmreg_domain_open_loopback(struct hmreg *lib, const struct hmreg_loopback_config *loopback,
                               const struct hmreg_domain_config *config, struct hmreg_domain **out);

/*
 * Objects a region or domain can be bound to, in the modes that ask for it. Any thread.
 * Opening: -EINVAL: domain is NULL, not loopback, or out is NULL. -ENOMEM.
 * Closing: NULL is accepted. An endpoint or counter is untied from its regions, which could not
 * be closed before; a queue answers -EBUSY while its domain is bound to it, that is, always until
 * its domain has no region left. Domains with open objects answer
 * -EBUSY when closed.
 */
struct hmreg_loopback_ep;      /* stands for an endpoint (HMREG_MR_ENDPOINT) */
struct hmreg_loopback_counter; /* counts remote writes (HMREG_MR_RMA_EVENT) */
struct hmreg_loopback_eq;      /* receives completed registrations (HMREG_REG_MR) */

int hmreg_loopback_ep_open(struct hmreg_domain *domain, struct hmreg_loopback_ep **out);
int hmreg_loopback_ep_close(struct hmreg_loopback_ep *ep);
int hmreg_loopback_counter_open(struct hmreg_domain *domain, struct hmreg_loopback_counter **out);
int hmreg_loopback_counter_close(struct hmreg_loopback_counter *counter);
/* How many remote writes were counted. 0 for NULL. */
uint64_t hmreg_loopback_counter_read(const struct hmreg_loopback_counter *counter);
int hmreg_loopback_eq_open(struct hmreg_domain *domain, struct hmreg_loopback_eq **out);
int hmreg_loopback_eq_close(struct hmreg_loopback_eq *eq);

/* A completed registration: the region, and the context it was registered with. */
struct hmreg_loopback_event {
    size_t size; /* sizeof(struct hmreg_loopback_event) */
    struct hmreg_mr *mr;
    void *context;
};

/* Takes the oldest event. Waits up to timeout_ms milliseconds, -1: for ever, 0: not at all.
 * -EAGAIN: none came. -EINVAL: an argument is NULL, out->size is too small, timeout_ms < -1. */
int hmreg_loopback_eq_read(struct hmreg_loopback_eq *eq, struct hmreg_loopback_event *out,
                           int timeout_ms);

/*
 * RMA: copies len bytes from local memory to raddr of the region that key names at the peer
 * that remote's token came from, or the other way; returns when done. raddr and key are those of
 * hmreg_remote_addr(). Local memory may be any memory hmreg_query() knows.
 * desc: hmreg_mr_desc() of a region that covers the local range with HMREG_WRITE (for a write) or
 * HMREG_READ (for a read): needed for memory of the system where our domain has HMREG_MR_LOCAL, and
 * for what a device's runtime allocated where it has HMREG_MR_HMEM; else NULL will do.
 * Where our domain has HMREG_MR_RAW, key must be one of hmreg_mr_map_raw() (a remote's is).
 * -EINVAL: an argument is NULL, len is 0, remote is not a loopback one, or desc is missing, not
 * of an open region, or its region does not cover the range or grant the access.
 * Errors found by the peer, nothing was changed: -EKEYREJECTED: no region has this key (it may
 * have been closed, may not be enabled yet, or the key is raw and was not mapped). -EACCES: the
 * region does not grant this access, or asks for another authorization key than our domain's.
 * -ERANGE: outside it. -EFAULT: its pages there were never refreshed (HMREG_MR_MMU_NOTIFY).
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
