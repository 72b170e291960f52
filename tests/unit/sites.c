/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Prints how many sites memhooks find in this process: for sites.sh, which starts it in several
 * ways.
 */
#include "core/base/error.h"
#include "core/monitor/memhooks/hook_sites.h"

#include <stdio.h>

int main(void)
{
    struct hook_sites sites;

    if (hook_sites_find(&sites)) {
        printf("%s\n", hmreg_last_error()->text);
        return 1;
    }
    printf("%zu\n", sites.count);
    return 0;
}
