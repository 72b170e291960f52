/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The engine below the three fake vendors: simulated device memory, failures on request.
 * Linked statically and hidden into each fake library; one copy of its state per library.
 *
 * Device memory behaves as hardware's does for a CPU:
 *  - its device address faults when touched (PROT_NONE);
 *  - its bytes live in a descriptor that stands for the dmabuf. Where the kernel has
 *    memfd_secret(2) that is what it is: loads and stores through a mapping work, but the kernel
 *    will not pin its pages, so process_vm_readv(2) and ibv_reg_mr answer EFAULT, exactly as for
 *    a GPU's BAR. Elsewhere, beyond the limit of locked memory, and with HMREG_FAKE_MEMFD=1, it is
 * a memfd, which is kinder, and answers lseek(2) as a dmabuf does; fake_is_strict() says which.
 * Where there is a /dev/softgpu (simulated/guest) it is a real dmabuf of that.
 *  - a freed address is handed out again at the next allocation that fits (first fit, lowest
 *    address), with a new id.
 * A block is what one descriptor names: whole pages, of 64 KiB where /dev/softgpu has NVIDIA's
 * rules. Allocations of a page or more have a block of their own; smaller ones share a page with
 * their like.
 */
#ifndef SIMULATED_FAKE_H
#define SIMULATED_FAKE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum fake_kind { FAKE_DEVICE, FAKE_HOST, FAKE_MANAGED };
/* MAP_PRIVATE, or what the vendor maps FAKE_HOST with. */
extern int fake_host_flags;

struct fake_block {
    struct fake_block *next;
    uint64_t addr; /* its owner's mapping, 0: none (fake_map) */
    size_t len;    /* whole pages */
    int fd;        /* the descriptor that stands for the dmabuf; -1: none (CPU memory,
                      reservations) */
    char *bytes;   /* the fake's own view of the contents, readable and writable */
    size_t start;  /* where the contents begin in fd */
    int device;
    enum fake_kind kind;
    unsigned users; /* allocations, owners, descriptors of fake_dmabuf_new() */
};

struct fake_alloc {
    struct fake_alloc *next;
    uint64_t addr;
    size_t len;
    uint64_t id; /* never used before in this process */
    int device;
    enum fake_kind kind;
    struct fake_block *block;
    size_t skip;  /* the offset of its bytes in the block */
    uint64_t tag; /* private to the vendor: context, pool, flags */
};

/* Allocates; NULL if the arena of the device is full. HOST and MANAGED are CPU accessible; align: a
 * power of two, 0 for 512. Arena sizes: HMREG_FAKE_MEMORY bytes a device (16 GiB of address space
 * by default; pages are populated when used). With HMREG_FAKE_HIGH=1 device memory has addresses
 * that no process has. */
struct fake_alloc *fake_alloc(int device, enum fake_kind kind, size_t len, size_t align);
/* Frees the allocation that begins at addr; false if none does. */
bool fake_free(uint64_t addr);
/* The allocation that contains addr, or NULL. The pointer is valid until it is freed: call under
 * fake_lock() where another thread may free. */
struct fake_alloc *fake_find(uint64_t addr);
void fake_lock(void); /* recursive */
void fake_unlock(void);

/* Virtual memory management, with separate addresses and memory: physical memory without an
 * address, with one reference; the last reference frees it... */
struct fake_block *fake_block_new(int device, size_t len);
void fake_block_hold(struct fake_block *block);
void fake_block_put(struct fake_block *block);
/* ...addresses of a device without memory, freed like any allocation's by their base (0: none
 * left)... */
uint64_t fake_reserve(int device, size_t len, size_t align);
bool fake_unreserve(uint64_t addr);
/* ...and an allocation that is a piece of a block, mapped at an address of a reservation: found,
 * copied and freed like any other. It holds a reference to the block. */
struct fake_alloc *fake_map(uint64_t addr, size_t len, struct fake_block *block, size_t skip);

/* Replaces the block's fd and bytes, which begin at start of the new fd. Under fake_lock(). */
void fake_block_moved(struct fake_block *block, size_t start);
/* Replaces a device's block by pages of the host, which the kernel can pin. Under fake_lock().
 * False: no memory; the block is unchanged. */
bool fake_block_to_host(struct fake_block *block);

/* Copies as a device's engine does: either side may be device memory of this fake or memory of the
 * CPU. 0, or -1 if a byte of either side is neither (nothing crashes). */
int fake_copy(uint64_t dst, uint64_t src, size_t len);

/* A new descriptor for a block, close-on-exec: a dup of its fd. -1 with errno. */
int fake_block_dup(const struct fake_block *block);
/* A new file of len zero bytes of the kind that stands for dmabufs. -1 with errno. */
int fake_file(size_t len);

/* Descriptors as NVIDIA's driver makes them: of exactly a range, whichever; their length is the
 * range's, mmap(2) of them fails, and the memory lives as long as one of them, or a device's
 * attachment, wherever its address is freed. */
struct fake_piece {
    struct fake_block *block;
    size_t skip, len; /* whole pages */
};
/* A descriptor, close-on-exec, for these pieces one after the other; -1 with errno. */
int fake_dmabuf_new(const struct fake_piece *pieces, size_t count);
/* The same of one piece, where fake_is_dmabuf(): of the guest's /dev/softgpu, whose buffers have
 * NVIDIA's rules. */
int fake_duplicate(const struct fake_piece *piece);
/* Bytes of a device's freed memory (-1: of all devices) that only descriptors hold. */
size_t fake_dmabuf_held(int device);
/* What a NIC's driver does at an import: all of the descriptor's memory takes room in the device's
 * window (BAR1, HMREG_FAKE_BAR1 bytes, no limit if unset). Its bytes, or NULL with errno: ENOENT
 * not such a descriptor, ENOMEM no room, 524 with HMREG_FAKE_ATTACH_REFUSED=1. */
char *fake_dmabuf_attach(int fd);
void fake_dmabuf_detach(char *bytes);
void fake_dmabuf_window(size_t bytes);

bool fake_is_strict(void);
bool fake_is_dmabuf(void); /* real dmabufs: the kernel has a simulated GPU */
size_t fake_page(void);

/* Every entry point of a fake begins with
 *     long code; if (fake_fails("cuMemAlloc_v2", &code)) return code;
 * It counts the call and returns whether a test asked it to fail. */
bool fake_fails(const char *call, long *code);

/* A number from the environment, e.g. fake_env("HMREG_FAKE_DEVICES", 2). */
long fake_env(const char *name, long otherwise);
/* The number of devices: of this vendor by the variable of this name, else by HMREG_FAKE_DEVICES,
 * else 2; at most max. */
int fake_devices(const char *name, int max);
/* Bytes of a device. */
size_t fake_device_memory(void);

/*
 * What tests use, found by dlsym(handle, "hmreg_fake_control") in the loaded fake library:
 *   const struct fake_control *(*hmreg_fake_control)(void)
 * Each fake library gets this symbol from the engine. From the environment as well:
 *   HMREG_FAKE_FAIL="call:code[:skip[:times]],..."  (times -1: for ever)
 */
struct fake_control {
    /* After `skip` more calls, fail `times` times (-1: for ever) with the vendor's code. */
    void (*fail)(const char *call, long code, int skip, int times);
    void (*reset)(void);                      /* cancels all requests and counts */
    unsigned long (*calls)(const char *call); /* number of calls since reset */
    unsigned long (*allocations)(void);       /* existing ones */
    bool (*strict)(void);
    /* Device memory's bytes, read past the runtime, to verify; NULL: not ours. */
    unsigned char *(*peek)(uint64_t addr);
    /* What a simulated NIC does with a descriptor: fake_dmabuf_attach(), fake_dmabuf_detach(). */
    char *(*attach)(int fd);
    void (*detach)(char *bytes);
    void (*window)(size_t bytes); /* the room for attached memory from now on, 0: no limit */
    size_t (*held)(int device);   /* fake_dmabuf_held() */
};
const struct fake_control *hmreg_fake_control(void);

#endif
