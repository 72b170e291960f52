/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The verbs provider: memory regions of a protection domain. It registers host memory by address;
 * device memory by dmabuf if the device imports dmabufs, or by address if the kernel has a
 * peer-memory client for that vendor.
 *
 * The device accesses memory by virtual address, needs local buffers registered too, chooses the
 * keys and pins the pages, which must be allocated. The rkey of a region without remote access
 * varies between drivers (0, or the lkey): we hide it. We also hide the address in the ibv_mr,
 * which for a dmabuf is an offset.
 *
 * Calls newer than the first libibverbs of this ABI (ibv_reg_dmabuf_mr(), ibv_reg_mr_ex()) are
 * looked up at run time and used if the loaded libibverbs has them.
 *
 * Fork: this provider calls nothing. Unless ibv_is_fork_initialized() returns IBV_FORK_UNNEEDED,
 * a program that forks must call ibv_fork_init() before its first registration: later the call
 * corrupts the accounting of libibverbs, so a library must not call it.
 */
#include "core/base/device_folder.h"
#include "core/base/error.h"
#include "core/base/failure.h"
#include "core/base/fault_cause.h"
#include "core/contract/provider.h"
#include "providers/verbs/verbs_direct.h"
#include "providers/verbs/verbs_peers.h"
#include "providers/verbs/verbs_windows.h"

#include <hmreg/verbs.h>

#include <dlfcn.h>
#include <errno.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define VENDOR_AMAZON   0x1d0f   /* EFA NICs */
#define VENDOR_MELLANOX 0x02c9   /* mlx4, mlx5 */
#define VENDOR_PENSANDO 0x1dd8   /* ionic */
#define VENDOR_HUAWEI   0x19e5   /* hns */
#define VENDOR_INTEL    0x8086   /* irdma */
#define VENDOR_RXE      0xffffff /* Soft-RoCE */
#define VENDOR_SIW      0x626d74 /* Soft-iWARP, whose driver ignores the iova */

/* ibv_reg_dmabuf_mr() of rdma-core 34. */
typedef struct ibv_mr *reg_dmabuf_call(struct ibv_pd *pd, uint64_t offset, size_t length,
                                       uint64_t iova, int fd, int access);

/* ibv_reg_mr_ex() of rdma-core 59, for every kind of region: some drivers implement only it, most
 * only the call above. It reads the fields that comp_mask names; later versions append fields. */
struct mr_init_attr {
    size_t length;
    int access;
    uint64_t comp_mask; /* MASK_* */
    uint64_t iova;
    void *addr;
    int fd;
    uint64_t fd_offset;
    void *later[4];
};
#define MASK_IOVA      (1u << 0)
#define MASK_FD        (1u << 2)
#define MASK_FD_OFFSET (1u << 3)
typedef struct ibv_mr *reg_ex_call(struct ibv_pd *pd, struct mr_init_attr *attr);

struct verbs {
    struct windows windows; /* must be first: verbs_windows.c relies on it */
    struct ibv_pd *pd;      /* borrowed */
    struct device_folder folder;
    uint32_t vendor; /* of the device */
    int max_mr;      /* the device's limit of regions; 0: unknown */
    atomic_int live; /* regions registered here */
    bool iwarp;
    bool odp;                    /* on-demand paging */
    uint32_t asked;              /* HMREG_VERBS_* of the domain's config */
    uint32_t flags;              /* the same, and its consequences here */
    reg_dmabuf_call *reg_dmabuf; /* NULL: libibverbs lacks it, or the device needs reg_ex */
    reg_ex_call *reg_ex;         /* NULL: libibverbs lacks it */
    struct direct direct;
    int dmabuf_errno; /* 0: the device imports dmabufs; else the probe's errno */
};

/* ---- access ----------------------------------------------------------------------------- */

/* Everything that makes the device write into the region needs LOCAL_WRITE: receives, read
 * responses and peers' writes. */
static const struct {
    uint64_t right;
    unsigned access;
} rights[] = {
    {HMREG_SEND, 0},
    {HMREG_WRITE, 0},
    {HMREG_RECV, IBV_ACCESS_LOCAL_WRITE},
    {HMREG_READ, IBV_ACCESS_LOCAL_WRITE},
    {HMREG_REMOTE_READ, IBV_ACCESS_REMOTE_READ},
    {HMREG_REMOTE_WRITE, IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_LOCAL_WRITE},
};

static bool is_on(enum hmreg_choice choice, bool of_domain)
{
    return choice == HMREG_CHOICE_DEFAULT ? of_domain : choice == HMREG_CHOICE_ON;
}

static bool is_relaxed(const struct verbs *verbs, enum hmreg_ordering ordering)
{
    return ordering == HMREG_ORDERING_DEFAULT ? verbs->flags & HMREG_VERBS_RELAXED_ORDERING
                                              : ordering == HMREG_ORDERING_RELAXED;
}

static unsigned translate_access(const struct verbs *verbs, const struct provider_request *req)
{
    unsigned access = (unsigned)req->options.optional_access;
    uint64_t wanted = req->access;

    for (size_t i = 0; i < sizeof(rights) / sizeof(rights[0]); i++)
        if (wanted & rights[i].right)
            access |= rights[i].access;
    /* iWARP delivers a read response as a write to the reader's buffer through its key. */
    if (verbs->iwarp && (wanted & HMREG_READ))
        access |= IBV_ACCESS_REMOTE_WRITE;
    /* Every verbs atomic returns the old value, so with a write right alone a peer could read:
     * granted only if the domain or the caller requests it. */
    if (is_on(req->options.atomics, verbs->flags & HMREG_VERBS_ATOMICS) &&
        (wanted & HMREG_REMOTE_WRITE))
        access |= IBV_ACCESS_REMOTE_ATOMIC;
    if (is_relaxed(verbs, req->options.ordering))
        access |= IBV_ACCESS_RELAXED_ORDERING;
    if (verbs->flags & HMREG_VERBS_MEMORY_WINDOWS)
        access |= IBV_ACCESS_MW_BIND | IBV_ACCESS_LOCAL_WRITE;
    return access;
}

/* ---- failures --------------------------------------------------------------------------- */

static const char *device_name(const struct verbs *verbs)
{
    return ibv_get_device_name(verbs->pd->context->device);
}

static int fail_nomem(const struct verbs *verbs, size_t len)
{
    struct rlimit limit = {.rlim_cur = RLIM_INFINITY};
    char words[112] = "unlimited";

    getrlimit(RLIMIT_MEMLOCK, &limit);
    if (limit.rlim_cur != RLIM_INFINITY)
        snprintf(words, sizeof(words),
                 "%" PRIu64 " bytes (raise it: ulimit -l, or memlock in /etc/security/limits.conf)",
                 (uint64_t)limit.rlim_cur);
    return hmreg_fail_vendor(
        -ENOMEM, "verbs", ENOMEM, hmreg_strerror(ENOMEM),
        "%zu bytes cannot be pinned: the limit of locked memory (RLIMIT_MEMLOCK, ulimit -l) is %s, "
        "the device's limit of regions is %d",
        len, words, verbs->max_mr);
}

/* The kernel pins for writing with any of these. */
#define WRITING                                                                                    \
    (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC |                 \
     IBV_ACCESS_MW_BIND)

/* Explains other errors of ibv_reg_mr(), which vary by driver. */
static const char *advice(int errnum)
{
    switch (errnum) {
    case EFAULT:
        return "its pages cannot be pinned: they are unmapped, read-only for access that writes, "
               "or a device's without a driver for peer memory";
    case EINVAL:
        return "the device does not support this access or length, or is full";
    case EAGAIN:
        return "the device is full, or busy";
    case EOPNOTSUPP:
        return "the device does not support this kind of registration";
    case EIO:
    case ENODEV:
        return "the device failed, is gone, or is full";
    default:
        return hmreg_strerror(errnum);
    }
}

static int fail_reg(const struct verbs *verbs, const struct iovec *iov, unsigned access, int errnum)
{
    char cause[FAULT_CAUSE_BYTES] = "";

    if (errnum == ENOMEM)
        return fail_nomem(verbs, iov->iov_len);
    if (errnum == EFAULT)
        hmreg_fault_cause(iov, 1, access & WRITING, cause);
    return hmreg_fail_vendor(-errnum, "verbs", errnum, hmreg_strerror(errnum),
                             "%s could not register %zu bytes at %p with access %#x: %s",
                             device_name(verbs), iov->iov_len, iov->iov_base, access,
                             *cause ? cause : advice(errnum));
}

#define NO_ROOM                                                                                    \
    "no room for it: the memory's window for other devices (BAR1) is full, or the NIC has no "     \
    "more regions"

/* Explains errors of ibv_reg_dmabuf_mr(). */
static const char *dmabuf_advice(int errnum)
{
    switch (errnum) {
    case ENOMEM:
        return NO_ROOM;
    case EBADF:
        return "the descriptor is invalid";
    case EINVAL:
        return "the descriptor is no dmabuf, or is shorter than the range, or the device does not "
               "support this access";
    case EOPNOTSUPP:
    case EPROTONOSUPPORT:
        return "its driver imports no dmabufs";
    case KERNEL_ENOTSUPP:
        return "the memory's driver allows no path between the two devices: put them below one PCI "
               "switch or root, or use another NIC";
    default:
        return hmreg_strerror(errnum);
    }
}

static int refuse_dmabuf(const struct verbs *verbs, int errnum, struct hmreg_reason *why)
{
    why->vendor_code = errnum;
    return hmreg_refuse(why, errnum == KERNEL_ENOTSUPP ? -EOPNOTSUPP : -errnum,
                        "dmabuf-import-failed", "%s did not import the dmabuf (error %d): %s",
                        device_name(verbs), errnum, dmabuf_advice(errnum));
}

static int refuse_direct(const struct verbs *verbs, int errnum, struct hmreg_reason *why)
{
    why->vendor_code = errnum;
    return hmreg_refuse(why, errnum == KERNEL_ENOTSUPP ? -EOPNOTSUPP : -errnum,
                        "data-direct-refused",
                        "%s did not import the dmabuf for data direct (error %d): %s",
                        device_name(verbs), errnum, dmabuf_advice(errnum));
}

/* NVIDIA's client disowns memory that has no room in BAR1: EFAULT. */
static int refuse_peermem(const struct verbs *verbs, enum hmreg_iface iface, int errnum,
                          struct hmreg_reason *why)
{
    const char *words = "does it belong to the loaded driver?";
    int code = -errnum;

    if (errnum == ENOMEM) {
        words = NO_ROOM;
    } else if (errnum == EFAULT && iface == HMREG_IFACE_CUDA) {
        words = "BAR1 is full, or the memory does not belong to the loaded driver";
        code = -ENOMEM;
    } else if (errnum == KERNEL_ENOTSUPP) {
        words = "its driver cannot keep its pages in place, as with MIG and vGPU; use dmabuf";
        code = -EOPNOTSUPP;
    }
    why->vendor_code = errnum;
    return hmreg_refuse(why, code, "peer-memory-refused",
                        "%s did not register %s memory by its address (error %d), although the "
                        "kernel has a client for peer memory: %s; dmesg may say more",
                        device_name(verbs), hmreg_iface_name(iface), errnum, words);
}

/* Errors of a device without room for a region, by its vendor's id, besides ENOSPC, and ENOMEM for
 * host memory. docs/limits.md has the source of each row. */
static const struct {
    uint32_t vendor;
    int errnum;
} full[] = {
    {VENDOR_MELLANOX, EAGAIN}, /* mlx5: a command's status "no resources" */
    {VENDOR_RXE, EINVAL},      /* Soft-RoCE: its pools */
    {VENDOR_PENSANDO, EINVAL}, /* ionic: its page tables */
    /* For device memory ENOMEM means that its window (BAR) is full; these drivers also mean their
     * own tables: */
    {VENDOR_AMAZON, ENOMEM},
    {VENDOR_INTEL, ENOMEM},
    {VENDOR_HUAWEI, ENOMEM},
    {VENDOR_SIW, ENOMEM},
};

static enum provider_room room(void *self, int rc)
{
    const struct verbs *verbs = self;

    for (size_t i = 0; i < sizeof(full) / sizeof(full[0]); i++)
        if (full[i].vendor == verbs->vendor && full[i].errnum == -rc)
            return PROVIDER_ROOM_FULL;
    return PROVIDER_ROOM_UNKNOWN;
}

/* The kernel returns EIO for every call on a removed device, and ENODEV during the removal. */
static bool gone(void *self, int rc, char *why, size_t size)
{
    return device_folder_tells(&((struct verbs *)self)->folder, rc, why, size);
}

/* True if other paths would fail too: the error is then not a refusal of this path. */
static bool is_of_request(const struct provider_request *req, int errnum)
{
    return (errnum == ENOMEM && !provider_enomem_refuses(req)) || errnum == EAGAIN ||
           errnum == EMFILE || errnum == ENFILE || errnum == EIO || errnum == ENODEV;
}

static bool is_direct(const struct provider_request *req)
{
    return req->path == HMREG_PATH_DMABUF &&
           (req->way == HMREG_WAY_DATA_DIRECT || req->way == HMREG_WAY_DATA_DIRECT_PCIE);
}

static int reg_failed(const struct verbs *verbs, const struct provider_request *req,
                      unsigned access, int errnum, struct hmreg_reason *why)
{
    if (req->path == HMREG_PATH_SYSTEM || is_of_request(req, errnum))
        return fail_reg(verbs, &req->iov[0], access, errnum);
    if (is_direct(req))
        return refuse_direct(verbs, errnum, why);
    if (req->path == HMREG_PATH_DMABUF)
        return refuse_dmabuf(verbs, errnum, why);
    return refuse_peermem(verbs, req->iface, errnum, why);
}

/* ---- registering ------------------------------------------------------------------------ */

static struct ibv_mr *import_dmabuf(const struct verbs *verbs, uint64_t offset, size_t length,
                                    uint64_t iova, int fd, int access)
{
    struct mr_init_attr attr = {
        .length = length,
        .access = access,
        .comp_mask = MASK_IOVA | MASK_FD | MASK_FD_OFFSET,
        .iova = iova,
        .fd = fd,
        .fd_offset = offset,
    };

    if (verbs->reg_dmabuf)
        return verbs->reg_dmabuf(verbs->pd, offset, length, iova, fd, access);
    return verbs->reg_ex(verbs->pd, &attr);
}

/* The address by which the device's users, local and remote, reach the region's first byte. */
static uint64_t address_of(const struct provider_request *req)
{
    return req->options.set_iova ? req->options.iova : (uint64_t)(uintptr_t)req->iov[0].iov_base;
}

/* May a region begin where its dmabuf does? Yes if peers then reach at most the remaining bytes of
 * the page in which the range begins, as with an export of whole pages. */
static bool may_begin_before(const struct provider_request *req)
{
    uint64_t offset = req->dmabuf->offset;

    return offset && offset <= address_of(req) &&
           (!(req->access & HMREG_ACCESS_REMOTE) || offset < (uint64_t)sysconf(_SC_PAGESIZE));
}

/* Some NICs (ConnectX-8 beside a GB300) import a dmabuf from its beginning only; else EOPNOTSUPP.
 * Then the region begins there, at an equally lower address. */
static struct ibv_mr *import_direct(const struct verbs *verbs, const struct provider_request *req,
                                    int access)
{
    const struct hmreg_dmabuf *dmabuf = req->dmabuf;
    size_t length = req->iov[0].iov_len;
    uint64_t addr = address_of(req);
    struct ibv_mr *mr =
        direct_import(&verbs->direct, verbs->pd, dmabuf->offset, length, addr, dmabuf->fd, access);

    if (mr || errno != EOPNOTSUPP || !may_begin_before(req))
        return mr;
    return direct_import(&verbs->direct, verbs->pd, 0, dmabuf->offset + length,
                         addr - dmabuf->offset, dmabuf->fd, access);
}

static struct ibv_mr *import_request(const struct verbs *verbs, const struct provider_request *req,
                                     int access)
{
    const struct hmreg_dmabuf *dmabuf = req->dmabuf;
    size_t length = req->iov[0].iov_len;

    if (is_direct(req))
        return import_direct(verbs, req, access);
    return import_dmabuf(verbs, dmabuf->offset, length, address_of(req), dmabuf->fd, access);
}

static struct ibv_mr *call_device(const struct verbs *verbs, const struct provider_request *req,
                                  unsigned access)
{
    const struct iovec *iov = &req->iov[0];

    errno = 0;                          /* some drivers fail without setting it */
    if (req->path == HMREG_PATH_DMABUF) /* the kernel binds no memory windows to dmabufs */
        return import_request(verbs, req, (int)(access & ~(unsigned)IBV_ACCESS_MW_BIND));
    if (req->path == HMREG_PATH_SYSTEM && verbs->odp &&
        is_on(req->options.on_demand, verbs->flags & HMREG_VERBS_ON_DEMAND))
        access |= IBV_ACCESS_ON_DEMAND;
    return ibv_reg_mr_iova(verbs->pd, iov->iov_base, iov->iov_len, address_of(req), access);
}

/* Relaxed ordering and the caller's optional bits are hints, so we retry without them. libibverbs
 * drops them for kernels that do not know them, but not for dmabufs, and drivers differ. */
static struct ibv_mr *call_device_twice(const struct verbs *verbs,
                                        const struct provider_request *req, unsigned access)
{
    struct ibv_mr *mr = call_device(verbs, req, access);

    if (mr || !(access & IBV_ACCESS_OPTIONAL_RANGE) || (errno != EINVAL && errno != EOPNOTSUPP))
        return mr;
    return call_device(verbs, req, access & ~(unsigned)IBV_ACCESS_OPTIONAL_RANGE);
}

/* Only host memory can be paged: the device's memory does not move. */
static int check_paging(const struct provider_request *req)
{
    if (req->options.on_demand != HMREG_CHOICE_ON || req->path == HMREG_PATH_SYSTEM)
        return 0;
    return hmreg_fail(-EOPNOTSUPP,
                      "on_demand is %d (on), but this is device memory (%s), and verbs pages only "
                      "host memory on demand; accepted: 0 (default), 1 (off)",
                      req->options.on_demand, hmreg_iface_name(req->iface));
}

/* The device maps whole pages: the address and the memory must have one offset within a page. */
static int check_offset(const struct provider_request *req, struct hmreg_reason *why)
{
    uint64_t addr = address_of(req), page = (uint64_t)sysconf(_SC_PAGESIZE);
    uint64_t memory = req->path == HMREG_PATH_DMABUF ? req->dmabuf->offset
                                                     : (uint64_t)(uintptr_t)req->iov[0].iov_base;

    if (!((addr ^ memory) & (page - 1)))
        return 0;
    if (req->options.set_iova)
        return hmreg_fail(-EINVAL,
                          "iova is %#" PRIx64 ", %" PRIu64
                          " bytes into a page, but the memory begins %" PRIu64
                          " bytes into a page; accepted are multiples of %" PRIu64 " plus %" PRIu64,
                          addr, addr & (page - 1), memory & (page - 1), page, memory & (page - 1));
    return hmreg_refuse(
        why, -EINVAL, "page-offset-differs",
        "the range begins %" PRIu64 " bytes into a page by its address, but %" PRIu64
        " in the dmabuf: give the dmabuf a base_addr that is a multiple of %" PRIu64,
        addr & (page - 1), memory & (page - 1), page);
}

/* Counts a region of this domain. The device may have fewer left, since others use it too. */
static int count_region(struct verbs *verbs)
{
    if (atomic_fetch_add(&verbs->live, 1) < verbs->max_mr || !verbs->max_mr)
        return 0;
    atomic_fetch_sub(&verbs->live, 1);
    return hmreg_fail(-ENOMEM, "this domain has all %d regions that %s supports: close some",
                      verbs->max_mr, device_name(verbs));
}

static int reg(void *self, const struct provider_request *req, struct hmreg_mr_keys *out,
               struct hmreg_reason *why)
{
    struct verbs *verbs = self;
    unsigned access = translate_access(verbs, req);
    struct ibv_mr *mr;
    int rc;

    if (req->auth_key_size)
        return hmreg_fail(-EOPNOTSUPP, "auth_key is set, but verbs has no authorization keys");
    rc = check_paging(req);
    rc = rc ? rc : check_offset(req, why);
    rc = rc ? rc : count_region(verbs);
    if (rc)
        return rc;
    mr = call_device_twice(verbs, req, access);
    if (!mr) {
        rc = reg_failed(verbs, req, access, errno ? errno : EIO, why);
        atomic_fetch_sub(&verbs->live, 1);
        return rc;
    }
    *out = (struct hmreg_mr_keys){
        .desc = mr,
        .key = req->access & HMREG_ACCESS_REMOTE ? mr->rkey : HMREG_KEY_NOTAVAIL,
        .lkey = mr->lkey,
        .rkey = mr->rkey,
        .native = mr,
        .priv = mr,
    };
    return 0;
}

/* A region with a memory window of the caller's own cannot be deregistered: EBUSY, on Soft-RoCE
 * EINVAL. In a domain without windows EINVAL means that there is no such region. */
static bool is_busy(const struct verbs *verbs, int errnum)
{
    return errnum == EBUSY || (errnum == EINVAL && (verbs->flags & HMREG_VERBS_MEMORY_WINDOWS));
}

static int dereg(void *self, struct hmreg_mr_keys *mr)
{
    struct verbs *verbs = self;
    int errnum;

    windows_end_closed(&verbs->windows, mr->priv);
    errnum = windows_hold(&verbs->windows, mr->priv, true) ? EBUSY : ibv_dereg_mr(mr->priv);
    if (errnum < 0) /* older convention: -1 and errno */
        errnum = errno ? errno : EIO;
    if (is_busy(verbs, errnum))
        return hmreg_fail_vendor(
            -EBUSY, "verbs", errnum, hmreg_strerror(errnum),
            "a memory window is bound to the region: close it, then the region");
    atomic_fetch_sub(&verbs->live, 1);
    if (errnum)
        return hmreg_fail_vendor(-errnum, "verbs", errnum, hmreg_strerror(errnum),
                                 "the device could not deregister a region: %s",
                                 hmreg_strerror(errnum));
    return 0;
}

static bool is_bound(void *self, const struct hmreg_mr_keys *mr)
{
    return windows_hold(self, mr->priv, false);
}

static void lost(void *self, const char *why)
{
    struct verbs *verbs = self;

    atomic_store(&verbs->windows.lost, true);
}

static unsigned objects(void *self)
{
    return windows_count(self);
}

/* ---- paths ------------------------------------------------------------------------------ */

/* Looks a function up in the loaded libibverbs, in the global scope or through its own handle. */
static void *find_call(const char *name)
{
    void *found = dlsym(RTLD_DEFAULT, name), *library;

    if (found)
        return found;
    library = dlopen("libibverbs.so.1", RTLD_LAZY | RTLD_NOLOAD);
    if (!library)
        return NULL;
    found = dlsym(library, name);
    dlclose(library); /* we are linked against it: it stays loaded */
    return found;
}

/* Probes with an invalid descriptor: only a driver that imports dmabufs reads it (EBADF). */
static int ask_device(const struct verbs *verbs)
{
    struct ibv_mr *mr;

    errno = 0;
    mr = import_dmabuf(verbs, 0, (size_t)sysconf(_SC_PAGESIZE), 0, -1, IBV_ACCESS_LOCAL_WRITE);
    if (mr) {
        ibv_dereg_mr(mr);
        return 0;
    }
    return errno == EBADF ? 0 : errno ? errno : EIO;
}

/* Selects the call that imports dmabufs, the older one if it works. 0, or the probe's errno. */
static int probe_dmabuf(struct verbs *verbs)
{
    int errnum = verbs->reg_dmabuf ? ask_device(verbs) : ENOSYS;

    if (!verbs->reg_ex || (errnum != ENOSYS && errnum != EOPNOTSUPP))
        return errnum;
    verbs->reg_dmabuf = NULL;
    return ask_device(verbs);
}

static int can_dmabuf(const struct verbs *verbs, struct hmreg_reason *why)
{
    int errnum = verbs->dmabuf_errno;

    why->vendor_code = errnum;
    switch (errnum) {
    case 0:
        return 0;
    case ENOSYS:
        return hmreg_refuse(
            why, -EOPNOTSUPP, "libibverbs-too-old",
            "the loaded libibverbs has no ibv_reg_dmabuf_mr(): use rdma-core 34 or newer");
    case EPROTONOSUPPORT:
        return hmreg_refuse(why, -EOPNOTSUPP, "kernel-too-old",
                            "this kernel imports no dmabufs for RDMA: use 5.12 or newer, or peer "
                            "memory");
    case EOPNOTSUPP:
        return hmreg_refuse(why, -EOPNOTSUPP, "nic-imports-no-dmabuf",
                            "the driver of %s imports no dmabufs (drivers that do: mlx5, efa, "
                            "irdma, bnxt_re, mana and ionic, in new enough kernels and "
                            "rdma-cores): use such a NIC, or peer memory",
                            device_name(verbs));
    default:
        return hmreg_refuse(why, -errnum, "dmabuf-probe-failed",
                            "%s did not report whether it imports dmabufs: to a probe without a "
                            "descriptor it answered %s",
                            device_name(verbs), hmreg_strerror(errnum));
    }
}

static int can(void *self, enum hmreg_path path, enum hmreg_iface iface, int device,
               struct hmreg_reason *why)
{
    if (path == HMREG_PATH_DMABUF)
        return can_dmabuf(self, why);
    if (path == HMREG_PATH_MAPPED)
        return hmreg_refuse(why, -EOPNOTSUPP, "fabric-pins-pages",
                            "the pages of a CPU mapping of device memory cannot be pinned, but "
                            "verbs registers by pinning");
    if (peers_serve("/sys", iface))
        return 0;
    return hmreg_refuse(why, -EOPNOTSUPP, "no-peer-memory",
                        "the kernel has no client for peer memory of %s "
                        "(/sys/kernel/mm/memory_peers): %s",
                        hmreg_iface_name(iface), peers_remedy(iface));
}

static int can_data_direct(void *self, struct hmreg_reason *why)
{
    const struct verbs *verbs = self;

    return direct_refuse(&verbs->direct, device_name(verbs), why);
}

/* ---- the domain ------------------------------------------------------------------------- */

static void destroy(void *self)
{
    struct verbs *verbs = self;

    direct_close(&verbs->direct);
    pthread_mutex_destroy(&verbs->windows.lock);
    free(verbs);
}

static const struct provider_ops verbs_ops = {
    .name = "verbs",
    .can = can,
    .can_data_direct = can_data_direct,
    .reg = reg,
    .room = room,
    .gone = gone,
    .lost = lost,
    .dereg = dereg,
    .is_bound = is_bound,
    .objects = objects,
    .destroy = destroy,
};

static void describe(const struct verbs *verbs, const struct ibv_device_attr *limits,
                     struct provider_caps *out)
{
    *out = (struct provider_caps){
        .mr_mode = HMREG_MR_LOCAL | HMREG_MR_VIRT_ADDR | HMREG_MR_ALLOCATED | HMREG_MR_PROV_KEY,
        .key_size = sizeof(uint32_t),
        .iov_limit = 1,
        .max_len = limits->max_mr_size ? limits->max_mr_size : UINT64_MAX,
        .single = true,
        .any_thread = true,
        .renews = true,
        .max_mr = limits->max_mr > 0 ? (uint64_t)limits->max_mr : 0,
        .pins = true,
        .data_direct = verbs->direct.state == DIRECT_USABLE,
        .pcie = limits->vendor_id == VENDOR_AMAZON,
        .domain_flags = HMREG_VERBS_RELAXED_ORDERING | HMREG_VERBS_ON_DEMAND |
                        HMREG_VERBS_MEMORY_WINDOWS | HMREG_VERBS_ATOMICS |
                        HMREG_VERBS_ATOMICS_IF_POSSIBLE,
        .orderings = PROVIDER_VALUE(HMREG_ORDERING_STRICT) | PROVIDER_VALUE(HMREG_ORDERING_RELAXED),
        .atomics = PROVIDER_VALUE(HMREG_CHOICE_OFF),
        .on_demand = PROVIDER_VALUE(HMREG_CHOICE_OFF),
        .iova = limits->vendor_id != VENDOR_SIW,
        .local_iova = true,
        .optional_access = IBV_ACCESS_OPTIONAL_RANGE & ~(unsigned)IBV_ACCESS_RELAXED_ORDERING,
    };
    if (limits->atomic_cap != IBV_ATOMIC_NONE)
        out->atomics |= PROVIDER_VALUE(HMREG_CHOICE_ON);
    if (verbs->odp)
        out->on_demand |= PROVIDER_VALUE(HMREG_CHOICE_ON);
    snprintf(out->fabric, sizeof(out->fabric), "%s", device_name(verbs));
    snprintf(out->nic, sizeof(out->nic), "%s", device_name(verbs));
}

static bool pages_on_demand(struct ibv_context *context)
{
    struct ibv_device_attr_ex attr = {.comp_mask = 0};

    return !ibv_query_device_ex(context, NULL, &attr) &&
           (attr.odp_caps.general_caps & IBV_ODP_SUPPORT);
}

static struct verbs *new_verbs(struct hmreg *lib, struct ibv_pd *pd,
                               const struct ibv_device_attr *limits)
{
    struct verbs *verbs = calloc(1, sizeof(*verbs));

    if (!verbs)
        return NULL;
    verbs->pd = pd;
    device_folder_find(&verbs->folder, "", pd->context->device->ibdev_path);
    verbs->vendor = limits->vendor_id;
    verbs->max_mr = limits->max_mr > 0 ? limits->max_mr : 0;
    verbs->iwarp = pd->context->device->transport_type == IBV_TRANSPORT_IWARP;
    verbs->odp = pages_on_demand(pd->context);
    verbs->reg_dmabuf = (reg_dmabuf_call *)find_call("ibv_reg_dmabuf_mr");
    verbs->reg_ex = (reg_ex_call *)find_call("ibv_reg_mr_ex");
    verbs->dmabuf_errno = probe_dmabuf(verbs);
    direct_open(&verbs->direct, pd->context);
    verbs->windows = (struct windows){.lib = lib, .pd = pd};
    pthread_mutex_init(&verbs->windows.lock, NULL);
    return verbs;
}

/* Requested rights are never dropped: fails if the device lacks the domain's atomics. */
static int check_atomics(const struct ibv_pd *pd, const struct ibv_device_attr *limits,
                         uint32_t asked)
{
    if (!(asked & HMREG_VERBS_ATOMICS) || limits->atomic_cap != IBV_ATOMIC_NONE)
        return 0;
    return hmreg_fail(-EOPNOTSUPP, "HMREG_VERBS_ATOMICS: %s has no atomic operations",
                      ibv_get_device_name(pd->context->device));
}

static void set_flags(struct verbs *verbs, const struct ibv_device_attr *limits)
{
    verbs->flags = verbs->asked;
    if ((verbs->flags & HMREG_VERBS_ATOMICS_IF_POSSIBLE) && limits->atomic_cap != IBV_ATOMIC_NONE)
        verbs->flags |= HMREG_VERBS_ATOMICS;
    verbs->windows.bindable = verbs->flags & HMREG_VERBS_MEMORY_WINDOWS;
    verbs->windows.extra = verbs->flags & HMREG_VERBS_ATOMICS ? IBV_ACCESS_REMOTE_ATOMIC : 0;
}

/* asked: the flags of the domain's config. */
static int make(struct hmreg *lib, struct ibv_pd *pd, uint32_t asked, struct provider_caps *caps,
                struct verbs **out)
{
    struct ibv_device_attr limits = {.max_mr_size = 0};
    struct verbs *verbs;
    int rc = ibv_query_device(pd->context, &limits);

    if (rc)
        return hmreg_fail_vendor(-EIO, "verbs", rc, hmreg_strerror(rc),
                                 "the limits of %s could not be read: %s",
                                 ibv_get_device_name(pd->context->device), hmreg_strerror(rc));
    rc = check_atomics(pd, &limits, asked);
    if (rc)
        return rc;
    verbs = new_verbs(lib, pd, &limits);
    if (!verbs)
        return hmreg_fail(-ENOMEM, "hmreg has no memory for a verbs domain");
    describe(verbs, &limits, caps);
    verbs->asked = asked & caps->domain_flags;
    set_flags(verbs, &limits);
    if (verbs->odp && (asked & HMREG_VERBS_ON_DEMAND))
        caps->pins = false;
    *out = verbs;
    return 0;
}

/* hmreg_domain_create() rejects a config that is too short, and unknown flags. */
static uint32_t flags_of(const struct hmreg_domain_config *config)
{
    bool has = config && config->size >= offsetof(struct hmreg_domain_config, order);

    return has ? config->flags : 0;
}

int hmreg_domain_open_verbs(struct hmreg *lib, struct ibv_pd *pd,
                            const struct hmreg_domain_config *config, struct hmreg_domain **out)
{
    LOGS_FAILURE(hmreg_lib_log(lib));
    struct provider_caps caps;
    struct verbs *verbs;
    int rc = hmreg_lib_check(lib);

    if (!rc && (!pd || !out))
        rc = hmreg_fail(-EINVAL, "%s is NULL", !pd ? "pd" : "out");
    rc = rc ? rc : make(lib, pd, flags_of(config), &caps, &verbs);
    return rc ? rc : hmreg_domain_create(lib, &verbs_ops, &caps, verbs, config, out);
}

int hmreg_domain_renew_verbs(struct hmreg_domain *domain, struct ibv_pd *pd)
{
    const struct verbs *before = hmreg_domain_priv(domain, "verbs");
    LOGS_FAILURE(before ? hmreg_lib_log(before->windows.lib) : NULL);
    struct provider_caps caps;
    struct verbs *verbs;
    int rc;

    if (!before)
        return hmreg_fail(-EINVAL, "domain is NULL or not a libibverbs domain");
    rc = hmreg_lib_check(before->windows.lib);
    if (!rc && !pd)
        rc = hmreg_fail(-EINVAL, "pd is NULL");
    rc = rc ? rc : make(before->windows.lib, pd, before->asked, &caps, &verbs);
    return rc ? rc : hmreg_domain_renew(domain, &caps, verbs);
}
