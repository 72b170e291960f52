/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See doctor_tree.h.
 */
#include "tests/tools/doctor_tree.h"

/* ---- a good machine --------------------------------------------------------------------- */

void doctor_gpu(const char *path)
{
    char file[256], up[64] = "../..", target[128];

    tree_pci(path, "0x030200\n", "0x10de\n");
    for (const char *at = path; (at = strchr(at, '/')); at++)
        strcat(up, "/..");
    snprintf(file, sizeof(file), "/sys/devices/%s/driver", path);
    snprintf(target, sizeof(target), "%s/bus/pci/drivers/nvidia", up);
    tree_link(file, target);
    snprintf(file, sizeof(file), "/sys/devices/%s/resource", path);
    tree_file(file, "0x00000000c0000000 0x00000000c0ffffff 0x40200\n"
                    "0x0000200000000000 0x00002007ffffffff 0x14220c\n");
}

static void make_kernel(void)
{
    tree_file("/proc/sys/kernel/osrelease", "6.8.0-test\n");
    tree_file("/proc/sys/kernel/numa_balancing", "0\n");
    tree_file("/proc/self/limits", "Limit   Soft Limit  Hard Limit  Units\n"
                                   "Max locked memory   unlimited   unlimited  bytes\n");
    tree_file("/proc/self/status", "CapEff:\t0000000000000000\n");
    tree_file("/sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n");
    tree_folder("/sys/devices/system/node/node0");
    tree_folder("/sys/devices/system/node/node1");
    tree_file(CONFIG, "CONFIG_DMA_SHARED_BUFFER=y\nCONFIG_DMABUF_MOVE_NOTIFY=y\n"
                      "CONFIG_PCI_P2PDMA=y\nCONFIG_INFINIBAND_USER_MEM=y\nCONFIG_HSA_AMD_P2P=y\n");
    tree_file("/proc/driver/nvidia/version",
              "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  550.54.15\n");
}

/* A bridge's ACS capability, as root can read it. */
void doctor_bridge(const char *path, unsigned char control)
{
    unsigned char config[4096] = {[ACS_AT] = 0x0d, [ACS_AT + 2] = 1, [ACS_AT + 6] = control};
    char file[256];

    tree_pci(path, "0x060400\n", "0x1000\n");
    snprintf(file, sizeof(file), "/sys/devices/%s/config", path);
    tree_bytes(file, config, sizeof(config));
}

void doctor_begin(void)
{
    tree_begin();
    make_kernel();
    tree_folder("/sys/bus/pci/drivers/nvidia");
    tree_file("/dev/nvidiactl", "");
    tree_file("/dev/nvidia0", "");
    doctor_bridge("pci0000:40/0000:40:01.0", 0x1d);
    doctor_bridge("pci0000:40/0000:40:01.0/0000:3e:00.0", 0);
    doctor_bridge(SWITCH "0000:3f:00.0", 0);
    doctor_bridge(SWITCH "0000:3f:01.0", 0);
    doctor_bridge("pci0001:80/0001:80:01.0", 0);
    tree_pci(NIC_0, "0x020700\n", "0x15b3\n");
    tree_pci(NIC_1, "0x020700\n", "0x15b3\n");
    doctor_gpu(GPU_0);
    doctor_gpu(GPU_1);
    tree_nic("mlx5_0", NIC_0);
    tree_nic("mlx5_1", NIC_1);
    test_setenv("HMREG_FAKE_NICS", "mlx5_0,mlx5_1");
    test_setenv("HMREG_FAKE_NIC", "late");     /* as a NIC may be without anything being wrong */
    test_setenv("HMREG_FAKE_CUDA_EXACT", "1"); /* as NVIDIA's: attached by its driver, not mapped */
}

/* ---- running ---------------------------------------------------------------------------- */

struct tool doctor_run(const char *option, const char *other)
{
    struct tool tool;

    tool_preload_nic(true);
    tool = tool_run("doctor", option, other);
    tool_preload_nic(false);
    assert_string_equal(tool.err, "");
    return tool;
}

/* The document, whatever the verdict; *status: the exit status. */
json_t *doctor_examined(const char *no_proof, int *status)
{
    struct tool tool = doctor_run("--json", no_proof);
    json_error_t error;
    json_t *parsed = tool_keep(json_loads(tool.out, JSON_REJECT_DUPLICATES, &error));

    if (!parsed)
        fail_msg("line %d: %s in:\n%s", error.line, error.text, tool.out);
    *status = tool.status;
    return parsed;
}

json_t *doctor_document(int *status)
{
    return doctor_examined(NULL, status);
}

json_t *doctor_finding(const json_t *document, const char *code)
{
    return find(list_at(document, "findings"), "code", code);
}
