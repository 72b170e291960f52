/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A tree of /sys, /proc and /dev: a good machine's, in which the bytes replace files, links and
 * names. The doctor reads it and judges it, and its document is JSON.
 */
#include "tests/fuzz/targets/target.h"
#include "tests/support/test.h"
#include "tests/tools/tree.h"
#include "tools/doctor/doctor.h"
#include "tools/doctor/findings.h"
#include "tools/document.h"
#include "tools/root.h"
#include "tools/topology.h"

#include <sys/stat.h>

#define PCI "/sys/bus/pci/devices/0000:42:00.0"
#define NIC "/sys/class/infiniband/n0"

static const char *const files[] = {
    "/proc/driver/nvidia/version",
    "/proc/self/limits",
    "/proc/self/status",
    "/proc/sys/kernel/numa_balancing",
    "/proc/sys/kernel/osrelease",
    "/proc/config.gz",
    "/run/systemd/container",
    PCI "/class",
    PCI "/vendor",
    PCI "/config",
    PCI "/resource",
    PCI "/numa_node",
    PCI "/iommu_group/type",
    NIC "/fw_ver",
    NIC "/ports/1/state",
    NIC "/device/numa_node",
    "/sys/class/infiniband_verbs/uverbs0/ibdev",
    "/sys/devices/system/node/node0/distance",
    "/sys/devices/system/node/node1/distance",
    "/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages",
    "/sys/kernel/mm/transparent_hugepage/enabled",
    "/sys/kernel/mm/memory_peers/nv_mem/version",
    "/sys/module/nvidia/version",
    "/boot/config-6.8.0",
    "/dev/nvidia0",
    "/dev/infiniband/uverbs0",
    "/sys/class/net/eth0/device/numa_node",
};
#define FILES (sizeof(files) / sizeof(files[0]))

static const char *const folders[] = {
    "/sys/bus/pci/devices/",
    "/sys/class/infiniband/",
    "/sys/class/infiniband_verbs/",
    "/sys/class/net/",
    "/sys/devices/system/node/",
    "/sys/kernel/mm/hugepages/",
    "/sys/class/infiniband/n0/ports/",
    "/sys/kernel/mm/memory_peers/",
    "/dev/infiniband/",
};
#define FOLDERS (sizeof(folders) / sizeof(folders[0]))

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    return !freopen("/dev/null", "w", stdout);
}

static void begin_good(void)
{
    tree_begin();
    tree_pci("pci0000:40/0000:40:01.0/0000:42:00.0", "0x030200\n", "0x10de\n");
    tree_pci("pci0000:40/0000:40:02.0/0000:43:00.0", "0x020000\n", "0x15b3\n");
    tree_nic("n0", "pci0000:40/0000:40:02.0/0000:43:00.0");
    tree_file("/proc/sys/kernel/osrelease", "6.8.0\n");
    tree_file("/sys/devices/system/node/node0/distance", "10 20\n");
}

/* Is it, with its links resolved, in the tree? */
static bool inside(const char *full)
{
    char real[4096];
    size_t length = strlen(root_prefix());

    return realpath(full, real) && !strncmp(real, root_prefix(), length) &&
           (!real[length] || real[length] == '/');
}

/* Can a file be put there: the path is no folder, and all above it are folders of the tree or do
 * not exist? */
static bool fits(const char *path)
{
    char full[1024];
    struct stat status;

    snprintf(full, sizeof(full), "%s%s", root_prefix(), path);
    if (!lstat(full, &status) && !S_ISREG(status.st_mode) && !S_ISLNK(status.st_mode))
        return false;
    for (char *at = full + strlen(root_prefix()) + 1; (at = strchr(at, '/')); at++) {
        *at = '\0';
        if (!lstat(full, &status) &&
            (!inside(full) || stat(full, &status) || !S_ISDIR(status.st_mode)))
            return false;
        *at = '/';
    }
    return true;
}

/* Reads a name that a folder may contain. */
static bool take_name(struct input *input, char name[64])
{
    input_text(input, name, 64);
    return name[0] && !strchr(name, '/') && strcmp(name, ".") && strcmp(name, "..");
}

static void put(struct input *input, const char *path, bool link)
{
    char full[1024], target[128];
    const uint8_t *bytes;
    size_t size;

    if (!fits(path))
        return;
    snprintf(full, sizeof(full), "%s%s", root_prefix(), path);
    if (link) {
        input_text(input, target, sizeof(target));
        unlink(full);
        if (target[0])
            tree_link(path, target);
        return;
    }
    size = input_piece(input, 4096, &bytes);
    unlink(full); /* which may be a link */
    tree_bytes(path, bytes, size);
}

static void change(struct input *input)
{
    uint8_t how = input_byte(input);
    char path[256], name[64];

    if (how & 1) {
        put(input, files[(how >> 1) % FILES], false);
        return;
    }
    if (!take_name(input, name))
        return;
    snprintf(path, sizeof(path), "%s%s%s", folders[(how >> 2) % FOLDERS], name,
             how & 2 ? "" : "/device");
    put(input, path, how & 2);
}

static json_t *gather(void)
{
    json_t *facts = doc_object();

    doc_set(facts, "root", doc_text(root_prefix()));
    doc_set(facts, "kernel", kernel_facts());
    doc_set(facts, "process", process_facts(NULL));
    doc_set(facts, "runtimes", doc_array());
    doc_set(facts, "devices", doc_array());
    doc_set(facts, "gpus", gpus_facts());
    doc_set(facts, "nvidia", nvidia_facts(json_object_get(facts, "runtimes")));
    doc_set(facts, "nics", nics_facts());
    doc_set(facts, "peer_memory", peers_facts());
    doc_set(facts, "topology",
            topology_facts(json_object_get(facts, "devices"), json_object_get(facts, "nics")));
    doc_set(facts, "fabric_libraries", doc_array());
    doc_set(facts, "fabrics", doc_array());
    doc_set(facts, "pairs", paths_pairs(facts));
    return facts;
}

static void check_document(json_t *document)
{
    char *text = json_dumps(document, 0);
    json_t *again = text ? json_loads(text, 0, NULL) : NULL;

    PROMISED(again && json_equal(document, again));
    json_decref(again);
    free(text);
    doctor_print_text(document);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input input = {data, size};
    json_t *document = doc_new("doctor"), *facts, *findings;

    begin_good();
    for (int i = 0; i < 16 && input.left; i++)
        change(&input);
    facts = gather();
    findings = doctor_judge(facts);
    doc_set(document, "verdict", doc_text("good"));
    doc_set(document, "summary", doctor_summary(facts, findings));
    doc_set(document, "findings", findings);
    doc_set(document, "facts", facts);
    check_document(document);
    json_decref(document);
    test_finish();
    return 0;
}
