/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The checks that every form of registration shares, once its ranges are checked.
 */
#include "core/error.h"
#include "core/register.h"
#include "core/validate.h"
#include "hmem/dmabuf.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>

#define CLAIMS (HMREG_HMEM_HOST_ALLOC | HMREG_HMEM_DEVICE_ONLY)

static int check_key(const struct hmreg_domain *domain, const struct request *request)
{
    if ((domain->caps.mr_mode & HMREG_MR_PROV_KEY) && request->requested_key)
        return hmreg_fail(-EKEYREJECTED,
                          "requested_key is %#" PRIx64 ", but this domain chooses keys itself "
                          "(HMREG_MR_PROV_KEY); it must be 0",
                          request->requested_key);
    return 0;
}

int request_check(const struct hmreg_domain *domain, const struct request *request,
                  uint64_t offset)
{
    int rc = validate_access(request->access);

    if (!rc && offset)
        rc = hmreg_fail(-EINVAL, "offset is %" PRIu64 "; it is reserved and must be 0", offset);
    rc = rc ? rc : validate_flags(request->flags, CLAIMS | domain->caps.flags, "flags");
    return rc ? rc : check_key(domain, request);
}

int request_check_length(const struct hmreg_domain *domain, const struct iovec *iov, size_t count)
{
    uint64_t total = 0;

    for (size_t i = 0; i < count; i++)
        if (__builtin_add_overflow(total, iov[i].iov_len, &total) || total > domain->caps.max_len)
            return hmreg_fail(-EMSGSIZE, "the region is longer than this domain's %" PRIu64 " bytes",
                              domain->caps.max_len);
    return 0;
}

int request_from_dmabuf(const struct hmreg_mr_dmabuf *dmabuf, struct iovec *out)
{
    uint64_t start;
    int64_t bytes;

    if (!dmabuf)
        return hmreg_fail(-EINVAL, "dmabuf is NULL");
    if (!dmabuf->len)
        return hmreg_fail(-EINVAL, "dmabuf: len is 0; it must be at least 1");
    if (__builtin_add_overflow((uint64_t)(uintptr_t)dmabuf->base_addr, dmabuf->offset, &start) ||
        start + dmabuf->len < start || dmabuf->offset + dmabuf->len < dmabuf->offset)
        return hmreg_fail(-EINVAL, "dmabuf: base_addr + offset %" PRIu64 " + len %zu wraps",
                          dmabuf->offset, dmabuf->len);
    if (dmabuf->fd < 0 || fcntl(dmabuf->fd, F_GETFD) < 0)
        return hmreg_fail(-EBADF, "dmabuf: fd %d is not an open descriptor", dmabuf->fd);
    bytes = dmabuf_length(dmabuf->fd);
    if (bytes >= 0 && dmabuf->offset + dmabuf->len > (uint64_t)bytes)
        return hmreg_fail(-EINVAL, "dmabuf: offset %" PRIu64 " + len %zu is beyond its %" PRId64
                                   " bytes",
                          dmabuf->offset, dmabuf->len, bytes);
    *out = (struct iovec){(void *)(uintptr_t)start, dmabuf->len};
    return 0;
}
