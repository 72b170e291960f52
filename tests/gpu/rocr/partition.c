/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A GPU that is a partition of a card (MI300): the runtime puts the partition's number into the
 * function of the PCI address, and the system lists function 0 only. The simulated runtime's second
 * GPU has such an address.
 */
#include "tests/support/test.h"
#include "tests/tools/tree.h"

#include <hmreg/affinity.h>
#include <hmreg/hmreg.h>

#define PARTITION 1 /* the device, 0001:63:1f.1 */

TEST(affinity__of_a_partition__that_of_its_card)
{
    struct hmreg_config config = {.size = sizeof(config),
                                  .ifaces = HMREG_IFACE_BIT(HMREG_IFACE_ROCR)};
    struct hmreg_topology_config tree = {.size = sizeof(tree)};
    struct hmreg_device_info device = {.size = sizeof(device)};
    struct hmreg_pci_place place = {.size = sizeof(place)};
    struct hmreg_place at = {.size = sizeof(at), .kind = HMREG_PLACE_DEVICE};
    struct hmreg_nic_affinity nic = {.size = sizeof(nic)};
    struct hmreg_topology *topology;
    struct hmreg *lib;
    size_t count = 1;

    tree_begin();
    tree_pci("pci0001:60/0001:60:01.0/0001:63:1f.0", "0x120000", "0x1002");
    tree_pci("pci0001:60/0001:60:01.0/0001:64:00.0", "0x020000", "0x15b3");
    tree_nic("mlx5_1", "pci0001:60/0001:60:01.0/0001:64:00.0");
    tree.root = getenv("HMREG_DOCTOR_ROOT");
    assert_ok(hmreg_open(&config, &lib));
    assert_ok(hmreg_topology_open(lib, &tree, &topology));
    assert_ok(hmreg_device_query(lib, HMREG_IFACE_ROCR, PARTITION, &device));
    assert_int_equal(device.pci.function, 1);
    assert_ok(hmreg_topology_place(topology, &device.pci, &place));
    assert_string_equal(place.host_bridge, "pci0001:60");
    at.iface = HMREG_IFACE_ROCR;
    at.device = PARTITION;
    assert_ok(hmreg_topology_order_nics(topology, &at, NULL, 0, &nic, &count));
    assert_string_equal(nic.nic, "mlx5_1");
    assert_int_equal(nic.distance, HMREG_DISTANCE_SWITCH);
    hmreg_topology_close(topology);
    assert_ok(hmreg_close(lib));
}

TEST_MAIN()
