/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A user's program on libhmreg-affinity: counts this machine's RDMA devices, reaching libhmreg
 * through it.
 */
#include <hmreg/affinity.h>

#include <stdio.h>

int main(void)
{
    struct hmreg_place place = {.size = sizeof(place), .kind = HMREG_PLACE_PCI};
    struct hmreg_topology *topology;
    size_t count;

    if (hmreg_topology_open(NULL, NULL, &topology) ||
        hmreg_topology_order_nics(topology, &place, NULL, 0, NULL, &count)) {
        fprintf(stderr, "%s\n", hmreg_last_error()->text);
        return 1;
    }
    hmreg_topology_close(topology);
    puts(hmreg_version());
    return 0;
}
