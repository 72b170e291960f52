/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 * Places of PCI devices and the distances between them: distances of places that the test gives,
 * and the places of this machine's devices, which hwloc and sysfs must report alike. */
#include "tests/support/test.h"
#include "tests/tools/machine.h"
#include "tools/document.h"
#include "tools/root.h"
#include "tools/topology.h"

#include <string.h>

static void assert_distance(const char *one, const char *other, const char *expected)
{
    json_t *ours = json_of(one), *theirs = json_of(other);

    assert_string_equal(topology_distance(ours, theirs), expected);
    assert_string_equal(topology_distance(theirs, ours), expected);
    json_decref(ours);
    json_decref(theirs);
}

#define GPU                                                                                        \
    "{'pci': '0000:05:00.0', 'root': 'pci0000:00', 'numa_node': 0,"                                \
    " 'bridges': ['0000:00:01.0', '0000:02:00.0', '0000:03:01.0']}"

static void distance__each_word(void **state)
{
    assert_distance(GPU, GPU, "X");
    /* Next to it below the switch; on the switch's other port; directly below the root port. */
    assert_distance(GPU,
                    "{'pci': '0000:05:00.1', 'root': 'pci0000:00', 'numa_node': 0, 'bridges': "
                    "['0000:00:01.0', '0000:02:00.0', '0000:03:01.0']}",
                    "PIX");
    assert_distance(GPU,
                    "{'pci': '0000:06:00.0', 'root': 'pci0000:00', 'numa_node': 0, 'bridges': "
                    "['0000:00:01.0', '0000:02:00.0', '0000:03:02.0']}",
                    "PIX");
    assert_distance(GPU,
                    "{'pci': '0000:09:00.0', 'root': 'pci0000:00', 'numa_node': 0, 'bridges': "
                    "['0000:00:01.0', '0000:02:01.0', '0000:07:00.0', '0000:08:01.0']}",
                    "PXB");
    assert_distance(GPU,
                    "{'pci': '0000:0a:00.0', 'root': 'pci0000:00', 'numa_node': 0, 'bridges': "
                    "['0000:00:02.0']}",
                    "PHB");
    assert_distance(GPU, "{'pci': 'a', 'root': 'pci0000:40', 'numa_node': 0, 'bridges': []}",
                    "NODE");
    assert_distance(GPU, "{'pci': 'a', 'root': 'pci0000:80', 'numa_node': 1, 'bridges': []}",
                    "SYS");
}

static void distance__unknown_place__question_mark(void **state)
{
    assert_distance(GPU, "{'pci': null, 'root': null, 'numa_node': null, 'bridges': []}", "?");
    assert_distance(GPU, "{'pci': 'a', 'root': 'pci0000:80', 'numa_node': null, 'bridges': []}",
                    "?");
    assert_string_equal(topology_distance(NULL, NULL), "?");
}

static void distance__every_word_is_in_the_legend_nearest_first(void **state)
{
    static const char *const words[] = {"X", "PIX", "PXB", "PHB", "NODE", "SYS", "?"};

    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        assert_int_equal(topology_rank(words[i]), i);
        assert_true(strlen(topology_distances[i].meaning) > 10);
    }
}

/* hwloc may know a NUMA node that sysfs does not; if both know one, they agree. */
static void assert_same_place(const char *pci, json_t *by_sysfs, json_t *by_hwloc)
{
    const json_t *from_sysfs = json_object_get(by_sysfs, "numa_node");

    if (!by_sysfs)
        fail_msg("sysfs does not know %s, which hwloc does", pci);
    assert_string_equal(doc_words(by_hwloc, "root"), doc_words(by_sysfs, "root"));
    assert_true(
        json_equal(json_object_get(by_hwloc, "bridges"), json_object_get(by_sysfs, "bridges")));
    if (!json_is_null(from_sysfs))
        assert_true(json_equal(from_sysfs, json_object_get(by_hwloc, "numa_node")));
}

static void places__hwloc_and_sysfs_agree(void **state)
{
    json_t *names = root_list("/sys/bus/pci/devices"), *name;
    size_t i, compared = 0;

    json_array_foreach(names, i, name) {
        const char *pci = json_string_value(name);
        json_t *by_hwloc = place_by_hwloc(pci), *by_sysfs = place_by_sysfs(pci);

        if (by_hwloc) {
            assert_same_place(pci, by_sysfs, by_hwloc);
            compared++;
        }
        json_decref(by_hwloc);
        json_decref(by_sysfs);
    }
    json_decref(names);
    if (!compared)
        test_skip("hwloc knows no PCI device here, or is not built in");
}

static void place__no_such_device__none(void **state)
{
    assert_null(place_by_sysfs("ffff:ff:1f.7"));
    assert_null(place_by_hwloc("ffff:ff:1f.7"));
}

TEST_MAIN(TEST(distance__each_word), TEST(distance__unknown_place__question_mark),
          TEST(distance__every_word_is_in_the_legend_nearest_first),
          TEST(places__hwloc_and_sysfs_agree), TEST(place__no_such_device__none))
