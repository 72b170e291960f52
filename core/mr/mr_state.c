/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Operations on a registered region: bind, enable, refresh, raw_attr; and on a domain: bind,
 * map_raw and unmap_raw for a peer's raw key. Bind, enable and refresh act on each native
 * registration.
 */
#include "core/base/error.h"
#include "core/base/failure.h"
#include "core/base/validate.h"
#include "core/group/group.h"
#include "core/mr/mr.h"

#include <assert.h>
#include <endian.h>
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#define RAW_MAX 256

/* ---- binding, enabling, refreshing ------------------------------------------------------ */

/* The domain of one of the registrations, of which the fabric gets a copy: a withdrawal may move it
 * meanwhile. NULL: its member is withdrawn or lost, and *rc is an error unless the region has other
 * members. */
static struct hmreg_domain *take(const struct hmreg_mr *mr, size_t index,
                                 struct hmreg_mr_keys *keys, int *rc)
{
    struct hmreg_domain *domain = mr_copy_live(mr, index, keys);

    if (domain && !domain_is_lost(domain))
        return domain;
    if (!mr_of_group(mr))
        *rc = domain ? domain_fail_lost(domain) : mr_fail_without();
    return NULL;
}

int hmreg_mr_bind(struct hmreg_mr *mr, void *object, uint64_t flags)
{
    LOGS_FAILURE(mr_log(mr));
    struct hmreg_domain *domain;
    struct hmreg_mr_keys keys;
    int rc = mr_check_usable(mr);

    rc = rc ? rc : validate_pointer(object, "object");
    rc = rc ? rc : validate_flags(flags, HMREG_REMOTE_WRITE, "flags");
    if (!rc && mr_of_group(mr))
        rc =
            hmreg_fail(-EINVAL, "mr is a group's region: bind each of its rails (hmreg_mr_rail())");
    for (size_t i = 0; !rc && i < mr_native_count(mr); i++)
        if ((domain = take(mr, i, &keys, &rc)))
            rc = domain->ops.bind(domain->self, &keys, object, flags);
    return rc;
}

int hmreg_mr_enable(struct hmreg_mr *mr)
{
    LOGS_FAILURE(mr_log(mr));
    struct hmreg_domain *domain;
    struct hmreg_mr_keys keys;
    int rc = mr_check_usable(mr);

    for (size_t i = 0; !rc && i < mr_native_count(mr); i++)
        if ((domain = take(mr, i, &keys, &rc)))
            rc = domain->ops.enable(domain->self, &keys);
    return rc;
}

/* Cuts off a part's share in the range of its first byte. *skip: the share's offset in the range;
 * *len: its length. Returns the range's number; mr_count(): no range has the first byte. */
static size_t cut(const struct hmreg_mr *mr, struct iovec *part, size_t *skip, size_t *len)
{
    size_t i = 0;

    *skip = *len = 0;
    for (; i < mr_count(mr); i++) {
        struct iovec asked = mr_asked(mr, i);

        *skip = (uintptr_t)part->iov_base - (uintptr_t)asked.iov_base;
        if (*skip >= asked.iov_len)
            continue;
        *len = asked.iov_len - *skip < part->iov_len ? asked.iov_len - *skip : part->iov_len;
        part->iov_base = (void *)((uintptr_t)part->iov_base + *len);
        part->iov_len -= *len;
        break;
    }
    return i;
}

static int check_parts(const struct hmreg_mr *mr, const struct iovec *iov, size_t count)
{
    int rc = validate_iov(iov, count, SIZE_MAX);

    assert(rc || iov);
    for (size_t i = 0; !rc && i < count; i++) {
        struct iovec part = iov[i];
        size_t skip, len;

        while (part.iov_len && !rc)
            if (cut(mr, &part, &skip, &len) == mr_count(mr))
                rc = hmreg_fail(-EINVAL, "iov[%zu] is not inside the region", i);
    }
    return rc;
}

/* Refreshes on one member: for a handle, or a region without a group. A part may run through
 * several ranges and pieces that follow each other in memory. */
static int refresh_part(struct hmreg_mr *mr, struct iovec part)
{
    struct hmreg_domain *domain;
    struct hmreg_mr_keys keys;
    int rc = 0;

    while (part.iov_len && !rc) {
        size_t skip, len, range = cut(mr, &part, &skip, &len);
        struct iovec below = mr_iov(mr, range);

        below.iov_base = (void *)((uintptr_t)below.iov_base + skip);
        below.iov_len = len;
        if ((domain = take(mr, mr_parts(mr) > 1 ? range : 0, &keys, &rc)))
            rc = domain->ops.refresh(domain->self, &keys, &below, 1, 0);
    }
    return rc;
}

/* Refreshes all parts on one member. iov NULL: all of the region. */
static int refresh(struct hmreg_mr *mr, const struct iovec *iov, size_t count)
{
    struct hmreg_domain *domain;
    struct hmreg_mr_keys keys;
    int rc = 0;

    for (size_t i = 0; !iov && i < mr_native_count(mr) && !rc; i++)
        if ((domain = take(mr, i, &keys, &rc)))
            rc = domain->ops.refresh(domain->self, &keys, NULL, 0, 0);
    for (size_t i = 0; iov && i < count && !rc; i++)
        rc = refresh_part(mr, iov[i]);
    return rc;
}

static bool has_member(const struct hmreg_mr *mr, size_t member)
{
    const struct hmreg_domain *domain = mr_live(mr, member * mr_parts(mr));

    return domain && !domain_is_lost(domain);
}

int hmreg_mr_refresh(struct hmreg_mr *mr, const struct iovec *iov, size_t count, uint64_t flags)
{
    LOGS_FAILURE(mr_log(mr));
    int rc = mr_check_usable(mr);

    rc = rc ? rc : validate_flags(flags, 0, "flags");
    if (!rc && (iov || count))
        rc = check_parts(mr, iov, count);
    if (rc || !mr_of_group(mr))
        return rc ? rc : refresh(mr, iov, count);
    for (size_t i = 0; i < mr_natives(mr)->members && !rc; i++) {
        rc = has_member(mr, i) ? refresh(&mr_ext(mr)->handles[i].mr, iov, count) : 0;
        rc = has_member(mr, i) ? rc : 0; /* it is gone meanwhile */
    }
    return rc;
}

/* ---- of a domain ------------------------------------------------------------------------ */

int hmreg_domain_bind(struct hmreg_domain *domain, void *object, uint64_t flags)
{
    LOGS_FAILURE(domain_log(domain));
    int rc = domain_check(domain);

    rc = rc ? rc : validate_pointer(object, "object");
    if (!rc && flags != HMREG_BIND_REG_MR)
        rc = hmreg_fail(-HMREG_EBADFLAGS, "flags are %#llx; accepted is HMREG_BIND_REG_MR",
                        (unsigned long long)flags);
    if (!rc && atomic_load(&domain->groups))
        rc = hmreg_fail(-EBUSY, "the domain is a member of a group, whose registrations complete "
                                "at once: it takes no event queue");
    if (!rc && domain_is_lost(domain))
        rc = domain_fail_lost(domain);
    rc = rc ? rc : domain_check_awake(domain);
    return rc ? rc : domain->ops.bind_domain(domain->self, object, flags);
}

/* ---- raw keys --------------------------------------------------------------------------- */

/* If keys have 64 bits, the raw key is the key's 8 bytes, little-endian. */
static int raw_key(const struct hmreg_mr *mr, uint64_t *base, uint8_t *raw, size_t *size)
{
    struct hmreg_mr_keys keys;
    const struct hmreg_domain *domain = mr_copy_live(mr, 0, &keys);
    uint64_t key = htole64(keys.key);

    if (!domain)
        return mr_fail_without();
    if (domain->caps.mr_mode & HMREG_MR_RAW)
        return domain->ops.raw_key(domain->self, &keys, base, raw, size);
    memcpy(raw, &key, sizeof(key));
    *base =
        domain->caps.mr_mode & HMREG_MR_VIRT_ADDR ? (uint64_t)(uintptr_t)mr_iov(mr, 0).iov_base : 0;
    if (mr_has_iova(mr))
        *base = mr_ext(mr)->iova;
    *size = sizeof(key);
    return 0;
}

static int check_raw(const struct hmreg_mr *mr, const uint8_t *raw, const size_t *size,
                     uint64_t flags)
{
    int rc = mr_check_usable(mr);

    rc = rc ? rc : validate_pointer(size, "key_size");
    rc = rc ? rc : validate_flags(flags, 0, "flags");
    if (rc)
        return rc;
    if (!raw && *size)
        return hmreg_fail(-EINVAL, "raw_key is NULL, key_size is %zu", *size);
    if (mr_of_group(mr))
        return hmreg_fail(
            -EINVAL, "mr is a group's region: each of its rails has its own key (hmreg_mr_rail())");
    if (mr_parts(mr) > 1)
        return hmreg_fail(-EINVAL,
                          "mr is a composite whose pieces have separate keys: use hmreg_mr_pack()");
    if (!(mr_body(mr)->access & HMREG_ACCESS_REMOTE))
        return hmreg_fail(-EACCES, "the region has no remote access and therefore no key");
    return mr_check_complete(mr);
}

int hmreg_mr_raw_attr(const struct hmreg_mr *mr, uint64_t *base_addr, uint8_t *raw, size_t *size,
                      uint64_t flags)
{
    LOGS_FAILURE(mr_log(mr));
    uint8_t bytes[RAW_MAX];
    size_t needed = sizeof(bytes);
    uint64_t base = 0;
    int rc = check_raw(mr, raw, size, flags);

    rc = rc ? rc : raw_key(mr, &base, bytes, &needed);
    if (rc == -HMREG_ETOOSMALL) /* no key of this fabric fits */
        *size = needed;
    if (rc)
        return rc;
    if (*size < needed) {
        rc = hmreg_fail(-HMREG_ETOOSMALL, "the raw key takes %zu bytes, key_size is %zu", needed,
                        *size);
        *size = needed;
        return rc;
    }
    memcpy(raw, bytes, needed);
    *size = needed;
    if (base_addr)
        *base_addr = base;
    return 0;
}

static int use_raw(struct hmreg_domain *domain, uint64_t base, const uint8_t *raw, size_t size,
                   uint64_t *key)
{
    uint64_t made;

    if (domain->caps.mr_mode & HMREG_MR_RAW)
        return domain->ops.map_raw(domain->self, base, raw, size, key);
    if (size != sizeof(made))
        return hmreg_fail(-EINVAL, "key_size is %zu; keys of this domain have 8 bytes", size);
    memcpy(&made, raw, sizeof(made));
    *key = le64toh(made);
    return 0;
}

/* The fabric of a lost domain may not return: the key ends with the fabric's domain. */
static int disuse_raw(struct hmreg_domain *domain, uint64_t key)
{
    if (!(domain->caps.mr_mode & HMREG_MR_RAW) || domain_is_lost(domain))
        return 0;
    return domain->ops.unmap_raw(domain->self, key);
}

int hmreg_domain_map_raw(struct hmreg_domain *domain, uint64_t base_addr, const uint8_t *raw,
                         size_t size, uint64_t *key, uint64_t flags)
{
    LOGS_FAILURE(domain_log(domain));
    uint64_t made = 0;
    int rc = domain_check(domain);

    rc = rc ? rc : validate_pointer(raw, "raw_key");
    rc = rc ? rc : validate_pointer(key, "key");
    rc = rc ? rc : validate_flags(flags, 0, "flags");
    if (!rc && domain->group)
        rc = hmreg_fail(-EINVAL, "domain is a group: map the key on one of its members");
    if (!rc && domain_is_lost(domain))
        rc = domain_fail_lost(domain);
    rc = rc ? rc : domain_check_awake(domain);
    rc = rc ? rc : use_raw(domain, base_addr, raw, size, &made);
    if (rc)
        return rc;
    rc = keys_map(&domain->keys, made);
    if (rc) {
        disuse_raw(domain, made);
        return rc;
    }
    atomic_fetch_add(&domain->mapped_keys, 1);
    *key = made;
    return 0;
}

int hmreg_domain_unmap_raw(struct hmreg_domain *domain, uint64_t key)
{
    LOGS_FAILURE(domain_log(domain));
    int rc = domain_check(domain);

    rc = rc ? rc : keys_unmap(&domain->keys, key);
    if (rc)
        return rc;
    atomic_fetch_sub(&domain->mapped_keys, 1);
    return disuse_raw(domain, key);
}
