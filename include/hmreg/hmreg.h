/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * hmreg: register any memory (host, CUDA, ROCm, Level Zero) with any RDMA fabric.
 *
 * The calls build on each other: hmreg_query() identifies the memory behind a pointer,
 * hmreg_export_dmabuf() exports it as a dmabuf, hmreg_mr_reg() registers it as a memory region of a
 * domain, and hmreg_mr_get() does the same through a registration cache.
 *
 * Conventions, for every function here unless its comment says otherwise:
 *  - A call returns 0 or a negative error number: one of <errno.h>, or one of the HMREG_E* below,
 *    which have libfabric's values. After a failure, hmreg_last_error() describes it for the
 *    calling thread, with the vendor's own code. A success does not change the last error.
 *  - A call writes its outputs only on success.
 *  - Any thread may call any function. A thread may release a region that another thread got.
 *  - Addresses and lengths are in bytes. A returned string belongs to the object it describes.
 *  - An extensible struct begins with its size: set it to sizeof before the call. In an input, the
 *    bytes beyond the size the library knows must be zero; in an output, the library leaves them.
 *    A struct that does not begin with a size is final: no version adds a field to it.
 *  - In a child of fork(), a call on an object of the parent returns -EPERM and does not touch the
 *    object. The child calls hmreg_open() to get objects for itself.
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
#define HMREG_EOPBADSTATE 258 /* wrong state: already enabled, or not bound yet */
#define HMREG_EBADFLAGS   260 /* a flag that this call or this domain does not accept */
#define HMREG_ENOKEY      266 /* the requested key is in use */

/* The interface that allocated the memory. Values are libfabric's enum fi_hmem_iface. */
enum hmreg_iface {
    HMREG_IFACE_SYSTEM = 0,
    HMREG_IFACE_CUDA = 1,
    HMREG_IFACE_ROCR = 2,
    HMREG_IFACE_ZE = 3,
    /* hmreg starts no runtime for the following ifaces, nor for other numbers up to
       HMREG_IFACE_MAX, which a caller may use for an iface of a newer libfabric. Memory of these
       ifaces is registered by a claim and the caller's dmabuf, or its address (path peermem); other
       calls refuse it. */
    HMREG_IFACE_NEURON = 4,
    HMREG_IFACE_SYNAPSEAI = 5, /* Gaudi */
    HMREG_IFACE_MAX = 15,
};
#define HMREG_IFACE_COUNT      4 /* ifaces below this number have a runtime that hmreg knows */
#define HMREG_IFACE_BIT(iface) (1u << (iface))
#define HMREG_IFACES_STARTED   (1u << 31) /* alone in ifaces: look-ups start no runtime */

/* The kind of memory. */
enum hmreg_mem_kind {
    HMREG_MEM_HOST = 0,        /* pageable host memory */
    HMREG_MEM_HOST_PINNED = 1, /* host memory that a device runtime allocated or pinned */
    HMREG_MEM_DEVICE = 2,      /* memory of one device */
    HMREG_MEM_MANAGED = 3,     /* managed (shared) memory: migrates between host and device */
};

/* How a region was registered. */
enum hmreg_path {
    HMREG_PATH_NONE = 0,    /* not registered; also ends a list of paths */
    HMREG_PATH_SYSTEM = 1,  /* host memory, by its address */
    HMREG_PATH_DMABUF = 2,  /* device memory, by a dmabuf that the fabric imports */
    HMREG_PATH_PEERMEM = 3, /* device memory, by its address: the fabric's peer memory support */
    HMREG_PATH_MAPPED = 4,  /* device memory, by a CPU mapping of its dmabuf */
};
#define HMREG_PATH_COUNT 5
#define HMREG_PATHS_MAX  8 /* elements in an array of paths: room for paths of later versions */

/* How path dmabuf gets the memory to the NIC. */
enum hmreg_way {
    HMREG_WAY_NONE = 0,        /* no dmabuf; also ends a list of ways */
    HMREG_WAY_PLAIN = 1,       /* the fabric's usual import */
    HMREG_WAY_DATA_DIRECT = 2, /* an import by data direct: through the NIC's second PCIe function,
                                  near the device (mlx5dv_reg_dmabuf_mr()) */
    HMREG_WAY_PCIE = 3,        /* the usual import of a dmabuf with HMREG_EXPORT_PCIE */
    HMREG_WAY_DATA_DIRECT_PCIE = 4, /* both: data direct, and the PCIe mapping */
};
#define HMREG_WAY_COUNT 5
#define HMREG_WAYS_MAX  8 /* elements in an array of ways: room for ways of later versions */

/* Access rights. Values are libfabric's FI_READ ... FI_REMOTE_WRITE. */
#define HMREG_READ          (UINT64_C(1) << 8)  /* destination of RMA reads started locally */
#define HMREG_WRITE         (UINT64_C(1) << 9)  /* source of RMA writes started locally */
#define HMREG_RECV          (UINT64_C(1) << 10) /* a receive buffer */
#define HMREG_SEND          (UINT64_C(1) << 11) /* a send buffer */
#define HMREG_REMOTE_READ   (UINT64_C(1) << 12) /* peers may read it */
#define HMREG_REMOTE_WRITE  (UINT64_C(1) << 13) /* peers may write it */
#define HMREG_ACCESS_LOCAL  (HMREG_READ | HMREG_WRITE | HMREG_RECV | HMREG_SEND)
#define HMREG_ACCESS_REMOTE (HMREG_REMOTE_READ | HMREG_REMOTE_WRITE)
#define HMREG_ACCESS_ALL    (HMREG_ACCESS_LOCAL | HMREG_ACCESS_REMOTE)

/* What a domain requires of registrations. Values are libfabric's FI_MR_*. */
#define HMREG_MR_BASIC      (1u << 0)  /* deprecated: VIRT_ADDR, ALLOCATED and PROV_KEY together */
#define HMREG_MR_SCALABLE   (1u << 1)  /* deprecated: none of the modes */
#define HMREG_MR_LOCAL      (1u << 2)  /* local buffers must be registered too */
#define HMREG_MR_RAW        (1u << 3)  /* keys are raw; the peer maps them */
#define HMREG_MR_VIRT_ADDR  (1u << 4)  /* peers use virtual addresses, not offsets from 0 */
#define HMREG_MR_ALLOCATED  (1u << 5)  /* the pages must exist at registration */
#define HMREG_MR_PROV_KEY   (1u << 6)  /* the provider chooses the keys */
#define HMREG_MR_MMU_NOTIFY (1u << 7)  /* pages that appear later need a refresh */
#define HMREG_MR_RMA_EVENT  (1u << 8)  /* regions with counters start disabled */
#define HMREG_MR_ENDPOINT   (1u << 9)  /* regions must be bound to an endpoint, then enabled */
#define HMREG_MR_HMEM       (1u << 10) /* device memory must be registered with its iface */

/* Flags of a registration. Values are libfabric's FI_MR_DMABUF, FI_HMEM_*, FI_RMA_*. */
#define HMREG_REG_DMABUF       (UINT64_C(1) << 40) /* attr->dmabuf names the memory, not attr->iov */
#define HMREG_HMEM_HOST_ALLOC  (UINT64_C(1) << 45) /* claim: a device runtime's host memory */
#define HMREG_HMEM_DEVICE_ONLY (UINT64_C(1) << 46) /* claim: only the device can access it */
#define HMREG_RMA_PMEM         (UINT64_C(1) << 49) /* persistent memory: remote writes must be durable */
#define HMREG_RMA_EVENT        (UINT64_C(1) << 56) /* counters will be bound to the region */
/* hmreg's own flags, at most one: may one range become a region of several parts? Without a flag,
 * the domain's HMREG_DOMAIN_SINGLE or _PARTS decides. */
#define HMREG_REG_SINGLE (UINT64_C(1) << 32) /* one registration, or an error */
#define HMREG_REG_PARTS  (UINT64_C(1) << 33) /* several registrations: hmreg_mr_piece() */

/* For gets only, at most one. Without a flag, the domain's cover decides (enum hmreg_cover). */
#define HMREG_REG_COVER (UINT64_C(1) << 34) /* as HMREG_COVER_REMOTE */
#define HMREG_REG_EXACT (UINT64_C(1) << 35) /* as HMREG_COVER_EXACT */

/* Flag of hmreg_domain_bind(): registrations complete in the event queue. FI_REG_MR's value. */
#define HMREG_BIND_REG_MR (UINT64_C(1) << 59)

#define HMREG_KEY_NOTAVAIL UINT64_MAX /* the region has no such key */
#define HMREG_KEY_ANY      UINT64_MAX /* requested_key: the library or the fabric chooses */
/* Never a key of verbs: a work request with it fails with a protection error. */
#define HMREG_VERBS_KEY_NOTAVAIL UINT32_MAX
#define HMREG_LIMIT_NONE         UINT64_MAX /* no limit */
#define HMREG_DEVICE_ANY         (-1)       /* any device */

struct hmreg;        /* the opened library: vendor runtimes, devices, memory monitor */
struct hmreg_domain; /* a fabric's domain, on which memory is registered */
struct hmreg_mr;     /* a memory region */
struct hmreg_remote; /* a peer's memory region, opened from its token */

/* Names for messages, such as "cuda", "device", "dmabuf". Ifaces 6 to 15 are "iface6" to "iface15";
 * "?": an unknown value. */
const char *hmreg_iface_name(enum hmreg_iface iface);
const char *hmreg_mem_kind_name(enum hmreg_mem_kind kind);
const char *hmreg_path_name(enum hmreg_path path);
const char *hmreg_way_name(enum hmreg_way way);

/* The version of the library at run time, such as "0.3.0". */
const char *hmreg_version(void);

/* ---- errors ----------------------------------------------------------------------------- */

struct hmreg_error {
    int code;             /* the negative value that the call returned; 0: no call failed yet */
    const char *source;   /* what failed: "hmreg", "cuda", "rocr", "ze", "ofi", "verbs", "os" */
    int64_t vendor_code;  /* the source's own code; 0: the source has none */
    char vendor_text[96]; /* the source's own text for the code; "": the source has none */
    char text[768];       /* a sentence that names the argument, or ends with the remedy */
};

/* The last error of the calling thread. Never NULL; valid until the thread's next failure. */
const struct hmreg_error *hmreg_last_error(void);

/* The text of an error number, positive or negative, HMREG_E* included. Never NULL. */
const char *hmreg_strerror(int code);

/* ---- the library ------------------------------------------------------------------------ */

/* The memory monitor: it detects that host memory was unmapped or remapped. */
enum hmreg_monitor {
    HMREG_MONITOR_DEFAULT =
        0, /* the environment's choice. Without one the library chooses when it first caches host
              memory: counter if its kernel module is loaded, else memhooks if libc can be hooked,
              else userfaultfd if it is permitted, else disabled */
    HMREG_MONITOR_USERFAULTFD = 1, /* kernel events; an error if userfaultfd is not permitted */
    HMREG_MONITOR_IMPORT = 2,      /* the application calls hmreg_invalidate() */
    HMREG_MONITOR_DISABLED = 3,    /* no monitor: host memory is registered, never cached */
    HMREG_MONITOR_MEMHOOKS = 4,    /* hooks in libc's mapping calls; an error if libc cannot be
                                      hooked */
    HMREG_MONITOR_COUNTER = 5,     /* the kernel module hmreg_counter: /dev/hmreg is needed */
};

/* The monitor's name as in FI_MR_CACHE_MONITOR; "?" for an unknown value. */
const char *hmreg_monitor_name(enum hmreg_monitor monitor);

/* Severity of a log message. */
enum hmreg_log_level {
    HMREG_LOG_ERROR = 1,
    HMREG_LOG_WARN = 2,
    HMREG_LOG_INFO = 3,
    HMREG_LOG_DEBUG = 4,
};

struct hmreg_config {
    size_t size;     /* sizeof(struct hmreg_config) */
    uint32_t ifaces; /* HMREG_IFACE_BIT()s: start these runtimes now, and no others later; 0: start
                        each at the first need; HMREG_IFACES_STARTED: as 0, but address look-ups
                        never start a runtime */
    enum hmreg_monitor monitor; /* the monitor for host memory */
    /* Receives the library's messages of every level. text is one line without a newline, valid
     * during the call. The library calls log from any thread that is in a library call, and from
     * its own threads; log must not call the library. NULL: no callback. Then, unless HMREG_LOG is
     * set, the library writes to stderr only if it cannot cache host memory at all. */
    void (*log)(enum hmreg_log_level level, const char *text, void *log_context);
    void *log_context;
    uint64_t fork_max_bytes; /* At fork(2) the kernel copies pinned host memory. So a domain whose
                                fabric pins host memory evicts its idle host regions before a fork
                                if it caches more bytes of them than this. 0: HMREG_FORK_MAX_SIZE,
                                else 16 MiB; HMREG_LIMIT_NONE: never. */
};

/*
 * Opens the library. Starts the vendors' runtimes that config or HMREG_IFACES names, and the
 * monitor if config or the environment names one. Without such names each runtime is started at the
 * first need: by a call that names its iface, or by a look-up of an address once the vendor's
 * library is loaded. A child that is forked before a runtime starts can use the runtime. With
 * HMREG_IFACES_STARTED look-ups of addresses never start a runtime: a runtime that the application
 * has not started owns no memory. config: NULL for the defaults; read during the call only. *out:
 * close it with hmreg_close(). An absent or broken runtime is not an error; hmreg_runtime_query()
 * gives the reason. -EINVAL: out is NULL; config's size, ifaces or monitor is not an accepted
 * value; an environment variable (hmreg(7) lists them) has an invalid value (the text lists the
 * valid ones); or HMREG_SYSCALLS is plain and the monitor counter, memhooks or userfaultfd was
 * requested.
 * -EOPNOTSUPP: memhooks was requested, and the code of this program's libc, or of a library that
 * interposes on it, cannot be hooked; the error's text names the function and the reason. -EPERM,
 * -ENOSYS: userfaultfd was requested, but the kernel forbids it or lacks it. -ENOENT, -EACCES,
 * -EDQUOT: counter was requested, and /dev/hmreg is absent, refused or full. -ENOMEM, -EAGAIN,
 * -EMFILE: system.
 */
int hmreg_open(const struct hmreg_config *config, struct hmreg **out);

/*
 * Closes the library. NULL is accepted. -EBUSY: domains are open, or memory of hmreg_mem_alloc() is
 * not freed; the library stays open. -EPERM: the caller is a forked child of the opening process.
 */
int hmreg_close(struct hmreg *lib);

/* The active monitor, and how many changes it has seen. */
struct hmreg_monitor_info {
    size_t size;               /* sizeof(struct hmreg_monitor_info) */
    enum hmreg_monitor asked;  /* requested by the configuration, else by the environment */
    enum hmreg_monitor active; /* DEFAULT: not chosen yet, because none was needed */
    int userfaultfd;           /* 1: userfaultfd is active */
    uint64_t events;           /* changes that the kernel has reported in this process */
    uint64_t calls;            /* changes that memhooks has reported in the whole process */
    char why[768]; /* if the library chose: why not a better monitor; or why the active monitor
                      stopped; else "" */
};

/* -EINVAL: an argument is NULL or out->size is too small. */
int hmreg_monitor_query(struct hmreg *lib, struct hmreg_monitor_info *out);

/* ---- runtimes and devices --------------------------------------------------------------- */

struct hmreg_runtime_info {
    size_t size;          /* sizeof(struct hmreg_runtime_info) */
    int present;          /* 1: usable; 0: not usable, see why */
    int devices;          /* number of devices; a usable runtime may have 0 */
    char version[48];     /* the runtime's own version; "": unknown */
    char library[128];    /* the file it was loaded from */
    char why[256];        /* why it is not usable, or which features it lacks; "": it lacks none */
    char unreported[256]; /* which memory can be freed without a report, and why: each hit on it
                             asks the runtime, or it is not cached; "": none, or not usable */
};

/* Describes the runtime of an iface, and starts it if no call has tried to. -EINVAL: an argument is
 * NULL, or there is no such iface. */
int hmreg_runtime_query(struct hmreg *lib, enum hmreg_iface iface, struct hmreg_runtime_info *out);

struct hmreg_pci {
    uint32_t domain;
    uint8_t bus, device, function;
    uint8_t valid; /* 1: the fields above are known */
};

#define HMREG_DEVICE_SIMULATED (1u << 0) /* a test's fake device, not hardware */
#define HMREG_DEVICE_DMABUF    (1u << 1) /* the runtime reports dmabuf export of its memory */

struct hmreg_device_info {
    size_t size;    /* sizeof(struct hmreg_device_info) */
    char name[64];  /* the vendor's name of the device */
    uint32_t flags; /* HMREG_DEVICE_* */
    struct hmreg_pci pci;
    uint64_t memory; /* bytes of device memory; 0: unknown */
};

/* Describes a device of an iface. index: from 0, in the vendor's order. -EINVAL: an argument is
 * NULL or no such iface. -ENODEV: no such device. */
int hmreg_device_query(struct hmreg *lib, enum hmreg_iface iface, int index,
                       struct hmreg_device_info *out);

/* ---- memory ----------------------------------------------------------------------------- */

#define HMREG_MEM_INFO_CPU_ACCESS (1u << 0) /* the CPU can load and store at host_addr */
#define HMREG_MEM_INFO_EXPORTABLE (1u << 1) /* hmreg_export_dmabuf() is expected to succeed */
#define HMREG_MEM_INFO_SIMULATED  (1u << 2) /* memory of a test's fake device */

struct hmreg_mem_info {
    size_t size; /* sizeof(struct hmreg_mem_info) */
    enum hmreg_iface iface;
    int device; /* the device's index; -1: system memory */
    struct hmreg_pci pci;
    enum hmreg_mem_kind kind;
    uint32_t flags;      /* HMREG_MEM_* */
    uint32_t segments;   /* physical allocations (device) or mappings (host) under the range */
    uint64_t alloc_base; /* start address of the allocation that contains the range */
    uint64_t alloc_len;  /* length of that allocation, bytes */
    uint64_t identity;   /* identifies the allocation: memory allocated later at the same address
                            has another identity. 0: unknown. System memory has 0 and is watched by
                            the monitor; imported memory of some vendors has 0 and is not cached */
    uint64_t host_addr;  /* the CPU's address of the range; 0: the CPU cannot access it */
};

/*
 * Identifies the memory at [addr, addr+len). Queries each runtime that is present or whose library
 * is loaded. If no runtime knows the range and the process can read it, it is system memory. The
 * last error's text has the details. -EINVAL: lib, addr or out is NULL, len is 0 or the range
 * wraps, out->size is too small. -ERANGE: the range extends beyond the allocation in which it
 * starts; the text says where. Host memory that a runtime pinned only in part counts as system
 * memory. -EFAULT: no runtime knows the range, and the process cannot read all of it; the text
 * names the first address without a mapping. -EOPNOTSUPP: a runtime reports no bounds of the
 * memory, or it is a multicast object (see text). -EIO: a vendor's query failed; its code is in the
 * last error. -EEXIST: two runtimes claim the memory as their device's.
 */
int hmreg_query(struct hmreg *lib, const void *addr, size_t len, struct hmreg_mem_info *out);

struct hmreg_dmabuf {
    int fd; /* owned by the caller, who closes it with close(2); close-on-exec; 3 or more */
    uint64_t offset; /* of the range in the dmabuf, bytes */
    uint64_t length; /* of the range as requested, bytes */
};

/* Flag of hmreg_export_dmabuf(): NICs reach the memory through PCIe, even where the device's link
 * with the CPU is coherent (Grace). For registrations by data direct: a NIC that imports the dmabuf
 * in another way may accept the registration and then fail transfers. */
#define HMREG_EXPORT_PCIE (UINT64_C(1) << 0)

/*
 * Exports a dmabuf that contains [addr, addr+len) at out->offset. The range may have any alignment
 * and any position in its allocation. flags: 0 or HMREG_EXPORT_PCIE. -EINVAL, -ERANGE, -EFAULT,
 * -EIO, -EEXIST: as for hmreg_query(). -HMREG_EBADFLAGS: flags. -EOPNOTSUPP: this kind of memory,
 * this device or this runtime version exports no dmabuf, or not with that flag. HMREG_EXPORT_PCIE
 * needs CUDA 12.8 and a device that has it, or ROCm's hsa_amd_portable_export_dmabuf_v2(); Level
 * Zero lacks it. -EXDEV: one dmabuf cannot contain the range (it has several segments or tiles).
 * -EPROTO: the dmabuf that the runtime returned does not contain the range.
 */
int hmreg_export_dmabuf(struct hmreg *lib, const void *addr, size_t len, uint64_t flags,
                        struct hmreg_dmabuf *out);

/*
 * Copies len bytes from src to dst: host memory, or device memory of any vendor. Returns when the
 * copy is complete; does not wait for work in CUDA streams. Errors of hmreg_query() for either
 * range; -EINVAL: the ranges overlap; -EIO: the vendor's copy failed.
 */
int hmreg_copy(struct hmreg *lib, void *dst, const void *src, size_t len);

/*
 * Allocates memory of a kind on a device, for tools, tests and examples that do not link a vendor's
 * library. Free it with hmreg_mem_free(). iface SYSTEM takes device -1 or 0 and kind HOST. -EINVAL:
 * an argument is NULL, len is 0, or there is no such iface or kind. -ENODEV: the runtime is absent
 * or has no such device. -EOPNOTSUPP: the vendor has no such kind. -ENOMEM: out of memory.
 */
int hmreg_mem_alloc(struct hmreg *lib, enum hmreg_iface iface, int device, enum hmreg_mem_kind kind,
                    size_t len, void **out);

/* Frees memory of hmreg_mem_alloc(), from any thread. NULL is accepted. -EINVAL: addr is not from
 * hmreg_mem_alloc(), or was freed already. -ENODEV: the runtime has shut down and has released the
 * memory. -EFAULT: the vendor no longer knows the memory (its context was reset, or another call
 * freed it). -EIO: the vendor's call failed; hmreg_mem_free() may be called again. */
int hmreg_mem_free(struct hmreg *lib, void *addr);

/* ---- domains ---------------------------------------------------------------------------- */

#define HMREG_DOMAIN_EXACT    (1u << 0) /* get() returns a region of exactly the requested range */
#define HMREG_DOMAIN_NO_CACHE (1u << 1) /* get() always registers, put() deregisters */
/* May one range become a region of several parts, whose keys only hmreg_mr_piece() returns? A
 * registration's flag overrides the domain's. Without flags: on verbs no; on other providers yes;
 * on a group each member decides. Rails are not parts. */
#define HMREG_DOMAIN_SINGLE (1u << 2) /* one registration (on each rail), or an error */
#define HMREG_DOMAIN_PARTS  (1u << 3) /* several registrations are permitted */

/* How a hit validates the cached region. */
enum hmreg_check {
    HMREG_CHECK_DEFAULT = 0, /* the environment's choice, else always */
    HMREG_CHECK_ALWAYS =
        1, /* a hit asks wherever a change can go unreported: the runtime for the identity of device
              memory, the kernel for pending changes of host memory */
    HMREG_CHECK_NOTICE =
        2, /* a hit asks nothing and relies on notifications. The monitor reports changes of host
              memory before munmap(2) and similar calls return. For device memory the application
              must call hmreg_invalidate() before it frees memory that may be cached */
};

/* The access rights that a cached region may have beyond the requested ones. */
enum hmreg_rights {
    HMREG_RIGHTS_EXACT = 0, /* none */
    HMREG_RIGHTS_LOCAL = 1, /* local ones (HMREG_ACCESS_LOCAL) */
    HMREG_RIGHTS_ANY = 2,   /* remote rights too: peers with its key may do more */
};

/* DEFAULT: a region uses its domain's choice, a domain the environment's. IF_POSSIBLE, for regions
 * only: ON if the fabric supports it for this memory and these rights, else OFF. */
enum hmreg_choice {
    HMREG_CHOICE_DEFAULT = 0,
    HMREG_CHOICE_OFF = 1,
    HMREG_CHOICE_ON = 2,
    HMREG_CHOICE_IF_POSSIBLE = 3,
};

struct hmreg_mr_info;

/* How long a region of hmreg_mr_get() or hmreg_mr_get_attr() stays registered after the last put of
 * its holders, the gets that returned it. */
enum hmreg_policy {
    HMREG_POLICY_DEFAULT =
        0, /* in attributes: the domain's. In a domain's config: KEEP, but LAST_PUT for a caller's
              dmabuf of memory that no runtime knows by its address */
    /* The region stays until its memory ends or changes, it is evicted, or the domain is flushed or
     * closed. Until then gets find it, and peers that know a key with remote rights can use it. */
    HMREG_POLICY_KEEP = 1,
    /* Gets share the region while it is held. The last put deregisters it before it returns; from
       then on no peer can reach the memory by its key. */
    HMREG_POLICY_LAST_PUT = 2,
};

/* What a get that misses registers: its range, or the whole allocation of device memory around it.
 * Later gets in a registered allocation are hits; see hmreg_mr_get(3). If the allocation is longer
 * than cover_max, max_bytes or the fabric's longest region, or if its registration fails, the get
 * registers the range. */
enum hmreg_cover {
    HMREG_COVER_DEFAULT = 0,    /* EXACT */
    HMREG_COVER_EXACT = 1,      /* the range */
    HMREG_COVER_ALLOCATION = 2, /* the allocation; but with remote rights the range, because a peer
                                   with the key reaches the whole region */
    HMREG_COVER_REMOTE = 3,     /* the allocation, even with remote rights */
};

struct hmreg_domain_config {
    size_t size;                            /* sizeof(struct hmreg_domain_config) */
    uint32_t flags;                         /* HMREG_DOMAIN_* */
    enum hmreg_path order[HMREG_PATHS_MAX]; /* paths for device memory, best first, ended by
                                HMREG_PATH_NONE; all zero: dmabuf, peermem, mapped */
    uint64_t max_regions;                   /* limit of cached regions per cache, in use or not; 0:
                                               FI_MR_CACHE_MAX_COUNT, else 4096; HMREG_LIMIT_NONE: no limit */
    uint64_t max_bytes; /* limit of cached bytes per cache; 0: FI_MR_CACHE_MAX_SIZE, else half of
                           the machine's memory; HMREG_LIMIT_NONE: no limit */
    enum hmreg_check check[HMREG_IFACE_MAX + 1]; /* one for each iface; DEFAULT from
                                                    HMREG_IFACE_COUNT on */
    /* Called for each region that hmreg_mr_get() or hmreg_mr_get_attr() registers, cached or not.
     * made: on the get's thread, before any get returns the region. ended: once, before the region
     * is deregistered, on a thread that is in any call with the domain, or on the library's thread
     * hmreg-reaper if the fabric permits any thread. No lock is held. Both may call hmreg_query(),
     * hmreg_export_dmabuf(), hmreg_copy(), hmreg_invalidate() and functions that take mr and do not
     * change it (hmreg_mr_query(), _context(), _desc(), _key(), _pack(), ...). They must not get or
     * put regions, make other calls with a domain, or leave by longjmp(3). After a longjmp(3) the
     * region is never freed and its domain never closed; no other call waits. NULL: none. */
    void (*made)(const struct hmreg_mr *mr, const struct hmreg_mr_info *info,
                 void *callback_context);
    void (*ended)(const struct hmreg_mr *mr, const struct hmreg_mr_info *info,
                  void *callback_context);
    void *callback_context;              /* passed to both */
    enum hmreg_rights rights;            /* which regions serve a get; new ones have its rights */
    enum hmreg_way ways[HMREG_WAYS_MAX]; /* ways of path dmabuf, best first, ended by
                             HMREG_WAY_NONE; all zero: HMREG_DMABUF_WAYS, else the library's order
                             for the NIC and the device */
    /* ON: the runtime's synchronous calls (a memset, a copy on the device) complete their writes to
     * registered device memory before they return. Otherwise a NIC may read the old bytes unless
     * the application waits for the device. The memory keeps the setting until it is freed. CUDA
     * only: other runtimes lack the setting and do not need it. If the runtime refuses,
     * registrations of that memory fail with -EOPNOTSUPP or -EIO. DEFAULT: HMREG_SYNC_MEMOPS, else
     * OFF. */
    enum hmreg_choice sync_memops;
    /* For gets that choose none. The default keeps regions with remote rights registered too: a
     * peer that has the key can access the memory until the region ends, even after the program has
     * put the region and reuses the memory. LAST_PUT ends that access at the last put. */
    enum hmreg_policy policy;
    uint64_t cover_max;     /* bytes; 0: no limit of hmreg's own */
    enum hmreg_cover cover; /* for gets that choose none */
    uint32_t key_size;      /* bytes of keys that the fabric does not choose; 0: its maximum */
    uint64_t key_first, key_last; /* keys for the library to choose; both 0: all */
};

struct hmreg_domain_info {
    size_t size;        /* sizeof(struct hmreg_domain_info) */
    char provider[32];  /* "ofi", "verbs", "loopback" */
    char fabric[64];    /* the libfabric provider or verbs device: "tcp;ofi_rxm", "mlx5_0" */
    uint32_t mr_mode;   /* HMREG_MR_* that the domain requires; hmreg fulfils them for the caller */
    uint32_t key_size;  /* bytes of a key */
    uint32_t iov_limit; /* most ranges of one region */
    uint64_t max_len;   /* longest region, bytes */
    uint64_t max_regions, max_bytes; /* the cache's limits */
    char nic[64]; /* the NIC, as the fabric names it ("mlx5_0", "eth0", "efa_0-rdm"); "": none */
    struct hmreg_pci pci; /* the NIC's address, if the fabric reports it (libfabric) */
    char lost[256];       /* why the domain is lost (<hmreg/lost.h>); "": it is not */
};

/* -EINVAL: an argument is NULL or out->size is too small. */
int hmreg_domain_query(struct hmreg_domain *domain, struct hmreg_domain_info *out);

/* Closes a domain and deregisters its cached regions. The fabric object that it was opened on is
 * borrowed and stays open. NULL is accepted. -EBUSY, and the domain stays open: regions, remotes or
 * jobs are open; cached regions are held (the text has one range); the fabric has not yet
 * deregistered a cached region or a failed call's registration; or a group has the domain
 * (<hmreg/group.h>). */
int hmreg_domain_close(struct hmreg_domain *domain);

/* Reports the path that a registration of one device's memory would take, and why better paths
 * would be refused, as far as hmreg can tell without registering. device of host memory: -1 or 0.
 * For ifaces from HMREG_IFACE_COUNT to HMREG_IFACE_MAX, device is 0 or more, or HMREG_DEVICE_ANY.
 * The path is then the path of a caller's dmabuf, or of an address if it is peermem. Errors of
 * hmreg_device_query(). */
struct hmreg_explanation;
int hmreg_domain_explain(struct hmreg_domain *domain, enum hmreg_iface iface, int device,
                         struct hmreg_explanation *out);

/* ---- memory regions --------------------------------------------------------------------- */

/* A range of a dmabuf that the caller exported, as with FI_MR_DMABUF. */
struct hmreg_mr_dmabuf {
    int fd;          /* borrowed during the call; may be 0 */
    uint64_t offset; /* of the region in the dmabuf, bytes */
    size_t len;
    void *base_addr; /* the address of the dmabuf's first byte: peers of a domain with
                        HMREG_MR_VIRT_ADDR use base_addr + offset; NULL: addresses from 0 */
};

/* The order in which the fabric's writes reach a region. STRICT keeps the order of the transfers;
 * RELAXED permits reordering. DEFAULT: the domain's (HMREG_VERBS_RELAXED_ORDERING).
 */
enum hmreg_ordering {
    HMREG_ORDERING_DEFAULT = 0,
    HMREG_ORDERING_STRICT = 1,
    HMREG_ORDERING_RELAXED = 2,
};

/* Values of claim_iface below. */
#define HMREG_CLAIM_NONE    0 /* the call ignores iface and device, and finds both itself */
#define HMREG_CLAIM_CHECKED 1 /* the caller claims iface and device, and the call checks them */
#define HMREG_CLAIM_TRUSTED                                                                        \
    2 /* the caller claims iface, device and the claim_* fields, which the call trusts: \ it asks  \
         no runtime about the memory */

/* The attributes of fi_mr_attr and kfi_mr_attr, with additions. */
struct hmreg_segment;
struct hmreg_mr_attr {
    size_t size; /* sizeof(struct hmreg_mr_attr); a size that ends inside a field is refused */
    const struct iovec *iov; /* the ranges of the region, in this order */
    size_t iov_count;
    uint64_t access;        /* at least one of HMREG_READ ... HMREG_REMOTE_WRITE */
    uint64_t offset;        /* reserved, 0 */
    uint64_t requested_key; /* HMREG_KEY_ANY, or a key if the domain lets the caller choose */
    void *context;          /* the caller's; hmreg_mr_context() returns it */
    size_t auth_key_size;   /* bytes at auth_key, at most 4096; 0: the domain's own */
    const uint8_t *auth_key;
    int claim_iface;        /* HMREG_CLAIM_*: what the call does with iface and device below */
    enum hmreg_iface iface; /* from HMREG_IFACE_COUNT on: a dmabuf, or an address on peermem only */
    int device;             /* HMREG_DEVICE_ANY: no claim about the device */
    const struct hmreg_mr_dmabuf *dmabuf; /* with HMREG_REG_DMABUF, else NULL */
    void *hmem_data;                      /* passed to libfabric if it has the field; else NULL */
    size_t page_size; /* a hint in bytes, passed to libfabric if it has the field, else ignored; 0
                         or a power of two */
    const struct hmreg_segment *segments; /* in place of iov, as for hmreg_mr_regsgl(); or NULL */
    size_t segment_count;
    /* How the fabric registers this region; 0: as the domain does. A value that the fabric does not
     * satisfy is refused, never ignored; hmreg_mr_reg(3) lists the accepted ones. */
    enum hmreg_ordering ordering;
    enum hmreg_choice atomics;   /* peers may use atomic operations, with HMREG_REMOTE_WRITE */
    enum hmreg_choice on_demand; /* host memory is paged on demand, not pinned */
    int set_iova; /* 1: peers, and on verbs local operations, address the region's first byte as
                     iova, which may be 0. 0: at its own address; iova is 0 */
    uint64_t iova;
    uint64_t
        optional_access;     /* the provider's rights that the device may ignore; on verbs bits
                                of IBV_ACCESS_OPTIONAL_RANGE, without IBV_ACCESS_RELAXED_ORDERING */
    uint64_t provider_flags; /* the provider's own flags for its registration call, such as
                                FI_EFA_MR_RELAXED_ORDERING; hmreg_mr_reg(3) lists them */
    uint64_t rails;          /* on a group: bit i: register on member i; 0: on all. Else 0 */
    void *endpoint; /* hmreg_mr_get_attr() on a domain with HMREG_MR_ENDPOINT binds the region to it
                       and enables it; as for hmreg_mr_bind(). NULL: none. On a group NULL */
    /* With HMREG_CLAIM_TRUSTED, else 0: */
    uint64_t claim_base, claim_len; /* the allocation that contains all ranges, in full. Required
                                       for kind DEVICE of an iface with a runtime; 0 with a caller's
                                       dmabuf; else 0 means not claimed */
    uint64_t
        claim_identity; /* the caller's number for the allocation, such as CUDA's buffer id:
                           allocations at one address never share one. 0: unknown, the memory
                           is registered and never cached. Addresses of ifaces without a runtime
                           require claim_identity 0, and their regions have policy LAST_PUT */
    enum hmreg_mem_kind claim_kind; /* HOST for iface SYSTEM; DEVICE, HOST_PINNED or MANAGED for the
                                       others; DEVICE or 0 for a caller's dmabuf, or no runtime.
                                       Addresses of HOST_PINNED and MANAGED memory are the CPU's */
    /* For hmreg_mr_get_attr(), instead of endpoint: one endpoint per member. The member's rail is
     * bound to its endpoint, then enabled. NULL if the member lacks HMREG_MR_ENDPOINT or `rails`
     * excludes it. */
    void *const *endpoints;   /* endpoint_count; NULL: none */
    size_t endpoint_count;    /* the group's members; 0 if endpoints is NULL */
    enum hmreg_policy policy; /* hmreg_mr_get_attr(): how long the region stays registered after its
                                 last put; other calls: 0 */
};

/*
 * Registers memory of any kind by the first of the domain's paths that works. Close the region with
 * hmreg_mr_close(). The region is never cached; its memory must outlive the region. Device memory
 * that spans several physical allocations (for instance virtual memory of several devices) may have
 * no single dmabuf. With HMREG_REG_PARTS, or if the domain permits it, it becomes a composite of up
 * to HMREG_SEGMENTS_MAX pieces, as from hmreg_mr_regsgl(). With HMREG_REG_SINGLE, and on verbs by
 * default, it is refused (-EXDEV). access: as in the attributes. offset: 0. requested_key: a key,
 * or HMREG_KEY_ANY on any domain; on a domain with HMREG_MR_PROV_KEY only HMREG_KEY_ANY or 0;
 * ignored for regions without remote access. flags: HMREG_HMEM_*, HMREG_REG_SINGLE or
 * HMREG_REG_PARTS. -EINVAL: an argument is wrong, or the memory is not what the caller claimed. The
 * fabric was not called. -HMREG_EBADFLAGS: flags has other bits, or this domain does not accept
 * optional_access or provider_flags. -HMREG_ENOKEY: requested_key is in use in this domain.
 * -EKEYREJECTED: requested_key does not fit key_size, or the provider chooses keys. -ERANGE,
 * -EFAULT, -EIO, -EEXIST: as hmreg_query(). -ERANGE also: a range is not within the claimed
 * allocation. -EFAULT also, with HMREG_MR_ALLOCATED: the process may not read the host memory, or
 * may not write it although access lets the fabric write it. -EOPNOTSUPP: every path was refused;
 * hmreg_mr_explain(NULL, ...) reports the reason for each. Or the fabric does not support the
 * ordering, atomics, on_demand or iova; the text lists the accepted ones. -EXDEV: no single dmabuf
 * contains the range, but one registration was required; hmreg_mr_explain(NULL, ...) reports the
 * reason for each path. -EMSGSIZE: the region is longer than the domain's max_len;
 * hmreg_mr_reg_large() (<hmreg/job.h>) registers it in pieces. Any other error is the fabric's,
 * from its registration call.
 */
int hmreg_mr_reg(struct hmreg_domain *domain, const void *addr, size_t len, uint64_t access,
                 uint64_t offset, uint64_t requested_key, uint64_t flags, struct hmreg_mr **mr,
                 void *context);
int hmreg_mr_regv(struct hmreg_domain *domain, const struct iovec *iov, size_t count,
                  uint64_t access, uint64_t offset, uint64_t requested_key, uint64_t flags,
                  struct hmreg_mr **mr, void *context);
int hmreg_mr_regattr(struct hmreg_domain *domain, const struct hmreg_mr_attr *attr, uint64_t flags,
                     struct hmreg_mr **mr);

/* A segment of a scatter-gather region: host or device memory by address, or a dmabuf's range. */
struct hmreg_segment {
    uint32_t kind; /* HMREG_SEGMENT_* */
    union {
        struct iovec memory;
        struct hmreg_mr_dmabuf dmabuf;
    } u;
};
#define HMREG_SEGMENT_MEMORY 0
#define HMREG_SEGMENT_DMABUF 1
#define HMREG_SEGMENTS_MAX   1024

/*
 * Registers up to HMREG_SEGMENTS_MAX segments as one region, as kfi_mr_regsgl() does. If the fabric
 * can register them together, the region is one registration. Else it is a composite: one
 * registration (a piece) for each segment, and one token for all. On every fabric, remote offsets
 * run through the segments in order; hmreg_remote_addr() finds the piece. A composite's
 * hmreg_mr_desc() is NULL and its key is HMREG_KEY_NOTAVAIL; hmreg_mr_piece() returns desc, native
 * object and key of each piece. requested_key is the key of the first registration; the library
 * chooses the keys of a composite's other pieces. hmreg_mr_regattr() also takes segments, with all
 * other attributes. A list of segments permits a composite on every domain, unless flags has
 * HMREG_REG_SINGLE (then -EXDEV). Errors of hmreg_mr_reg(), and -EINVAL: segments of two ifaces
 * (the text names both), an unknown kind. After an error nothing is registered. */
int hmreg_mr_regsgl(struct hmreg_domain *domain, const struct hmreg_segment *segments, size_t count,
                    uint64_t access, uint64_t offset, uint64_t requested_key, uint64_t flags,
                    struct hmreg_mr **mr, void *context);

struct hmreg_piece_info {
    size_t size;         /* sizeof(struct hmreg_piece_info) */
    uint64_t local_addr; /* the address for the fabric's local operations */
    uint64_t len;
    void *desc;
    uint64_t key;
    void *native;
    enum hmreg_path path;
    enum hmreg_way way;
};

/* Describes piece `index` of a region: a segment, a range of an iov, or the whole of a plain
 * region. -EINVAL: an argument is NULL or out->size is too small. -ENOENT: no such piece. */
int hmreg_mr_piece(const struct hmreg_mr *mr, size_t index, struct hmreg_piece_info *out);

/*
 * Returns a region's raw key and its base address. key_size: in, the bytes available at raw_key;
 * out, the bytes needed, also on -HMREG_ETOOSMALL. Works on every domain: if keys have 64 bits, the
 * raw key is the 8 bytes of the key, little-endian. flags: 0. base_addr may be NULL; raw_key may be
 * NULL if *key_size is 0. -EINVAL: mr or key_size is NULL. -EACCES: the region has no remote
 * access. -HMREG_EBADFLAGS.
 */
int hmreg_mr_raw_attr(const struct hmreg_mr *mr, uint64_t *base_addr, uint8_t *raw_key,
                      size_t *key_size, uint64_t flags);

/* Maps a peer's raw key to a key for RMA calls of this domain. Release it with
 * hmreg_domain_unmap_raw(); until then hmreg_domain_close() returns -EBUSY. flags: 0. -EINVAL: an
 * argument is NULL, or key_size is wrong for this kind of domain. -HMREG_EBADFLAGS. Any other error
 * is the fabric's. */
int hmreg_domain_map_raw(struct hmreg_domain *domain, uint64_t base_addr, const uint8_t *raw_key,
                         size_t key_size, uint64_t *key, uint64_t flags);
/* Unmaps such a key. -EINVAL: domain is NULL, or key is not from hmreg_domain_map_raw() or was
 * unmapped already. Any other error is the fabric's; the key is unmapped even so. */
int hmreg_domain_unmap_raw(struct hmreg_domain *domain, uint64_t key);

/*
 * Binds a region to a counter or an endpoint of its fabric: struct fid * on libfabric; struct
 * hmreg_loopback_counter * or struct hmreg_loopback_ep * on loopback. flags: HMREG_REMOTE_WRITE for
 * a counter, which counts each remote write to the region; 0 for an endpoint.
 * -EINVAL: an argument is NULL, the object is of another kind or domain, the region lacks
 *   HMREG_RMA_EVENT on a domain with HMREG_MR_RMA_EVENT, or it is a group's (bind its rails).
 * -HMREG_EBADFLAGS: flags. -HMREG_EOPBADSTATE: the region is enabled, and this fabric binds only
 *   before that. -ENOSYS: the fabric counts no accesses to regions. -EOPNOTSUPP: the provider
 *   does not. -EBUSY: an endpoint (on loopback: this counter) is bound already.
 */
int hmreg_mr_bind(struct hmreg_mr *mr, void *object, uint64_t flags);

/*
 * Looks up the pages of a region again, or of the parts that iov lists, because they may have
 * changed (HMREG_MR_MMU_NOTIFY). Remote accesses fail during the call. iov NULL with count 0: the
 * whole region. flags: 0. On a domain without that mode the call does nothing and returns 0.
 * -EINVAL: mr is NULL, or a part is outside the region. -EFAULT: a page is not mapped.
 * -HMREG_EBADFLAGS.
 */
int hmreg_mr_refresh(struct hmreg_mr *mr, const struct iovec *iov, size_t count, uint64_t flags);

/* Enables a region that was created disabled: on a domain with HMREG_MR_ENDPOINT, or with
 * HMREG_RMA_EVENT on a domain with HMREG_MR_RMA_EVENT. Returns 0 if the domain's mode does not
 * disable regions. -EINVAL: mr is NULL. -HMREG_EOPBADSTATE: no endpoint is bound yet, or the region
 * was enabled already. */
int hmreg_mr_enable(struct hmreg_mr *mr);

/*
 * Binds an event queue to a domain: with HMREG_BIND_REG_MR, registrations complete in that queue. A
 * registering call then returns before the registration is complete; it writes *mr before the event
 * can be read. A call that fails generates no event and leaves *mr as it was. object: struct
 * hmreg_loopback_eq *. On loopback hmreg_mr_get() and hmreg_mr_get_attr() complete before they
 * return, without an event; a composite has one event. On libfabric, bind the fid_domain before
 * hmreg_domain_open_ofi() and pass HMREG_OFI_ASYNC. Gets and composites then return -EOPNOTSUPP,
 * because the caller reads the queue. -EINVAL: an argument is NULL or of another kind.
 * -HMREG_EBADFLAGS: flags is not HMREG_BIND_REG_MR. -EBUSY: a queue is bound already, or a group
 * has the domain. -EOPNOTSUPP: the provider has no event queues to bind.
 */
int hmreg_domain_bind(struct hmreg_domain *domain, void *object, uint64_t flags);

/*
 * Deregisters and frees a region. NULL is accepted. -EBUSY: something is bound to the region, which
 * stays registered; close it again later. Other pieces of a composite may be deregistered by then;
 * the composite then accepts only another close. -EINVAL: the region is from hmreg_mr_get() (use
 * hmreg_mr_put()), or is a rail of a group's region. Any other error is the fabric's; the region is
 * freed even so.
 */
int hmreg_mr_close(struct hmreg_mr *mr);

/* ---- why this path ---------------------------------------------------------------------- */

/* Why one path was refused. */
struct hmreg_reason {
    enum hmreg_path path;
    int code;            /* negative error number */
    int64_t vendor_code; /* the vendor's or the kernel's own code; 0: none */
    char slug[32];       /* stable name of the reason, such as "no-dmabuf-export" */
    char text[512];      /* a sentence for the user, with the remedy at its end */
};

/* More elements than paths and ways exist: later ones move no field. */
#define HMREG_REASONS_MAX 10

struct hmreg_explanation {
    size_t size; /* sizeof(struct hmreg_explanation) */
    enum hmreg_iface iface;
    int device;
    enum hmreg_path path; /* the path taken; HMREG_PATH_NONE: none */
    uint32_t refused;     /* number of reasons, in the order of the attempts; path dmabuf may have a
                             reason for each way, whose name then begins the text */
    struct hmreg_reason reasons[HMREG_REASONS_MAX];
    uint32_t asks;      /* for a cached region: as in hmreg_mr_info; else 0 */
    char asks_why[252]; /* why each hit asks the runtime: a driver function cannot be hooked (and
                           the cause), or memory is freed unreported; "": no hit asks it */
    char
        uncached_why[768];    /* why a get's host memory is not cached: as in hmreg_monitor_info, or
                                 because of its mapping (of a file). For any system memory: the process
                                 cannot read it. "": it is cached, or the cache has no room now */
    enum hmreg_policy policy; /* for a region of a get: as in hmreg_mr_info; else DEFAULT */
    char rail_why[188]; /* for a rail, or a group's region: why it is registered there, if the group
                           chooses its nearest members (hmreg_group_nearest()); "": the group does
                           not, or the caller named the rails */
    char room_why[512]; /* for a failed registration: what was short, which domains hold it, why no
                           region was evicted (docs/limits.md); "": nothing was short */
};

/* Explains why a region has its path. mr NULL: explains the calling thread's last registration that
 * failed because every path was refused or because of a shortage. -EINVAL: out is NULL or its size
 * is too small. -ENOENT: mr is NULL, and no registration of this thread has failed so. */
int hmreg_mr_explain(const struct hmreg_mr *mr, struct hmreg_explanation *out);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#include <hmreg/cache.h>  /* cached registration */
#include <hmreg/region.h> /* what a region has: keys, path, addresses */
#include <hmreg/remote.h> /* tokens: how a peer reaches a region */

#endif
