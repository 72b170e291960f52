/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 * How near NICs are, on machines that hwloc reads from a file. */
#include "tests/unit/affinity.h"

#include <hmreg/loopback.h>
#include <sys/mman.h>
#include <sys/wait.h>

/* ---- classes ---------------------------------------------------------------------------- */

TEST(affinity__of_a_device__each_class_in_order)
{
    struct hmreg_place place = at_pci("0000:01:00.0");
    struct hmreg_nic_affinity out[SYNTHETIC_NICS + 1];

    begin();
    assert_int_equal(all(&place, out, SYNTHETIC_NICS + 1), SYNTHETIC_NICS);
    assert_nic(&out[0], "mlx5_1", HMREG_DISTANCE_SWITCH, "below the PCI bridge 0000:10:00.0");
    assert_nic(&out[1], "mlx5_0", HMREG_DISTANCE_ROOT_PORT, "0000:10:00.0, with further switches");
    assert_nic(&out[2], "mlx5_2", HMREG_DISTANCE_HOST_BRIDGE, "the host bridge pci0000:00");
    assert_nic(&out[3], "mlx5_3", HMREG_DISTANCE_NUMA_NODE, "both are on NUMA node 0");
    assert_nic(&out[4], "mlx5_4", HMREG_DISTANCE_SYSTEM, "NUMA nodes 0 and 1");
    assert_nic(&out[5], "mlx5_5", HMREG_DISTANCE_UNKNOWN, "the NUMA node of mlx5_5");
    assert_int_equal(out[0].index, 1);
    assert_int_equal(out[0].pci.bus, 0x13);
    assert_int_equal(out[0].numa_node, 0);
    assert_int_equal(out[0].numa_distance, 10);
    assert_int_equal(out[4].numa_distance, 21);
    assert_int_equal(out[5].numa_distance, 0);
    assert_int_equal(out[5].numa_node, -1);
}

TEST(affinity__the_nearest_four__four)
{
    struct hmreg_place place = at_pci("0000:02:00.0");
    struct hmreg_nic_affinity out[4];
    size_t count = 0;

    begin();
    assert_int_equal(all(&place, out, 4), 4);
    assert_nic(&out[0], "mlx5_4", HMREG_DISTANCE_HOST_BRIDGE, "pci0000:80");
    for (size_t i = 1; i < 4; i++) /* alike: in hwloc's order, which is that of the addresses */
        assert_int_equal(out[i].distance, HMREG_DISTANCE_SYSTEM);
    assert_ok(hmreg_topology_order_nics(fixture.topology, &place, NULL, 0, NULL, &count));
    assert_int_equal(count, SYNTHETIC_NICS);
}

TEST(affinity__of_a_numa_node__nics_on_it_first)
{
    struct hmreg_place place = at_node(1);
    struct hmreg_nic_affinity out[SYNTHETIC_NICS];

    begin();
    assert_int_equal(all(&place, out, SYNTHETIC_NICS), SYNTHETIC_NICS);
    assert_nic(&out[0], "mlx5_4", HMREG_DISTANCE_NUMA_NODE, "both are on NUMA node 1");
    assert_nic(&out[1], "mlx5_0", HMREG_DISTANCE_SYSTEM, "NUMA nodes 1 and 0");
    assert_nic(&out[5], "mlx5_5", HMREG_DISTANCE_UNKNOWN, "");
}

TEST(affinity__four_nodes__in_the_order_of_their_distances)
{
    struct hmreg_place place = at_node(0);
    struct hmreg_nic_affinity out[4];

    synthetic_four_nodes(fixture.path);
    open_xml();
    assert_int_equal(all(&place, out, 4), 4);
    assert_string_equal(out[0].nic, "nic0");
    assert_string_equal(out[1].nic, "nic2"); /* 12, before the 32 of those listed earlier */
    assert_string_equal(out[2].nic, "nic1");
    assert_string_equal(out[3].nic, "nic3");
    assert_int_equal(out[1].numa_distance, 12);
    assert_int_equal(out[3].numa_distance, 32);
}

TEST(distance__names)
{
    static const char *const names[] = {"X", "PIX", "PXB", "PHB", "NODE", "SYS", "?"};

    for (int i = 0; i < HMREG_DISTANCE_COUNT; i++)
        assert_string_equal(hmreg_distance_name((enum hmreg_distance)i), names[i]);
    assert_string_equal(hmreg_distance_name((enum hmreg_distance)99), "?");
    assert_string_equal(hmreg_distance_name((enum hmreg_distance) - 1), "?");
}

static enum hmreg_distance distance_of(const char *one, const char *other)
{
    struct hmreg_place place = at_pci(one);
    struct hmreg_nic_affinity nic = {.size = sizeof(nic)};
    size_t count = 1;

    assert_ok(hmreg_topology_order_nics(fixture.topology, &place, &other, 1, &nic, &count));
    return nic.distance;
}

TEST(distance__of_two_devices__symmetric)
{
    static const struct {
        const char *one, *other;
        enum hmreg_distance distance;
    } pairs[] = {
        {"0000:01:00.0", "0000:01:00.0", HMREG_DISTANCE_SELF},
        {"0000:01:00.0", "0000:13:00.0", HMREG_DISTANCE_SWITCH},
        {"0000:13:00.0", "0000:16:00.0", HMREG_DISTANCE_ROOT_PORT},
        {"0000:02:00.0", "0000:82:00.0", HMREG_DISTANCE_HOST_BRIDGE},
        {"0000:41:00.0", "0000:20:00.0", HMREG_DISTANCE_NUMA_NODE},
        {"0000:41:00.0", "0000:82:00.0", HMREG_DISTANCE_SYSTEM},
        {"0000:01:00.0", "0000:77:00.0", HMREG_DISTANCE_UNKNOWN},
    };

    begin();
    for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++)
        assert_int_equal(distance_of(pairs[i].one, pairs[i].other), pairs[i].distance);
    for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++)
        assert_int_equal(distance_of(pairs[i].other, pairs[i].one), pairs[i].distance);
}

TEST(place__of_a_device__its_bridges)
{
    struct hmreg_pci gpu = pci("01:00.0"), none = pci("77:00.0"), unknown = {.valid = 0};
    struct hmreg_pci_place place = {.size = sizeof(place)};

    begin();
    assert_ok(hmreg_topology_place(fixture.topology, &gpu, &place));
    assert_string_equal(place.host_bridge, "pci0000:00");
    assert_int_equal(place.numa_node, 0);
    assert_int_equal(place.bridge_count, 3);
    assert_int_equal(place.bridges[1].bus, 0x10);
    assert_fails(hmreg_topology_place(fixture.topology, &none, &place), -ENODEV, "0000:77:00.0");
    assert_fails(hmreg_topology_place(fixture.topology, &unknown, &place), -EINVAL, "valid");
    assert_fails(hmreg_topology_place(NULL, &gpu, &place), -EINVAL, "topology");
    assert_fails(hmreg_topology_place(fixture.topology, NULL, &place), -EINVAL, "pci");
    assert_fails(hmreg_topology_place(fixture.topology, &gpu, NULL), -EINVAL, "out");
    place.size = 8;
    assert_fails(hmreg_topology_place(fixture.topology, &gpu, &place), -EINVAL, "size");
    assert_int_equal(place.bridge_count, 3);
}

/* The system has function 0 only. */
TEST(place__of_a_partition__that_of_its_gpu)
{
    struct hmreg_pci gpu = pci("01:00.0"), part = pci("01:00.3"), far = pci("77:00.3");
    struct hmreg_place at = {.size = sizeof(at), .kind = HMREG_PLACE_PCI, .pci = part};
    struct hmreg_pci_place place = {.size = sizeof(place)}, whole = place;
    struct hmreg_nic_affinity nics[8];
    size_t count = 8;

    begin();
    assert_ok(hmreg_topology_place(fixture.topology, &gpu, &whole));
    assert_ok(hmreg_topology_place(fixture.topology, &part, &place));
    assert_memory_equal(&place, &whole, sizeof(place));
    assert_fails(hmreg_topology_place(fixture.topology, &far, &place), -ENODEV, "0000:77:00.3");
    assert_int_equal(distance_of("01:00.3", "01:00.0"), HMREG_DISTANCE_SELF);
    assert_int_equal(distance_of("01:00.0", "01:00.3"), HMREG_DISTANCE_SELF);
    assert_int_equal(distance_of("01:00.3", "13:00.0"), HMREG_DISTANCE_SWITCH);
    nics[0].size = sizeof(nics[0]);
    assert_ok(hmreg_topology_order_nics(fixture.topology, &at, NULL, 0, nics, &count));
    assert_int_not_equal(nics[0].distance, HMREG_DISTANCE_UNKNOWN);
}

/* ---- NICs by name ----------------------------------------------------------------------- */

TEST(affinity__nics_by_each_name__found)
{
    static const char *const nics[] = {"mlx5_9",        "0000:02:00.0", "ens2", "mlx5_4-dgram",
                                       "mlx5_1-rdm-xy", "41:00.0",      "",     "mlx5_"};
    struct hmreg_place place = at_pci("02:00.0");
    struct hmreg_nic_affinity out[8];
    size_t count = 8;

    begin();
    out[0].size = sizeof(out[0]);
    assert_ok(hmreg_topology_order_nics(fixture.topology, &place, nics, 8, out, &count));
    assert_int_equal(count, 8);
    assert_nic(&out[0], "0000:02:00.0", HMREG_DISTANCE_SELF, "is the device itself");
    assert_nic(&out[1], "mlx5_4-dgram", HMREG_DISTANCE_HOST_BRIDGE, "");
    assert_nic(&out[2], "ens2", HMREG_DISTANCE_SYSTEM, "");
    assert_int_equal(out[2].pci.bus, 0x20);
    assert_nic(&out[3], "mlx5_1-rdm-xy", HMREG_DISTANCE_SYSTEM, "");
    assert_nic(&out[4], "41:00.0", HMREG_DISTANCE_SYSTEM, "");
    assert_nic(&out[5], "mlx5_9", HMREG_DISTANCE_UNKNOWN, "the topology has no NIC mlx5_9");
    assert_int_equal(out[5].index, 0);
    assert_nic(&out[6], "", HMREG_DISTANCE_UNKNOWN, "no NIC");
    assert_nic(&out[7], "mlx5_", HMREG_DISTANCE_UNKNOWN, "has no NIC mlx5_");
}

TEST(affinity__hostile_names__unknown)
{
    static char endless[5000];
    const char *nics[] = {endless, "%s%n", "0000:99:00.0", "../../etc", "--", "-"};
    struct hmreg_place place = at_pci("01:00.0");
    struct hmreg_nic_affinity out[6];
    size_t count = 6;

    begin();
    memset(endless, '-', sizeof(endless) - 1);
    out[0].size = sizeof(out[0]);
    assert_ok(hmreg_topology_order_nics(fixture.topology, &place, nics, 6, out, &count));
    assert_int_equal(count, 6);
    for (size_t i = 0; i < 6; i++) {
        assert_int_equal(out[i].index, i);
        assert_int_equal(out[i].distance, HMREG_DISTANCE_UNKNOWN);
        assert_true(out[i].reason[0]);
    }
    assert_nic(&out[2], "0000:99:00.0", HMREG_DISTANCE_UNKNOWN, "no PCI device 0000:99:00.0");
}

/* A caller of a later version, whose elements are longer. */
TEST(affinity__longer_elements__that_far_apart)
{
    struct {
        struct hmreg_nic_affinity known;
        char later[64];
    } out[2];
    struct hmreg_place place = at_pci("01:00.0");
    size_t count = 2;

    begin();
    memset(out, 'x', sizeof(out));
    out[0].known.size = sizeof(out[0]);
    assert_ok(hmreg_topology_order_nics(fixture.topology, &place, NULL, 0, &out[0].known, &count));
    assert_string_equal(out[1].known.nic, "mlx5_0");
    assert_int_equal(out[1].known.size, sizeof(struct hmreg_nic_affinity));
    assert_int_equal(out[0].later[0], 'x');
}

/* ---- places ----------------------------------------------------------------------------- */

TEST(affinity__of_an_ifaces_device__at_its_address)
{
    struct hmreg_place place = {
        .size = sizeof(place), .kind = HMREG_PLACE_DEVICE, .iface = HMREG_IFACE_ROCR, .device = 1};
    struct hmreg_nic_affinity out[1];
    size_t count = 1;

    begin();
    assert_int_equal(all(&place, out, 1), 1);
    assert_nic(&out[0], "mlx5_4", HMREG_DISTANCE_HOST_BRIDGE, "");
    place.device = 7;
    assert_fails(hmreg_topology_order_nics(fixture.topology, &place, NULL, 0, out, &count), -ENODEV,
                 "7");
    place.iface = (enum hmreg_iface)55;
    assert_fails(hmreg_topology_order_nics(fixture.topology, &place, NULL, 0, out, &count), -EINVAL,
                 "iface");
}

TEST(affinity__device_without_an_address__unknown)
{
    struct hmreg_place place = {.size = sizeof(place), .kind = HMREG_PLACE_PCI};
    struct hmreg_nic_affinity out[SYNTHETIC_NICS];

    begin();
    all(&place, out, SYNTHETIC_NICS);
    assert_nic(&out[0], "mlx5_0", HMREG_DISTANCE_UNKNOWN, "PCI address of the device is unknown");
    place.pci = pci("77:00.0");
    all(&place, out, SYNTHETIC_NICS);
    assert_nic(&out[5], "mlx5_5", HMREG_DISTANCE_UNKNOWN, "no PCI device 0000:77:00.0");
}

TEST(affinity__of_device_memory__at_its_device)
{
    static char memory[4096];
    struct hmreg_place place = at_memory(memory, sizeof(memory));
    struct hmreg_nic_affinity out[1];

    begin();
    vendor_claim(HMREG_IFACE_CUDA, memory, sizeof(memory), HMREG_MEM_DEVICE, 0);
    all(&place, out, 1);
    assert_nic(&out[0], "mlx5_1", HMREG_DISTANCE_SWITCH, "");
    vendors_reset();
    vendor_claim(HMREG_IFACE_ZE, memory, sizeof(memory), HMREG_MEM_MANAGED, 1);
    all(&place, out, 1);
    assert_nic(&out[0], "mlx5_4", HMREG_DISTANCE_HOST_BRIDGE, "");
}

/* All memory of this machine is on node 0 if it has one node; the synthetic one has node 0, too. */
TEST(affinity__of_host_memory__at_the_node_of_its_pages)
{
    size_t len = 300 * (size_t)sysconf(_SC_PAGESIZE);
    char *memory = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct hmreg_place place = at_memory(memory + 1, len - 2);
    struct hmreg_nic_affinity out[1];

    begin();
    assert_ptr_not_equal(memory, MAP_FAILED);
    all(&place, out, 1);
    assert_nic(&out[0], "mlx5_0", HMREG_DISTANCE_UNKNOWN, "the node of the memory is unknown: ");
    memset(memory, 1, len);
    all(&place, out, 1);
    if (strstr(out[0].reason, "move_pages"))
        print_message("%s\n", out[0].reason);
    else if (!access("/sys/devices/system/node/node1", F_OK))
        assert_true(out[0].distance == HMREG_DISTANCE_NUMA_NODE);
    else
        assert_nic(&out[0], "mlx5_0", HMREG_DISTANCE_NUMA_NODE, "both are on NUMA node 0");
    munmap(memory, len);
}

/* ---- arguments -------------------------------------------------------------------------- */

TEST(affinity__wrong_argument__inval)
{
    struct hmreg_place place = at_node(0), wrong = at_node(-1);
    struct hmreg_nic_affinity out[1] = {{.size = sizeof(out[0])}};
    const char *nics[] = {"mlx5_0", NULL};
    struct hmreg_topology *topology;
    size_t count = 1, zero = 0;

    begin();
    topology = fixture.topology;
    assert_fails(hmreg_topology_order_nics(NULL, &place, NULL, 0, out, &count), -EINVAL,
                 "topology");
    assert_fails(hmreg_topology_order_nics(topology, NULL, NULL, 0, out, &count), -EINVAL,
                 "place is NULL");
    assert_fails(hmreg_topology_order_nics(topology, &place, NULL, 0, out, NULL), -EINVAL, "count");
    assert_fails(hmreg_topology_order_nics(topology, &place, NULL, 0, out, &zero), -EINVAL,
                 "*count is 0");
    assert_fails(hmreg_topology_order_nics(topology, &place, NULL, 3, out, &count), -EINVAL,
                 "nics is NULL");
    assert_fails(hmreg_topology_order_nics(topology, &place, nics, 2, out, &count), -EINVAL,
                 "nics[1]");
    assert_fails(hmreg_topology_order_nics(topology, &wrong, NULL, 0, out, &count), -EINVAL,
                 "numa_node");
    wrong.numa_node = 2;
    assert_fails(hmreg_topology_order_nics(topology, &wrong, NULL, 0, out, &count), -ENODEV,
                 "NUMA node 2");
    wrong.kind = (enum hmreg_place_kind)0;
    assert_fails(hmreg_topology_order_nics(topology, &wrong, NULL, 0, out, &count), -EINVAL,
                 "place->kind");
    wrong.size = 4;
    assert_fails(hmreg_topology_order_nics(topology, &wrong, NULL, 0, out, &count), -EINVAL,
                 "size");
    wrong = at_memory(out, 0);
    assert_fails(hmreg_topology_order_nics(topology, &wrong, NULL, 0, out, &count), -EINVAL, "len");
    wrong = at_memory((void *)1, 1);
    assert_fails(hmreg_topology_order_nics(topology, &wrong, NULL, 0, out, &count), -EFAULT,
                 "mapped");
    out[0].size--;
    assert_fails(hmreg_topology_order_nics(topology, &place, NULL, 0, out, &count), -EINVAL,
                 "size");
    assert_int_equal(count, 1);
}

TEST(affinity__topology_without_a_library__no_memory_and_no_device)
{
    char at = 0;
    struct hmreg_place place = at_memory(&at, 1);
    struct hmreg_nic_affinity out[1] = {{.size = sizeof(out[0])}};
    struct hmreg_topology *topology;
    size_t count = 1;

    assert_ok(hmreg_topology_open(NULL, NULL, &topology));
    assert_fails(hmreg_topology_order_nics(topology, &place, NULL, 0, out, &count), -EINVAL,
                 "MEMORY needs");
    place.kind = HMREG_PLACE_DEVICE;
    assert_fails(hmreg_topology_order_nics(topology, &place, NULL, 0, out, &count), -EINVAL,
                 "DEVICE needs");
    hmreg_topology_close(topology);
}

TEST(open__wrong_argument__refused)
{
    struct hmreg_topology_config config = {.size = sizeof(config), .xml = "/nowhere/at/all"};
    struct hmreg_topology *topology = (void *)1;
    char path[32];

    assert_fails(hmreg_topology_open(NULL, NULL, NULL), -EINVAL, "out");
    if (hmreg_topology_open(NULL, &config, &topology) != -EOPNOTSUPP) {
        assert_fails(hmreg_topology_open(NULL, &config, &topology), -ENOENT, "/nowhere/at/all");
        synthetic_write(path, "<topology><object type=\"Ma");
        config.xml = path;
        assert_fails(hmreg_topology_open(NULL, &config, &topology), -EINVAL, "lstopo");
        unlink(path);
        config.xml = "/tmp";
        assert_fails(hmreg_topology_open(NULL, &config, &topology), -EINVAL, "lstopo");
    }
    config.root = "/";
    assert_fails(hmreg_topology_open(NULL, &config, &topology), -EINVAL, "both xml and root");
    config.size = 3;
    assert_fails(hmreg_topology_open(NULL, &config, &topology), -EINVAL, "size");
    assert_ptr_equal(topology, (void *)1);
    hmreg_topology_close(NULL);
}

TEST(open__unreadable_file__eacces)
{
    struct hmreg_topology_config config = {.size = sizeof(config)};
    struct hmreg_topology *topology;
    char path[32];
    int status;
    pid_t child;

    synthetic_machine(path, 21);
    config.xml = path;
    if (hmreg_topology_open(NULL, &config, &topology) == -EOPNOTSUPP) {
        unlink(path);
        test_skip("%s", hmreg_last_error()->text);
    }
    hmreg_topology_close(topology);
    child = fork();
    if (!child) /* root may read everything; mkstemp(3) lets its owner only */
        _exit(geteuid() == 0 && setuid(65534)
                  ? 2
                  : hmreg_topology_open(NULL, &config, &topology) != -EACCES);
    assert_int_equal(waitpid(child, &status, 0), child);
    if (geteuid() == 0)
        assert_int_equal(status, 0);
    unlink(path);
}

TEST(open__in_a_forked_child__eperm)
{
    char at = 0;
    struct hmreg_place place = at_node(0), memory = at_memory(&at, 1);
    struct hmreg_topology *other;
    struct hmreg_nic_affinity out[1] = {{.size = sizeof(out[0])}};
    size_t count = 1;

    test_forks_wipe();
    begin();
    test_in_child(hmreg_topology_open(fixture.lib, NULL, &other) != -EPERM ||
                  hmreg_topology_order_nics(fixture.topology, &memory, NULL, 0, out, &count) !=
                      -EPERM ||
                  hmreg_topology_order_nics(fixture.topology, &place, NULL, 0, out, &count) != 0);
}

TEST_MAIN()
