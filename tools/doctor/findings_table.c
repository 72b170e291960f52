/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The findings that findings.h declares.
 */
#include "tools/doctor/findings.h"

#include <errno.h>

const struct finding all_findings[] = {
    /* Pairs of device and NIC: does a path exist, and do transfers work? */
    {"no-device", SEVERITY_BROKEN, "no runtime has a GPU",
     "Install a GPU's driver and runtime, or make the device visible to this process (container, "
     "CUDA_VISIBLE_DEVICES, ROCR_VISIBLE_DEVICES, ZE_AFFINITY_MASK); hmreg info shows each "
     "runtime.",
     "GPUDirect lets a NIC reach a GPU's memory without the CPU. It needs a GPU that a runtime "
     "lists for this process. The report has the reason for each runtime that lists none. "
     "Environment variables and containers can hide devices."},
    {"no-nic", SEVERITY_BROKEN, "there is no RDMA device",
     "Load the NIC's RDMA driver (modprobe mlx5_ib, irdma, bnxt_re, efa, ionic_rdma, rdma_rxe), or "
     "give the container /dev/infiniband; rdma link and ibv_devices list the devices.",
     "Only a fabric whose NIC reads and writes memory itself can reach a GPU's memory directly: "
     "libibverbs' devices, and libfabric's verbs, efa, cxi and opx. tcp, shm and similar fabrics "
     "move bytes with the CPU. A NIC whose RDMA driver is not loaded is a plain network card."},
    {"no-path", SEVERITY_BROKEN,
     "an RDMA device cannot register a GPU's memory, nor can any other fabric here",
     "Fix one refusal: each is a finding with its own code and remedy. One working path is "
     "enough.",
     "hmreg tries dmabuf, peer memory and a CPU mapping in this order. Each has its own needs. "
     "Dmabuf: a runtime that exports, and a kernel and a NIC driver that import. Peer memory: a "
     "kernel module for that vendor. A mapping: a fabric that moves bytes with the CPU. Here all "
     "three were refused."},
    {"path-through-cpu", SEVERITY_DEGRADED,
     "an RDMA device cannot register a GPU's memory; the CPU has to move it",
     "Fix one refusal: each is a finding with its own code and remedy. One working path is "
     "enough.",
     "No GPUDirect for this pair: the NIC has no path to the GPU's memory. libfabric's tcp and "
     "similar fabrics can still move it through a CPU mapping, at the speed of the CPU's uncached "
     "reads."},
    {"loopback-failed", SEVERITY_BROKEN, "registration or transfer failed in the proof",
     "Look at dmesg; try the pair's other paths, another NIC near the GPU, and the IOMMU and ACS "
     "settings.",
     "The doctor allocates memory on the device and registers it; the NIC writes to it and reads "
     "from it, connected with itself. Registration can succeed and the transfer fail: if PCI "
     "requests do not pass between the two devices, the completion has an error or never comes. A "
     "driver can also crash or hang the process that uses it, so each NIC is tested in its own "
     "process."},
    {"loopback-wrong-bytes", SEVERITY_BROKEN, "a transfer succeeded and the bytes are wrong",
     "Do not use this path: use another (order of hmreg_domain_config), and report it to the "
     "vendors of GPU driver and NIC with the versions below.",
     "The NIC reported success, but the bytes written or read are wrong. Known causes: wrong "
     "offsets, stale mappings, and bridges that drop requests. Only a comparison finds wrong "
     "bytes, so the doctor compares them."},
    {"other-way-works", SEVERITY_DEGRADED, "path dmabuf works by another way",
     "Set HMREG_DMABUF_WAYS, or config.ways of the domain, to the way in the sentence.",
     "A dmabuf can be mapped and imported in several ways (hmreg(7)). NIC, device and machine "
     "determine which ways move bytes. The doctor has tried each way. A registration that succeeds "
     "proves nothing: some NICs register a dmabuf with the PCIe mapping and then fail in "
     "transfers."},
    {"loopback-untried", SEVERITY_DEGRADED, "a pair that should work could not be proven",
     "Fix the cause above, then run hmreg doctor again.",
     "A path without known obstacles may still fail, so the doctor proves it. The proof needs an "
     "active port, a queue pair or endpoint that can be connected with itself, and a little device "
     "memory."},
    /* The machine: drivers, PCI, kernel, limits. */
    {"gpu-no-driver", SEVERITY_DEGRADED, "a GPU's kernel driver is not the one its runtime needs",
     "Load the vendor's driver: modprobe nvidia, amdgpu, xe or i915 (as root; for a container on "
     "its host). If the driver does not accept the GPU, dmesg says why.",
     "A vendor's runtime reaches a GPU through the vendor's own kernel driver. CUDA, ROCm and "
     "Level Zero do not see a GPU that has no driver, or nouveau or vfio-pci, whichever runtimes "
     "are installed. The link /sys/bus/pci/devices/ADDRESS/driver names the GPU's driver."},
    {"gpu-no-node", SEVERITY_DEGRADED,
     "the device files of a GPU are missing or closed to this user",
     "Give this process the files. In a container: start it with the GPUs (docker run --gpus all; "
     "--device /dev/kfd --device /dev/dri). Elsewhere: add the user to the groups video and "
     "render, or run nvidia-modprobe as root.",
     "Runtimes talk to their driver through files in /dev: /dev/nvidiactl and /dev/nvidia0 for "
     "CUDA, /dev/kfd and /dev/dri/renderD* for ROCm, /dev/dri/renderD* for Level Zero. In a "
     "container /sys shows all of the host's GPUs, but /dev only those that the container was "
     "given. Without the file the runtime reports no device."},
    {"gpu-no-runtime", SEVERITY_DEGRADED, "a GPU has its driver, but its runtime cannot be used",
     "Install or repair the vendor's user-space library: libcuda.so.1 comes with the NVIDIA "
     "driver, libhsa-runtime64.so.1 with ROCm, libze_loader.so.1 and a driver for it with Intel's "
     "compute runtime. ldconfig -p lists the installed ones.",
     "hmreg asks each vendor's runtime about a pointer and has it export the memory. hmreg loads "
     "the runtime by its soname, so the dynamic linker's usual rules select the file. "
     "If it is missing, is the toolkit's library for linking only, or does not start, this process "
     "cannot recognise "
     "memory of that vendor's GPUs."},
    {"driver-mismatch", SEVERITY_DEGRADED,
     "NVIDIA's kernel module and libcuda are of different versions",
     "Make both the same: reboot (or unload and load the nvidia modules) after an update of the "
     "driver; in a container use the host's libcuda, as NVIDIA's container toolkit does.",
     "libcuda.so.1 and nvidia.ko are two halves of one driver and are released together. After an "
     "update without a reboot the old module is still loaded. libcuda then refuses to start, or "
     "starts in a compatibility mode that lacks the newer entry points."},
    {"nvidia-closed-modules", SEVERITY_DEGRADED,
     "NVIDIA's kernel modules are the closed ones, which export no dmabuf",
     "Install the open kernel modules of the same driver version (for GPUs from Turing on), or "
     "keep to peer memory: modprobe nvidia-peermem.",
     "NVIDIA ships its kernel modules in two flavours. The open modules can export GPU memory as a "
     "dmabuf. The closed ones cannot, and the device's attribute for dmabufs is then 0. The doctor "
     "reports this only if a device really denied the export: /proc/driver/nvidia/version only "
     "says which flavour is loaded."},
    {"nic-no-node", SEVERITY_BROKEN, "the kernel has RDMA devices that this process cannot open",
     "If the file is missing, load ib_uverbs (modprobe ib_uverbs); if it is not accessible, give "
     "it to this user.",
     "libibverbs reaches a NIC through /dev/infiniband/uverbsN. A container sees the host's NICs "
     "under /sys/class/infiniband without those files. Then ibv_get_device_list() is empty or "
     "ibv_open_device() fails."},
    {"nic-not-opened", SEVERITY_DEGRADED, "a library lists an RDMA device but cannot open it",
     "Look at the error. Possible causes: permissions of /dev/infiniband, limits of the device, an "
     "rdma-core older than the NIC's driver; dmesg may say more.",
     "Listing devices reads /sys. Opening one requests a context and a protection domain from the "
     "kernel's driver, which may refuse or have none left."},
    {"no-port", SEVERITY_BROKEN, "no RDMA device has an active port",
     "Check cable and switch; bring the network interface up (ip link set DEV up) and, on RoCE, "
     "give it an address; on InfiniBand a subnet manager must run.",
     "Memory can be registered with a NIC whose ports are down, but the NIC can send nothing, not "
     "even to itself. Every NIC here is in this state: no transfer can be tried."},
    {"port-down", SEVERITY_DEGRADED, "no port of an RDMA device is active",
     "Check cable and switch; bring the network interface up (ip link set DEV up) and, on RoCE, "
     "give it an address; on InfiniBand a subnet manager must run.",
     "Memory can be registered with a NIC whose ports are down, but the NIC can send nothing, not "
     "even to itself. So a NIC without an active port cannot be proven or used."},
    {"port-errors", SEVERITY_DEGRADED, "an RDMA device counted errors while its paths were proven",
     "Look at cable, optics and the switch's port; on RoCE also at flow control (PFC, ECN) and "
     "MTU. "
     "Run hmreg doctor again on an idle machine: transfers of other programs count too.",
     "The NIC repeats lost or damaged transfers, so they are slow, not wrong. A counter that rises "
     "during a proof of about 128 KiB on each path is likely to rise in every transfer. The driver "
     "defines the counters; its documentation explains them."},
    {"far-nic", SEVERITY_DEGRADED, "a GPU's nearest RDMA device is at another CPU's memory",
     "Use another GPU or NIC for this pairing (hmreg topo shows all), or move a card to a slot of "
     "the same CPU, best below one PCI switch.",
     "Bytes that go from a GPU to a NIC below another CPU socket cross the link between the "
     "sockets. Some platforms do not forward such transfers between PCI devices at all, and others "
     "forward them slowly. The doctor computes the distance from the devices' places in the PCI "
     "tree and from their NUMA nodes."},
    {"acs-redirects", SEVERITY_DEGRADED,
     "a PCI switch sends transfers between its devices up to the CPU (ACS)",
     "Switch ACS off in the firmware's settings, or clear the bridge's ACS control with setpci as "
     "root, as NVIDIA's and AMD's guides show. Virtual machines that are given single devices need "
     "ACS on.",
     "Access Control Services let a bridge redirect requests between two devices below it to the "
     "root complex, so that an IOMMU can check them. With request redirect on, a GPU and a NIC "
     "below one switch lose the short way: bandwidth falls, and with the IOMMU off the transfer "
     "may fail. The bits are in PCI extended configuration space, which only root can read."},
    {"iommu-translates", SEVERITY_DEGRADED, "the IOMMU translates addresses of a GPU or NIC",
     "Boot with iommu=pt (passthrough), or switch the IOMMU off in the firmware if no virtual "
     "machine needs it.",
     "A translating IOMMU looks every address that a device uses up in tables at the root complex. "
     "Transfers between devices then go through the root complex instead of straight through a "
     "switch, wait for look-ups, and with some drivers fail. In passthrough (type \"identity\" of "
     "the IOMMU "
     "group) devices use physical addresses."},
    {"bar-small", SEVERITY_DEGRADED, "a GPU's BAR shows the PCI bus less than its memory",
     "Enable \"Above 4G decoding\" and \"Resizable BAR\" in the firmware. On NVIDIA data centre "
     "GPUs nvidia-smi -q shows the size of BAR1 and displaymodeselector sets it.",
     "Other devices reach GPU memory through a window, the largest BAR. If it is smaller than the "
     "memory, all processes together can register only that much at one time. Beyond it "
     "registration fails with ENOMEM, however much GPU memory is free."},
    {"memlock-low", SEVERITY_DEGRADED, "the limit of locked memory is low for what RDMA pins",
     "ulimit -l unlimited; permanently: \"* - memlock unlimited\" in /etc/security/limits.conf, "
     "LimitMEMLOCK=infinity in a systemd unit, docker run --ulimit memlock=-1.",
     "A NIC pins the host memory registered with it, and the kernel counts it against "
     "RLIMIT_MEMLOCK, once for each NIC: a buffer registered with 8 NICs counts 8 times. The "
     "doctor calls less than 1 GiB for each NIC low. Device memory by dmabuf or peer memory is not "
     "counted. Beyond the limit ibv_reg_mr() fails with ENOMEM. Processes with CAP_IPC_LOCK are "
     "exempt. The capability of a user namespace, as in a rootless container, does not count: the "
     "kernel requires it in the initial user namespace. Soft-iWARP (siw) of Linux 6.1 exempts no "
     "process, not even root's; siw of 6.12 does."},
    {"mr-count-low", SEVERITY_DEGRADED, "an RDMA device has fewer regions than the cache may hold",
     "Set FI_MR_CACHE_MAX_COUNT below the device's max_mr (ibv_devinfo -v), shared among the "
     "processes that use it; some drivers have a module parameter for it.",
     "Each registration takes an entry of a table in the NIC, which all processes share. If the "
     "table is full, ibv_reg_mr() fails with ENOMEM. hmreg's cache then evicts regions that no get "
     "holds and tries again; a lower cache limit avoids this."},
    {"mr-size-low", SEVERITY_DEGRADED,
     "an RDMA device's longest region is shorter than a GPU's memory",
     "Register large buffers in pieces (hmreg_mr_regsgl() makes one region of them), or use the "
     "driver's options for larger regions.",
     "max_mr_size is the longest range one registration can cover. hmreg refuses a longer buffer "
     "with -EMSGSIZE before it calls the NIC's driver."},
    {"userfaultfd-denied", SEVERITY_DEGRADED,
     "this process may not have userfaultfd: hooks in libc watch host memory instead",
     "Nothing, if the program changes its mappings through libc's functions, as most do: hmreg "
     "info then reports that memhooks are used. Otherwise, in a container: give it the device file "
     "(docker run --device /dev/userfaultfd), or a seccomp profile that permits userfaultfd(2). "
     "Elsewhere: Linux 5.15 or later with CONFIG_USERFAULTFD; or the kernel module hmreg_counter "
     "(apt-get install hmreg-dkms), which notices every change of any memory.",
     "hmreg caches a registration of host memory only while a monitor reports when that memory is "
     "freed or mapped anew. The kernel can report it, by userfaultfd. Without permission for "
     "userfaultfd, hooks in libc's code (memhooks) report it; they miss system calls that a "
     "program makes without libc. "
     "Without both, each hmreg_mr_get() registers host memory anew: correct, but slow. hmreg "
     "checks device memory by its identity and caches it in any case. To find this, the doctor "
     "tried userfaultfd. The sysctl vm.unprivileged_userfaultfd does not matter, since hmreg "
     "requests "
     "faults of user mode only."},
    {"memhooks-impossible", SEVERITY_DEGRADED, "hooks in libc cannot watch host memory here",
     "The kernel module hmreg_counter: apt-get install hmreg-dkms, modprobe hmreg_counter. In a "
     "container: docker run --device /dev/hmreg.",
     "By default hooks in libc's code (memhooks) notice that host memory is freed or mapped anew. "
     "They do not work if libc's code cannot be changed. They are not used if loaded code changes "
     "mappings without libc, as some tools and preloaded libraries do: they would miss its calls. "
     "hmreg then uses userfaultfd, which costs a system call for each hit. Without permission for "
     "userfaultfd, each hmreg_mr_get() registers host memory anew. With the module the kernel "
     "counts each change of any process, and a hit needs no system call."},
    {"numa-balancing", SEVERITY_DEGRADED, "the kernel moves pages between NUMA nodes by itself",
     "sysctl kernel.numa_balancing=0",
     "Automatic NUMA balancing unmaps pages from time to time to see which CPUs access them. Each "
     "unmapping interrupts threads, invalidates regions that page on demand, and makes GPU drivers "
     "that follow host mappings stop their queues. Pinned pages cannot move, so balancing has a "
     "cost and no benefit for them."},
    {"huge-pages-off", SEVERITY_NOTE, "host memory comes in small pages only",
     "echo madvise >/sys/kernel/mm/transparent_hugepage/enabled, or reserve some: sysctl "
     "vm.nr_hugepages=N",
     "A NIC has an entry in its tables for each page of a region. Registering a host buffer of "
     "huge pages is faster by about the ratio of the page sizes, and causes fewer misses in the "
     "NIC's own cache. "
     "GPU memory has large pages regardless of this setting."},
    {"page-size", SEVERITY_NOTE, "pages are not of 4 KiB",
     "Nothing: hmreg asks for the page size. Programs that assume 4 KiB when they align a dmabuf's "
     "offset are wrong here.",
     "Kernels of some Arm machines have pages of 64 KiB. A dmabuf is aligned to the host's page, "
     "and the offset within a page must be the same for the descriptor and the address. With "
     "larger pages more small buffers share a page."},
    {"kernel-option-off", SEVERITY_NOTE,
     "a kernel option that dmabuf paths need is off in the kernel's config",
     "If you need the refused path, use a kernel built with the option.",
     "A config file can belong to another kernel, and separately built drivers have their own "
     "options; so the doctor bases no verdict on it. The doctor mentions the option only as a "
     "likely cause of a path that was really refused."},
    {"libfabric-no-dmabuf", SEVERITY_NOTE, "this libfabric cannot import dmabufs",
     "For GPU memory over libfabric's verbs or efa use libfabric 1.20 or newer, over cxi 2.5, over "
     "opx 2.6.",
     "FI_MR_DMABUF came with libfabric 1.20. Before that, a provider takes device memory by its "
     "address, which needs peer memory in the kernel. Programs that use libibverbs directly are "
     "not affected: they can import dmabufs."},
    {"container", SEVERITY_NOTE, "this is a container",
     "If something is missing here, run hmreg doctor on the host too: kernel modules, device files "
     "and limits come from there.",
     "A container shares the host's kernel and its modules, and shows /sys of the whole machine, "
     "but has its own /dev, limits and system call filter. Modules, files and limits that are "
     "missing in the container often exist on the host, and were not passed in."},
    {"simulated", SEVERITY_NOTE, "devices here are simulated",
     "Nothing, in tests. Otherwise remove the simulated runtimes from the library path and from "
     "ZE_ENABLE_ALT_DRIVERS.",
     "The loaded vendor runtime is the test suite's fake: its devices are not hardware. "
     "A proof on them tests hmreg's software and, with a real fabric, the fabric."},
    {"not-root", SEVERITY_NOTE, "root could see more",
     "Run hmreg doctor as root once, with CAP_SYS_ADMIN, to read the settings in the sentence.",
     "No proof of the doctor needs root. Only root can read a few settings: the ACS bits of PCI "
     "bridges, in extended configuration space. Prove transfers as the user who will run them: "
     "limits and permissions differ between users."},
    /* Another node: --peer. */
    {"peer-unreachable", SEVERITY_BROKEN, "no connection to the other node",
     "Look at the link and the routes of both nodes (ip link, ip route get ADDRESS), at packet "
     "filters, and whether hmreg doctor --serve runs on the other node.",
     "The doctors of two nodes first talk over TCP. If no host answers, a link is down or a route "
     "is missing. If a connection is refused, the host is up but no process listens on the port. "
     "If no packet comes back, a filter drops it."},
    {"peer-no-pair", SEVERITY_BROKEN, "the two nodes have no fabric of the same kind",
     "Compare hmreg info of both nodes: RDMA drivers, libfabric's version and providers.",
     "Both NICs of a pair must have the same kind of link and the same library: libibverbs, or one "
     "provider of libfabric. libfabric's tcp uses the address by which the nodes talk; before "
     "libfabric 1.18 its provider has another name."},
    {"peer-port-down", SEVERITY_BROKEN, "a port of a pair of NICs is not active",
     "Look at cable, switch port and subnet manager (rdma link, ip link); hmreg doctor on that "
     "node says more.",
     "Each node reports the state of each NIC's port as its kernel does. No transfer is tried over "
     "a port that is not active."},
    {"peer-no-route", SEVERITY_BROKEN, "a NIC has no way to the other node's",
     "Give both interfaces addresses of networks that are joined, and routes (ip route get ADDRESS "
     "from OWN); for Ethernet look whether the next hop answers (ip neighbour).",
     "The kernel resolves a GID's address when a queue pair becomes ready to receive; libfabric "
     "resolves it when it connects. If a network does not join its rails, NICs of different rails "
     "cannot reach each other by design."},
    {"peer-refused", SEVERITY_BROKEN, "the other node's NIC refused the connection",
     "Look for filters that reject (nft list ruleset) on both nodes and between them.",
     "A packet came back that refuses the connection to the port on which the other node's process "
     "listens. The other node's process listens while the pair is proven, so some device between "
     "the nodes has answered for it."},
    {"peer-timeout", SEVERITY_BROKEN, "nothing came back from the other node's NIC",
     "Look for a filter (RoCE v2 uses UDP port 4791; libfabric's tcp uses any port). Compare the "
     "GIDs' versions and VLANs of both NICs (rdma link, show_gids); then look at the switches "
     "between them.",
     "Both queue pairs were ready (RTR, RTS), or the endpoint was open, but no acknowledgement of "
     "the first small packet came, even after repetitions. The packet went to a wrong GID or VLAN, "
     "or some device dropped it. The doctors' own connection worked."},
    {"peer-mtu", SEVERITY_BROKEN, "small packets pass between two NICs, but long ones do not",
     "Give all interfaces and switch ports on the way the same MTU (ip link set NAME mtu BYTES); "
     "RoCE takes the largest of 1024, 2048 and 4096 that fits.",
     "A write of 256 bytes arrived, but a write of 64 KiB did not. It needs packets as long as the "
     "interfaces' MTU. Some device between the two NICs accepts only shorter packets, and does not "
     "report this."},
    {"peer-mtu-differs", SEVERITY_DEGRADED, "two NICs have different MTUs",
     "Give both interfaces the MTU that the network between them has (ip link set NAME mtu BYTES).",
     "A connection uses the smaller MTU of its two ends if each knows the other's. A router or "
     "switch port with a smaller MTU drops longer packets."},
    {"peer-failed", SEVERITY_BROKEN, "a proof between two nodes failed",
     "Run hmreg doctor on both nodes: if it proves the same memory in loopback, the network is the "
     "cause; dmesg may say more.",
     "Memory is allocated and registered on both nodes. One node writes to the other's memory and "
     "reads from it, and each compares the bytes. The sentence says which step failed on which "
     "node, or the status with which the NIC completed the operation."},
    {"peer-wrong-bytes", SEVERITY_BROKEN, "a transfer between two nodes succeeded, bytes are wrong",
     "Do not use this pair; run hmreg doctor on both nodes, and report it to the NIC's vendor.",
     "The NIC reported success, but the memory that was written or read into has other bytes than "
     "were sent."},
    {"peer-untried", SEVERITY_DEGRADED, "a pair of NICs of two nodes was not proven",
     "Fix the cause in the sentence, then run hmreg doctor --peer again.",
     "Either some memory has no path to the NIC, or the doctors' connection broke before this pair "
     "was tested."},
    {"peer-errors", SEVERITY_DEGRADED, "a port counted errors while a pair of NICs was proven",
     "Look at cable, optics and the switch's ports; on RoCE at flow control (PFC, ECN) and MTU. "
     "Run it again on idle nodes: transfers of other programs count too.",
     "The NIC repeats lost or damaged packets, so transfers are slow, not wrong. A counter that "
     "rises during one proof is likely to rise in every transfer. The driver defines the counters; "
     "its documentation explains them."},
    {"peer-slow", SEVERITY_DEGRADED, "a pair of NICs is slower than half its rated speed",
     "Compare with other pairs; look at the PCI link's width (lspci -vv), at the errors of the "
     "ports (hmreg doctor), flow control and congestion.",
     "A simple loop writes 2 MiB at a time for 0.2 s, one after another. Without a fault it "
     "reaches most of a link's rated speed; a benchmark with many operations at once says more."},
    /* The library's reasons for refusing a path, as hmreg(7) lists them. */
    {"no-dmabuf-export", SEVERITY_DEGRADED, "the runtime or the device exports no dmabuf",
     "CUDA: use the driver for CUDA 11.7 or newer with the open kernel modules. ROCm: 5.3 or "
     "newer. Level Zero: use a driver with DMA_BUF export. Or use peer memory.",
     "A dmabuf is a descriptor of the GPU's memory that another driver can import. The GPU's "
     "runtime has to make it. Old runtimes have no call for it, and some devices do not support "
     "it."},
    {"nic-imports-no-dmabuf", SEVERITY_DEGRADED, "the driver of the NIC imports no dmabufs",
     "Use a NIC whose driver imports dmabufs (mlx5, efa, irdma, bnxt_re, mana, ionic), with a new "
     "enough kernel and rdma-core; or load the vendor's peer memory module.",
     "ibv_reg_dmabuf_mr() needs the operation in the NIC's kernel driver and in its part of "
     "rdma-core. hmreg probes with an invalid descriptor: a driver that imports dmabufs rejects "
     "the descriptor (EBADF), another rejects the call (EOPNOTSUPP)."},
    {"kernel-too-old", SEVERITY_DEGRADED, "the kernel imports no dmabufs for RDMA",
     "Use Linux 5.12 or newer, or peer memory.",
     "Linux 5.12 added the import of dmabufs for RDMA; distributions have backported it to some "
     "older kernels. hmreg asked the kernel itself."},
    {"libibverbs-too-old", SEVERITY_DEGRADED, "libibverbs has no ibv_reg_dmabuf_mr()",
     "Install rdma-core 34 or newer; a container uses its image's rdma-core, not the host's.",
     "The call came with rdma-core 34 (symbol version IBVERBS_1.12). hmreg looks for it in the "
     "loaded library, so the process must find the newer library first."},
    {"dmabuf-probe-failed", SEVERITY_DEGRADED, "the NIC did not say whether it imports dmabufs",
     "Look at dmesg for the NIC's driver; or use peer memory.",
     "hmreg asked the driver to import an invalid descriptor. The driver reported neither an "
     "invalid descriptor nor a missing import."},
    {"dmabuf-import-failed", SEVERITY_DEGRADED, "the NIC's driver refused this dmabuf",
     "Read the error in the sentence, and dmesg; try another NIC, or peer memory.",
     "The runtime exported the memory, but the NIC's driver could not attach to it. The exporter "
     "may refuse the PCI topology (524), or the way in which the importer pins memory."},
    {"no-data-direct", SEVERITY_NOTE, "the NIC has no data direct",
     "Nothing, unless the NIC should have it. Then enable the option in its firmware, and use "
     "Linux 6.12 and rdma-core 54.",
     "Data direct is a second PCIe function of some NICs (ConnectX-8 and later). Through it they "
     "reach GPU memory without the CPU's PCIe root. Only libibverbs on mlx5 can use it. The other "
     "ways of path dmabuf do not need it."},
    {"rdma-core-too-old", SEVERITY_NOTE, "libmlx5 has no calls for data direct",
     "Install rdma-core 54 or newer; a container uses its image's rdma-core, not the host's.",
     "mlx5dv_reg_dmabuf_mr() came with rdma-core 54 (symbol version MLX5_1.25). hmreg looks for it "
     "in the libmlx5 that libibverbs has loaded for the NIC."},
    {"data-direct-refused", SEVERITY_DEGRADED,
     "the NIC's driver refused this dmabuf for data direct",
     "Read the error in the reason; dmesg may say more. HMREG_DMABUF_WAYS=plain excludes data "
     "direct.",
     "The NIC has data direct and the runtime exported the memory, but the import failed. hmreg "
     "then tries the next way, which may be slower."},
    {"no-pcie-mapping", SEVERITY_NOTE,
     "the runtime or the device has no dmabuf with the PCIe mapping",
     "CUDA: use a driver of 12.8 or newer. If the device refuses it: set HMREG_DMABUF_WAYS without "
     "pcie and data-direct-pcie.",
     "A device whose link with the CPU is coherent (Grace) can be reached through that link or "
     "through PCIe; CUDA 12.8 has a flag that selects PCIe. Devices that have only one link may "
     "refuse the flag."},
    {"mapping-is-the-callers", SEVERITY_NOTE,
     "the dmabuf is the caller's, and its export chose the mapping",
     "Export it with HMREG_EXPORT_PCIE (hmreg_export_dmabuf()).",
     "The export chooses a dmabuf's mapping. hmreg can choose only how to import a dmabuf that the "
     "caller passes in."},
    {"no-peer-memory", SEVERITY_DEGRADED, "the kernel has no peer memory client for this vendor",
     "NVIDIA: modprobe nvidia-peermem (needs the NIC driver of MLNX_OFED or DOCA). AMD: "
     "amdgpu-dkms installed after MLNX_OFED. Or fix dmabuf, which needs neither.",
     "Peer memory is older than dmabufs: a kernel module of the GPU's vendor tells the RDMA "
     "subsystem where GPU addresses lead, so that plain ibv_reg_mr() accepts them. No upstream "
     "kernel has the "
     "interface. Clients are listed in /sys/kernel/mm/memory_peers; NVIDIA's module is "
     "nvidia_peermem, formerly nv_peer_mem; efa_nv_peermem is EFA's."},
    {"peer-memory-refused", SEVERITY_DEGRADED, "peer memory is loaded but did not take the address",
     "Rebuild or reload the vendor's module against the running kernel and NIC driver (modprobe -r "
     "nvidia-peermem; modprobe nvidia-peermem); dmesg says more.",
     "The module is loaded, but ibv_reg_mr() on a GPU address failed. The module may be built for "
     "another NIC driver, serve another vendor's memory, or be unable to pin this kind of memory. "
     "Users see \"Bad address\", also while BAR1 is full. With MIG and vGPU they see error 524: "
     "NVIDIA's module asks for pages, which these lack, so use dmabuf."},
    {"fabric-pins-pages", SEVERITY_DEGRADED,
     "the fabric pins pages, but a CPU mapping of device memory has none",
     "Nothing: only tcp and similar fabrics use this path.",
     "The CPU's mapping of a GPU's memory has no struct pages to pin, so a NIC that registers by "
     "pinning fails with EFAULT."},
    {"provider-host-only", SEVERITY_DEGRADED, "the provider registers host memory only",
     "Use another fabric for device memory.",
     "For this fabric's provider hmreg has only operations for host memory, even if the fabric can "
     "do more."},
    {"fabric-imports-no-dmabuf", SEVERITY_DEGRADED, "the fabric cannot import dmabufs",
     "Use libfabric's verbs, efa, cxi or opx, or libibverbs.",
     "Fabrics that copy with the CPU or through the vendor's runtime do not use a descriptor of "
     "the memory."},
    {"libfabric-too-old", SEVERITY_DEGRADED, "libfabric's provider is older than its FI_MR_DMABUF",
     "Install libfabric 1.20 or newer for verbs and efa, 2.5 for cxi, 2.6 for opx.",
     "Before 1.20 libfabric has no way to pass a dmabuf to a provider. cxi knows the flag from 2.5 "
     "on, opx from 2.6 on; an older cxi would take the descriptor for an address."},
    {"api-version-too-old", SEVERITY_DEGRADED,
     "libfabric was asked with an API version before 1.20",
     "Give FI_VERSION(1, 20) or newer to fi_getinfo().",
     "A provider reads the dmabuf fields only if the application requested an API version that has "
     "them."},
    {"no-fi-hmem", SEVERITY_DEGRADED, "the libfabric domain is without FI_HMEM",
     "Request FI_HMEM in the hints' caps and FI_MR_HMEM in mr_mode; if the provider then offers "
     "nothing, it was built without GPU support.",
     "FI_HMEM is libfabric's capability for device memory. The doctor requests it first: if the "
     "domain lacks it, the provider does not grant it here."},
    {"libfabric-lacks-iface", SEVERITY_DEGRADED, "libfabric does not know the iface of the memory",
     "Use a libfabric that knows it, or claim iface system for the dmabuf.",
     "libfabric looks an iface up in a table. For a number beyond the table's end, such as an "
     "iface of a newer version, it would read other memory."},
    {"libfabric-lacks-driver", SEVERITY_DEGRADED,
     "libfabric has no name for devices of a second driver", "Install libfabric 1.18 or newer.",
     "Level Zero may have several drivers, and a device is identified by its driver and its index "
     "there. Older libfabric versions use only the index, and so can name only devices of the "
     "first driver."},
    {"device-unknown", SEVERITY_DEGRADED,
     "libfabric needs the device of the memory, and the claim names none",
     "Claim the device of the dmabuf's memory, not HMREG_DEVICE_ANY.",
     "libfabric takes the device of Level Zero, Neuron and Gaudi memory, and since 2.5 of ROCm's. "
     "In libfabric no number means any device."},
    {"dmabuf-without-address", SEVERITY_DEGRADED,
     "the fabric exports the caller's dmabuf again, but the dmabuf has no address",
     "Give base_addr, the address of the dmabuf's memory in this process, and claim its iface.",
     "libfabric's cxi ignores the descriptor: it takes base_addr + offset as an address of the "
     "iface's memory, and would register other memory, or fail."},
    {"fabric-bypasses-cpu", SEVERITY_DEGRADED,
     "the fabric's NIC reads memory itself, so a CPU mapping is of no use to it",
     "Nothing: only tcp and similar fabrics use this path.",
     "Only a fabric that moves bytes by loads and stores of this process can use a CPU mapping."},
    {"fabric-unknown", SEVERITY_DEGRADED, "hmreg does not know the fabric",
     "Use a fabric that hmreg_domain_open_ofi(3) lists, or report this one.",
     "libfabric has no query for the way in which a provider handles device memory. hmreg knows "
     "the providers of libfabric and does not guess about others."},
    {"fabric-refused", SEVERITY_DEGRADED, "the fabric failed to register the memory",
     "Look up the fabric's own error; FI_LOG_LEVEL=warn prints libfabric's messages.",
     "The provider accepted the request but its registration failed; the reason has its error "
     "code."},
    {"mapping-has-no-pages", SEVERITY_DEGRADED,
     "the fabric would move mapped memory with a call that needs pages",
     "Switch off the transfer method with the setting that the sentence names.",
     "process_vm_readv(2) and zero-copy sends find the pages of a buffer; a mapping of device "
     "memory has none."},
    {"no-dmabuf-mmap", SEVERITY_DEGRADED, "the dmabuf cannot be mapped for the CPU",
     "Use a fabric with dmabuf or peer memory.",
     "The path mapped needs mmap() of the dmabuf. Exporters may refuse mmap(), and many GPU "
     "drivers do."},
    {"dmabuf-sync-failed", SEVERITY_DEGRADED, "the dmabuf's exporter refused CPU access",
     "Use a fabric with dmabuf or peer memory.",
     "Before the CPU accesses a mapping of a dmabuf, hmreg announces the access to the exporter, "
     "which refused it."},
    {"no-descriptor", SEVERITY_DEGRADED, "no file descriptor was left",
     "Raise the limit: ulimit -n.",
     "An export needs a file descriptor, and the process had reached its limit."},
    {"no-cpu-address", SEVERITY_DEGRADED,
     "host memory of a runtime has no address for the CPU here",
     "Map it for the CPU, or use memory that the runtime allocates as pinned host memory.",
     "A runtime's virtual memory calls may map host memory only for its device. A fabric registers "
     "host memory by its CPU address, and this memory has none."},
    {"managed-memory-migrates", SEVERITY_DEGRADED, "managed memory moves between host and device",
     "Use device memory or pinned host memory for transfers.",
     "The pages of managed memory migrate: a NIC that has pinned their old location would write to "
     "the wrong memory."},
    {"one-range-only", SEVERITY_DEGRADED,
     "the region has several ranges, but a dmabuf registration takes one",
     "Use hmreg_mr_regsgl(), which makes a composite.",
     "One descriptor names one allocation; a region over several allocations needs one "
     "registration for each."},
    {"page-offset-differs", SEVERITY_DEGRADED,
     "the range's offset in its page differs between address and dmabuf",
     "Give the dmabuf a base_addr that is a multiple of the page size.",
     "A NIC maps whole pages: the offset within the page must be the same for the address that "
     "peers use and for the descriptor."},
    {0},
};

#define NO_DMABUF_PATH 524 /* the kernel's ENOTSUPP, which libc has not */

const struct remedy all_remedies[] = {
    {"nic-no-node", ENOENT, "ENOENT",
     "modprobe ib_uverbs; in a container add --device=/dev/infiniband, and --cap-add=IPC_LOCK or a "
     "memlock limit with it."},
    {"nic-no-node", EACCES, "EACCES",
     "Add a udev rule, KERNEL==\"uverbs*\", GROUP=\"rdma\", MODE=\"0660\" (or MODE=\"0666\"), and "
     "reload it (udevadm control --reload; udevadm trigger); add the user to the file's group "
     "(usermod -aG GROUP USER), then log in again."},
    {"nic-not-opened", EACCES, "EACCES",
     "Give this user /dev/infiniband/uverbs* (a udev rule or its group); in a container "
     "--device=/dev/infiniband."},
    {"nic-not-opened", ENOMEM, "ENOMEM",
     "Raise the limit of locked memory (ulimit -l), and end processes that hold the NIC's "
     "contexts."},
    {"loopback-failed", ENOMEM, "ENOMEM",
     "Raise the limit of locked memory (ulimit -l unlimited), or end processes that have "
     "registered much memory."},
    {"fabric-refused", ENOMEM, "ENOMEM",
     "Raise the limit of locked memory (ulimit -l unlimited), or end processes that have "
     "registered much memory."},
    {"dmabuf-import-failed", NO_DMABUF_PATH, "ENOTSUPP",
     "Put GPU and NIC below one PCI switch or root, or use another NIC (hmreg topo)."},
    {"dmabuf-import-failed", EOPNOTSUPP, "EOPNOTSUPP",
     "Use another NIC, or peer memory; with amdgpu, a kernel with CONFIG_PCI_P2PDMA and "
     "CONFIG_DMABUF_MOVE_NOTIFY."},
    {"dmabuf-import-failed", ENOMEM, "ENOMEM",
     "Make room: end processes that have registered memory of this GPU or with this NIC; enlarge "
     "the GPU's BAR (nvidia-smi -q shows how much of BAR1 is used)."},
    {"peer-memory-refused", ENOMEM, "ENOMEM",
     "Make room: end processes that have registered memory of this GPU or with this NIC; enlarge "
     "the GPU's BAR (nvidia-smi -q shows how much of BAR1 is used)."},
    {"peer-memory-refused", NO_DMABUF_PATH, "ENOTSUPP",
     "Use dmabuf: NVIDIA's peer memory has no pages of MIG and vGPU devices."},
    {0},
};
