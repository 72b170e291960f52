/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Findings about the machine: drivers, PCI, kernel, limits.
 */
#include "tools/doctor/findings.h"

const struct finding findings_of_machine[] = {
    {
        .code = "gpu-no-driver",
        .severity = SEVERITY_DEGRADED,
        .title = "a GPU's kernel driver is not the one its runtime needs",
        .remedy = "Load the vendor's driver: modprobe nvidia, amdgpu, xe or i915 (as root, on the "
                  "host of a container); dmesg says why it does not take the GPU.",
        .lesson = "A vendor's runtime reaches a GPU through the vendor's own kernel driver. A GPU "
                  "on the PCI bus that is bound to no driver, to nouveau or to vfio-pci is not "
                  "seen by CUDA, ROCm or Level Zero at all, whatever is installed in user space. "
                  "The link /sys/bus/pci/devices/ADDRESS/driver names the driver that has it.",
    },
    {
        .code = "gpu-no-node",
        .severity = SEVERITY_DEGRADED,
        .title = "the device files of a GPU are missing or closed to this user",
        .remedy = "Give this process the files: in a container start it with the GPUs (docker run "
                  "--gpus all; --device /dev/kfd --device /dev/dri); elsewhere add the user to "
                  "the groups video and render, or run nvidia-modprobe as root.",
        .lesson = "Runtimes talk to their driver through files in /dev: /dev/nvidiactl and "
                  "/dev/nvidia0 for CUDA, /dev/kfd and /dev/dri/renderD* for ROCm, /dev/dri/"
                  "renderD* for Level Zero. /sys shows a container all of the host's GPUs, /dev "
                  "only those it was given; without the file the runtime reports no device.",
    },
    {
        .code = "gpu-no-runtime",
        .severity = SEVERITY_DEGRADED,
        .title = "a GPU is there with its driver, and its runtime cannot be used",
        .remedy = "Install or repair the vendor's user-space library: libcuda.so.1 comes with the "
                  "NVIDIA driver, libhsa-runtime64.so.1 with ROCm, libze_loader.so.1 and a driver "
                  "for it with Intel's compute runtime. ldconfig -p shows what is found.",
        .lesson = "hmreg asks each vendor's runtime what a pointer is and has it export the "
                  "memory. The runtime is loaded by its soname, so the usual rules of the dynamic "
                  "linker decide which file that is. If it is missing, or is a stub for linking, "
                  "or does not start, memory of that vendor's GPUs is unknown to this process.",
    },
    {
        .code = "driver-mismatch",
        .severity = SEVERITY_DEGRADED,
        .title = "NVIDIA's kernel module and libcuda are of different versions",
        .remedy = "Make both the same: reboot (or unload and load the nvidia modules) after an "
                  "update of the driver; in a container use the host's libcuda, as NVIDIA's "
                  "container toolkit does.",
        .lesson = "libcuda.so.1 and nvidia.ko are two halves of one driver and are released "
                  "together. After an update without a reboot the old module is still loaded, and "
                  "libcuda refuses to start, or starts in a compatibility mode that lacks the "
                  "newer entry points.",
    },
    {
        .code = "nvidia-closed-modules",
        .severity = SEVERITY_DEGRADED,
        .title = "NVIDIA's kernel modules are the closed ones, which export no dmabuf",
        .remedy = "Install the open kernel modules of the same driver version (for GPUs from "
                  "Turing on), or stay with peer memory: modprobe nvidia-peermem.",
        .lesson = "NVIDIA ships its kernel modules in two flavours. The open ones can export GPU "
                  "memory as a dmabuf, the closed ones cannot, and the device attribute for it "
                  "then says no. This is reported only where a device really denied the export: "
                  "/proc/driver/nvidia/version just says which flavour is loaded.",
    },
    {
        .code = "nic-no-node",
        .severity = SEVERITY_BROKEN,
        .title = "the kernel has RDMA devices that this process cannot open",
        .remedy = "modprobe ib_uverbs; in a container add --device=/dev/infiniband, and "
                  "--cap-add=IPC_LOCK or a memlock limit with it.",
        .lesson = "libibverbs reaches a NIC through /dev/infiniband/uverbsN. Containers see the "
                  "host's NICs under /sys/class/infiniband without those files, and then "
                  "ibv_get_device_list() is empty or ibv_open_device() fails.",
    },
    {
        .code = "nic-not-opened",
        .severity = SEVERITY_DEGRADED,
        .title = "a library lists an RDMA device and cannot open it",
        .remedy = "Look at the error: permissions of /dev/infiniband, limits of the device, a "
                  "rdma-core that is older than the NIC's driver; dmesg may say more.",
        .lesson = "Listing reads /sys; opening asks the kernel's driver for a context and a "
                  "protection domain, which can be refused or run out.",
    },
    {
        .code = "port-down",
        .severity = SEVERITY_DEGRADED,
        .title = "no port of an RDMA device is active",
        .remedy = "Check cable and switch; bring the network interface up (ip link set DEV up) "
                  "and, on RoCE, give it an address; on InfiniBand a subnet manager must run.",
        .lesson = "Memory can be registered with a NIC whose ports are down, but nothing can be "
                  "sent, not even to itself. So a NIC without an active port has no proof here, "
                  "and no use.",
    },
    {
        .code = "far-nic",
        .severity = SEVERITY_DEGRADED,
        .title = "a GPU's nearest RDMA device is at another CPU's memory",
        .remedy = "Use another GPU or NIC for this pairing (hmreg topo shows all), or move a card "
                  "to a slot of the same CPU, best below one PCI switch.",
        .lesson = "Bytes that go from a GPU to a NIC below another CPU socket cross the link "
                  "between the sockets. Some platforms do not forward such transfers between PCI "
                  "devices at all, and the others are slow at it. The distance is read from where "
                  "both devices hang in the PCI tree and from their NUMA nodes.",
    },
    {
        .code = "acs-redirects",
        .severity = SEVERITY_DEGRADED,
        .title = "a PCI switch sends transfers between its devices up to the CPU (ACS)",
        .remedy = "Switch ACS off in the firmware's settings, or clear the bridge's ACS control "
                  "with setpci as root, as NVIDIA's and AMD's guides show. Virtual machines that "
                  "are given single devices need it on.",
        .lesson = "Access Control Services let a bridge redirect requests between two devices "
                  "below it to the root complex, so that an IOMMU can check them. With request "
                  "redirect on, a GPU and a NIC below one switch lose the short way: bandwidth "
                  "falls, and where the IOMMU is off it may not work at all. The bits are in PCI "
                  "extended configuration space, which only root can read.",
    },
    {
        .code = "iommu-translates",
        .severity = SEVERITY_DEGRADED,
        .title = "the IOMMU translates addresses of a GPU or NIC",
        .remedy = "Boot with iommu=pt (passthrough), or switch the IOMMU off in the firmware "
                  "where no virtual machine needs it.",
        .lesson = "With a translating IOMMU every address a device uses goes through tables at "
                  "the root complex. Transfers between devices then go up to it instead of "
                  "straight through a switch, pay for look-ups, and with some drivers fail. In "
                  "passthrough (type \"identity\" of the IOMMU group) devices use physical "
                  "addresses.",
    },
    {
        .code = "bar-small",
        .severity = SEVERITY_DEGRADED,
        .title = "a GPU's BAR shows the PCI bus less than its memory",
        .remedy = "Enable \"Above 4G decoding\" and \"Resizable BAR\" in the firmware; on NVIDIA "
                  "data centre GPUs nvidia-smi -q shows and displaymodeselector sets the BAR1 "
                  "size.",
        .lesson = "Other devices reach GPU memory through a window, the largest BAR. Where it is "
                  "smaller than the memory, only that much can be registered at one time, over all "
                  "processes; beyond it registration fails with ENOMEM, however much GPU memory is "
                  "free.",
    },
    {
        .code = "memlock-low",
        .severity = SEVERITY_DEGRADED,
        .title = "the limit of locked memory is low for what RDMA pins",
        .remedy = "ulimit -l unlimited; for good: \"* - memlock unlimited\" in "
                  "/etc/security/limits.conf, LimitMEMLOCK=infinity in a systemd unit, docker run "
                  "--ulimit memlock=-1.",
        .lesson = "A NIC pins the host memory registered with it, and the kernel counts that "
                  "against RLIMIT_MEMLOCK, once for each NIC: a buffer registered with 8 NICs "
                  "counts 8 times. Less than 1 GiB for each NIC is called low here. Device memory "
                  "by dmabuf or peer memory is not counted. Beyond "
                  "the limit ibv_reg_mr() answers ENOMEM. Processes with CAP_IPC_LOCK are exempt.",
    },
    {
        .code = "mr-count-low",
        .severity = SEVERITY_DEGRADED,
        .title = "an RDMA device has fewer regions than the cache may hold",
        .remedy = "Set FI_MR_CACHE_MAX_COUNT below the device's max_mr (ibv_devinfo -v), shared "
                  "among the processes that use it; some drivers have a module parameter for it.",
        .lesson = "Each registration takes an entry of a table in the NIC, which all processes "
                  "share. When it is full, ibv_reg_mr() fails with ENOMEM. hmreg's cache evicts "
                  "regions nobody holds and tries again, but a limit that fits spares it that.",
    },
    {
        .code = "mr-size-low",
        .severity = SEVERITY_DEGRADED,
        .title = "an RDMA device's longest region is shorter than a GPU's memory",
        .remedy = "Register large buffers in pieces (hmreg_mr_regsgl() makes one region of them), "
                  "or use the driver's options for larger regions.",
        .lesson = "max_mr_size is the longest range one registration can cover. A buffer beyond "
                  "it is refused with -EMSGSIZE by hmreg before the NIC is asked.",
    },
    {
        .code = "userfaultfd-denied",
        .severity = SEVERITY_DEGRADED,
        .title = "this process may not have userfaultfd: hooks in libc watch host memory instead",
        .remedy = "Nothing, if the program changes its mappings by libc's functions, as most do: "
                  "hmreg info says that memhooks serve. Else, in a container, give it the device "
                  "file (docker run --device /dev/userfaultfd), or a seccomp profile that permits "
                  "userfaultfd(2). Elsewhere, a kernel of Linux 5.15 or later with "
                  "CONFIG_USERFAULTFD.",
        .lesson = "hmreg remembers a registration of host memory only while something tells it "
                  "when that memory is freed or mapped anew. The kernel does, by userfaultfd. "
                  "Where it may not, hooks in libc's code do (memhooks), which miss system calls "
                  "that a program makes past libc. Where libc cannot be hooked either, each "
                  "hmreg_mr_get() of host memory registers anew: right, but slow. Device memory is "
                  "checked by its identity and is cached all the same. The verdict is from asking "
                  "the kernel, not from its settings: the sysctl vm.unprivileged_userfaultfd does "
                  "not matter, since only faults of user mode are asked for.",
    },
    {
        .code = "numa-balancing",
        .severity = SEVERITY_DEGRADED,
        .title = "the kernel moves pages between NUMA nodes by itself",
        .remedy = "sysctl kernel.numa_balancing=0",
        .lesson = "Automatic NUMA balancing unmaps pages now and then to see who touches them. "
                  "Each unmapping interrupts threads, invalidates regions that page on demand, and "
                  "makes GPU drivers that follow host mappings stop their queues. Pinned pages "
                  "cannot move anyway, so it costs and gives nothing.",
    },
    {
        .code = "huge-pages-off",
        .severity = SEVERITY_NOTE,
        .title = "host memory comes in small pages only",
        .remedy = "echo madvise >/sys/kernel/mm/transparent_hugepage/enabled, or reserve some: "
                  "sysctl vm.nr_hugepages=N",
        .lesson = "A NIC has an entry in its tables for each page of a region. Host buffers of "
                  "huge pages register faster by about the ratio of the page sizes, and miss less "
                  "in the NIC's own cache. GPU memory has large pages whatever is set here.",
    },
    {
        .code = "page-size",
        .severity = SEVERITY_NOTE,
        .title = "pages are not of 4 KiB",
        .remedy = "Nothing: hmreg asks for the page size. Programs that assume 4 KiB when they "
                  "align a dmabuf's offset are wrong here.",
        .lesson = "Kernels of some Arm machines have pages of 64 KiB. What is exported as a dmabuf "
                  "is aligned to the host's page, and the offset within a page must be the same "
                  "for the descriptor and the address; small buffers share pages more often.",
    },
    {
        .code = "kernel-option-off",
        .severity = SEVERITY_NOTE,
        .title = "a kernel option that dmabuf paths rest on is off, says the kernel's config",
        .remedy = "If the path that is refused matters, use a kernel built with the option.",
        .lesson = "A config file can belong to another kernel, and drivers built apart bring "
                  "their own; so it is never the ground of a verdict here. It is mentioned only "
                  "beside a path that was really refused, as a likely cause.",
    },
    {
        .code = "libfabric-no-dmabuf",
        .severity = SEVERITY_NOTE,
        .title = "this libfabric cannot import dmabufs",
        .remedy = "For GPU memory over libfabric's verbs or efa use libfabric 1.20 or newer, over "
                  "cxi 2.5, over opx 2.6.",
        .lesson = "FI_MR_DMABUF came with libfabric 1.20. Before it, a provider takes device "
                  "memory by its address, which needs peer memory in the kernel. libibverbs is "
                  "not concerned: programs that use it directly can import dmabufs.",
    },
    {
        .code = "container",
        .severity = SEVERITY_NOTE,
        .title = "this is a container",
        .remedy = "Look from the host, too, where something is missing here: kernel modules, "
                  "device files and limits are given from there.",
        .lesson = "A container shares the host's kernel and its modules, and shows /sys of the "
                  "whole machine, but has its own /dev, limits and system call filter. Much that "
                  "looks broken inside was just not handed in.",
    },
    {
        .code = "simulated",
        .severity = SEVERITY_NOTE,
        .title = "devices here are simulated",
        .remedy = "Nothing, in tests. Else take the simulated runtimes out of the library path "
                  "and ZE_ENABLE_ALT_DRIVERS.",
        .lesson = "The vendor's runtime that was loaded is the test suite's fake: its devices are "
                  "no hardware, and what is proven on them is proven for the software above and, "
                  "with a real fabric, for that.",
    },
    {
        .code = "not-root",
        .severity = SEVERITY_NOTE,
        .title = "root could see more",
        .remedy = "Run hmreg doctor as root once, for the settings named.",
        .lesson = "Nothing the doctor proves needs root. A few settings can be read by root only: "
                  "the ACS bits of PCI bridges, in extended configuration space. Transfers should "
                  "be proven as the user who will run them, since limits and permissions are his.",
    },
    {0},
};
