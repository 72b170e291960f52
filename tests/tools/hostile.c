/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 * Trees of /sys and /proc with contents that no kernel writes: the doctor reads them without a
 * crash, and its JSON can be printed. */
#include "tests/tools/tool.h"
#include "tests/tools/tree.h"
#include "tools/doctor/doctor.h"
#include "tools/doctor/findings.h"
#include "tools/document.h"
#include "tools/root.h"

#include <fcntl.h>
#include <hmreg/affinity.h>
#include <sys/stat.h>

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
    facts = tool_keep(nics_facts());
    port = json_array_get(json_object_get(json_array_get(facts, 0), "ports"), 0);
    assert_string_equal(doc_words(port, "state"), "???");
    assert_can_be_written(facts);
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
    facts = tool_keep(gpus_facts());
    assert_int_equal(json_array_size(facts), 1);
    assert_can_be_written(facts);
}

TEST(finding__read_at_a_path_that_is_not_utf8__printable)
{
    json_t *findings = tool_keep(json_array());

    finding_add(findings, "page-size", "/sys/\xc3", "%s", "Pages\xff");
    assert_string_equal(doc_words(json_array_get(findings, 0), "read_at"), "/sys/?");
    assert_can_be_written(findings);
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
    neighbour = tool_keep(root_target_fact("/sys/class/infiniband/%s/device", "n0"));
    inside = tool_keep(root_target_fact("/sys/class/infiniband/%s/device", "n1"));
    assert_true(json_is_null(neighbour));
    assert_string_equal(json_string_value(inside), "0000:41:00.0");
    rmdir(beside);
}

/* ---- a tree that another user has made --------------------------------------------------- */

#define NIC_DEVICE "pci0000:40/0000:40:02.0"

/* A file beside the tree that only this user reads; the tree's links lead to it. */
static void tree_begin_beside(char beside[256])
{
    tree_begin();
    snprintf(beside, 256, "%s.beside", root_prefix());
    assert_int_equal(mkdir(beside, 0700), 0);
    strcat(beside, "/secret");
    close(open(beside, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
}

static void tree_end_beside(char *beside)
{
    unlink(beside);
    *strrchr(beside, '/') = '\0';
    rmdir(beside);
}

static void write_secret(const char *beside, const char *words)
{
    FILE *file = fopen(beside, "we");

    assert_non_null(file);
    fputs(words, file);
    fclose(file);
}

TEST(link__to_a_file_outside__nothing_of_it_is_read)
{
    static const char nic[] = "/sys/class/infiniband/n0";
    char beside[256], path[512], words[64], folder[128];
    json_t *fact, *names;

    tree_begin_beside(beside);
    write_secret(beside, "a secret");
    tree_link("/sys/class/infiniband/n0/fw_ver", beside);
    tree_link("/sys/class/infiniband/n0/up", "../../../..");
    snprintf(folder, sizeof(folder), "%s.beside", strrchr(root_prefix(), '/') + 1);
    fact = tool_keep(root_text_fact("%s/fw_ver", nic));
    assert_true(json_is_null(fact));
    assert_false(root_exists("%s/fw_ver", nic));
    assert_string_equal(root_state("/sys/class/infiniband/n0/fw_ver"), "missing");
    assert_int_equal(root_bytes(words, sizeof(words), "%s/fw_ver", nic), 0);
    /* By a folder that is a link, with ".." and without. */
    assert_false(root_read(words, sizeof(words), "%s/up/../%s/secret", nic, folder));
    *strrchr(beside, '/') = '\0';
    tree_link("/sys/class/infiniband/n1", beside);
    names = tool_keep(root_list("/sys/class/infiniband/n1"));
    assert_int_equal(json_array_size(names), 0);
    snprintf(path, sizeof(path), "%s/link", beside);
    assert_int_equal(symlink("elsewhere", path), 0);
    assert_false(root_link(words, sizeof(words), "/sys/class/infiniband/n1/link"));
    unlink(path);
    strcat(beside, "/secret");
    tree_end_beside(beside);
}

/* An absolute one, ".." above the root, and a chain of 40, as many as Linux follows. */
TEST(link__within_the_tree__followed_from_its_root)
{
    char name[64], target[64], words[64];

    tree_begin();
    tree_file("/devices/n0/fw_ver", "1.2\n");
    tree_link("/sys/class/infiniband/n0", "/devices/n0");
    tree_link("/sys/class/infiniband/n1", "../../../../../../../devices/./n0/");
    assert_true(root_read(words, sizeof(words), "/sys/class/infiniband/n0/fw_ver"));
    assert_string_equal(words, "1.2");
    assert_true(root_read(words, sizeof(words), "/sys//class/infiniband/n1/fw_ver"));
    assert_string_equal(words, "1.2");
    for (int i = 1; i <= 41; i++) {
        snprintf(name, sizeof(name), "/devices/n%d", i);
        snprintf(target, sizeof(target), "n%d", i - 1);
        tree_link(name, target);
    }
    assert_true(root_exists("/devices/n40/fw_ver"));
    assert_false(root_exists("/devices/n41/fw_ver"));
    tree_link("/devices/round", "round");
    assert_false(root_exists("/devices/round"));
}

/* A pipe that has no writer: opening it for reading would wait. */
static void make_pipe(const char *below)
{
    char path[512];

    tree_file(below, "");
    tree_remove(below);
    snprintf(path, sizeof(path), "%s%s", root_prefix(), below);
    assert_int_equal(mkfifo(path, 0600), 0);
}

TEST(pipe__in_the_tree__no_file_and_no_wait)
{
    struct hmreg_topology_config config = {.size = sizeof(config)};
    struct hmreg_topology *topology;
    json_t *facts;

    tree_begin();
    tree_nic("n0", NIC_DEVICE);
    tree_pci(NIC_DEVICE, "0x020000\n", "0x15b3\n");
    tree_remove("/sys/class/infiniband/n0/ports/1/state");
    make_pipe("/sys/class/infiniband/n0/ports/1/state");
    make_pipe("/sys/class/infiniband/n0/fw_ver");
    make_pipe("/proc/self/status");
    tree_remove("/sys/devices/" NIC_DEVICE "/numa_node");
    make_pipe("/sys/devices/" NIC_DEVICE "/numa_node");
    tree_folder("/sys/devices/system/node/node0");
    make_pipe("/sys/devices/system/node/node0/distance");
    facts = tool_keep(nics_facts());
    assert_int_equal(json_array_size(facts), 1);
    assert_true(json_is_null(json_object_get(json_array_get(facts, 0), "firmware")));
    tool_keep(process_facts(NULL));
    config.root = root_prefix();
    assert_ok(hmreg_topology_open(NULL, &config, &topology));
    hmreg_topology_close(topology);
}

/* Places come from the tree too: a number behind a link out of it is none of its nodes. */
TEST(topology__links_out_of_the_tree__unknown_places)
{
    const struct hmreg_pci pci = {.valid = 1, .bus = 0x40, .device = 2};
    struct hmreg_pci_place place = {.size = sizeof(place)};
    struct hmreg_topology_config config = {.size = sizeof(config)};
    struct hmreg_topology *topology;
    char beside[256];

    tree_begin_beside(beside);
    write_secret(beside, "7\n");
    tree_pci(NIC_DEVICE, "0x020000\n", "0x15b3\n");
    tree_remove("/sys/devices/" NIC_DEVICE "/numa_node");
    tree_link("/sys/devices/" NIC_DEVICE "/numa_node", beside);
    config.root = root_prefix();
    assert_ok(hmreg_topology_open(NULL, &config, &topology));
    assert_ok(hmreg_topology_place(topology, &pci, &place));
    assert_int_equal(place.numa_node, -1);
    assert_string_equal(place.host_bridge, "pci0000:40");
    hmreg_topology_close(topology);
    tree_end_beside(beside);
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
    facts = tool_keep(process_facts(NULL));
    assert_true(doc_is(facts, "ipc_lock"));
    /* In another namespace the same capability exempts from nothing. */
    tree_remove("/proc/self/ns/user");
    tree_link("/proc/self/ns/user", "user:[4026532500]");
    facts = tool_keep(process_facts(NULL));
    assert_false(doc_is(facts, "ipc_lock"));
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
    facts = tool_keep(gpus_facts());
    assert_int_equal(json_array_size(facts), 3);
    for (size_t i = 0; i < 3; i++)
        assert_string_equal(doc_words(json_array_get(facts, i), "pci"), found[i]);
}

TEST_MAIN()
