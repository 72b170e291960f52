/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The provider contract on one page: what a provider implements to register memory on a fabric.
 *
 * A provider fills a `struct provider_ops` and a `struct provider_caps` in the source file named
 * after it and passes both to hmreg_domain_create(). Before the core calls the provider, it has
 * validated the arguments, resolved the memory, chosen a path and, for DMABUF and MAPPED, made the
 * descriptor or mapping. The provider translates to its fabric's calls; it decides only what its
 * fabric can do.
 *
 * Rules for every operation:
 *  - The core calls it from any thread, concurrently, with no lock of ours held; if
 *    caps.any_thread is false, only from threads that are inside a call on the domain.
 *  - A registration is a struct hmreg_mr_keys, of which the provider fills each field; priv is its
 * own.
 *  - It returns 0 or a negative error number. The function that detects a failure first calls
 *    hmreg_fail() with the fabric's own code, exactly once per failure. Outputs change only on
 *    success.
 *  - The core replaces an operation that is NULL by one that returns -EOPNOTSUPP.
 */
#ifndef HMREG_CORE_CONTRACT_PROVIDER_H
#define HMREG_CORE_CONTRACT_PROVIDER_H

#include <hmreg/hmreg.h>
#include <stdbool.h>

struct log;

#pragma GCC visibility push(default) /* the providers' libraries call these */

/* How to register one region; 0: the domain's choice. The core has checked the options against the
 * domain's caps. */
struct provider_options {
    enum hmreg_ordering ordering;
    enum hmreg_choice atomics; /* never IF_POSSIBLE, nor is on_demand; ON: access has
                                  HMREG_REMOTE_WRITE */
    enum hmreg_choice on_demand;
    int set_iova;             /* 1: peers reach the first byte at iova */
    uint64_t iova;            /* 0 unless set_iova */
    uint64_t optional_access; /* bits of caps.optional_access */
    uint64_t flags;           /* bits of caps.provider_flags */
};

/* A domain's abilities; only hmreg_domain_renew() changes them. */
struct provider_caps {
    char fabric[64];       /* the fabric's name, such as "tcp;ofi_rxm" */
    uint32_t mr_mode;      /* HMREG_MR_* */
    uint32_t key_size;     /* bytes */
    uint32_t iov_limit;    /* at least 1 */
    uint64_t max_len;      /* bytes; UINT64_MAX: no known limit */
    uint64_t flags;        /* supported registration flags: HMREG_RMA_EVENT, HMREG_RMA_PMEM */
    uint32_t domain_flags; /* supported hmreg_domain_config flags beyond HMREG_DOMAIN_* */
    bool async;            /* registrations complete through an event queue of the fabric */
    bool single;           /* a range is one registration, unless the caller permits several parts:
                              callers of this fabric post keys themselves */
    bool pends;            /* published() may call hmreg_mr_pending() */
    bool any_thread; /* any thread may deregister regions at any time; false: only threads that
                        call the domain (libfabric's FI_THREAD_DOMAIN and the like) */
    bool local_keys; /* regions without remote access need a unique requested_key too */
    bool caches; /* the fabric has a registration cache that cannot be turned off: hmreg's stays off
                    unless the domain's config sets limits for it */
    /* The accepted provider_options. Defaults are always accepted. */
    uint32_t orderings, atomics, on_demand; /* accepted values, as PROVIDER_VALUE()s */
    bool iova;                /* with HMREG_MR_VIRT_ADDR, peers may use a caller's addresses */
    bool local_iova;          /* local operations use such addresses too */
    uint64_t optional_access; /* accepted bits */
    uint64_t provider_flags;  /* accepted flags of the fabric's own */
    char nic[64];             /* the NIC's name, as hmreg_domain_info has it; "": none */
    struct hmreg_pci pci;     /* the NIC's address; valid 0: the fabric does not report it */
    uint64_t max_mr;          /* most regions; 0: no known limit */
    bool data_direct;         /* reg() takes the ways of data direct */
    bool pcie;                /* the NIC reaches memory through PCIe only, so the PCIe mapping is
                                 better for memory behind a coherent link */
    uint64_t number;          /* not 0: only domains of this process are peers and open its tokens;
                                 the number names it among them */
    bool pins;                /* the kernel pins registered host memory, and counts it against
                                 RLIMIT_MEMLOCK */
    bool refuses_keys;        /* reg() returns -HMREG_ENOKEY for a requested key that is in use, so
                                 a random key may be tried unchecked */
    bool renews;              /* the domain uses objects of the caller's, which the caller may close
                                 while the library hibernates: hmreg_domain_renew() follows */
};
#define PROVIDER_VALUE(value) (1u << (value))

/* The arguments of one registration. Borrowed for the call. */
struct provider_request {
    enum hmreg_path path;
    const struct iovec *iov; /* what to register: the caller's addresses; for MAPPED: addresses of
                                the mapping; for DMABUF: the device addresses that peers use */
    size_t count;
    uint64_t access;        /* HMREG_* rights */
    uint64_t requested_key; /* already unique in the domain, unless caps.refuses_keys; 0 if the
                               provider chooses keys, and for regions without remote access unless
                               caps.local_keys is set */
    uint64_t flags;
    enum hmreg_iface iface; /* HMREG_IFACE_COUNT to HMREG_IFACE_MAX: never SYSTEM */
    int device;             /* -1: unknown, or none */
    /* If the iface has several drivers (Level Zero): the number of the device's driver, and the
     * device's index within it. Else 0 and device. */
    unsigned driver;
    int driver_device;
    enum hmreg_way way; /* DMABUF only; ways of data direct only with caps.data_direct */
    const struct hmreg_dmabuf *dmabuf; /* DMABUF only; the core owns it and closes it afterwards */
    void *context;
    size_t auth_key_size;
    const uint8_t *auth_key;
    void *hmem_data;
    size_t page_size;
    struct provider_options options;
};

/* A path to device memory may need a resource that the fabric does not manage, such as the window
 * through which other devices reach it (BAR1). -ENOMEM then refuses the path, and another path may
 * have room. It says nothing about locked memory, and evicting host memory would not help. */
static inline bool provider_enomem_refuses(const struct provider_request *req)
{
    return req->path == HMREG_PATH_DMABUF || req->path == HMREG_PATH_PEERMEM;
}

/* What an error of reg() says about the device's or the fabric's room. */
enum provider_room {
    PROVIDER_ROOM_ENOUGH, /* the error has nothing to do with room */
    PROVIDER_ROOM_FULL,
    PROVIDER_ROOM_UNKNOWN, /* some drivers return it when they are full */
};

struct provider_ops {
    const char *name; /* "ofi" */

    /* Checks whether this path to this device's memory can work: 0, or a negative error number with
     * *why filled (the core has set why->path). Cheap: registers nothing. The core never calls it
     * for SYSTEM. */
    int (*can)(void *self, enum hmreg_path path, enum hmreg_iface iface, int device,
               struct hmreg_reason *why);

    /* Without caps.data_direct: why there is no data direct. As can(). */
    int (*can_data_direct)(void *self, struct hmreg_reason *why);

    /* Registers. If the fabric refuses this path, so that another path may work, fills *why. */
    int (*reg)(void *self, const struct provider_request *req, struct hmreg_mr_keys *out,
               struct hmreg_reason *why);

    /* What does this error of the fabric in reg() say about room? Uses a table of drivers' errors.
     * NULL: UNKNOWN, except errors that name it. */
    enum provider_room (*room)(void *self, int rc);

    /* reg() has failed with rc. Is the NIC gone for good? True: *why has the evidence, in at most
     * `size` bytes. NULL: never. */
    bool (*gone)(void *self, int rc, char *why, size_t size);

    /* The domain is lost, for this reason, a string that stays: from now on no caller's thread may
     * wait for the device. Called with a lock held: it only sets a flag, and makes no calls. */
    void (*lost)(void *self, const char *why);

    /* The fabric's requested_key of a region without a key (HMREG_KEY_NOTAVAIL). NULL: the fabric
     * does not report it. */
    uint64_t (*requested_key)(void *self, const struct hmreg_mr_keys *mr);

    /* Deregisters. -EBUSY: the fabric still uses the region, which is unchanged; the core tries
     * again later. */
    int (*dereg)(void *self, struct hmreg_mr_keys *mr);

    /* The memory under a registration has changed. If a fabric accesses memory by address, it must
     * let no new access begin, although the region is not deregistered yet. Unlike the others, this
     * operation is called with a lock held: it only sets a flag, and makes no calls. */
    void (*revoke)(void *self, struct hmreg_mr_keys *mr);

    /* Queries mr's current desc and key. Called only with caps.async, where both may become
     * available after reg() has returned. No key yet: HMREG_KEY_NOTAVAIL. */
    void (*look)(void *self, struct hmreg_mr_keys *mr);

    /* bind binds the region to an object of the fabric, enable makes it usable, refresh updates its
     * page translations (iov NULL: all; else each element is inside one range of the region). As
     * hmreg_mr_bind(), _enable(), _refresh(). For a group's region mr is a copy, since a withdrawal
     * may move the registration meanwhile. */
    int (*bind)(void *self, const struct hmreg_mr_keys *mr, void *object, uint64_t flags);
    int (*enable)(void *self, const struct hmreg_mr_keys *mr);
    int (*refresh)(void *self, const struct hmreg_mr_keys *mr, const struct iovec *iov,
                   size_t count, uint64_t flags);

    /* Called before the core deregisters a region that the core itself has bound to an endpoint. If
     * the fabric's dereg() returns -EBUSY while an endpoint is bound, undoes the binding. */
    void (*unbind)(void *self, struct hmreg_mr_keys *mr);

    /* Is an object bound to the region by bind()? */
    bool (*is_bound)(void *self, const struct hmreg_mr_keys *mr);

    /* As hmreg_domain_bind(). */
    int (*bind_domain)(void *self, void *object, uint64_t flags);
    /* The region has been stored in the caller's variable. A provider that completes it later
     * calls hmreg_mr_pending() here, and hmreg_mr_complete() when its event is read; its caps
     * have pends. */
    void (*published)(void *self, struct hmreg_mr_keys *mr, struct hmreg_mr *region, void *context);

    /* Writes the key as bytes to send (HMREG_MR_RAW). *size: in capacity, out bytes needed, also on
     * -HMREG_ETOOSMALL. */
    int (*raw_key)(void *self, const struct hmreg_mr_keys *mr, uint64_t *base, uint8_t *key,
                   size_t *size);
    /* Maps a peer's raw key to a local one, and unmaps it (fi_mr_map_raw, fi_mr_unmap_key). */
    int (*map_raw)(void *self, uint64_t base, const uint8_t *raw, size_t size, uint64_t *key);
    int (*unmap_raw)(void *self, uint64_t key);

    /* The number of the domain's open objects of the provider: hmreg_domain_close() refuses while
     * there are any (-EBUSY). */
    unsigned (*objects)(void *self);

    /* Destroys the provider's part of a domain that is closing and has no region left. Until this
     * returns, hmreg_domain_*() may still be called; it waits for the provider's threads and for
     * peers that make such calls. Calls nothing of the fabric, which may be gone. Frees self. */
    void (*destroy)(void *self);
};

/*
 * Creates the public domain. Takes ownership of self: the core calls ops->destroy(self) at domain
 * close, and here on failure. config may be NULL. -EINVAL, -HMREG_EBADFLAGS (config's flags),
 * -ENOMEM, -EPERM in a forked child.
 */
int hmreg_domain_create(struct hmreg *lib, const struct provider_ops *ops,
                        const struct provider_caps *caps, void *self,
                        const struct hmreg_domain_config *config, struct hmreg_domain **out);

/*
 * Gives a hibernating domain another self and caps, with its present ops. Takes ownership of self:
 * on failure ops->destroy() ends it, else the previous one, whose fabric may be gone and is not
 * called. -EINVAL: the new caps demand more or permit less. -EBUSY, -ENODEV, -EPERM: see
 * hmreg_domain_renew_verbs().
 */
int hmreg_domain_renew(struct hmreg_domain *domain, const struct provider_caps *caps, void *self);

/* Checks that lib is not NULL (else -EINVAL) and belongs to this process (else -EPERM). Providers
 * call it before they touch any fabric object, which in a forked child belongs to the parent. */
int hmreg_lib_check(const struct hmreg *lib);
/* The library's log, for core/base/failure.h; NULL: lib is NULL or of another process. */
struct log *hmreg_lib_log(struct hmreg *lib);

/* Copies a caller's configuration, a struct that begins with its size, to the provider's own struct
 * of `size` bytes. A newer caller's struct may be longer: the bytes beyond must be zero. type: its
 * name, for the error's text. Any thread. -EINVAL. */
int hmreg_config_copy(void *ours, size_t size, const void *callers, const char *type);

/* The provider's private part of a domain; NULL if domain is NULL or another provider's. */
void *hmreg_domain_priv(const struct hmreg_domain *domain, const char *provider_name);

/* For a fabric that accesses memory by address: on return, revoke() has been called for each cached
 * region whose memory had changed before the call. Waits for the kernel's pending notifications,
 * for some tenths of a second at most, then returns without them. Any thread, until destroy() has
 * returned; the caller must not hold a lock that revoke() takes. */
void hmreg_domain_settle(struct hmreg_domain *domain);

/* Mark an asynchronous registration as pending (its key is not available yet), and as complete. */
void hmreg_mr_pending(struct hmreg_mr *mr);
void hmreg_mr_complete(struct hmreg_mr *mr);

/* A subrange of a region that gets a second key, as a memory window does. base: the address of the
 * first byte in RMA calls. */
struct provider_subrange {
    void *self;   /* the provider's part of the domain */
    void *native; /* the registration's */
    enum hmreg_path path;
    uint64_t base, len;
};

/* Finds [addr, addr + len) in a region of one registration, whatever rights it has, of a domain of
 * this provider. -EINVAL, -EPERM, -EAGAIN (suspended), -ERANGE; -EOPNOTSUPP: another provider's, or
 * several registrations. */
int hmreg_mr_subrange(const struct hmreg_mr *mr, const char *provider_name, const void *addr,
                      size_t len, struct provider_subrange *out);

/* The provider's private part of the remote's domain. *number: the number of the domain that made
 * its token (caps.number). NULL if remote is NULL or another provider's. */
void *hmreg_remote_priv(const struct hmreg_remote *remote, const char *provider_name,
                        uint64_t *number);

#pragma GCC visibility pop

#endif
