/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A buffer's way, in one direction: resolve -> choose a path -> export -> register. What is
 * published, and where, is the caller's: mr.c for explicit regions, cache.c for cached ones.
 */
#ifndef HMREG_CORE_REGISTER_H
#define HMREG_CORE_REGISTER_H

#include "core/mr.h"
#include "core/resolve.h"

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
    bool claimed; /* the caller says what it is: */
    enum hmreg_iface claimed_iface;
    int claimed_device; /* HMREG_DEVICE_ANY: only the iface */
};

/* What every range of a request is; found has room for request->count. All must be of one iface
 * and device (-EINVAL), and be what the caller claimed (-EINVAL). Errors of resolve(). */
int request_resolve(struct hmreg_domain *domain, const struct request *request,
                    struct resolved *found);

/* Registers what was resolved. *out is freed with region_destroy(). Errors of hmreg_mr_reg(). */
int region_create(struct hmreg_domain *domain, const struct request *request,
                  const struct resolved *found, struct hmreg_mr **out);

/* Deregisters and frees. -EBUSY: it is as it was, try again. Any other failure of the fabric is
 * final for it: the region is freed, and the failure returned. */
int region_destroy(struct hmreg_mr *mr);

/* Keeps the calling thread's last total refusal for hmreg_explain(NULL). */
void explain_keep(enum hmreg_iface iface, int device, const struct hmreg_reason *reasons,
                  uint32_t count);

#endif
