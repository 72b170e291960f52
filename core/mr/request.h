/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * What a caller wants registered: the ranges, the rights, the key. All forms of registration become
 * one of these, which is checked here, and whose memory is found here.
 */
#ifndef HMREG_CORE_MR_REQUEST_H
#define HMREG_CORE_MR_REQUEST_H

#include "core/context/domain.h"
#include "core/context/resolve.h"

/* A validated request. */
struct request {
    const struct iovec *iov;
    size_t count;
    uint64_t access;
    uint64_t requested_key;
    bool any_key; /* the library chooses */
    uint64_t flags;
    void *context;
    size_t auth_key_size;
    const uint8_t *auth_key;
    void *hmem_data;
    size_t page_size;
    const struct hmreg_mr_dmabuf *dmabuf; /* what iov, one range, is in; NULL: in memory */
    bool claimed;                         /* the caller says what it is: */
    enum hmreg_iface claimed_iface;
    int claimed_device; /* HMREG_DEVICE_ANY: only the iface */
};

/* What a request says besides its ranges: access, offset, flags, key. */
int request_check(const struct hmreg_domain *domain, const struct request *request,
                  uint64_t offset);
/* Is the sum of the ranges within the domain's max_len? -EMSGSIZE. */
int request_check_length(const struct hmreg_domain *domain, const struct iovec *iov, size_t count);
/* The range of addresses that a caller's dmabuf covers. -EINVAL, -EBADF. */
int request_from_dmabuf(const struct hmreg_mr_dmabuf *dmabuf, struct iovec *out);

/* What every range of a request is; found has room for request->count. All must be of one iface
 * and device (-EINVAL), and be what the caller claimed (-EINVAL). Errors of resolve(); with
 * HMREG_MR_ALLOCATED also -EFAULT: host memory that is not there, or not for what access asks. */
int request_resolve(struct hmreg_domain *domain, const struct request *request,
                    struct resolved *found);

#endif
