/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 * Trees of /sys and /proc with contents that no kernel writes: the doctor reads them without a
 * crash, and its JSON can be printed. */
#include "tests/support/test.h"
#include "tests/tools/tree.h"
#include "tools/doctor/doctor.h"
#include "tools/doctor/findings.h"
#include "tools/document.h"
#include "tools/root.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void assert_can_be_written(const json_t *facts)
{
    char *text = json_dumps(facts, 0);

    assert_non_null(text);
    free(text);
}

TEST(port_state__not_utf8__question_marks)
{
    json_t *facts, *port;

    tree_begin();
    tree_file("/sys/class/infiniband/n0/ports/1/state", "4: \xff\033\xfe");
    facts = nics_facts();
    port = json_array_get(json_object_get(json_array_get(facts, 0), "ports"), 0);
    assert_string_equal(doc_words(port, "state"), "???");
    assert_can_be_written(facts);
    json_decref(facts);
    tree_end();
}

/* Longer than the room for it, so that the copy ends within a character. */
TEST(device_file__with_a_long_name__in_the_facts)
{
    char path[512] = "/dev/nvidia0";
    json_t *facts;

    for (size_t i = strlen(path); i < 240; i += 2)
        strcpy(path + i, "\u00e9");
    tree_begin();
    tree_pci("pci0000:00/0000:05:00.0", "0x030200\n", "0x10de\n");
    tree_file(path, "");
    facts = gpus_facts();
    assert_int_equal(json_array_size(facts), 1);
    assert_can_be_written(facts);
    json_decref(facts);
    tree_end();
}

TEST(finding__read_at_a_path_that_is_not_utf8__printable)
{
    json_t *findings = json_array();

    finding_add(findings, "page-size", "/sys/\xc3", "%s", "Pages\xff");
    assert_string_equal(doc_words(json_array_get(findings, 0), "read_at"), "/sys/?");
    assert_can_be_written(findings);
    json_decref(findings);
}

/* The functions read below the tree's root, and nothing outside it. */
TEST(link__into_a_neighbour_of_the_root__not_followed)
{
    json_t *neighbour, *inside;
    char beside[256];

    tree_begin();
    snprintf(beside, sizeof(beside), "%s.beside", root_prefix());
    assert_int_equal(mkdir(beside, 0700), 0);
    tree_link("/sys/class/infiniband/n0/device", beside);
    tree_folder("/devices/0000:41:00.0");
    tree_link("/sys/class/infiniband/n1/device", "../../../../devices/0000:41:00.0");
    neighbour = root_target_fact("/sys/class/infiniband/%s/device", "n0");
    inside = root_target_fact("/sys/class/infiniband/%s/device", "n1");
    assert_true(json_is_null(neighbour));
    assert_string_equal(json_string_value(inside), "0000:41:00.0");
    json_decref(neighbour);
    json_decref(inside);
    rmdir(beside);
    tree_end();
}

TEST(status__of_a_user_of_many_groups__capabilities_are_read)
{
    char *status = malloc(1 << 17), *end = status;
    json_t *facts;

    assert_non_null(status);
    end += sprintf(end, "Name:\thmreg\nGroups:\t");
    for (unsigned i = 0; i < 10000; i++)
        end += sprintf(end, "%u ", 1000000000 + i);
    sprintf(end, "\nCapEff:\t0000000000004000\n");
    tree_begin();
    tree_file("/proc/self/status", status);
    tree_link("/proc/self/ns/user", "user:[4026531837]");
    facts = process_facts();
    assert_true(doc_is(facts, "ipc_lock"));
    json_decref(facts);
    /* In another namespace the same capability exempts from nothing. */
    tree_remove("/proc/self/ns/user");
    tree_link("/proc/self/ns/user", "user:[4026532500]");
    facts = process_facts();
    assert_false(doc_is(facts, "ipc_lock"));
    json_decref(facts);
    tree_end();
    free(status);
}

/* A cloud's virtual machine has its GPUs on the root bus, where integrated ones are, too. */
TEST(gpus__on_the_root_bus__all_but_integrated_ones)
{
    static const char *const found[] = {"0000:00:01.0", "0000:00:1e.0", "0000:00:1f.0"};
    json_t *facts;

    tree_begin();
    tree_pci("pci0000:00/0000:00:01.0", "0x120000\n", "0x1002\n");
    tree_pci("pci0000:00/0000:00:02.0", "0x030000\n", "0x8086\n");
    tree_pci("pci0000:00/0000:00:03.0", "0x030000\n", "0x1002\n");
    tree_folder("/sys/bus/pci/drivers/radeon");
    tree_link("/sys/bus/pci/devices/0000:00:03.0/driver", "../../../bus/pci/drivers/radeon");
    tree_pci("pci0000:00/0000:00:04.0", "0x030000\n", "0x1234\n");
    tree_pci("pci0000:00/0000:00:1e.0", "0x030200\n", "0x10de\n");
    tree_pci("pci0000:00/0000:00:1f.0", "0x038000\n", "0x8086\n");
    facts = gpus_facts();
    assert_int_equal(json_array_size(facts), 3);
    for (size_t i = 0; i < 3; i++)
        assert_string_equal(doc_words(json_array_get(facts, i), "pci"), found[i]);
    json_decref(facts);
    tree_end();
}

TEST_MAIN()
