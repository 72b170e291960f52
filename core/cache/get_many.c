/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * hmreg_mr_get_many() and hmreg_mr_put_many(): gets and puts of many regions in one call, all or
 * none. Ranges are got one after the other, so no thread waits for a registration while it has
 * claimed another, and calls in two threads cannot wait for each other.
 */
#include "core/base/error.h"
#include "core/base/validate.h"
#include "core/cache/get_slow.h"

#include <errno.h>

static int check_range(struct hmreg_domain *domain, const struct iovec *iov)
{
    struct request request = {.iov = iov, .count = 1};
    int rc = validate_range(iov->iov_base, iov->iov_len);

    return rc ? rc : layout_check_length(domain, &request);
}

/* Checks all arguments, so that a wrong one is refused before any vendor or fabric is called. */
static int check(struct hmreg_domain *domain, const struct iovec *iov, size_t count,
                 uint64_t access, struct hmreg_mr **mrs)
{
    int rc = domain_check(domain);

    rc = rc ? rc : validate_pointer(iov, "iov");
    rc = rc ? rc : validate_pointer(mrs, "mrs");
    if (!rc && !count)
        rc = hmreg_fail(-EINVAL, "count is 0; it must be at least 1");
    rc = rc ? rc : validate_access(access);
    rc = rc ? rc : get_check(domain);
    for (size_t i = 0; i < count && !rc; i++) {
        rc = check_range(domain, &iov[i]);
        if (rc)
            hmreg_fail_at(rc, "iov[%zu]", i);
    }
    return rc;
}

int hmreg_mr_get_many(struct hmreg_domain *domain, const struct iovec *iov, size_t count,
                      uint64_t access, struct hmreg_mr **mrs)
{
    int rc = check(domain, iov, count, access, mrs);
    size_t got = 0;

    while (!rc && got < count) {
        rc = hmreg_mr_get(domain, iov[got].iov_base, iov[got].iov_len, access, &mrs[got]);
        if (rc)
            hmreg_fail_at(rc, "iov[%zu]", got);
        else
            got++;
    }
    if (!rc || !mrs)
        return rc;
    hmreg_mr_put_many(mrs, got);
    for (size_t i = 0; i < count; i++)
        mrs[i] = NULL;
    return rc;
}

void hmreg_mr_put_many(struct hmreg_mr *const *mrs, size_t count)
{
    for (size_t i = 0; mrs && i < count; i++)
        hmreg_mr_put(mrs[i]);
}
