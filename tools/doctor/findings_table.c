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
     "shows to this process. The report has the reason for each runtime that shows none. "
     "Environment variables and containers can hide devices."},
    {"no-nic", SEVERITY_BROKEN, "there is no RDMA device",
     "Load the NIC's RDMA driver (modprobe mlx5_ib, irdma, bnxt_re, efa, ionic_rdma, rdma_rxe), or "
     "give the container /dev/infiniband; rdma link and ibv_devices list what is there.",
     "Only a fabric whose NIC reads and writes memory itself can reach a GPU's directly: "
     "libibverbs' devices, and libfabric's verbs, efa, cxi and opx. tcp, shm and their like move "
     "bytes with the CPU. A NIC whose RDMA driver is not loaded is a plain network card."},
    {"no-path", SEVERITY_BROKEN,
     "an RDMA device cannot register a GPU's memory, nor can any other fabric here",
     "Remove one refusal: each has a finding of its code, with its remedy. One working path is "
     "enough.",
     "hmreg tries dmabuf, peer memory and a CPU mapping in this order. Each has its own needs: "
     "dmabuf a runtime that exports, a kernel and a NIC driver that import; peer memory a kernel "
     "module for that vendor; a mapping a fabric that moves bytes with the CPU. Here every one was "
     "refused."},
    {"path-through-cpu", SEVERITY_DEGRADED,
     "an RDMA device cannot register a GPU's memory; the CPU has to move it",
     "Remove one refusal: each has a finding of its code, with its remedy. One working path is "
     "enough.",
     "No GPUDirect for this pair: the NIC has no path to the GPU's memory. libfabric's tcp and its "
     "like still move it, by a mapping for the CPU, at the speed of the CPU's uncached reads."},
    {"loopback-failed", SEVERITY_BROKEN, "registration or transfer failed in the proof",
     "Look at dmesg; try the pair's other paths, another NIC near the GPU, and the IOMMU and ACS "
     "settings.",
     "The doctor allocates memory on the device, registers it, has the NIC write to it and read "
     "from it, to itself. Registration can succeed and the transfer fail: if PCI requests between "
     "the two devices do not arrive, the completion has an error or never comes. A driver can also "
     "crash or hang the process that tries it, so each NIC is tried in a process of its own."},
    {"loopback-wrong-bytes", SEVERITY_BROKEN, "a transfer succeeded and the bytes are wrong",
     "Do not use this path: take another (order of hmreg_domain_config), and report it to the "
     "vendors of GPU driver and NIC with the versions below.",
     "The NIC reported success, but the bytes written or read are wrong. Wrong offsets, stale "
     "mappings and bridges that drop requests have caused this. Only a comparison of the bytes "
     "finds it, so the doctor compares."},
    {"other-way-works", SEVERITY_DEGRADED, "path dmabuf works by another way",
     "Set HMREG_DMABUF_WAYS, or config.ways of the domain, to the way named.",
     "A dmabuf can be mapped and imported in several ways (hmreg(7)). NIC, device and machine "
     "decide which of them move bytes. The doctor has tried each. A registration that succeeds "
     "proves nothing: some NICs register a dmabuf with the PCIe mapping and then fail in "
     "transfers."},
    {"loopback-untried", SEVERITY_DEGRADED, "a pair that should work could not be proven",
     "Fix the cause above, then run hmreg doctor again.",
     "A path without known obstacles may still fail, so the doctor proves it. The proof needs an "
     "active port, a queue pair or endpoint that can be connected with itself, and a little memory "
     "of the device."},
    /* The machine: drivers, PCI, kernel, limits. */
    {"gpu-no-driver", SEVERITY_DEGRADED, "a GPU's kernel driver is not the one its runtime needs",
     "Load the vendor's driver: modprobe nvidia, amdgpu, xe or i915 (as root, on the host of a "
     "container); dmesg says why it does not take the GPU.",
     "A vendor's runtime reaches a GPU through the vendor's own kernel driver. CUDA, ROCm and "
     "Level Zero do not see a GPU that is bound to no driver, to nouveau or to vfio-pci, whatever "
     "is installed in user space. The link /sys/bus/pci/devices/ADDRESS/driver names the driver "
     "that has it."},
    {"gpu-no-node", SEVERITY_DEGRADED,
     "the device files of a GPU are missing or closed to this user",
     "Give this process the files: in a container start it with the GPUs (docker run --gpus all; "
     "--device /dev/kfd --device /dev/dri); elsewhere add the user to the groups video and render, "
     "or run nvidia-modprobe as root.",
     "Runtimes talk to their driver through files in /dev: /dev/nvidiactl and /dev/nvidia0 for "
     "CUDA, /dev/kfd and /dev/dri/renderD* for ROCm, /dev/dri/renderD* for Level Zero. /sys shows "
     "a container all of the host's GPUs, /dev only those it was given; without the file the "
     "runtime reports no device."},
    {"gpu-no-runtime", SEVERITY_DEGRADED, "a GPU has its driver, but its runtime cannot be used",
     "Install or repair the vendor's user-space library: libcuda.so.1 comes with the NVIDIA "
     "driver, libhsa-runtime64.so.1 with ROCm, libze_loader.so.1 and a driver for it with Intel's "
     "compute runtime. ldconfig -p shows what is found.",
     "hmreg asks each vendor's runtime what a pointer is and has it export the memory. The runtime "
     "is loaded by its soname, so the usual rules of the dynamic linker decide which file that is. "
     "If it is missing, or is a stub for linking, or does not start, memory of that vendor's GPUs "
     "is unknown to this process."},
    {"driver-mismatch", SEVERITY_DEGRADED,
     "NVIDIA's kernel module and libcuda are of different versions",
     "Make both the same: reboot (or unload and load the nvidia modules) after an update of the "
     "driver; in a container use the host's libcuda, as NVIDIA's container toolkit does.",
     "libcuda.so.1 and nvidia.ko are two halves of one driver and are released together. After an "
     "update without a reboot the old module is still loaded, and libcuda refuses to start, or "
     "starts in a compatibility mode that lacks the newer entry points."},
    {"nvidia-closed-modules", SEVERITY_DEGRADED,
     "NVIDIA's kernel modules are the closed ones, which export no dmabuf",
     "Install the open kernel modules of the same driver version (for GPUs from Turing on), or "
     "stay with peer memory: modprobe nvidia-peermem.",
     "NVIDIA ships its kernel modules in two flavours. The open ones can export GPU memory as a "
     "dmabuf, the closed ones cannot, and with them the device attribute for it is 0. This is "
     "reported only where a device really denied the export: /proc/driver/nvidia/version just says "
     "which flavour is loaded."},
    {"nic-no-node", SEVERITY_BROKEN, "the kernel has RDMA devices that this process cannot open",
     "Load ib_uverbs (modprobe ib_uverbs) where the file is missing; give this user the file where "
     "it is closed.",
     "libibverbs reaches a NIC through /dev/infiniband/uverbsN. Containers see the host's NICs "
     "under /sys/class/infiniband without those files, and then ibv_get_device_list() is empty or "
     "ibv_open_device() fails."},
    {"nic-not-opened", SEVERITY_DEGRADED, "a library lists an RDMA device but cannot open it",
     "Look at the error: permissions of /dev/infiniband, limits of the device, a rdma-core that is "
     "older than the NIC's driver; dmesg may say more.",
     "Listing reads /sys; opening asks the kernel's driver for a context and a protection domain, "
     "which can be refused or run out."},
    {"no-port", SEVERITY_BROKEN, "no RDMA device has an active port",
     "Check cable and switch; bring the network interface up (ip link set DEV up) and, on RoCE, "
     "give it an address; on InfiniBand a subnet manager must run.",
     "Memory can be registered with a NIC whose ports are down, but nothing can be sent, not even "
     "to itself. Every NIC here is in this state: no transfer can be tried."},
    {"port-down", SEVERITY_DEGRADED, "no port of an RDMA device is active",
     "Check cable and switch; bring the network interface up (ip link set DEV up) and, on RoCE, "
     "give it an address; on InfiniBand a subnet manager must run.",
     "Memory can be registered with a NIC whose ports are down, but nothing can be sent, not even "
     "to itself. So a NIC without an active port has no proof here, and no use."},
    {"port-errors", SEVERITY_DEGRADED, "an RDMA device counted errors while its paths were proven",
     "Look at cable, optics and the switch's port; on RoCE at its flow control (PFC, ECN) and MTU. "
     "Run hmreg doctor again on an idle machine: other programs' transfers count as well.",
     "The NIC repeats lost or damaged transfers, so they are slow, not wrong. A counter that rises "
     "during a proof of about 128 KiB on each path rises all the time. The driver names the "
     "counters, and its documentation explains them."},
    {"far-nic", SEVERITY_DEGRADED, "a GPU's nearest RDMA device is at another CPU's memory",
     "Use another GPU or NIC for this pairing (hmreg topo shows all), or move a card to a slot of "
     "the same CPU, best below one PCI switch.",
     "Bytes that go from a GPU to a NIC below another CPU socket cross the link between the "
     "sockets. Some platforms do not forward such transfers between PCI devices at all, and the "
     "others are slow at it. The distance is read from where both devices hang in the PCI tree and "
     "from their NUMA nodes."},
    {"acs-redirects", SEVERITY_DEGRADED,
     "a PCI switch sends transfers between its devices up to the CPU (ACS)",
     "Switch ACS off in the firmware's settings, or clear the bridge's ACS control with setpci as "
     "root, as NVIDIA's and AMD's guides show. Virtual machines that are given single devices need "
     "it on.",
     "Access Control Services let a bridge redirect requests between two devices below it to the "
     "root complex, so that an IOMMU can check them. With request redirect on, a GPU and a NIC "
     "below one switch lose the short way: bandwidth falls, and where the IOMMU is off it may not "
     "work at all. The bits are in PCI extended configuration space, which only root can read."},
    {"iommu-translates", SEVERITY_DEGRADED, "the IOMMU translates addresses of a GPU or NIC",
     "Boot with iommu=pt (passthrough), or switch the IOMMU off in the firmware where no virtual "
     "machine needs it.",
     "With a translating IOMMU every address a device uses goes through tables at the root "
     "complex. Transfers between devices then go up to it instead of straight through a switch, "
     "pay for look-ups, and with some drivers fail. In passthrough (type \"identity\" of the IOMMU "
     "group) devices use physical addresses."},
    {"bar-small", SEVERITY_DEGRADED, "a GPU's BAR shows the PCI bus less than its memory",
     "Enable \"Above 4G decoding\" and \"Resizable BAR\" in the firmware; on NVIDIA data centre "
     "GPUs nvidia-smi -q shows and displaymodeselector sets the BAR1 size.",
     "Other devices reach GPU memory through a window, the largest BAR. Where it is smaller than "
     "the memory, only that much can be registered at one time, over all processes; beyond it "
     "registration fails with ENOMEM, however much GPU memory is free."},
    {"memlock-low", SEVERITY_DEGRADED, "the limit of locked memory is low for what RDMA pins",
     "ulimit -l unlimited; for good: \"* - memlock unlimited\" in /etc/security/limits.conf, "
     "LimitMEMLOCK=infinity in a systemd unit, docker run --ulimit memlock=-1.",
     "A NIC pins the host memory registered with it, and the kernel counts that against "
     "RLIMIT_MEMLOCK, once for each NIC: a buffer registered with 8 NICs counts 8 times. Less than "
     "1 GiB for each NIC is called low here. Device memory by dmabuf or peer memory is not "
     "counted. Beyond the limit ibv_reg_mr() answers ENOMEM. Processes with CAP_IPC_LOCK are "
     "exempt, but not by the capability of a user namespace, as in a rootless container: the "
     "kernel requires it in the initial user namespace. Soft-iWARP (siw) of Linux 6.1, but not of "
     "6.12, exempts no process, root's included."},
    {"mr-count-low", SEVERITY_DEGRADED, "an RDMA device has fewer regions than the cache may hold",
     "Set FI_MR_CACHE_MAX_COUNT below the device's max_mr (ibv_devinfo -v), shared among the "
     "processes that use it; some drivers have a module parameter for it.",
     "Each registration takes an entry of a table in the NIC, which all processes share. When it "
     "is full, ibv_reg_mr() fails with ENOMEM. hmreg's cache then evicts regions that no get holds "
     "and tries again; a limit that fits avoids this."},
    {"mr-size-low", SEVERITY_DEGRADED,
     "an RDMA device's longest region is shorter than a GPU's memory",
     "Register large buffers in pieces (hmreg_mr_regsgl() makes one region of them), or use the "
     "driver's options for larger regions.",
     "max_mr_size is the longest range one registration can cover. A buffer beyond it is refused "
     "with -EMSGSIZE by hmreg before the NIC is asked."},
    {"userfaultfd-denied", SEVERITY_DEGRADED,
     "this process may not have userfaultfd: hooks in libc watch host memory instead",
     "Nothing, if the program changes its mappings by libc's functions, as most do: hmreg info "
     "says that memhooks serve. Else, in a container, give it the device file (docker run --device "
     "/dev/userfaultfd), or a seccomp profile that permits userfaultfd(2). Elsewhere, a kernel of "
     "Linux 5.15 or later with CONFIG_USERFAULTFD; or the kernel module hmreg_counter: apt-get "
     "install hmreg-dkms, which notices every change of any memory.",
     "hmreg caches a registration of host memory only while a monitor reports when that memory is "
     "freed or mapped anew. The kernel can, by userfaultfd. Without its permission hooks in libc's "
     "code report it (memhooks), but they miss system calls that a program makes past libc. "
     "Without both, each hmreg_mr_get() of host memory registers anew: correct, but slow. Device "
     "memory is checked by its identity and is cached in any case. The doctor tried userfaultfd to "
     "find this. The sysctl vm.unprivileged_userfaultfd does not matter, since hmreg requests "
     "faults of user mode only."},
    {"memhooks-impossible", SEVERITY_DEGRADED, "hooks in libc cannot watch host memory here",
     "The kernel module hmreg_counter: apt-get install hmreg-dkms, modprobe hmreg_counter. In a "
     "container: docker run --device /dev/hmreg.",
     "By default hooks in libc's code (memhooks) notice that host memory is freed or mapped anew. "
     "They cannot serve if libc's code cannot be changed, and would miss calls of code that "
     "changes mappings past libc: some tools and preloaded libraries. Then userfaultfd serves, "
     "which costs a system call for each hit. Without permission for it, each hmreg_mr_get() of "
     "host memory registers anew. With the module the kernel counts each change of any process, "
     "and a hit asks nothing."},
    {"numa-balancing", SEVERITY_DEGRADED, "the kernel moves pages between NUMA nodes by itself",
     "sysctl kernel.numa_balancing=0",
     "Automatic NUMA balancing unmaps pages now and then to see which CPUs touch them. Each "
     "unmapping interrupts threads, invalidates regions that page on demand, and makes GPU drivers "
     "that follow host mappings stop their queues. Pinned pages cannot move anyway, so it costs "
     "and gives nothing."},
    {"huge-pages-off", SEVERITY_NOTE, "host memory comes in small pages only",
     "echo madvise >/sys/kernel/mm/transparent_hugepage/enabled, or reserve some: sysctl "
     "vm.nr_hugepages=N",
     "A NIC has an entry in its tables for each page of a region. Host buffers of huge pages "
     "register faster by about the ratio of the page sizes, and miss less in the NIC's own cache. "
     "GPU memory has large pages whatever is set here."},
    {"page-size", SEVERITY_NOTE, "pages are not of 4 KiB",
     "Nothing: hmreg asks for the page size. Programs that assume 4 KiB when they align a dmabuf's "
     "offset are wrong here.",
     "Kernels of some Arm machines have pages of 64 KiB. What is exported as a dmabuf is aligned "
     "to the host's page, and the offset within a page must be the same for the descriptor and the "
     "address; small buffers share pages more often."},
    {"kernel-option-off", SEVERITY_NOTE,
     "a kernel option that dmabuf paths need is off in the kernel's config",
     "If the path that is refused matters, use a kernel built with the option.",
     "A config file can belong to another kernel, and drivers built apart bring their own; so no "
     "verdict here rests on it. The doctor mentions the option only beside a path that was really "
     "refused, as a likely cause."},
    {"libfabric-no-dmabuf", SEVERITY_NOTE, "this libfabric cannot import dmabufs",
     "For GPU memory over libfabric's verbs or efa use libfabric 1.20 or newer, over cxi 2.5, over "
     "opx 2.6.",
     "FI_MR_DMABUF came with libfabric 1.20. Before it, a provider takes device memory by its "
     "address, which needs peer memory in the kernel. libibverbs is not concerned: programs that "
     "use it directly can import dmabufs."},
    {"container", SEVERITY_NOTE, "this is a container",
     "Run hmreg doctor on the host, too, where something is missing here: kernel modules, device "
     "files and limits come from there.",
     "A container shares the host's kernel and its modules, and shows /sys of the whole machine, "
     "but has its own /dev, limits and system call filter. What is missing inside is often there "
     "on the host, and was not passed to the container."},
    {"simulated", SEVERITY_NOTE, "devices here are simulated",
     "Nothing, in tests. Else take the simulated runtimes out of the library path and "
     "ZE_ENABLE_ALT_DRIVERS.",
     "The vendor's runtime that was loaded is the test suite's fake: its devices are no hardware. "
     "A proof on them covers the software above and, with a real fabric, the fabric."},
    {"not-root", SEVERITY_NOTE, "root could see more",
     "Run hmreg doctor as root once, with CAP_SYS_ADMIN, for the settings named.",
     "Nothing the doctor proves needs root. A few settings can be read by root only: the ACS bits "
     "of PCI bridges, in extended configuration space. Transfers should be proven as the user who "
     "will run them, since limits and permissions are that user's."},
    /* Another node: --peer. */
    {"peer-unreachable", SEVERITY_BROKEN, "no connection to the other node",
     "Look at the link and the routes of both nodes (ip link, ip route get ADDRESS), at filters, "
     "and whether hmreg doctor --serve runs there.",
     "The doctors of two nodes first talk over TCP. Where no host answers, a link is down or a "
     "route is missing; where a connection is refused, the host is there and nothing listens on "
     "the port; where nothing comes back, a filter drops it."},
    {"peer-no-pair", SEVERITY_BROKEN, "the two nodes have no fabric of the same kind",
     "Compare hmreg info of both nodes: RDMA drivers, libfabric's version and providers.",
     "A pair is of two NICs of the same kind of link by the same library: libibverbs with "
     "libibverbs, a provider of libfabric with the same one. tcp counts at the address by which "
     "the nodes talk, and libfabric before 1.18 has another one than later versions."},
    {"peer-port-down", SEVERITY_BROKEN, "a port of a pair of NICs is not active",
     "Look at cable, switch port and subnet manager (rdma link, ip link); hmreg doctor on that "
     "node says more.",
     "Each node reports the state of each NIC's port as its kernel does. No transfer is tried over "
     "a port that is not active."},
    {"peer-no-route", SEVERITY_BROKEN, "a NIC has no way to the other node's",
     "Give both interfaces addresses of networks that are joined, and routes (ip route get ADDRESS "
     "from OWN); for Ethernet look whether the next hop answers (ip neighbour).",
     "The kernel looks for the way to a GID's address when a queue pair becomes ready to receive, "
     "and libfabric when it connects. On networks whose rails are not joined this is as designed "
     "for NICs of different rails."},
    {"peer-refused", SEVERITY_BROKEN, "the other node's NIC refused the connection",
     "Look for filters that reject (nft list ruleset) on both nodes and between them.",
     "A packet came back that refuses the connection to the port on which the other node's process "
     "listens. It does listen while the pair is proven, so something between them answers for it."},
    {"peer-timeout", SEVERITY_BROKEN, "nothing came back from the other node's NIC",
     "Look for a filter (UDP port 4791 is RoCE v2's; libfabric's tcp takes any port), and compare "
     "the GIDs' versions and VLANs of both NICs (rdma link, show_gids); then at the switches "
     "between.",
     "Both queue pairs were ready (RTR, RTS), or the endpoint was open, and the first small packet "
     "was not acknowledged, however often it was sent: it went to a wrong GID or VLAN, or "
     "something dropped it. The doctors' own connection passed."},
    {"peer-mtu", SEVERITY_BROKEN, "small packets pass between two NICs, but long ones do not",
     "Give all interfaces and switch ports on the way the same MTU (ip link set NAME mtu BYTES); "
     "RoCE takes the largest of 1024, 2048 and 4096 that fits.",
     "A write of 256 bytes arrived, and one of 64 KiB did not, which needs packets as long as the "
     "interfaces' MTU. Something between the two NICs takes only shorter ones, and does not say "
     "so."},
    {"peer-mtu-differs", SEVERITY_DEGRADED, "two NICs have different MTUs",
     "Give both interfaces the MTU that the network between them has (ip link set NAME mtu BYTES).",
     "A connection takes the smaller MTU of its ends, if each knows the other's. A router or "
     "switch port with a smaller MTU drops longer packets."},
    {"peer-failed", SEVERITY_BROKEN, "a proof between two nodes failed",
     "Run hmreg doctor on both nodes: where it proves the same memory in loopback, the network is "
     "the cause; dmesg may say more.",
     "Memory is allocated and registered on both nodes; one of them writes to the other's and "
     "reads from it, and each compares the bytes. The sentence says which step failed on which "
     "node, or the status with which the NIC completed the operation."},
    {"peer-wrong-bytes", SEVERITY_BROKEN, "a transfer between two nodes succeeded, bytes are wrong",
     "Do not use this pair; run hmreg doctor on both nodes, and report it to the NIC's vendor.",
     "The NIC said success, and the memory of the node that was written to, or read into, has "
     "other bytes than were sent."},
    {"peer-untried", SEVERITY_DEGRADED, "a pair of NICs of two nodes was not proven",
     "Fix the cause in the sentence, then run hmreg doctor --peer again.",
     "A memory has no path to the NIC, or the connection of the doctors broke before the pair's "
     "turn."},
    {"peer-errors", SEVERITY_DEGRADED, "a port counted errors while a pair of NICs was proven",
     "Look at cable, optics and the switch's ports; on RoCE at flow control (PFC, ECN) and MTU. "
     "Run "
     "it again on idle nodes: other programs' transfers count as well.",
     "The NIC repeats lost or damaged packets, so transfers are slow, not wrong. A counter that "
     "rises during one proof rises all the time. The driver names the counters, and its "
     "documentation explains them."},
    {"peer-slow", SEVERITY_DEGRADED, "a pair of NICs is slower than half its rated speed",
     "Compare with other pairs; look at the PCI link's width (lspci -vv), at the errors of the "
     "ports (hmreg doctor), flow control and congestion.",
     "A simple loop writes 2 MiB at a time for 0.2 s, one after another. That reaches most of a "
     "link's rated speed where nothing is wrong; a benchmark with many operations at once says "
     "more."},
    /* The library's reasons for refusing a path, as hmreg(7) lists them. */
    {"no-dmabuf-export", SEVERITY_DEGRADED, "the runtime or the device exports no dmabuf",
     "CUDA: driver for CUDA 11.7 or newer with the open kernel modules. ROCm: 5.3 or newer. Level "
     "Zero: a driver with DMA_BUF export. Or use peer memory.",
     "A dmabuf is a descriptor of the GPU's memory that another driver can import. The GPU's "
     "runtime has to make it: old runtimes have no call for it, and some devices do not support "
     "it."},
    {"nic-imports-no-dmabuf", SEVERITY_DEGRADED, "the driver of the NIC imports no dmabufs",
     "Use a NIC whose driver does (mlx5, efa, irdma, bnxt_re, mana, ionic), with a new enough "
     "kernel and rdma-core; or load the vendor's peer memory module.",
     "ibv_reg_dmabuf_mr() needs the operation in the NIC's kernel driver and in its part of "
     "rdma-core. hmreg probes with an invalid descriptor: a driver that imports dmabufs rejects "
     "the descriptor (EBADF), another rejects the call (EOPNOTSUPP)."},
    {"kernel-too-old", SEVERITY_DEGRADED, "the kernel imports no dmabufs for RDMA",
     "Use Linux 5.12 or newer, or peer memory.",
     "Importing dmabufs for RDMA came with Linux 5.12; distributions have brought it to some older "
     "ones. The kernel itself was asked."},
    {"libibverbs-too-old", SEVERITY_DEGRADED, "libibverbs has no ibv_reg_dmabuf_mr()",
     "Install rdma-core 34 or newer; in a container it is the image's, not the host's.",
     "The call came with rdma-core 34 (symbol version IBVERBS_1.12). hmreg looks for it in the "
     "library that is loaded, so the newer one must be the one the process finds."},
    {"dmabuf-probe-failed", SEVERITY_DEGRADED, "the NIC did not say whether it imports dmabufs",
     "Look at dmesg for the NIC's driver; peer memory may do.",
     "hmreg asked the driver to import an invalid descriptor. It answered neither that the "
     "descriptor is invalid nor that it imports none."},
    {"dmabuf-import-failed", SEVERITY_DEGRADED, "the NIC's driver refused this dmabuf",
     "Read the error in the sentence, and dmesg; try another NIC, or peer memory.",
     "The runtime exported the memory and the NIC's driver could not attach to it. The exporter "
     "may refuse the PCI topology (524), or the importer's way of pinning."},
    {"no-data-direct", SEVERITY_NOTE, "the NIC has no data direct",
     "Nothing, unless the NIC should have it: then its firmware's option, Linux 6.12 and rdma-core "
     "54.",
     "Data direct is a second PCIe function of some NICs (ConnectX-8 and later), by which they "
     "reach the memory of GPUs beside the CPU. Only libibverbs on mlx5 can ask for it. The other "
     "ways of path dmabuf do without."},
    {"rdma-core-too-old", SEVERITY_NOTE, "libmlx5 has no calls for data direct",
     "Install rdma-core 54 or newer; in a container it is the image's, not the host's.",
     "mlx5dv_reg_dmabuf_mr() came with rdma-core 54 (symbol version MLX5_1.25). hmreg looks for it "
     "in the libmlx5 that libibverbs has loaded for the NIC."},
    {"data-direct-refused", SEVERITY_DEGRADED,
     "the NIC's driver refused this dmabuf for data direct",
     "Read the error in the reason; dmesg may say more. HMREG_DMABUF_WAYS=plain leaves data direct "
     "out.",
     "The NIC has data direct, the memory was exported, and the import failed. The next way is "
     "tried, which may be slower."},
    {"no-pcie-mapping", SEVERITY_NOTE,
     "the runtime or the device has no dmabuf with the PCIe mapping",
     "CUDA: a driver of 12.8 or newer. Where the device refuses it: HMREG_DMABUF_WAYS without pcie "
     "and data-direct-pcie.",
     "A device whose link with the CPU is coherent (Grace) can be reached by that link or by PCIe; "
     "CUDA 12.8 has a flag for the second. Devices that have one link only may refuse it."},
    {"mapping-is-the-callers", SEVERITY_NOTE,
     "the dmabuf is the caller's, with the mapping that it has",
     "Export it with HMREG_EXPORT_PCIE (hmreg_export_dmabuf()).",
     "The export chooses a dmabuf's mapping. hmreg can choose only how to import a dmabuf that the "
     "caller passes in."},
    {"no-peer-memory", SEVERITY_DEGRADED, "the kernel has no peer memory client for this vendor",
     "NVIDIA: modprobe nvidia-peermem (needs the NIC driver of MLNX_OFED or DOCA). AMD: "
     "amdgpu-dkms installed after MLNX_OFED. Or make dmabuf work, which needs neither.",
     "Peer memory is an older way: a kernel module of the GPU's vendor tells the RDMA subsystem "
     "where GPU addresses lead, so that plain ibv_reg_mr() takes them. No upstream kernel has the "
     "interface. Clients are listed in /sys/kernel/mm/memory_peers; NVIDIA's module is "
     "nvidia_peermem, formerly nv_peer_mem; efa_nv_peermem is EFA's."},
    {"peer-memory-refused", SEVERITY_DEGRADED, "peer memory is loaded but did not take the address",
     "Rebuild or reload the vendor's module against the running kernel and NIC driver (modprobe -r "
     "nvidia-peermem; modprobe nvidia-peermem); dmesg says more.",
     "The module is there, and ibv_reg_mr() on a GPU address failed: the module was built for "
     "another NIC driver, serves another vendor's memory, or the memory is of a kind it cannot "
     "pin. Users see \"Bad address\", also while BAR1 is full; with MIG and vGPU they see error "
     "524 (NVIDIA's module asks for pages, which these lack), and dmabuf is the way."},
    {"fabric-pins-pages", SEVERITY_DEGRADED,
     "the fabric pins pages, which a CPU mapping does not have",
     "Nothing: this path is for tcp and its like.",
     "The CPU's mapping of a GPU's memory has no struct pages that could be pinned, so a NIC that "
     "registers by pinning answers EFAULT."},
    {"provider-host-only", SEVERITY_DEGRADED, "the provider registers host memory only",
     "Use another fabric for device memory.",
     "The fabric's provider in hmreg has operations for host memory only, whatever the fabric "
     "could do."},
    {"fabric-imports-no-dmabuf", SEVERITY_DEGRADED, "the fabric has no import of dmabufs",
     "Use libfabric's verbs, efa, cxi or opx, or libibverbs.",
     "Fabrics that copy with the CPU or through the vendor's runtime have no use for a descriptor "
     "of the memory."},
    {"libfabric-too-old", SEVERITY_DEGRADED, "libfabric's provider is older than its FI_MR_DMABUF",
     "Install libfabric 1.20 or newer for verbs and efa, 2.5 for cxi, 2.6 for opx.",
     "Before 1.20 libfabric has no way to hand a dmabuf to a provider; cxi and opx do not know the "
     "flag before 2.5 and 2.6, and cxi would take the descriptor for an address."},
    {"api-version-too-old", SEVERITY_DEGRADED,
     "libfabric was asked with an API version before 1.20",
     "Give FI_VERSION(1, 20) or newer to fi_getinfo().",
     "A provider reads the dmabuf fields only if the application asked for an API that has them."},
    {"no-fi-hmem", SEVERITY_DEGRADED, "the libfabric domain is without FI_HMEM",
     "Ask for FI_HMEM in the hints' caps and FI_MR_HMEM in mr_mode; if the provider then offers "
     "nothing, it was built without GPU support.",
     "FI_HMEM is libfabric's capability for device memory. The doctor asks for it first, so a "
     "domain without it is of a provider that does not grant it here."},
    {"libfabric-lacks-iface", SEVERITY_DEGRADED, "libfabric does not know the iface of the memory",
     "Use a libfabric that knows it, or claim iface system for the dmabuf.",
     "libfabric looks memory's iface up in a table. A number beyond its end, which a newer version "
     "may have, would read memory beyond the table."},
    {"libfabric-lacks-driver", SEVERITY_DEGRADED,
     "libfabric has no name for devices of a second driver", "Install libfabric 1.18 or newer.",
     "Level Zero may have several drivers, and a device is known by its driver and its index "
     "there. Older libfabrics know an index only, which would name a device of the first driver."},
    {"device-unknown", SEVERITY_DEGRADED, "libfabric wants a device, and the claim names none",
     "Claim the device of the dmabuf's memory, not HMREG_DEVICE_ANY.",
     "libfabric takes the device of Level Zero, Neuron and Gaudi memory, and since 2.5 of ROCm's. "
     "No number means any device."},
    {"dmabuf-without-address", SEVERITY_DEGRADED,
     "the fabric exports a dmabuf again, and the caller's has no address",
     "Give base_addr, the address of the dmabuf's memory in this process, and claim its iface.",
     "libfabric's cxi ignores the descriptor: it takes base_addr + offset for memory of the iface, "
     "and would register other memory, or none."},
    {"fabric-bypasses-cpu", SEVERITY_DEGRADED,
     "the fabric's NIC reads memory itself: a mapping is of no use",
     "Nothing: this path is for tcp and its like.",
     "A CPU mapping helps only a fabric that moves bytes by loads and stores of this process."},
    {"fabric-unknown", SEVERITY_DEGRADED, "hmreg does not know the fabric",
     "Use a fabric of hmreg_domain_open_ofi(3)'s list, or report this one.",
     "libfabric has no query for what a provider does with device memory. hmreg knows the "
     "providers of libfabric and does not guess about others."},
    {"fabric-refused", SEVERITY_DEGRADED, "the fabric failed to register the memory",
     "Follow the fabric's own error; FI_LOG_LEVEL=warn shows libfabric's words.",
     "The provider took the request and its registration failed; its code is kept."},
    {"mapping-has-no-pages", SEVERITY_DEGRADED,
     "the fabric would move mapped memory with a call that needs pages",
     "Switch that way of moving off where the sentence names its setting.",
     "process_vm_readv(2) and zero-copy sends find the pages of a buffer; a mapping of device "
     "memory has none."},
    {"no-dmabuf-mmap", SEVERITY_DEGRADED, "the dmabuf cannot be mapped for the CPU",
     "Use a fabric with dmabuf or peer memory.",
     "The path mapped rests on mmap() of the dmabuf. Exporters may refuse that, and many GPU "
     "drivers do."},
    {"dmabuf-sync-failed", SEVERITY_DEGRADED, "the dmabuf's exporter refused CPU access",
     "Use a fabric with dmabuf or peer memory.",
     "Before the CPU touches a mapping of a dmabuf it announces that to the exporter, which "
     "refused."},
    {"no-descriptor", SEVERITY_DEGRADED, "no file descriptor was left",
     "Raise the limit: ulimit -n.",
     "An export takes a descriptor, and the process had all it may have."},
    {"no-cpu-address", SEVERITY_DEGRADED,
     "host memory of a runtime has no address for the CPU here",
     "Map it for the CPU, or use memory that the runtime allocates as pinned host memory.",
     "Host memory made by a runtime's virtual memory calls may be mapped for its device only. A "
     "fabric registers host memory by the address the CPU has for it, and here there is none."},
    {"managed-memory-migrates", SEVERITY_DEGRADED, "managed memory moves between host and device",
     "Use device memory or pinned host memory for transfers.",
     "The pages of managed memory migrate: a NIC that has pinned their old place would write to "
     "the wrong memory."},
    {"one-range-only", SEVERITY_DEGRADED,
     "a dmabuf registration takes one range, and the region has several",
     "Use hmreg_mr_regsgl(), which makes a composite.",
     "One descriptor names one allocation; a region over several needs one registration each."},
    {"page-offset-differs", SEVERITY_DEGRADED,
     "the range's offset in its page differs between address and dmabuf",
     "Give the dmabuf a base_addr that is a multiple of the page size.",
     "A NIC maps whole pages: the offset within the page has to be the same for the address peers "
     "name and for the descriptor."},
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
