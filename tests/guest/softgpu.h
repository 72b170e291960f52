/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * What /dev/softgpu of the guest answers to: device memory made of ordinary pages, which only
 * the kernel module of tests/guest/kmod and the programs that use it know.
 *
 * An allocation is a dmabuf descriptor. Mapped with mmap(2), it is what a GPU's BAR is to a CPU:
 * loads and stores work, but its pages cannot be pinned through the mapping, so ibv_reg_mr() and
 * process_vm_readv(2) answer EFAULT. It goes when its last descriptor, mapping and importer go.
 */
#ifndef TESTS_GUEST_SOFTGPU_H
#define TESTS_GUEST_SOFTGPU_H

#include <linux/ioctl.h>
#include <linux/types.h>

#define SOFTGPU_DEVICE  "/dev/softgpu"
#define SOFTGPU_NO_MMAP 1 /* the CPU cannot map it, as memory outside of a small BAR */

struct softgpu_alloc {
    __u64 size;  /* bytes; rounded up to whole pages */
    __u32 flags; /* SOFTGPU_NO_MMAP */
    __s32 fd;    /* out: close-on-exec */
};

/* Counters, of the buffer behind fd or, with fd -1, of the module: the latter are 0 when nothing
 * has leaked. */
struct softgpu_stat {
    __s32 fd;
    __u32 buffers;                  /* alive; fd -1 only */
    __u32 regions;                  /* memory regions over dmabufs, alive; fd -1 only */
    __u32 attached, pinned, mapped; /* by importers; of one buffer only */
    __u32 moved;                    /* the buffer: moves; fd -1: notices that regions were given */
};

/* Gives the buffer other pages, with the same bytes. -EBUSY while it is pinned; force: moves it
 * from under its importers all the same, as a reset of a GPU does. */
struct softgpu_move {
    __s32 fd;
    __u32 force;
};

/* The next `count` operations of a kind fail with err, or with err 0 are only late. */
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

#define SOFTGPU_ALLOC _IOWR('G', 0x71, struct softgpu_alloc)
#define SOFTGPU_STAT  _IOWR('G', 0x72, struct softgpu_stat)
#define SOFTGPU_MOVE  _IOW('G', 0x73, struct softgpu_move)
#define SOFTGPU_FAULT _IOW('G', 0x74, struct softgpu_fault)

#endif
