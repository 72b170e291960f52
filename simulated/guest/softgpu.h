/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The interface of the guest's /dev/softgpu: device memory made of ordinary pages, known only to
 * the kernel module of simulated/guest/kmod and the programs that use it.
 *
 * An allocation is a dmabuf descriptor. A mapping by mmap(2) behaves as a GPU's BAR for a CPU:
 * loads and stores work, but its pages cannot be pinned through the mapping, so ibv_reg_mr() and
 * process_vm_readv(2) answer EFAULT. The memory is freed with its last descriptor, mapping and
 * importer.
 */
#ifndef SIMULATED_GUEST_SOFTGPU_H
#define SIMULATED_GUEST_SOFTGPU_H

#include <linux/ioctl.h>
#include <linux/types.h>

#define SOFTGPU_DEVICE "/dev/softgpu"
/* Allocations are of whole pages of this size, and nvidia-peermem pins such, while the module's
 * parameter nvidia is on. Other parameters: pages, bar1_kib, peermem, client, peer2peer
 * (`modinfo`). */
#define SOFTGPU_NVIDIA_PAGE 65536ul

#define SOFTGPU_NO_MMAP 1 /* the CPU cannot map it, as memory outside a small BAR */

struct softgpu_alloc {
    __u64 size;  /* bytes; rounded up to whole pages */
    __u32 flags; /* SOFTGPU_NO_MMAP */
    __s32 fd;    /* out: close-on-exec */
};

/* Counters of the buffer behind fd or, with fd -1, of the module: the latter are 0 when nothing has
 * leaked. */
struct softgpu_stat {
    __s32 fd;
    __u32 buffers;                  /* existing; fd -1 only */
    __u32 regions;                  /* existing memory regions over dmabufs; fd -1 only */
    __u32 attached, pinned, mapped; /* by importers; of one buffer only */
    __u32 moved;                    /* the buffer: moves; fd -1: notices to regions */
    __u64 bus; /* of one buffer: the address of its last map; 0 without NVIDIA's rules */
};

/* Gives the buffer other pages, with the same bytes. -EBUSY while it is pinned; force: moves it
 * nevertheless, as a reset of a GPU does. */
struct softgpu_move {
    __s32 fd;
    __u32 force;
};

/* The next `count` operations of a kind fail with err; err 0: they are only delayed. */
enum softgpu_op {
    SOFTGPU_OP_ALLOC,
    SOFTGPU_OP_ATTACH,
    SOFTGPU_OP_PIN,
    SOFTGPU_OP_MAP,
    SOFTGPU_OP_MOVE,
    SOFTGPU_OPS,
};
struct softgpu_fault {
    __u32 op;
    __u32 count;
    __u32 err; /* an errno value */
    __u32 delay_ms;
};

/* What a device on the bus reads at an address of a map. -EFAULT: the map has ended, or never was.
 */
struct softgpu_peek {
    __u64 bus;
    __u64 bytes; /* out */
};

/* A descriptor of another dmabuf that names pages of a buffer with NVIDIA's rules, as each of its
 * driver's exports does, which duplicates the memory's handle: the memory exists as long as any of
 * them, and does not move. It cannot be mapped by the CPU (524, ENOTSUPP). */
struct softgpu_duplicate {
    __u64 offset, size; /* whole pages */
    __s32 fd;
    __s32 duplicate; /* out: close-on-exec */
};

#define SOFTGPU_ALLOC     _IOWR('G', 0x71, struct softgpu_alloc)
#define SOFTGPU_STAT      _IOWR('G', 0x72, struct softgpu_stat)
#define SOFTGPU_MOVE      _IOW('G', 0x73, struct softgpu_move)
#define SOFTGPU_FAULT     _IOW('G', 0x74, struct softgpu_fault)
#define SOFTGPU_PEEK      _IOWR('G', 0x75, struct softgpu_peek)
#define SOFTGPU_DUPLICATE _IOWR('G', 0x76, struct softgpu_duplicate)

#endif
