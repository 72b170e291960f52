/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Prints how many sites memhooks find in this process: for sites.sh, which starts it in several
 * ways.
 */
#include "tests/support/inside.h"

#include <stdio.h>

int main(void)
{
    int sites = inside_hook_sites();

    if (sites < 0) {
        printf("%s\n", hmreg_last_error()->text);
        return 1;
    }
    printf("%d\n", sites);
    return 0;
}
