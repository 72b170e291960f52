/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See synthetic.h. The words are those of hwloc 2's XML.
 */
#include "tests/support/synthetic.h"

#include "tests/support/test.h"

void synthetic_write(char path[32], const char *text)
{
    int fd;

    strcpy(path, "/tmp/hmreg-xmlXXXXXX");
    fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    close(fd);
}

/* ---- objects ---------------------------------------------------------------------------- */

static char text[32768];
static size_t used;
static unsigned number; /* of the object */

#define ADD(...) used += (size_t)snprintf(text + used, sizeof(text) - used, __VA_ARGS__)

static void begin(void)
{
    used = number = 0;
    ADD("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<!DOCTYPE topology SYSTEM "
        "\"hwloc2.dtd\">\n<topology version=\"2.0\">\n");
}

static void end(void)
{
    ADD("</object>\n");
}

static void add_set(const char *type, unsigned index, unsigned set)
{
    ADD("<object type=\"%s\" os_index=\"%u\" cpuset=\"%#x\" complete_cpuset=\"%#x\" "
        "nodeset=\"%#x\" complete_nodeset=\"%#x\" gp_index=\"%u\"",
        type, index, set, set, set, set, ++number);
}

static void begin_machine(unsigned set)
{
    add_set("Machine", 0, set);
    ADD(" allowed_cpuset=\"%#x\" allowed_nodeset=\"%#x\">\n", set, set);
}

static void begin_package(unsigned index)
{
    add_set("Package", index, 1u << index);
    ADD(">\n");
    add_set("NUMANode", index, 1u << index);
    ADD(" local_memory=\"1073741824\"/>\n");
    add_set("Core", index, 1u << index);
    ADD(">\n");
    add_set("PU", index, 1u << index);
    ADD("/>\n");
    end();
}

static void begin_host_bridge(unsigned bus)
{
    ADD("<object type=\"Bridge\" gp_index=\"%u\" bridge_type=\"0-1\" depth=\"0\" "
        "bridge_pci=\"0000:[%02x-%02x]\">\n",
        ++number, bus, bus + 0x3f);
}

static void begin_bridge(const char *pci, unsigned depth)
{
    ADD("<object type=\"Bridge\" gp_index=\"%u\" bridge_type=\"1-1\" depth=\"%u\" "
        "bridge_pci=\"0000:[01-3f]\" pci_busid=\"0000:%s\" pci_type=\"0604 [8086:2030] "
        "[0000:0000] 00\" pci_link_speed=\"0.0\">\n",
        ++number, depth, pci);
}

static void add_device(const char *pci, const char *class, const char *rdma, const char *interface)
{
    ADD("<object type=\"PCIDev\" gp_index=\"%u\" pci_busid=\"0000:%s\" pci_type=\"%s [15b3:1017] "
        "[0000:0000] 00\" pci_link_speed=\"0.0\">\n",
        ++number, pci, class);
    if (interface)
        ADD("<object type=\"OSDev\" gp_index=\"%u\" name=\"%s\" osdev_type=\"2\"/>\n", ++number,
            interface);
    if (rdma)
        ADD("<object type=\"OSDev\" gp_index=\"%u\" name=\"%s\" osdev_type=\"3\"/>\n", ++number,
            rdma);
    end();
}

static void add_gpu(const char *pci)
{
    add_device(pci, "0302", NULL, NULL);
}

static void add_nic(const char *pci, const char *name)
{
    add_device(pci, "0207", name, NULL);
}

static void end_topology(unsigned nodes, const char *distances)
{
    end(); /* the machine */
    ADD("<distances2 type=\"NUMANode\" nbobjs=\"%u\" kind=\"5\" name=\"NUMALatency\" "
        "indexing=\"os\"><indexes length=\"%u\">",
        nodes, 2 * nodes);
    for (unsigned i = 0; i < nodes; i++)
        ADD("%u ", i);
    ADD("</indexes><u64values length=\"%zu\">%s</u64values></distances2>\n</topology>\n",
        strlen(distances), distances);
}

/* ---- machines --------------------------------------------------------------------------- */

static void add_switches(void)
{
    begin_bridge("00:01.0", 1);
    begin_bridge("10:00.0", 2);
    begin_bridge("11:00.0", 3);
    add_gpu("01:00.0");
    end();
    begin_bridge("11:02.0", 3);
    begin_bridge("14:00.0", 4);
    begin_bridge("15:00.0", 5);
    add_nic("16:00.0", "mlx5_0");
    end();
    end();
    end();
    begin_bridge("11:01.0", 3);
    add_nic("13:00.0", "mlx5_1");
    end();
    end();
    end();
}

static void add_first_package(void)
{
    begin_package(0);
    begin_host_bridge(0);
    add_switches();
    begin_bridge("00:02.0", 1);
    add_device("20:00.0", "0207", "mlx5_2", "ens2");
    end();
    end();
    begin_host_bridge(0x40);
    begin_bridge("40:01.0", 1);
    add_nic("41:00.0", "mlx5_3");
    end();
    end();
    end();
}

static void add_second_package(void)
{
    begin_package(1);
    begin_host_bridge(0x80);
    begin_bridge("80:01.0", 1);
    add_gpu("02:00.0");
    end();
    begin_bridge("80:02.0", 1);
    add_nic("82:00.0", "mlx5_4");
    end();
    end();
    end();
}

void synthetic_machine(char path[32], unsigned far)
{
    char distances[64];

    begin();
    begin_machine(3);
    add_first_package();
    add_second_package();
    begin_host_bridge(0xc0);
    add_nic("c1:00.0", "mlx5_5");
    end();
    snprintf(distances, sizeof(distances), "10 %u %u 10 ", far, far);
    end_topology(2, distances);
    synthetic_write(path, text);
}

void synthetic_four_nodes(char path[32])
{
    begin();
    begin_machine(15);
    for (unsigned node = 0; node < 4; node++) {
        char pci[16], name[16];

        begin_package(node);
        begin_host_bridge(0x40 * node);
        snprintf(pci, sizeof(pci), "%02x:00.0", 0x40 * node + 1);
        snprintf(name, sizeof(name), "nic%u", node);
        add_nic(pci, name);
        end();
        end();
    }
    end_topology(4, "10 32 12 32 32 10 32 12 12 32 10 32 32 12 32 10 ");
    synthetic_write(path, text);
}

static void add_gpu_and_nics(unsigned gpu)
{
    char pci[16], name[16];

    snprintf(pci, sizeof(pci), "%02x:%02x.0", gpu < 4 ? 0 : 0x80, gpu + 1);
    begin_bridge(pci, 1);
    snprintf(pci, sizeof(pci), "%02x:00.0", 0x10 + gpu);
    begin_bridge(pci, 2);
    snprintf(pci, sizeof(pci), "%02x:00.0", gpu + 1);
    add_gpu(pci);
    for (unsigned nic = gpu; nic < 32; nic += 8) {
        snprintf(pci, sizeof(pci), "%02x:00.0", 0x20 + nic);
        snprintf(name, sizeof(name), "nic%u", nic);
        add_nic(pci, name);
    }
    end();
    end();
}

void synthetic_rails(char path[32])
{
    begin();
    begin_machine(3);
    for (unsigned node = 0; node < 2; node++) {
        begin_package(node);
        begin_host_bridge(0x80 * node);
        for (unsigned gpu = 4 * node; gpu < 4 * node + 4; gpu++)
            add_gpu_and_nics(gpu);
        end();
        end();
    }
    end_topology(2, "10 20 20 10 ");
    synthetic_write(path, text);
}
