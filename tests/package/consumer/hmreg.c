/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A user's program on libhmreg alone: prints the version that header and library agree on.
 */
#include <hmreg/hmreg.h>
#include <hmreg/loopback.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

int main(void)
{
    if (strcmp(hmreg_version(), HMREG_VERSION_STRING))
        return 1;
    if (!strstr(hmreg_strerror(-ENODEV), strerror(ENODEV)))
        return 1;
    puts(hmreg_version());
    return 0;
}
