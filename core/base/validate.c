/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See validate.h. Each check records the failure, with the argument and the accepted values.
 */
#include "core/base/validate.h"

#include "core/base/error.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define MOST_BYTES 4096 /* largest size of an input struct, in any version */

int validate_pointer(const void *pointer, const char *argument)
{
    if (!pointer)
        return hmreg_fail(-EINVAL, "%s is NULL", argument);
    return 0;
}

int validate_range_of(const char *argument, const void *addr, size_t len)
{
    if (!addr)
        return hmreg_fail(-EINVAL, "%s: addr is NULL", argument);
    if (!len)
        return hmreg_fail(-EINVAL, "%s: len is 0; it must be at least 1", argument);
    if ((uint64_t)(uintptr_t)addr + len < (uint64_t)(uintptr_t)addr)
        return hmreg_fail(-EINVAL, "%s: addr %p + len %zu wraps around the address space", argument,
                          addr, len);
    return 0;
}

/* Names the element only if it fails: lists are long, and gets of them may be hits. */
int validate_range_at(const char *list, size_t index, const void *addr, size_t len)
{
    char what[32];

    if (addr && len && (uint64_t)(uintptr_t)addr + len >= (uint64_t)(uintptr_t)addr)
        return 0;
    snprintf(what, sizeof(what), "%s[%zu]", list, index);
    return validate_range_of(what, addr, len);
}

int validate_range(const void *addr, size_t len)
{
    return validate_range_of("range", addr, len);
}

int validate_iov(const struct iovec *iov, size_t count, size_t limit)
{
    if (!iov)
        return hmreg_fail(-EINVAL, "iov is NULL");
    if (!count || count > limit)
        return hmreg_fail(-EINVAL, "count is %zu; this domain takes 1 to %zu ranges in a region",
                          count, limit);
    for (size_t i = 0; i < count; i++) {
        int rc = count > 1 ? validate_range_at("iov", i, iov[i].iov_base, iov[i].iov_len)
                           : validate_range(iov[i].iov_base, iov[i].iov_len);

        if (rc)
            return rc;
    }
    return 0;
}

int validate_access(uint64_t access)
{
    if (!access)
        return hmreg_fail(-EINVAL,
                          "access has no right; it must have at least one of HMREG_SEND, RECV, "
                          "READ, WRITE, REMOTE_READ, REMOTE_WRITE");
    if (access & ~HMREG_ACCESS_ALL)
        return hmreg_fail(-EINVAL,
                          "access has unknown bits %#" PRIx64 "; accepted are HMREG_SEND, RECV, "
                          "READ, WRITE, REMOTE_READ, REMOTE_WRITE",
                          access & ~HMREG_ACCESS_ALL);
    return 0;
}

int validate_flags(uint64_t flags, uint64_t known, const char *argument)
{
    if (flags & ~known)
        return hmreg_fail(-HMREG_EBADFLAGS,
                          "%s has unknown bits %#" PRIx64 "; accepted are %#" PRIx64, argument,
                          flags & ~known, known);
    return 0;
}

int validate_iface(enum hmreg_iface iface)
{
    if ((unsigned)iface >= HMREG_IFACE_COUNT)
        return hmreg_fail(-EINVAL, "iface is %d; accepted are 0 (system) to 3 (cuda, rocr, ze)",
                          (int)iface);
    return 0;
}

int validate_system_device(int device, int code)
{
    if (device < -1 || device > 0)
        return hmreg_fail(code, "device is %d; for system memory it is -1 or 0", device);
    return 0;
}

int validate_out(const void *out, size_t least, const char *type)
{
    size_t size;
    int rc = validate_pointer(out, "out");

    if (rc)
        return rc;
    memcpy(&size, out, sizeof(size));
    if (size < least)
        return hmreg_fail(-EINVAL, "size of %s is %zu; it must be sizeof, at least %zu", type, size,
                          least);
    return 0;
}

int validate_copy_in(void *ours, size_t known_size, const void *callers, size_t least,
                     const char *type)
{
    size_t size;

    memcpy(&size, callers, sizeof(size));
    if (size < least || size > MOST_BYTES)
        return hmreg_fail(-EINVAL, "size of %s is %zu; it must be sizeof, from %zu to %d", type,
                          size, least, MOST_BYTES);
    for (size_t i = known_size; i < size; i++)
        if (((const char *)callers)[i])
            return hmreg_fail(-EINVAL,
                              "%s has a field set (byte %zu) that this hmreg %s does not know",
                              type, i, HMREG_VERSION_STRING);
    size = size < known_size ? size : known_size;
    memmove(ours, callers, size); /* GCC turns memcpy into a loop over the last 63 bytes */
    memset((char *)ours + size, 0, known_size - size);
    return 0;
}

void validate_copy_out(void *callers, const void *ours, size_t known_size)
{
    size_t size;

    memcpy(&size, callers, sizeof(size));
    /* The size field keeps the caller's value. */
    memcpy((char *)callers + sizeof(size), (const char *)ours + sizeof(size),
           (size < known_size ? size : known_size) - sizeof(size));
}
