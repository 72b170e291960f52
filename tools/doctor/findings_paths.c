/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Findings about pairs of device and NIC: whether a path exists and transfers work.
 */
#include "tools/doctor/findings.h"

const struct finding findings_of_paths[] = {
    {
        .code = "no-device",
        .severity = SEVERITY_BROKEN,
        .title = "no runtime has a GPU",
        .remedy = "Install a GPU's driver and runtime, or make the device visible to this process "
                  "(container, CUDA_VISIBLE_DEVICES, ROCR_VISIBLE_DEVICES, ZE_AFFINITY_MASK); "
                  "hmreg info shows each runtime.",
        .lesson = "GPUDirect is the NIC's way to a GPU's memory without the CPU: it begins with a "
                  "GPU that a runtime shows to this process. Which runtime is missing, and why, is "
                  "said for each. Variables that hide devices count, as do containers.",
    },
    {
        .code = "no-nic",
        .severity = SEVERITY_BROKEN,
        .title = "there is no RDMA device",
        .remedy = "Load the NIC's RDMA driver (modprobe mlx5_ib, irdma, bnxt_re, efa, rdma_rxe), "
                  "or give the container /dev/infiniband; rdma link and ibv_devices list what is "
                  "there.",
        .lesson = "Only a fabric whose NIC reads and writes memory itself can reach a GPU's "
                  "directly: libibverbs' devices, and libfabric's verbs, efa, cxi and opx. tcp, "
                  "shm and their like move bytes with the CPU. A NIC whose RDMA driver is not "
                  "loaded is a plain network card.",
    },
    {
        .code = "no-path",
        .severity = SEVERITY_BROKEN,
        .title = "an RDMA device cannot register a GPU's memory, nor can any other fabric here",
        .remedy = "Follow the remedies of the reasons given with it; one path is enough.",
        .lesson = "hmreg tries dmabuf, peer memory and a CPU mapping in this order. Each has its "
                  "own needs: dmabuf a runtime that exports, a kernel and a NIC driver that "
                  "import; peer memory a kernel module for that vendor; a mapping a fabric that "
                  "moves bytes with the CPU. Here every one was refused.",
    },
    {
        .code = "path-through-cpu",
        .severity = SEVERITY_DEGRADED,
        .title = "an RDMA device cannot register a GPU's memory; the CPU has to move it",
        .remedy = "Follow the remedies of the reasons given with it, to make dmabuf or peer "
                  "memory work.",
        .lesson = "No GPUDirect for this pair: the NIC has no path to the GPU's memory. "
                  "libfabric's tcp and its like still move it, by a mapping for the CPU, at the "
                  "speed of the CPU's uncached reads.",
    },
    {
        .code = "loopback-failed",
        .severity = SEVERITY_BROKEN,
        .title = "registration or transfer failed in the proof",
        .remedy = "Look at dmesg; try the pair's other paths, another NIC near the GPU, and the "
                  "IOMMU and ACS settings.",
        .lesson =
            "The doctor allocates memory on the device, registers it, has the NIC write to "
            "it and read from it, to itself. Registration can succeed and the transfer fail "
            "all the same, where PCI requests between the two devices do not arrive: the "
            "completion then has an error, or never comes. A driver can also crash or hang the "
            "process that tries it, which is one of its own for that reason.",
    },
    {
        .code = "loopback-wrong-bytes",
        .severity = SEVERITY_BROKEN,
        .title = "a transfer succeeded and the bytes are wrong",
        .remedy = "Do not use this path: take another (order of hmreg_domain_config), and report "
                  "it to the vendors of GPU driver and NIC with the versions below.",
        .lesson = "The NIC said success, and the device's memory is not what was written, or what "
                  "was read is not what the memory holds. Wrong offsets, stale mappings and "
                  "bridges that drop requests have done this. Nothing but a comparison of the "
                  "bytes finds it, which is why the doctor compares.",
    },
    {
        .code = "loopback-untried",
        .severity = SEVERITY_DEGRADED,
        .title = "a pair that should work could not be proven",
        .remedy = "Remove what is named, and run hmreg doctor again.",
        .lesson = "That nothing known speaks against a path is no proof. The proof needs an "
                  "active port, a queue pair or endpoint that can be connected with itself, and a "
                  "little memory of the device.",
    },
    {0},
};
