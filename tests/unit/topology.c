/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 * What a topology says of a tree of sysfs that the test makes, and of this machine. */

/* Two readers fill a topology, and no call shows what each found; the order of domains is for
 * groups, which show only the nearest. */
#include "affinity/topology.h"

#include "tests/support/code_filters.h"
#include "tests/support/script.h"
#include "tests/tools/tree.h"
#include "tests/unit/affinity.h"

#include <hmreg/loopback.h>
#include <stdlib.h>
#include <unistd.h>
#ifdef HMREG_AFFINITY_HWLOC
#include <hwloc.h>
#endif

/* ---- sysfs ------------------------------------------------------------------------------ */

static void open_tree(void)
{
    struct hmreg_topology_config config = {.size = sizeof(config),
                                           .root = getenv("HMREG_DOCTOR_ROOT")};

    assert_ok(hmreg_open(NULL, &fixture.lib));
    assert_ok(hmreg_topology_open(fixture.lib, &config, &fixture.topology));
    test_after(end);
}

TEST(sysfs__no_file_at_all__everything_unknown)
{
    struct hmreg_place place = at_pci("01:00.0"), node = at_node(3);
    const char *nics[] = {"mlx5_0"};
    struct hmreg_nic_affinity out[1] = {{.size = sizeof(out[0])}};
    size_t count = 0;

    tree_begin();
    open_tree();
    assert_ok(hmreg_topology_order_nics(fixture.topology, &place, NULL, 0, NULL, &count));
    assert_int_equal(count, 0);
    count = 1;
    assert_ok(hmreg_topology_order_nics(fixture.topology, &place, NULL, 0, out, &count));
    assert_int_equal(count, 0);
    count = 1;
    assert_ok(hmreg_topology_order_nics(fixture.topology, &node, nics, 1, out, &count));
    assert_int_equal(count, 1);
    assert_nic(&out[0], "mlx5_0", HMREG_DISTANCE_UNKNOWN, "the topology has no NIC");
}

TEST(sysfs__tree__as_the_kernel_lays_it)
{
    struct hmreg_place place = at_pci("02:00.0");
    struct hmreg_nic_affinity out[4];

    tree_begin();
    tree_pci("pci0000:00/0000:00:01.0/0000:02:00.0", "0x030200", "0x10de");
    tree_pci("pci0000:00/0000:00:01.0/0000:03:00.0", "0x020000", "0x15b3");
    tree_pci("pci0000:40/0000:41:00.0", "0x020000", "0x15b3");
    tree_file("/sys/devices/pci0000:40/0000:41:00.0/numa_node", "1\n");
    tree_nic("mlx5_10", "pci0000:00/0000:00:01.0/0000:03:00.0");
    tree_nic("mlx5_2", "pci0000:40/0000:41:00.0");
    tree_folder("/sys/class/infiniband/rxe0");
    tree_file("/sys/devices/system/node/node0/distance", "10 21\n");
    tree_file("/sys/devices/system/node/node1/distance", "21 10\n");
    open_tree();
    assert_int_equal(all(&place, out, 4), 3);
    assert_nic(&out[0], "mlx5_10", HMREG_DISTANCE_SWITCH, "0000:00:01.0");
    assert_int_equal(out[0].index, 1); /* mlx5_2 comes before it */
    assert_nic(&out[1], "mlx5_2", HMREG_DISTANCE_SYSTEM, "NUMA nodes 0 and 1");
    assert_int_equal(out[1].numa_distance, 21);
    assert_nic(&out[2], "rxe0", HMREG_DISTANCE_UNKNOWN, "rxe0 is not on the PCI bus");
}

/* A virtual interface and a subfunction are below the PCI device that carries them. */
TEST(sysfs__device_below_a_pci_device__that_ones_address)
{
    const char *nics[] = {"eth0", "mlx5_4"};
    struct hmreg_place place = at_pci("02:00.0");
    struct hmreg_nic_affinity out[2] = {{.size = sizeof(out[0])}};
    size_t count = 2;

    tree_begin();
    tree_pci("pci0000:00/0000:02:00.0", "0x030200", "0x10de");
    tree_pci("pci0000:00/0000:03:00.0", "0x020000", "0x15b3");
    tree_folder("/sys/devices/pci0000:00/0000:03:00.0/virtio1");
    tree_link("/sys/class/net/eth0/device", "../../../devices/pci0000:00/0000:03:00.0/virtio1");
    tree_folder("/sys/devices/pci0000:00/0000:03:00.0/mlx5_core.sf.2");
    tree_nic("mlx5_4", "pci0000:00/0000:03:00.0/mlx5_core.sf.2");
    open_tree();
    assert_ok(hmreg_topology_order_nics(fixture.topology, &place, nics, 2, out, &count));
    assert_nic(&out[0], "eth0", HMREG_DISTANCE_HOST_BRIDGE, "");
    assert_int_equal(out[0].pci.bus, 3);
    assert_nic(&out[1], "mlx5_4", HMREG_DISTANCE_HOST_BRIDGE, "");
}

/* The names of folders above the root say nothing. */
TEST(sysfs__root_with_the_name_of_a_host_bridge__not_mistaken)
{
    struct hmreg_topology_config config = {.size = sizeof(config)};
    struct hmreg_pci_place place = {.size = sizeof(place)};
    struct hmreg_pci at = pci("02:00.0");
    struct hmreg_topology *topology;
    char root[256];

    tree_begin();
    tree_file("/sys/devices/pci9999:00/sys/devices/platform/soc/pci0000:00/0000:02:00.0/numa_node",
              "0\n");
    tree_link("/sys/devices/pci9999:00/sys/bus/pci/devices/0000:02:00.0",
              "../../../devices/platform/soc/pci0000:00/0000:02:00.0");
    snprintf(root, sizeof(root), "%s/sys/devices/pci9999:00", getenv("HMREG_DOCTOR_ROOT"));
    config.root = root;
    assert_ok(hmreg_topology_open(NULL, &config, &topology));
    assert_ok(hmreg_topology_place(topology, &at, &place));
    assert_string_equal(place.host_bridge, "pci0000:00");
    assert_int_equal(place.bridge_count, 0);
    assert_int_equal(place.numa_node, 0);
    hmreg_topology_close(topology);
}

/* 0, or at which step not. */
static int open_without_the_call(int error)
{
    struct hmreg_topology_config config = {.size = sizeof(config),
                                           .root = getenv("HMREG_DOCTOR_ROOT")};
    struct hmreg_topology *topology = NULL;

    if (!code_filter_refuse(SYS_openat2, error))
        return 77;
    return hmreg_topology_open(NULL, &config, &topology) == -error && !topology ? 0 : 1;
}

TEST(sysfs__root_and_no_openat2__error)
{
    tree_begin();
    tree_pci("pci0000:00/0000:02:00.0", "0x030200", "0x10de");
    test_in_child_or_skip(open_without_the_call(ENOSYS), "no seccomp filter can be made here");
    test_in_child_or_skip(open_without_the_call(EPERM), "no seccomp filter can be made here");
}

TEST(sysfs__hostile_tree__what_can_be_read)
{
    struct hmreg_place place = at_pci("02:00.0");
    struct hmreg_nic_affinity out[8];
    char deep[512] = "pci0000:00";

    tree_begin();
    for (int i = 1; i <= 20; i++)
        sprintf(deep + strlen(deep), "/0000:%02x:00.0", i + 0x40);
    strcat(deep, "/0000:02:00.0");
    tree_pci(deep, "0x030200", "0x10de");
    tree_pci("pci0000:00/0000:03:00.0", "0x020000", "0x15b3");
    tree_file("/sys/devices/pci0000:00/0000:03:00.0/numa_node", "99999999999999999999\n");
    tree_pci("pci0000:40/0000:41:00.0", "0x020000", "0x15b3");
    tree_file("/sys/devices/pci0000:40/0000:41:00.0/numa_node", "");
    tree_link("/sys/bus/pci/devices/0000:05:00.0", "0000:05:00.0"); /* a circle */
    tree_file("/sys/bus/pci/devices/nonsense", "x");
    tree_file("/sys/bus/pci/devices/0000:00:44.9", "x");
    tree_nic("mlx5_0", "pci0000:00/0000:03:00.0");
    tree_nic("mlx5_1", "pci0000:40/0000:41:00.0");
    tree_link("/sys/class/infiniband/lost/device", "../nowhere");
    tree_file("/sys/class/infiniband/a_name_of_more_bytes_than_any_name_of_a_device_that_the_kernel"
              "_allows",
              "");
    tree_file("/sys/devices/system/node/node0/distance", "");
    tree_file("/sys/devices/system/node/node7/distance", "ten 99999999999999999999\n");
    tree_folder("/sys/devices/system/node/node-1");
    tree_folder("/sys/devices/system/node/node99999999999999999999x");
    open_tree();
    assert_int_equal(all(&place, out, 8), 3);
    assert_nic(&out[0], "mlx5_0", HMREG_DISTANCE_HOST_BRIDGE, "");
    assert_int_equal(out[2].distance, HMREG_DISTANCE_UNKNOWN);
}

/* As in virtual machines. */
TEST(sysfs__one_node_and_a_device_without__on_it)
{
    struct hmreg_pci pci = {.bus = 3, .valid = 1};
    struct hmreg_pci_place place = {.size = sizeof(place)};

    tree_begin();
    tree_pci("pci0000:00/0000:03:00.0", "0x020000", "0x15b3");
    tree_file("/sys/devices/pci0000:00/0000:03:00.0/numa_node", "-1\n");
    tree_file("/sys/devices/system/node/node2/distance", "10\n");
    open_tree();
    assert_ok(hmreg_topology_place(fixture.topology, &pci, &place));
    assert_int_equal(place.numa_node, 2);
}

/* ---- this machine ----------------------------------------------------------------------- */

#ifdef HMREG_AFFINITY_HWLOC
static void assert_same_place(const struct hmreg_pci_place *by_sysfs,
                              const struct hmreg_pci_place *by_hwloc)
{
    assert_string_equal(by_hwloc->host_bridge, by_sysfs->host_bridge);
    assert_int_equal(by_hwloc->bridge_count, by_sysfs->bridge_count);
    for (uint32_t i = 0; i < by_sysfs->bridge_count; i++)
        assert_true(topology_same_pci(&by_hwloc->bridges[i], &by_sysfs->bridges[i]));
    if (by_sysfs->numa_node >= 0) /* hwloc may know more, never something else */
        assert_int_equal(by_hwloc->numa_node, by_sysfs->numa_node);
}

static void export_this_machine(const char *path)
{
    hwloc_topology_t tree;

    assert_int_equal(hwloc_topology_init(&tree), 0);
    hwloc_topology_set_io_types_filter(tree, HWLOC_TYPE_FILTER_KEEP_ALL);
    assert_int_equal(hwloc_topology_load(tree), 0);
    assert_int_equal(hwloc_topology_export_xml(tree, path, 0), 0);
    hwloc_topology_destroy(tree);
}

TEST(this_machine__hwlocs_export_and_sysfs_agree)
{
    struct hmreg_topology by_sysfs = {.lib = NULL}, by_hwloc = {.lib = NULL};
    char path[] = "/tmp/hmreg-topology-XXXXXX";
    size_t compared = 0;

    close(mkstemp(path));
    export_this_machine(path);
    assert_ok(topology_read_sysfs(&by_sysfs, ""));
    assert_ok(topology_read_hwloc(&by_hwloc, path));
    unlink(path);
    for (size_t i = 0; i < by_hwloc.device_count; i++, compared++) {
        const struct topology_device *device = &by_hwloc.devices[i];
        const struct topology_device *same = topology_find(&by_sysfs, &device->pci);

        if (!same)
            fail_msg("sysfs has no " PCI_FORMAT ", which hwloc has", PCI_ARGS(&device->pci));
        assert_same_place(&same->place, &device->place);
    }
    topology_clear(&by_sysfs);
    topology_clear(&by_hwloc);
    if (!compared)
        test_skip("hwloc knows no PCI device here");
}
#endif

TEST(this_machine__every_interface__has_a_distance_or_a_reason)
{
    struct hmreg_nic_affinity out[1] = {{.size = sizeof(out[0])}};
    struct hmreg_place place = at_memory(&out, sizeof(out));

    vendors_reset();
    assert_ok(hmreg_open(NULL, &fixture.lib));
    assert_ok(hmreg_topology_open(fixture.lib, NULL, &fixture.topology));
    for (size_t i = 0; i < fixture.topology->nic_count; i++) {
        const char *name = fixture.topology->nics[i].name;
        size_t count = 1;

        assert_ok(hmreg_topology_order_nics(fixture.topology, &place, &name, 1, out, &count));
        assert_true(out[0].reason[0]);
        print_message("%s: %s, %s\n", name, hmreg_distance_name(out[0].distance), out[0].reason);
    }
    end();
}

/* ---- domains ---------------------------------------------------------------------------- */

static int open_domain(struct hmreg *lib, const char *nic, const struct hmreg_pci *at,
                       struct hmreg_domain **out)
{
    struct script_caps caps = script_caps;

    snprintf(caps.nic, sizeof(caps.nic), "%s", nic);
    if (at)
        caps.pci = *at;
    return script_domain(lib, &caps, NULL, out);
}

TEST(domains__of_several_nics__nearest_first)
{
    static const char *const nics[] = {"shm", "mlx5_3", "anything", "mlx5_4", "mlx5_1-dgram"};
    struct hmreg_place place = at_pci("01:00.0");
    struct hmreg_pci at = pci("16:00.0");
    struct hmreg_domain *domains[6];
    enum hmreg_distance distances[6];
    size_t order[6];

    begin();
    for (size_t i = 0; i < 5; i++)
        assert_ok(open_domain(fixture.lib, nics[i], i == 2 ? &at : NULL, &domains[i]));
    assert_ok(hmreg_domain_open_loopback(fixture.lib, NULL, NULL, &domains[5]));
    assert_ok(topology_order_domains(fixture.topology, &place, domains, 6, order, distances));
    assert_int_equal(order[0], 4);
    assert_int_equal(order[1], 2); /* by the address that its fabric reports */
    assert_int_equal(order[2], 1);
    assert_int_equal(order[3], 3);
    assert_int_equal(order[4], 0);
    assert_int_equal(order[5], 5);
    assert_int_equal(distances[0], HMREG_DISTANCE_SWITCH);
    assert_int_equal(distances[1], HMREG_DISTANCE_ROOT_PORT);
    assert_int_equal(distances[5], HMREG_DISTANCE_UNKNOWN);
    for (size_t i = 0; i < 6; i++)
        assert_ok(hmreg_domain_close(domains[i]));
}

TEST(domains__of_no_such_place__enodev)
{
    struct hmreg_place nowhere = at_node(5);
    enum hmreg_distance distance;
    struct hmreg_domain *domain;
    size_t order = 7;

    begin();
    assert_ok(hmreg_domain_open_loopback(fixture.lib, NULL, NULL, &domain));
    assert_fails(topology_order_domains(fixture.topology, &nowhere, &domain, 1, &order, &distance),
                 -ENODEV, "node 5");
    assert_int_equal(order, 7);
    assert_ok(hmreg_domain_close(domain));
}

TEST_MAIN()
