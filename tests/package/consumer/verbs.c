/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A user's program on libhmreg-verbs: links to libhmreg and libibverbs through it.
 */
#include <hmreg/verbs.h>

#include <errno.h>
#include <stdio.h>

int main(void)
{
    if (hmreg_domain_open_verbs(NULL, NULL, NULL, NULL) != -EINVAL)
        return 1;
    if (!ibv_node_type_str(IBV_NODE_CA))
        return 1;
    puts(hmreg_version());
    return 0;
}
