/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A user's program on libhmreg-ofi: links to libhmreg and libfabric through it.
 */
#include <hmreg/ofi.h>

#include <errno.h>
#include <stdio.h>

int main(void)
{
    if (hmreg_domain_open_ofi(NULL, NULL, NULL, NULL, NULL) != -EINVAL)
        return 1;
    if (FI_MAJOR(fi_version()) < 1)
        return 1;
    puts(hmreg_version());
    return 0;
}
