/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * hmreg: register any memory (host, CUDA, ROCm, Level Zero) with any RDMA fabric.
 *
 * A buffer's way: query (what is this pointer) -> export (a dmabuf that names its bytes) ->
 * register (a memory region on a domain) -> get (the same, remembered safely).
 *
 * Conventions, for every function here unless its comment says otherwise:
 *  - The result is 0 or a negative error number: those of <errno.h> and the HMREG_E*
 *    below, which are libfabric's. hmreg_last_error() then has the sentence, and the vendor's
 *    own code, for the calling thread. A success leaves the last error as it was.
 *  - Outputs change only on success.
 *  - Any thread may call anything. A region may be released by another thread than its getter.
 *  - Addresses and lengths are in bytes. Strings are borrowed from the object they describe.
 *  - Structs that may grow begin with their size: set it to sizeof before the call. Bytes beyond
 *    what the library knows must be zero in an input and are left alone in an output.
 *  - In a child of fork() every object of the parent answers -EPERM and is not touched;
 *    hmreg_open() in the child starts afresh.
 */
#ifndef HMREG_HMREG_H
#define HMREG_HMREG_H

#include <hmreg/version.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* ---- vocabulary ------------------------------------------------------------------------- */

/* Errors that <errno.h> lacks; the values are libfabric's (FI_ETOOSMALL ...). */
#define HMREG_ETOOSMALL   257 /* the buffer is too small; the needed size was written */
#define HMREG_EOPBADSTATE 258 /* not in this state: enabled already, or not yet bound */
#define HMREG_EBADFLAGS   260 /* a flag this call or this domain does not know */
#define HMREG_ENOKEY      266 /* the requested key is in use */

/* The interface memory was allocated with. Values are libfabric's enum fi_hmem_iface. */
enum hmreg_iface {
    HMREG_IFACE_SYSTEM = 0,
    HMREG_IFACE_CUDA = 1,
    HMREG_IFACE_ROCR = 2,
    HMREG_IFACE_ZE = 3,
};
#define HMREG_IFACE_COUNT      4
#define HMREG_IFACE_BIT(iface) (1u << (iface))

/* What sort of memory a range is. */
enum hmreg_mem_kind {
    HMREG_MEM_HOST = 0,        /* pageable host memory */
    HMREG_MEM_HOST_PINNED = 1, /* host memory a device runtime allocated, registered or locked */
    HMREG_MEM_DEVICE = 2,      /* memory of one device */
    HMREG_MEM_MANAGED = 3,     /* managed or shared: migrates between host and device */
};

/* How a region was registered. */
enum hmreg_path {
    HMREG_PATH_NONE = 0,    /* not at all; the end of a list of paths */
    HMREG_PATH_SYSTEM = 1,  /* host memory by its address */
    HMREG_PATH_DMABUF = 2,  /* device memory by a dmabuf descriptor the fabric imported */
    HMREG_PATH_PEERMEM = 3, /* device memory by its address; the fabric reaches it itself */
    HMREG_PATH_MAPPED = 4,  /* device memory by a CPU mapping of its dmabuf */
};
#define HMREG_PATH_COUNT 5

/* Access rights. Values are libfabric's FI_READ ... FI_REMOTE_WRITE. */
#define HMREG_READ          (UINT64_C(1) << 8)  /* the result buffer of an RMA read we start */
#define HMREG_WRITE         (UINT64_C(1) << 9)  /* the source of an RMA write we start */
#define HMREG_RECV          (UINT64_C(1) << 10) /* a receive buffer */
#define HMREG_SEND          (UINT64_C(1) << 11) /* a send buffer */
#define HMREG_REMOTE_READ   (UINT64_C(1) << 12) /* peers may read it */
#define HMREG_REMOTE_WRITE  (UINT64_C(1) << 13) /* peers may write it */
#define HMREG_ACCESS_LOCAL  (HMREG_READ | HMREG_WRITE | HMREG_RECV | HMREG_SEND)
#define HMREG_ACCESS_REMOTE (HMREG_REMOTE_READ | HMREG_REMOTE_WRITE)
#define HMREG_ACCESS_ALL    (HMREG_ACCESS_LOCAL | HMREG_ACCESS_REMOTE)

/* What a domain asks of registrations. Values are libfabric's FI_MR_*. */
#define HMREG_MR_BASIC      (1u << 0)  /* the old name of VIRT_ADDR, ALLOCATED and PROV_KEY */
#define HMREG_MR_SCALABLE   (1u << 1)  /* the old name of no bit at all */
#define HMREG_MR_LOCAL      (1u << 2)  /* local buffers must be registered as well */
#define HMREG_MR_RAW        (1u << 3)  /* keys travel raw and are mapped at the peer */
#define HMREG_MR_VIRT_ADDR  (1u << 4)  /* peers address by virtual address, not from 0 */
#define HMREG_MR_ALLOCATED  (1u << 5)  /* pages must exist when registered */
#define HMREG_MR_PROV_KEY   (1u << 6)  /* the provider chooses keys */
#define HMREG_MR_MMU_NOTIFY (1u << 7)  /* refresh before pages that came later are used */
#define HMREG_MR_RMA_EVENT  (1u << 8)  /* regions with counters start disabled */
#define HMREG_MR_ENDPOINT   (1u << 9)  /* regions are bound to an endpoint and enabled */
#define HMREG_MR_HMEM       (1u << 10) /* device memory must be registered, with its iface */

/* Flags of a registration. Values are libfabric's FI_MR_DMABUF, FI_HMEM_*, FI_RMA_*. */
#define HMREG_MR_DMABUF (UINT64_C(1) << 40) /* attr->dmabuf names the memory, not attr->iov */
#define HMREG_HMEM_HOST_ALLOC                                                                      \
    (UINT64_C(1) << 45) /* caller's claim: host memory of a device runtime */
#define HMREG_HMEM_DEVICE_ONLY                                                                     \
    (UINT64_C(1) << 46)                     /* caller's claim: only the device can touch it */
#define HMREG_RMA_PMEM  (UINT64_C(1) << 49) /* persistent memory, to be written durably */
#define HMREG_RMA_EVENT (UINT64_C(1) << 56) /* counters will be bound to it */

/* A flag of hmreg_domain_bind(): registrations complete in the event queue. FI_REG_MR's value. */
#define HMREG_REG_MR (UINT64_C(1) << 59)

#define HMREG_KEY_NOTAVAIL UINT64_MAX /* "this region has no such key" */
#define HMREG_LIMIT_NONE   UINT64_MAX /* "no limit", where a limit is asked for */
#define HMREG_DEVICE_ANY   (-1)       /* "whatever device the memory is on" */

struct hmreg;        /* the library, opened: runtimes found, devices, monitor */
struct hmreg_domain; /* what memory is registered with */
struct hmreg_mr;     /* one registration */
struct hmreg_remote; /* a peer's region, opened from its token */

/* Names for messages: "cuda", "device", "dmabuf"; "?" for a value that is none. */
const char *hmreg_iface_name(enum hmreg_iface iface);
const char *hmreg_mem_kind_name(enum hmreg_mem_kind kind);
const char *hmreg_path_name(enum hmreg_path path);

/* "0.1.0", of the library at run time. */
const char *hmreg_version(void);

/* ---- errors ----------------------------------------------------------------------------- */

struct hmreg_error {
    int code;             /* the negative value the call returned; 0: no call failed yet */
    const char *source;   /* who said so: "hmreg", "cuda", "rocr", "ze", "ofi", "verbs", "os" */
    int64_t vendor_code;  /* the source's own code, 0 where it has none */
    char vendor_text[96]; /* the source's own words for it, "" where it has none */
    char text[256];       /* a sentence that names the argument or the remedy */
};

/* The last error of the calling thread; never NULL, valid until the thread's next failure. */
const struct hmreg_error *hmreg_last_error(void);

/* Words for an error number, HMREG_E* included; takes either sign. Never NULL. */
const char *hmreg_strerror(int code);

/* ---- the library ------------------------------------------------------------------------ */

/* What notices that host memory was freed or remapped. */
enum hmreg_monitor {
    HMREG_MONITOR_DEFAULT = 0,     /* the environment's choice; else chosen when host memory is to
                                      be cached for the first time: memhooks where libc can be
                                      hooked, else userfaultfd where it is permitted, else disabled */
    HMREG_MONITOR_USERFAULTFD = 1, /* the kernel tells; an error where it is not permitted */
    HMREG_MONITOR_IMPORT = 2,      /* the application tells, by hmreg_invalidate() */
    HMREG_MONITOR_DISABLED = 3,    /* nobody: host memory is registered, never cached */
    HMREG_MONITOR_MEMHOOKS = 4,    /* libc's callers, heard by hooks in its code; an error where it
                                      cannot be hooked */
};

/* Its name, as in FI_MR_CACHE_MONITOR; "?" for a value that is none. */
const char *hmreg_monitor_name(enum hmreg_monitor monitor);

/* How urgent a message of the library's log is. */
enum hmreg_log_level {
    HMREG_LOG_ERROR = 1,
    HMREG_LOG_WARN = 2,
    HMREG_LOG_INFO = 3,
    HMREG_LOG_DEBUG = 4,
};

struct hmreg_config {
    size_t size;                /* sizeof(struct hmreg_config) */
    uint32_t ifaces;            /* HMREG_IFACE_BIT()s of the runtimes to look for; 0: all */
    enum hmreg_monitor monitor; /* see there */
    /* Gets the library's messages, of every level: one line of text each, without its end, valid
     * during the call. On any thread that is inside a call of the library, or on a thread of the
     * library's own; it must not call the library. NULL: none; then, unless HMREG_LOG is set, the
     * library writes a line to stderr only where it cannot cache host memory at all. */
    void (*log)(enum hmreg_log_level level, const char *text, void *log_context);
    void *log_context;
};

/*
 * Opens the library: loads the vendor runtimes that are present, starts the monitor that was asked
 * for by name.
 * config: NULL for defaults; read during the call only. *out: closed with hmreg_close().
 * A runtime that is absent or broken is no error; hmreg_runtime_query() says why.
 * -EINVAL: out is NULL, config's size, ifaces or monitor is none of the accepted values, or an
 *   environment variable has a wrong value: HMREG_IFACES (comma-separated iface names),
 *   FI_MR_CACHE_MONITOR (userfaultfd, memhooks, import, disabled),
 * FI_MR_CUDA_CACHE_MONITOR_ENABLED, FI_MR_ROCR_CACHE_MONITOR_ENABLED,
 * FI_MR_ZE_CACHE_MONITOR_ENABLED (0 or 1), HMREG_CACHE_CHECK (always or notice, or a list such as
 * system=notice,cuda=always), FI_MR_CACHE_MAX_COUNT, FI_MR_CACHE_MAX_SIZE, HMREG_CACHE_MAX_COUNT,
 * HMREG_CACHE_MAX_SIZE (a number), HMREG_STATS (on, off), HMREG_DEBUG (puts), HMREG_LOG (off,
 * error, warn, info, debug: what stderr gets of the log). -EOPNOTSUPP: memhooks are asked for, and
 * the code of this program's libc, or of what stands before it, cannot be hooked; the sentence
 * names the function and the reason. -EPERM, -ENOSYS: userfaultfd was asked for and the kernel does
 * not permit or have it. -ENOMEM, -EAGAIN, -EMFILE: the system's.
 */
int hmreg_open(const struct hmreg_config *config, struct hmreg **out);

/*
 * Closes the library. NULL is accepted. -EBUSY: domains, or memory of hmreg_mem_alloc(), are
 * left; nothing was done. -EPERM: in a child of the process that opened it.
 */
int hmreg_close(struct hmreg *lib);

/* Which monitor serves, and how much it has heard. */
struct hmreg_monitor_info {
    size_t size;               /* sizeof(struct hmreg_monitor_info) */
    enum hmreg_monitor asked;  /* by the configuration, else by the environment */
    enum hmreg_monitor active; /* DEFAULT: none was needed yet, and none is chosen */
    int userfaultfd;           /* 1: the kernel tells */
    uint64_t events;           /* the kernel's so far, in the whole process */
    uint64_t calls;            /* what memhooks told so far, in the whole process */
    char why[256];             /* of a default: why not a better one; "" */
};

/* -EINVAL: an argument is NULL or out->size is too small. */
int hmreg_monitor_query(struct hmreg *lib, struct hmreg_monitor_info *out);

/* ---- runtimes and devices --------------------------------------------------------------- */

struct hmreg_runtime_info {
    size_t size;       /* sizeof(struct hmreg_runtime_info) */
    int present;       /* 1: usable; 0: see why */
    int devices;       /* how many devices; 0 is possible for a usable runtime */
    char version[48];  /* the runtime's own version, "" where unknown */
    char library[128]; /* the file it was loaded from */
    char why[256];     /* why it is not usable, or what it lacks; "" where nothing */
};

/* One iface's runtime. -EINVAL: an argument is NULL, or no such iface. */
int hmreg_runtime_query(struct hmreg *lib, enum hmreg_iface iface, struct hmreg_runtime_info *out);

struct hmreg_pci {
    uint32_t domain;
    uint8_t bus, device, function;
    uint8_t valid; /* 1: the address above is known */
};

#define HMREG_DEVICE_SIMULATED (1u << 0) /* a test's fake, not hardware */
#define HMREG_DEVICE_DMABUF    (1u << 1) /* the runtime says its memory exports as dmabuf */

struct hmreg_device_info {
    size_t size;    /* sizeof(struct hmreg_device_info) */
    char name[64];  /* the vendor's name for it */
    uint32_t flags; /* HMREG_DEVICE_* */
    struct hmreg_pci pci;
    uint64_t memory; /* bytes of memory on it, 0: unknown */
};

/* Device index of an iface, 0-based in the vendor's order. -EINVAL: an argument is NULL or no
 * such iface. -ENODEV: no such device. */
int hmreg_device_query(struct hmreg *lib, enum hmreg_iface iface, int index,
                       struct hmreg_device_info *out);

/* ---- memory ----------------------------------------------------------------------------- */

#define HMREG_MEM_CPU_ACCESS (1u << 0) /* the CPU can load and store at host_addr */
#define HMREG_MEM_EXPORTABLE (1u << 1) /* hmreg_export_dmabuf() is expected to succeed */
#define HMREG_MEM_SIMULATED  (1u << 2) /* on a test's fake device */

struct hmreg_mem_info {
    size_t size; /* sizeof(struct hmreg_mem_info) */
    enum hmreg_iface iface;
    int device; /* the device's index, -1 for host memory of the system */
    struct hmreg_pci pci;
    enum hmreg_mem_kind kind;
    uint32_t flags;      /* HMREG_MEM_* */
    uint32_t segments;   /* physical allocations (device) or mappings (host) under the range */
    uint64_t alloc_base; /* address of the allocation the range lies in */
    uint64_t alloc_len;  /* its length */
    uint64_t identity;   /* names this allocation: an address that is freed and allocated anew
                            has another. 0: nobody can tell: system memory, which a monitor watches
                            instead, and imported memory of some vendors, which is never cached */
    uint64_t host_addr;  /* the address the CPU uses for the range, 0 where it cannot */
};

/*
 * What is [addr, addr+len)? Every present runtime is asked; a range that none knows is system
 * memory if it is mapped.
 * -EINVAL: lib, addr or out is NULL, len is 0 or the range wraps, out->size is too small.
 * -ERANGE: the range leaves the allocation it starts in; the sentence says where.
 * -EFAULT: nothing is mapped at some address of it; the sentence says which.
 * -EOPNOTSUPP: a runtime knows the memory but does not tell its bounds; the sentence says which.
 * -EIO: a vendor's query failed; its code is in the last error.
 * -EEXIST: two runtimes claim the memory as their device's.
 */
int hmreg_query(struct hmreg *lib, const void *addr, size_t len, struct hmreg_mem_info *out);

struct hmreg_dmabuf {
    int fd;          /* owned by the caller, close-on-exec; closed with close(2); 0 is valid */
    uint64_t offset; /* where the range begins in it */
    uint64_t length; /* the range's length, as requested */
};

/*
 * A dmabuf descriptor that names exactly [addr, addr+len) at out->offset, whatever the
 * alignment and wherever in its allocation. flags: 0.
 * -EINVAL, -ERANGE, -EFAULT, -EIO, -EEXIST: as hmreg_query(). -HMREG_EBADFLAGS: flags.
 * -EOPNOTSUPP: the memory's kind, its device or the runtime's version has no dmabuf export.
 * -EXDEV: one descriptor cannot name the range (several segments or tiles).
 * -EPROTO: the runtime's descriptor does not cover the range it was asked for.
 */
int hmreg_export_dmabuf(struct hmreg *lib, const void *addr, size_t len, uint64_t flags,
                        struct hmreg_dmabuf *out);

/*
 * Copies len bytes between any two places, host or device of any vendor; returns when the
 * bytes are there. Errors of hmreg_query() for either range; -EINVAL: they overlap; -EIO: the
 * vendor's copy failed.
 */
int hmreg_copy(struct hmreg *lib, void *dst, const void *src, size_t len);

/*
 * Allocates memory of a kind on a device: for tools, tests and examples, so that they need not
 * link a vendor. Freed with hmreg_mem_free(). iface SYSTEM takes device -1 or 0 and kind HOST.
 * -EINVAL: an argument is NULL, len 0, no such iface or kind. -ENODEV: the runtime is absent or
 * has no such device. -EOPNOTSUPP: the vendor has no such kind. -ENOMEM: none left.
 */
int hmreg_mem_alloc(struct hmreg *lib, enum hmreg_iface iface, int device, enum hmreg_mem_kind kind,
                    size_t len, void **out);

/* Frees what hmreg_mem_alloc() gave, from any thread. NULL is accepted. -EINVAL: not from
 * there, or freed already. -ENODEV: its runtime has shut down, and the memory went with it.
 * -EFAULT: the vendor does not know it any more (its context was reset, or another call freed it).
 * -EIO: the vendor's call failed; the memory can be freed again. */
int hmreg_mem_free(struct hmreg *lib, void *addr);

/* ---- domains ---------------------------------------------------------------------------- */

#define HMREG_DOMAIN_EXACT    (1u << 0) /* get() returns regions of exactly the range asked */
#define HMREG_DOMAIN_NO_CACHE (1u << 1) /* get() registers each time, put() deregisters */

/* What a hit makes sure of before it is one. */
enum hmreg_check {
    HMREG_CHECK_DEFAULT = 0, /* the environment's choice, else always */
    HMREG_CHECK_ALWAYS = 1, /* asks at each hit: the device's runtime for the memory's identity, the
                               kernel whether host memory is just changing */
    HMREG_CHECK_NOTICE = 2, /* asks nobody: serves what it has had no notice against. Of host memory
                               the monitor gives notice before munmap(2) or its like returns; of
                               device memory the application must, by hmreg_invalidate(), before it
                               frees any that may be cached */
};

struct hmreg_domain_config {
    size_t size;                                 /* sizeof(struct hmreg_domain_config) */
    uint32_t flags;                              /* HMREG_DOMAIN_* */
    enum hmreg_path order[HMREG_PATH_COUNT - 1]; /* paths for device memory, best first, ended by
                                HMREG_PATH_NONE; all zero: dmabuf, peermem, mapped */
    uint64_t max_regions; /* cached regions per cache, in use or not; 0: FI_MR_CACHE_MAX_COUNT,
                             else 4096; HMREG_LIMIT_NONE: no limit */
    uint64_t max_bytes;   /* cached bytes per cache; 0: FI_MR_CACHE_MAX_SIZE, else half of the
                             machine's memory; HMREG_LIMIT_NONE: no limit */
    enum hmreg_check check[HMREG_IFACE_COUNT]; /* for memory of each iface */
};

struct hmreg_domain_info {
    size_t size;        /* sizeof(struct hmreg_domain_info) */
    char provider[32];  /* "ofi", "verbs", "loopback" */
    char fabric[64];    /* what is below: "tcp;ofi_rxm", "mlx5_0" */
    uint32_t mr_mode;   /* HMREG_MR_* the domain demands; the layer meets them for its caller */
    uint32_t key_size;  /* bytes of a key */
    uint32_t iov_limit; /* ranges one region can have */
    uint64_t max_len;   /* longest region, bytes */
    uint64_t max_regions, max_bytes; /* the cache's limits */
};

/* -EINVAL: an argument is NULL or out->size is too small. */
int hmreg_domain_query(struct hmreg_domain *domain, struct hmreg_domain_info *out);

/* Closes a domain; what it was opened on is borrowed and stays open. NULL is accepted.
 * Cached regions nobody holds are deregistered. -EBUSY: regions or remotes are open, or
 * cached ones in use; the domain stays as it was. */
int hmreg_domain_close(struct hmreg_domain *domain);

/* The path to one device's memory: what registration would try, and why better ones would be
 * refused, as far as that is known without registering. device of host memory: -1 or 0. Errors of
 * hmreg_device_query(). */
struct hmreg_explanation;
int hmreg_domain_explain(struct hmreg_domain *domain, enum hmreg_iface iface, int device,
                         struct hmreg_explanation *out);

/* ---- memory regions --------------------------------------------------------------------- */

/* Memory named by a descriptor the caller exported, as FI_MR_DMABUF has it. */
struct hmreg_mr_dmabuf {
    int fd;          /* borrowed for the call; 0 is valid */
    uint64_t offset; /* where the region begins in it */
    size_t len;
    void *base_addr; /* the address of the descriptor's start: peers of a domain with
                        HMREG_MR_VIRT_ADDR name base_addr + offset; NULL: from 0 */
};

/* The attributes of fi_mr_attr and kfi_mr_attr, and what hmreg adds. */
struct hmreg_segment;
struct hmreg_mr_attr {
    size_t size;             /* sizeof(struct hmreg_mr_attr) */
    const struct iovec *iov; /* the ranges that form one region, in this order */
    size_t iov_count;
    uint64_t access;        /* HMREG_READ ... HMREG_REMOTE_WRITE, at least one */
    uint64_t offset;        /* reserved, 0 */
    uint64_t requested_key; /* where the domain lets the caller choose keys */
    void *context;          /* the caller's own; hmreg_mr_context() gives it back */
    size_t auth_key_size;   /* bytes at auth_key, 0: the domain's */
    const uint8_t *auth_key;
    int claim_iface; /* 1: iface and device below are the caller's claim, checked
                        against what is found; 0: found */
    enum hmreg_iface iface;
    int device; /* HMREG_DEVICE_ANY: not claimed */
    /* The fields above are those of the first version; a caller's size may end here. */
    const struct hmreg_mr_dmabuf *dmabuf; /* with HMREG_MR_DMABUF, else NULL */
    void *hmem_data;  /* libfabric's: handed on to it where it knows the field, else NULL */
    size_t page_size; /* libfabric's hint, bytes: handed on likewise, else ignored; 0 or a
                         power of two */
    const struct hmreg_segment *segments; /* instead of iov: as of hmreg_mr_regsgl(), or NULL */
    size_t segment_count;
};

/*
 * Registers memory, whatever it is, on the domain's best path. Closed with hmreg_mr_close().
 * The region is never cached; its memory must outlive it. One range of device memory that lies on
 * several physical allocations (virtual memory of several devices, say), where no descriptor names
 * it as a whole, becomes a composite of up to HMREG_SEGMENTS_MAX of them, as hmreg_mr_regsgl()
 * makes it.
 * access: as in the attributes. offset: 0. requested_key: ignored for regions without remote
 * access; must be 0 where the domain has HMREG_MR_PROV_KEY. flags: HMREG_HMEM_*.
 * -EINVAL: an argument is NULL, a length is 0, a range wraps, count is 0 or above the domain's
 *   iov_limit, access is 0 or has unknown bits, offset is not 0, the caller's claim and the
 *   finding disagree, or an iface or device does not exist. Nothing was called before.
 * -HMREG_EBADFLAGS: flags has bits that are none of these.
 * -HMREG_ENOKEY: requested_key is in use in this domain.
 * -EKEYREJECTED: requested_key does not fit key_size, is reserved, or the provider chooses.
 * -ERANGE, -EFAULT, -EIO, -EEXIST: as hmreg_query(). -EFAULT also, with HMREG_MR_ALLOCATED: host
 *   memory is mapped without the process's right to read it, or to write where access lets others.
 * -EOPNOTSUPP: every path to this memory was refused; hmreg_explain(NULL, ...) has each reason.
 * -EMSGSIZE: longer than the domain's max_len.
 * Else the fabric's own error, when its registration failed.
 */
int hmreg_mr_reg(struct hmreg_domain *domain, const void *addr, size_t len, uint64_t access,
                 uint64_t offset, uint64_t requested_key, uint64_t flags, struct hmreg_mr **mr,
                 void *context);
int hmreg_mr_regv(struct hmreg_domain *domain, const struct iovec *iov, size_t count,
                  uint64_t access, uint64_t offset, uint64_t requested_key, uint64_t flags,
                  struct hmreg_mr **mr, void *context);
int hmreg_mr_regattr(struct hmreg_domain *domain, const struct hmreg_mr_attr *attr, uint64_t flags,
                     struct hmreg_mr **mr);

/* A piece of a scatter-gather region: host or device memory by address, or a dmabuf's range. */
struct hmreg_segment {
    uint32_t kind; /* HMREG_SEGMENT_* */
    union {
        struct iovec memory;
        struct hmreg_mr_dmabuf dmabuf;
    } u;
};
#define HMREG_SEGMENT_MEMORY 0
#define HMREG_SEGMENT_DMABUF 1
#define HMREG_SEGMENTS_MAX   64

/*
 * Registers up to HMREG_SEGMENTS_MAX segments as one region, as kfi_mr_regsgl() does. Where the
 * fabric takes them as one, it is one registration; elsewhere a composite: a registration for
 * each segment, behind one region, with one token for all. Remote offsets count through the
 * segments in their order, on every fabric (hmreg_remote_addr() finds the piece). A composite's
 * hmreg_mr_desc(), _native() are NULL and its key HMREG_KEY_NOTAVAIL: hmreg_mr_segment() has
 * each piece's. requested_key is the key of the first registration; a composite's others are the
 * library's choice. hmreg_mr_regattr() takes segments too, with all its other attributes. Errors of
 * hmreg_mr_reg(), and -EINVAL: segments of two ifaces (the sentence names both), an unknown kind.
 * Nothing stays registered after an error.
 */
int hmreg_mr_regsgl(struct hmreg_domain *domain, const struct hmreg_segment *segments, size_t count,
                    uint64_t access, uint64_t offset, uint64_t requested_key, uint64_t flags,
                    struct hmreg_mr **mr, void *context);

struct hmreg_segment_info {
    size_t size;         /* sizeof(struct hmreg_segment_info) */
    uint64_t local_addr; /* for the fabric's local operations */
    uint64_t len;
    void *desc;
    uint64_t key;
    void *native;
};

/* Piece index of a region: a segment, a range of an iov, or the whole of a plain region.
 * -EINVAL: an argument is NULL or out->size is too small. -ENOENT: index is past the last. */
int hmreg_mr_segment(const struct hmreg_mr *mr, size_t index, struct hmreg_segment_info *out);

/*
 * The raw key of a region and the base address that goes with it. key_size: in, room at raw_key;
 * out, bytes needed, also on -HMREG_ETOOSMALL. Works on every domain: where keys are 64 bits, the
 * raw key is the key's 8 bytes, little-endian. flags: 0. base_addr and raw_key may be NULL if not
 * wanted (raw_key: with *key_size 0).
 * -EINVAL: mr or key_size is NULL. -EACCES: the region has no remote access. -HMREG_EBADFLAGS.
 */
int hmreg_mr_raw_attr(const struct hmreg_mr *mr, uint64_t *base_addr, uint8_t *raw_key,
                      size_t *key_size, uint64_t flags);

/* Makes a peer's raw key usable in RMA calls of this domain; released with hmreg_mr_unmap_key()
 * before the domain is closed (-EBUSY there otherwise). flags: 0. -EINVAL: an argument is NULL,
 * or key_size is not what this kind of domain has. -HMREG_EBADFLAGS. Else the fabric's. */
int hmreg_mr_map_raw(struct hmreg_domain *domain, uint64_t base_addr, const uint8_t *raw_key,
                     size_t key_size, uint64_t *key, uint64_t flags);
/* -EINVAL: domain is NULL, or key is not one of hmreg_mr_map_raw() or unmapped already. Else the
 * fabric's; the key is given back all the same. */
int hmreg_mr_unmap_key(struct hmreg_domain *domain, uint64_t key);

/*
 * Ties a region to a counter or endpoint of its fabric: struct fid * on libfabric, struct
 * hmreg_loopback_counter * or _ep * on loopback. flags: HMREG_REMOTE_WRITE for a counter (every
 * remote write to the region counts), 0 for an endpoint.
 * -EINVAL: an argument is NULL, the object is of another kind or domain, or the region was not
 *   registered for it (HMREG_RMA_EVENT where the domain has HMREG_MR_RMA_EVENT).
 * -HMREG_EBADFLAGS: flags. -HMREG_EOPBADSTATE: the region is enabled already where that ends
 *   binding. -ENOSYS: this fabric counts no accesses to regions. -EOPNOTSUPP: nor does this
 *   provider. -EBUSY: an endpoint, or on loopback this counter, is bound already.
 */
int hmreg_mr_bind(struct hmreg_mr *mr, void *object, uint64_t flags);

/*
 * The pages under the region, or under iov's parts of it, may have changed: looks them up again
 * (HMREG_MR_MMU_NOTIFY). Peers' accesses fail meanwhile. iov NULL with count 0: all of it.
 * flags: 0. Domains without that mode have nothing to do and answer 0. -EINVAL: mr is NULL, or a
 * part is outside the region. -EFAULT: a page is not there. -HMREG_EBADFLAGS.
 */
int hmreg_mr_refresh(struct hmreg_mr *mr, const struct iovec *iov, size_t count, uint64_t flags);

/* Makes a region that was created disabled (HMREG_MR_ENDPOINT, or HMREG_RMA_EVENT where the
 * domain has HMREG_MR_RMA_EVENT) usable; 0 where it is usable already by its mode.
 * -EINVAL: mr is NULL. -HMREG_EOPBADSTATE: no endpoint is bound yet, or it was enabled before. */
int hmreg_mr_enable(struct hmreg_mr *mr);

/*
 * Binds an event queue to a domain: with HMREG_REG_MR, registrations complete there. The call
 * that registers then returns before it is done: *mr is written before the event can be read,
 * and a failing call leaves no event and *mr as it was. object: struct hmreg_loopback_eq *; on
 * libfabric bind the fid_domain itself before opening ours, with HMREG_OFI_ASYNC: the queue is
 * the caller's to read, so hmreg_mr_get() and composites answer -EOPNOTSUPP there.
 * -EINVAL: an argument is NULL or of another kind. -HMREG_EBADFLAGS: flags is not HMREG_REG_MR.
 * -EBUSY: one is bound. -EOPNOTSUPP: the provider has none.
 */
int hmreg_domain_bind(struct hmreg_domain *domain, void *object, uint64_t flags);

/*
 * Deregisters. NULL is accepted. -EBUSY: something is bound to the region; it stays as it was,
 * close it again later (a composite of hmreg_mr_regsgl() may have lost other pieces, and then
 * takes no other call). -EINVAL: the region is a cached one (use hmreg_mr_put()). Else the
 * fabric's own error; the region is gone all the same.
 */
int hmreg_mr_close(struct hmreg_mr *mr);

/* What local operations need. For libfabric fi_mr_desc()'s value, NULL where not needed. */
void *hmreg_mr_desc(const struct hmreg_mr *mr);
/* What a peer needs; HMREG_KEY_NOTAVAIL for regions without remote access, with raw keys, or whose
 * registration is not complete. */
uint64_t hmreg_mr_key(const struct hmreg_mr *mr);
/* The verbs keys; for other providers 0. */
uint32_t hmreg_mr_lkey(const struct hmreg_mr *mr);
uint32_t hmreg_mr_rkey(const struct hmreg_mr *mr);
/* The native object: struct fid_mr * or struct ibv_mr *; NULL on loopback. Borrowed. */
void *hmreg_mr_native(const struct hmreg_mr *mr);
/* The caller's context of the registration. */
void *hmreg_mr_context(const struct hmreg_mr *mr);

struct hmreg_mr_info {
    size_t size; /* sizeof(struct hmreg_mr_info) */
    enum hmreg_iface iface;
    int device; /* -1 for host memory */
    enum hmreg_path path;
    uint64_t addr; /* first range: the caller's address; a cached region may begin before it */
    uint64_t len;  /* all ranges together */
    uint64_t access;
    uint64_t identity;   /* the allocation's, as in hmreg_mem_info */
    uint64_t local_addr; /* the address to pass to the fabric's local operations for addr: equal to
                          addr but for path mapped, where it is the mapping's */
    int cached;          /* 1: from hmreg_mr_get() and remembered */
};

/* -EINVAL: an argument is NULL or out->size is too small. */
int hmreg_mr_query(const struct hmreg_mr *mr, struct hmreg_mr_info *out);

/* ---- why this path ---------------------------------------------------------------------- */

/* One refused path. */
struct hmreg_reason {
    enum hmreg_path path;
    int code;            /* negative error number */
    int64_t vendor_code; /* the vendor's or the kernel's own, 0 where none */
    char slug[32];       /* stable name of the reason: "no-dmabuf-export" */
    char text[256];      /* a sentence a person can act on */
};

struct hmreg_explanation {
    size_t size; /* sizeof(struct hmreg_explanation) */
    enum hmreg_iface iface;
    int device;
    enum hmreg_path path; /* the one taken, HMREG_PATH_NONE if none was */
    uint32_t refused;     /* entries of reasons, in the order they were tried */
    struct hmreg_reason reasons[HMREG_PATH_COUNT - 1];
};

/* Why this region has its path. mr NULL: of the calling thread's last registration that failed
 * with every path refused. -EINVAL: out is NULL or its size is too small. -ENOENT: mr is NULL
 * and no registration of this thread was refused. */
int hmreg_explain(const struct hmreg_mr *mr, struct hmreg_explanation *out);

/* ---- cached registration ---------------------------------------------------------------- */

/*
 * A region that covers [addr, addr+len) with exactly these rights: remembered from before if it
 * is surely still right, registered otherwise. Release with hmreg_mr_put(), from any thread.
 * The region may be larger than the range unless the domain has HMREG_DOMAIN_EXACT;
 * hmreg_mr_query() has its bounds. Memory may be freed while a region is cached, but not between
 * get and put. Keys are the library's choice. Errors of hmreg_mr_reg().
 */
int hmreg_mr_get(struct hmreg_domain *domain, const void *addr, size_t len, uint64_t access,
                 struct hmreg_mr **mr);
/* Gives back one get. NULL is accepted. */
void hmreg_mr_put(struct hmreg_mr *mr);

/* Memory in [addr, addr+len) is changing its pages: forgets every cached region that touches
 * it, in all domains. Call before the memory is freed or remapped. Regions in use end with their
 * last put. -EINVAL: lib is NULL, len is 0, or the range wraps. */
int hmreg_invalidate(struct hmreg *lib, const void *addr, size_t len);

/* Deregisters every cached region of the domain that nobody holds. -EINVAL: domain is NULL. */
int hmreg_domain_flush(struct hmreg_domain *domain);

/* Deregisters what has ended and nobody holds, on the calling thread: cached regions whose memory
 * changed or that another domain's get evicted. For domains whose fabric may be called on the
 * application's own threads only (any libfabric domain but one of FI_THREAD_SAFE); the library's
 * thread does the same for all others within milliseconds. -EINVAL: domain is NULL. */
int hmreg_domain_progress(struct hmreg_domain *domain);

#define HMREG_STATS_TIMES 40

/*
 * Changes the limits of each of a domain's caches, as hmreg_domain_config has them;
 * HMREG_LIMIT_NONE: none; 0: nothing is remembered from now on. Regions above them that no get
 * holds go at once, first those that no get has found lately; those in use stay, and count.
 * -EINVAL: domain is NULL, or it was opened without a cache.
 */
int hmreg_domain_set_limits(struct hmreg_domain *domain, uint64_t max_regions, uint64_t max_bytes);

/*
 * The same for all caches of a library together; at first HMREG_CACHE_MAX_COUNT and
 * HMREG_CACHE_MAX_SIZE of the environment, else none. A get that would exceed them evicts of its
 * own cache, then of its domain's others, then of other domains. This call, and a get on another
 * domain, deregister nothing of a domain: what they evict there, the domain's own next call
 * deregisters. -EINVAL: lib is NULL.
 */
int hmreg_set_limits(struct hmreg *lib, uint64_t max_regions, uint64_t max_bytes);

struct hmreg_stats {
    size_t size; /* sizeof(struct hmreg_stats) */
    uint64_t hits, misses, evictions;
    uint64_t invalidations; /* regions forgotten because memory changed */
    uint64_t uncached;      /* gets that registered without remembering */
    uint64_t regions;       /* cached now */
    uint64_t bytes;         /* in them */
    uint64_t zombies;       /* forgotten, still waiting for their last put or for a busy dereg */
    /* The fields above are those of the first version; a caller's size may end here. */
    uint64_t caches;         /* that these are the numbers of, */
    uint64_t shown;          /* and of them, that other processes see: hmreg stats */
    uint64_t evicted_limit;  /* of the evictions: for a limit, */
    uint64_t evicted_memory; /* because a registration answered -ENOMEM, */
    uint64_t evicted_room;   /* -ENOSPC, */
    uint64_t evicted_keys;   /* -HMREG_ENOKEY */
    uint64_t failures;       /* gets whose registration failed for good */
    uint64_t regions_max;    /* the most of regions and bytes so far; of a domain the sums of its */
    uint64_t bytes_max;      /* caches' own, at different times */
    uint64_t waits;          /* gets that waited for another thread to register the same */
    uint64_t waiting;        /* of these, now */
    uint64_t reg_ns;         /* time that the timed registrations took, together, in ns */
    uint64_t reg_longest_ns; /* the longest of them */
    uint64_t reg_times[HMREG_STATS_TIMES]; /* how many took from 2^n to 2^(n+1) ns; longer ones are
                                the last's. Of registrations shorter than 1 us one in 16 is timed */
    uint64_t wrong_puts; /* of regions that no get held; found with HMREG_DEBUG=puts only */
};

/* Sums over the domain's caches. -EINVAL: an argument is NULL or out->size is too small. */
int hmreg_domain_stats(struct hmreg_domain *domain, struct hmreg_stats *out);

/* The same for one cache. device -1: host memory, of an iface other than system that which its
 * runtime pinned; of system 0 is the same. -EINVAL: an argument is NULL, out->size is too small, or
 * no such iface. -ENODEV: no such device. */
int hmreg_cache_stats(struct hmreg_domain *domain, enum hmreg_iface iface, int device,
                      struct hmreg_stats *out);

enum hmreg_entry_state {
    HMREG_ENTRY_PENDING = 0, /* being registered */
    HMREG_ENTRY_LIVE = 1,    /* remembered: serves gets */
    HMREG_ENTRY_ENDED = 2,   /* forgotten, or never remembered: goes with its last put, or when the
                                fabric lets go of it */
};

/* One region of hmreg_mr_get(). */
struct hmreg_entry_info {
    size_t size; /* the library's sizeof(struct hmreg_entry_info) */
    enum hmreg_iface iface;
    int device;           /* -1: host memory */
    enum hmreg_path path; /* HMREG_PATH_NONE: not registered yet */
    enum hmreg_entry_state state;
    uint64_t addr, len; /* what it covers */
    uint64_t access;
    uint64_t identity; /* the allocation's, as in hmreg_mem_info */
    uint64_t key;      /* HMREG_KEY_NOTAVAIL: none, or not registered yet */
    uint64_t pins;     /* gets not yet put, and threads that wait for it; of a moment */
    int unused;        /* 1: no get since eviction last considered it: it may go next */
};

/*
 * Shows each region that the domain's caches have to visit(), with nothing locked: it may call the
 * library, and take its time. A region that comes or goes meanwhile may be missing, none comes
 * twice. visit() returns 0, or what ends the dump at once. visit NULL: each is printed to standard
 * error, as a debugger may ask for. -EINVAL: domain is NULL. Else what visit() returned.
 */
int hmreg_domain_dump(struct hmreg_domain *domain,
                      int (*visit)(const struct hmreg_entry_info *entry, void *context),
                      void *context);

/* ---- tokens: how a peer reaches a region ------------------------------------------------ */

/*
 * Writes the bytes to send to a peer. *size: in, the room at buf; out, the bytes needed.
 * buf may be NULL if *size is 0. -HMREG_ETOOSMALL: *size was set, buf was not written.
 * -EACCES: the region has no remote access. -EINVAL: mr or size is NULL.
 */
int hmreg_mr_pack(const struct hmreg_mr *mr, void *buf, size_t *size);

/*
 * Opens a peer's region on our own domain (which must be of the peer's provider kind).
 * token is copied. Closed with hmreg_remote_close().
 * -EINVAL: an argument is NULL. -EBADMSG: not a token, cut short, or damaged.
 * -EPROTONOSUPPORT: a token of a newer format. -EXDEV: a token of another provider kind, or of a
 * domain with raw keys where ours has none, or the other way round.
 */
int hmreg_remote_open(struct hmreg_domain *domain, const void *token, size_t size,
                      struct hmreg_remote **remote);
/* NULL is accepted. */
void hmreg_remote_close(struct hmreg_remote *remote);

struct hmreg_remote_info {
    size_t size;            /* sizeof(struct hmreg_remote_info) */
    uint64_t len;           /* bytes of the region */
    uint64_t access;        /* the remote rights it grants */
    uint32_t segments;      /* pieces with an address of their own */
    enum hmreg_iface iface; /* of the memory at the peer */
};

/* -EINVAL: an argument is NULL or out->size is too small. */
int hmreg_remote_query(const struct hmreg_remote *remote, struct hmreg_remote_info *out);

/*
 * The address and key for an RMA operation on len bytes at offset of the region, whatever the
 * peer's mr_mode and path. -EINVAL: remote, addr or key is NULL, or len is 0.
 * -ERANGE: outside the region; or, -EXDEV: inside it but over the border of two segments, where
 * two operations are needed (the sentence says at which offset to split).
 */
int hmreg_remote_addr(const struct hmreg_remote *remote, uint64_t offset, size_t len,
                      uint64_t *addr, uint64_t *key);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
