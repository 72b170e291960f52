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
    void *hmem_data;
    size_t page_size;
    const struct hmreg_mr_dmabuf *dmabuf; /* what iov, one range, is in; NULL: in memory */
    bool claimed; /* the caller says what it is: */
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
 * and device (-EINVAL), and be what the caller claimed (-EINVAL). Errors of resolve(). */
int request_resolve(struct hmreg_domain *domain, const struct request *request,
                    struct resolved *found);

/* Registers what was resolved. *out is freed with region_destroy(). Errors of hmreg_mr_reg().
 * One range that no descriptor names as a whole becomes a composite of its physical segments.
 * On a domain that completes registrations elsewhere *out is written before the fabric is called,
 * since the event may be read before the call returns; a failure puts the old value back. */
int region_create(struct hmreg_domain *domain, const struct request *request,
                  const struct resolved *found, struct hmreg_mr **out);

/* Why each path refused a range. */
struct refusals {
    uint32_t count;
    struct hmreg_reason reasons[HMREG_PATH_COUNT - 1];
};

/* The same, never a composite. With whole, -EXDEV: one descriptor cannot name the range, but
 * several might; nothing is recorded but what is in *whole. */
int region_create_one(struct hmreg_domain *domain, const struct request *request,
                      const struct resolved *found, struct refusals *whole, struct hmreg_mr **out);

/* Every path refused: keeps the reasons for hmreg_explain(). -EOPNOTSUPP; of host memory, which
 * has one path, that one's own error. */
int refuse_all(const struct hmreg_domain *domain, const struct resolved *found,
               const struct hmreg_reason *reasons, uint32_t count);

/* What a composite is made of. */
struct composite {
    struct request whole;                   /* but for its ranges */
    const struct resolved *found;           /* count, one for each piece */
    struct iovec *iov;                      /* count: what each piece covers */
    const struct hmreg_mr_dmabuf **dmabufs; /* count: what a piece is in, NULL: memory; or NULL */
    size_t count;
};

/* A region of several registrations; found is what the region as a whole is. -EOPNOTSUPP: they
 * would complete one by one in a queue of the caller's. */
int composite_create(struct hmreg_domain *domain, const struct composite *composite,
                     const struct resolved *found, struct hmreg_mr **out);

/* Says of a region what its request and its memory do. */
void region_init(struct hmreg_mr *mr, struct hmreg_domain *domain, const struct request *request,
                 const struct resolved *found);

/* As region_create(), of a region of the cache's with number and node, after region_init(). It ends
 * with region_destroy(), which leaves its memory alone. Never asynchronous. */
int region_make(struct hmreg_domain *domain, const struct request *request,
                const struct resolved *found, struct hmreg_mr *mr);

/* An empty region of a request, to be filled; NULL: no memory. Freed with region_free(). */
struct hmreg_mr *region_new(struct hmreg_domain *domain, const struct request *request,
                            const struct resolved *found);
void region_free(struct hmreg_mr *mr);

/* Deregisters and frees. -EBUSY: it is as it was, try again. Any other failure of the fabric is
 * final for it: the region is freed, and the failure returned. Of a composite the pieces closed
 * before a busy one stay closed. */
int region_destroy(struct hmreg_mr *mr);
int region_destroy_one(struct hmreg_mr *mr); /* no composite */

/* An explicit region is in its caller's hands: counts it, and tells the provider. */
void region_publish(struct hmreg_mr *mr);

/* Keeps the calling thread's last total refusal for hmreg_explain(NULL). */
void explain_keep(enum hmreg_iface iface, int device, const struct hmreg_reason *reasons,
                  uint32_t count);

#endif
