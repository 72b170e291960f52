/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The results of libfabric's calls.
 */
#include "core/base/error.h"
#include "providers/ofi/ofi.h"

#include <rdma/fi_errno.h>

int ofi_negative(int rc)
{
    return rc > 0 ? -rc : rc;
}

int ofi_check(const struct ofi *ofi, int result, const char *call)
{
    int rc = ofi_negative(result);

    return rc ? hmreg_fail_vendor(rc, "ofi", rc, fi_strerror(-rc), "%s: %s failed: %s", ofi->name,
                                  call, fi_strerror(-rc))
              : 0;
}

int ofi_leave(const struct ofi *ofi, int result, const char *call)
{
    ofi_serial_leave(ofi->serial);
    return ofi_check(ofi, result, call);
}
