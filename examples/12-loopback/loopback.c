/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Example 12: the rarer calls, on loopback domains, so that they run on any machine. Each part is a
 * file of its own, and says in one line what it has found.
 *
 *     12-loopback
 */
#include "parts.h"

#include <stdio.h>

int main(void)
{
    int (*const parts[])(struct hmreg * lib) = {bound,    raw,  large,  tokens,
                                                remember, lost, member, hibernate};
    struct hmreg *lib = NULL;
    int rc = hmreg_open(NULL, &lib);

    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]) && !rc; i++)
        rc = parts[i](lib);
    if (rc)
        fprintf(stderr, "12-loopback: %d, %s\n", rc, hmreg_last_error()->text);
    hmreg_close(lib);
    return rc != 0;
}
