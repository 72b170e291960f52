/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The library's reasons for refusing a path, as hmreg(7) lists them; the library supplies the text.
 */
#include "tools/doctor/findings.h"

#define REASON(slug, words, todo, teach)                                                           \
    {                                                                                              \
        .code = slug, .severity = SEVERITY_DEGRADED, .title = words, .remedy = todo,               \
        .lesson = teach,                                                                           \
    }

const struct finding findings_of_reasons[] = {
    REASON("no-dmabuf-export", "the runtime or the device exports no dmabuf",
           "CUDA: driver for CUDA 11.7 or newer with the open kernel modules. ROCm: 5.3 or newer. "
           "Level Zero: a driver with DMA_BUF export. Or use peer memory.",
           "A dmabuf is a descriptor of the GPU's memory that another driver can import. The "
           "GPU's runtime has to make it: old runtimes have no call for it, and a device can say "
           "that it does not do it."),
    REASON("nic-imports-no-dmabuf", "the driver of the NIC imports no dmabufs",
           "Use a NIC whose driver does (mlx5, efa, irdma, bnxt_re, mana), with a new enough "
           "kernel and rdma-core; or load the vendor's peer memory module.",
           "ibv_reg_dmabuf_mr() needs the operation in the NIC's kernel driver and in its part of "
           "rdma-core. The probe asks with a descriptor that is none: a driver that imports "
           "dmabufs looks at it (EBADF), one that does not says so at once (EOPNOTSUPP)."),
    REASON("kernel-too-old", "the kernel imports no dmabufs for RDMA",
           "Use Linux 5.12 or newer, or peer memory.",
           "Importing dmabufs for RDMA came with Linux 5.12; distributions have brought it to some "
           "older ones. The kernel itself was asked."),
    REASON("libibverbs-too-old", "libibverbs has no ibv_reg_dmabuf_mr()",
           "Install rdma-core 34 or newer; in a container it is the image's, not the host's.",
           "The call came with rdma-core 34 (symbol version IBVERBS_1.12). hmreg looks for it in "
           "the library that is loaded, so the newer one must be the one the process finds."),
    REASON("dmabuf-probe-failed", "the NIC did not say whether it imports dmabufs",
           "Look at dmesg for the NIC's driver; peer memory may do.",
           "Asked to import a descriptor that is none, the driver answered neither that the "
           "descriptor is bad nor that it does not do this."),
    REASON("dmabuf-import-failed", "the NIC's driver refused this dmabuf",
           "Error 524: put GPU and NIC below one PCI switch or root, or use another NIC. "
           "EOPNOTSUPP with amdgpu: a kernel with CONFIG_PCI_P2PDMA and CONFIG_DMABUF_MOVE_NOTIFY.",
           "The runtime exported the memory and the NIC's driver could not attach to it. The "
           "exporter may refuse the PCI topology (524), or the importer's way of pinning."),
    REASON("no-peer-memory", "the kernel has no peer memory client for this vendor",
           "NVIDIA: modprobe nvidia-peermem (needs the NIC driver of MLNX_OFED or DOCA). AMD: "
           "amdgpu-dkms installed after MLNX_OFED. Or make dmabuf work, which needs neither.",
           "Peer memory is an older way: a kernel module of the GPU's vendor tells the RDMA "
           "subsystem where GPU addresses lead, so that plain ibv_reg_mr() takes them. No upstream "
           "kernel has the interface. Clients are listed in /sys/kernel/mm/memory_peers; NVIDIA's "
           "module is nvidia_peermem, formerly nv_peer_mem; efa_nv_peermem is EFA's."),
    REASON("peer-memory-refused", "peer memory is loaded and did not take the address",
           "Rebuild or reload the vendor's module against the running kernel and NIC driver "
           "(modprobe -r nvidia-peermem; modprobe nvidia-peermem); dmesg says more.",
           "The module is there, and ibv_reg_mr() on a GPU address failed: the module was built "
           "for another NIC driver, serves another vendor's memory, or the memory is of a kind it "
           "cannot pin. Users see \"Bad address\"."),
    REASON("fabric-pins-pages", "the fabric pins pages, which a CPU mapping does not have",
           "Nothing: this path is for tcp and its like.",
           "The CPU's mapping of a GPU's memory has no struct pages that could be pinned, so a "
           "NIC that registers by pinning answers EFAULT."),
    REASON("provider-host-only", "the provider registers host memory only",
           "Use another fabric for device memory.",
           "Its provider in hmreg has no operation for anything but host memory: whatever the "
           "fabric could do, there is no way to ask for it."),
    REASON("fabric-imports-no-dmabuf", "the fabric has no import of dmabufs",
           "Use libfabric's verbs, efa, cxi or opx, or libibverbs.",
           "Fabrics that copy with the CPU or through the vendor's runtime have no use for a "
           "descriptor of the memory."),
    REASON("libfabric-too-old", "libfabric's provider is older than its FI_MR_DMABUF",
           "Install libfabric 1.20 or newer for verbs and efa, 2.5 for cxi, 2.6 for opx.",
           "Before 1.20 libfabric has no way to hand a dmabuf to a provider; cxi and opx do not "
           "know the flag before 2.5 and 2.6, and cxi would take the descriptor for an address."),
    REASON("api-version-too-old", "libfabric was asked with an API version before 1.20",
           "Give FI_VERSION(1, 20) or newer to fi_getinfo().",
           "A provider reads the dmabuf fields only if the application asked for an API that has "
           "them."),
    REASON("no-fi-hmem", "the libfabric domain is without FI_HMEM",
           "Ask for FI_HMEM in the hints' caps and FI_MR_HMEM in mr_mode; if the provider then "
           "offers nothing, it was built without GPU support.",
           "FI_HMEM is libfabric's capability for device memory. The doctor asks for it first, so "
           "a domain without it is of a provider that does not grant it here."),
    REASON("fabric-bypasses-cpu", "the fabric's NIC reads memory itself: a mapping is of no use",
           "Nothing: this path is for tcp and its like.",
           "A CPU mapping helps only a fabric that moves bytes by loads and stores of this "
           "process."),
    REASON("fabric-unknown", "the fabric is none that hmreg knows",
           "Use a fabric of hmreg_domain_open_ofi(3)'s list, or report this one.",
           "What a libfabric provider does with device memory cannot be asked; hmreg knows the "
           "providers of libfabric and does not guess about others."),
    REASON("fabric-refused", "the fabric was asked to register the memory, and failed",
           "Follow the fabric's own error; FI_LOG_LEVEL=warn shows libfabric's words.",
           "The provider took the request and its registration failed; its code is kept."),
    REASON("mapping-has-no-pages",
           "the fabric would move mapped memory with a call that needs pages",
           "Switch that way of moving off where the sentence names its setting.",
           "process_vm_readv(2) and zero-copy sends find the pages of a buffer; a mapping of "
           "device memory has none."),
    REASON("no-dmabuf-mmap", "the dmabuf cannot be mapped for the CPU",
           "Use a fabric with dmabuf or peer memory.",
           "The path mapped rests on mmap() of the dmabuf. Exporters may refuse that, and many GPU "
           "drivers do."),
    REASON("dmabuf-sync-failed", "the dmabuf's exporter refused CPU access",
           "Use a fabric with dmabuf or peer memory.",
           "Before the CPU touches a mapping of a dmabuf it announces that to the exporter, which "
           "refused."),
    REASON("no-descriptor", "no file descriptor was left", "Raise the limit: ulimit -n.",
           "An export takes a descriptor, and the process had all it may have."),
    REASON("no-cpu-address", "host memory of a runtime has no address for the CPU here",
           "Map it for the CPU, or use memory that the runtime allocates as pinned host memory.",
           "Host memory made by a runtime's virtual memory calls may be mapped for its device "
           "only. A fabric registers host memory by the address the CPU has for it, and here there "
           "is none."),
    REASON("managed-memory-migrates", "managed memory moves between host and device",
           "Use device memory or pinned host memory for transfers.",
           "The pages of managed memory are now here, now there; a NIC that has pinned one place "
           "would write to the wrong one."),
    REASON("one-range-only", "a dmabuf registration takes one range, and the region has several",
           "Use hmreg_mr_regsgl(), which makes a composite.",
           "One descriptor names one allocation; a region over several needs one registration "
           "each."),
    REASON("page-offset-differs",
           "the range begins elsewhere in its page by its address than in the dmabuf",
           "Give the dmabuf a base_addr that is a multiple of the page size.",
           "A NIC maps whole pages: the offset within the page has to be the same for the "
           "address peers name and for the descriptor."),
    {0},
};
