/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A registration request: ranges, access rights, key. All registration calls fill a struct request;
 * this file checks it and finds the memory of its ranges.
 */
#ifndef HMREG_CORE_MR_REQUEST_H
#define HMREG_CORE_MR_REQUEST_H

#include "core/base/dmabuf.h"
#include "core/context/domain.h"
#include "core/context/resolve.h"
#include "core/mr/claim.h"

#define AUTH_KEY_MOST 4096u /* bytes; fabrics have shorter limits, and check them */

/* A validated request. */
struct request {
    const struct iovec *iov;
    size_t count;
    uint64_t access;
    uint64_t requested_key;
    bool any_key; /* the library chooses the key */
    uint64_t flags;
    void *context;
    size_t auth_key_size;
    const uint8_t *auth_key;
    void *hmem_data;
    size_t page_size;
    void *const *endpoints; /* of hmreg_mr_get_attr(), one for each rail, which is bound to it and
                               enabled; NULL: the rail needs none. NULL: none at all */
    const struct hmreg_mr_dmabuf *dmabuf; /* contains iov, a single range; NULL: memory */
    struct claim claim;
    struct provider_options options; /* how the fabric registers it; zero: the domain's choice */
    uint64_t rails;                  /* on a group: bit i: register on member i; 0: on all */
};

/* Access rights by which the fabric writes to the memory. */
#define REQUEST_WRITING (HMREG_RECV | HMREG_READ | HMREG_REMOTE_WRITE)

/* The flags that say whether one range may become several registrations. */
#define REQUEST_PARTS (HMREG_REG_SINGLE | HMREG_REG_PARTS)

/* Must one range become one registration (for a group, on each rail)? */
bool request_is_single(const struct hmreg_domain *domain, const struct request *request);

/* The options among a caller's attributes: how the fabric registers. A provider's caps list the
 * accepted ones; request_check() refuses all others, with the same words on every provider.
 */
struct provider_options options_of(const struct hmreg_mr_attr *attr);
/* Resolves HMREG_CHOICE_IF_POSSIBLE in checked options, for a region with these access rights on
 * this path. */
struct provider_options options_settle(const struct hmreg_domain *domain,
                                       const struct provider_options *options, uint64_t access,
                                       enum hmreg_path path);

/* Checks a request except for its ranges: access, offset, flags, options, key. */
int request_check(const struct hmreg_domain *domain, const struct request *request,
                  uint64_t offset);
/* Checks that the ranges together are not longer than the domain's max_len. -EMSGSIZE. */
int request_check_length(const struct hmreg_domain *domain, const struct iovec *iov, size_t count);
/* The range of addresses that a caller's dmabuf covers. -EINVAL, -EBADF. */
int request_from_dmabuf(const struct hmreg_mr_dmabuf *dmabuf, struct iovec *out,
                        struct dmabuf_file *file);

/* Checks that found[index] may be in one region with found[0]: ranges have one iface, device and
 * kind, segments one iface and kind. If a runtime pinned only a part of host memory, all of it
 * becomes the system's. -EINVAL. */
int request_check_same(struct resolved *found, size_t index, bool segments);

/* Finds the memory of each range of a request. found: out, request->count elements. All ranges must
 * have one iface and device, and be what the caller claimed, and an iova must not wrap (-EINVAL).
 * Errors of resolve(); with
 * HMREG_MR_ALLOCATED also -EFAULT: host memory is not mapped, or not with the access needed. */
int request_resolve(struct hmreg_domain *domain, const struct request *request,
                    struct resolved *found);
/* request_resolve() in two steps, for a request of one range of system memory: the first skips the
 * check that host memory is mapped, the second makes only that check. The first: not with a trusted
 * claim. */
int request_resolve_owner(struct hmreg_domain *domain, const struct request *request,
                          struct resolved *found);
int request_check_mapped(struct hmreg_domain *domain, const struct request *request,
                         struct resolved *found);

/* May the library, or the fabric, choose the key? A requested key is ignored if the region has no
 * remote access. */
bool request_any_key(const struct hmreg_domain *domain, const struct request *request);

#endif
