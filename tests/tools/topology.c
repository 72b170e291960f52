/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 * The facts of the PCI tree, of a tree that the test makes; places and distances themselves are
 * those of unit_affinity and unit_topology. */
#include "tests/tools/tool.h"
#include "tests/tools/machine.h"
#include "tests/tools/tree.h"
#include "tools/document.h"
#include "tools/topology.h"

TEST(rank__of_each_word__nearest_first)
{
    static const char *const words[] = {"X", "PIX", "PXB", "PHB", "NODE", "SYS", "?"};

    for (size_t i = 0; i < COUNT(words); i++)
        assert_int_equal(topology_rank(words[i]), i);
    assert_int_equal(topology_rank("no such word"), COUNT(words) - 1);
}

static json_t *facts_of(const char *devices, const char *nics)
{
    return tool_keep(topology_facts(tool_keep(json_of(devices)), tool_keep(json_of(nics))));
}

static const json_t *affinity_of(const json_t *facts, const char *place)
{
    return json_object_get(doc_find(json_object_get(facts, "affinity"), "of", place), "nics");
}

TEST(facts__of_a_tree__places_distances_and_nearest)
{
    const json_t *nearest, *gpu;
    json_t *facts;

    tree_begin();
    tree_pci("pci0000:00/0000:00:01.0/0000:01:00.0", "0x030200", "0x10de");
    tree_pci("pci0000:00/0000:00:01.0/0000:02:00.0", "0x020700", "0x15b3");
    tree_pci("pci0000:40/0000:41:00.0", "0x020700", "0x15b3");
    tree_file("/sys/devices/pci0000:40/0000:41:00.0/numa_node", "1\n");
    tree_nic("far", "pci0000:40/0000:41:00.0");
    tree_nic("near", "pci0000:00/0000:00:01.0/0000:02:00.0");
    tree_file("/sys/devices/system/node/node0/distance", "10 21\n");
    tree_file("/sys/devices/system/node/node1/distance", "21 10\n");
    facts = facts_of("[{'iface': 'cuda', 'device': 0, 'pci': '0000:01:00.0'}]",
                     "[{'name': 'far', 'pci': '0000:41:00.0'}, {'name': 'near', 'pci': "
                     "'0000:02:00.0'}, {'name': 'rxe0', 'pci': null}]");
    gpu = json_array_get(json_object_get(facts, "members"), 0);
    assert_string_equal(doc_words(gpu, "root"), "pci0000:00");
    assert_string_equal(json_string_value(json_array_get(json_object_get(gpu, "bridges"), 0)),
                        "0000:00:01.0");
    assert_string_equal(
        doc_words(json_array_get(json_object_get(facts, "distances"), 0), "distance"), "SYS");
    nearest = affinity_of(facts, "cuda 0");
    assert_string_equal(doc_words(json_array_get(nearest, 0), "nic"), "near");
    assert_string_equal(doc_words(json_array_get(nearest, 0), "distance"), "PIX");
    assert_int_equal(doc_number(json_array_get(nearest, 1), "numa_distance"), 21);
    assert_string_equal(doc_words(json_array_get(nearest, 2), "reason"),
                        "the topology has no NIC rxe0");
    assert_string_equal(doc_words(json_array_get(affinity_of(facts, "node 1"), 0), "nic"), "far");
}

TEST(facts__no_pci_address__unknown)
{
    json_t *facts;
    const json_t *member;

    tree_begin();
    facts = facts_of("[{'iface': 'ze', 'device': 0, 'pci': null}]",
                     "[{'name': 'mlx5_0', 'pci': 'nonsense'}]");
    doc_each(member, json_object_get(facts, "members")) {
        assert_false(doc_has(member, "root"));
        assert_false(doc_has(member, "numa_node"));
        assert_int_equal(json_array_size(json_object_get(member, "bridges")), 0);
    }
    assert_string_equal(
        doc_words(json_array_get(json_object_get(facts, "distances"), 0), "distance"), "?");
}

TEST_MAIN()
