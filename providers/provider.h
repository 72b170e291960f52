/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The contract of a fabric: what a provider must do to have memory registered on it, on one page.
 *
 * A provider fills a `struct provider_ops` and a `struct provider_caps`, in the source of its name,
 * and hands both to hmreg_domain_create(). By the time the core calls it, arguments are valid, the
 * memory is resolved, a path is chosen and, for DMABUF and MAPPED, the descriptor or mapping is
 * there. A provider translates; it decides nothing but what its fabric can do.
 *
 * Rules for every operation:
 *  - Called from any thread, several at once, with no lock of ours held; but with caps.any_thread
 *    false only on threads that are inside a call with the domain.
 *  - The result is 0 or a negative error number; hmreg_fail() is called exactly once by whoever
 *    saw the failure first, with the fabric's own code; outputs change only on success.
 *  - An operation left NULL answers -EOPNOTSUPP: the core puts a default there.
 */
#ifndef HMREG_PROVIDERS_PROVIDER_H
#define HMREG_PROVIDERS_PROVIDER_H

#include <hmreg/hmreg.h>
#include <stdbool.h>

#pragma GCC visibility push(default) /* libhmreg-ofi and -verbs call these */

/* What a domain can do; constant for its life. */
struct provider_caps {
    char fabric[64];       /* what is below: "tcp;ofi_rxm" */
    uint32_t mr_mode;      /* HMREG_MR_* */
    uint32_t key_size;     /* bytes */
    uint32_t iov_limit;    /* at least 1 */
    uint64_t max_len;      /* UINT64_MAX: no limit known */
    uint64_t flags;        /* registration flags it takes: HMREG_RMA_EVENT, HMREG_RMA_PMEM */
    uint32_t domain_flags; /* flags of hmreg_domain_config of its own, besides HMREG_DOMAIN_* */
    bool async;            /* registrations complete in a queue of the fabric's own */
    bool any_thread; /* regions may be deregistered on any thread at any time; else only on those
                        that call the domain: libfabric's FI_THREAD_DOMAIN and the like */
    bool local_keys; /* regions without remote access need a unique requested_key as well */
    bool caches;     /* the fabric remembers registrations itself, and cannot be told not to:
                        ours stays off where the domain's config does not set its limits */
};

/* One registration, ready to be made. Borrowed for the call. */
struct provider_request {
    enum hmreg_path path;
    const struct iovec *iov; /* what to register: the caller's addresses; for MAPPED the
                                mapping's; for DMABUF the device addresses peers will name */
    size_t count;
    uint64_t access;        /* HMREG_* rights */
    uint64_t requested_key; /* unique in the domain already; 0 where the provider chooses, and for
                               regions without remote access unless caps have local_keys */
    uint64_t flags;
    enum hmreg_iface iface;
    int device;
    const struct hmreg_dmabuf *dmabuf; /* DMABUF only; stays the core's, which closes it after */
    void *context;
    size_t auth_key_size;
    const uint8_t *auth_key;
    void *hmem_data;
    size_t page_size;
};

/* A registration made. */
struct provider_mr {
    void *native; /* fid_mr * or ibv_mr *, shown to the caller */
    void *priv;   /* the provider's own */
    void *desc;   /* for local operations */
    uint64_t key; /* for peers; HMREG_KEY_NOTAVAIL: none */
    uint32_t lkey, rkey;
};

struct provider_ops {
    const char *name; /* "ofi" */

    /* Would this path to memory of this device be tried? 0, or a negative error number and *why
     * (whose path the core has set). Cheap: no registration. SYSTEM is never asked. */
    int (*can)(void *self, enum hmreg_path path, enum hmreg_iface iface, int device,
               struct hmreg_reason *why);

    /* Registers. A failure that is a refusal of this path (another may do) also fills *why. */
    int (*reg)(void *self, const struct provider_request *req, struct provider_mr *out,
               struct hmreg_reason *why);

    /* Deregisters. -EBUSY: still in use below; the region is as it was and will be tried again. */
    int (*dereg)(void *self, struct provider_mr *mr);

    /* The memory of a registration has changed: where access goes by address, none may begin any
     * more, though the registration is not deregistered yet. Called under a lock, unlike the
     * others: it sets a flag and calls nothing. */
    void (*revoke)(void *self, struct provider_mr *mr);

    /* Looks up mr's desc and key as they are now: asked for where caps.async says that they may
     * come later than reg() returned. No key yet: HMREG_KEY_NOTAVAIL. */
    void (*look)(void *self, struct provider_mr *mr);

    /* Ties the region to an object of the fabric; makes it usable; looks its pages up again (iov
     * NULL: all of it). As hmreg_mr_bind(), _enable() and _refresh() say. */
    int (*bind)(void *self, struct provider_mr *mr, void *object, uint64_t flags);
    int (*enable)(void *self, struct provider_mr *mr);
    int (*refresh)(void *self, struct provider_mr *mr, const struct iovec *iov, size_t count,
                   uint64_t flags);

    /* As hmreg_domain_bind() says. */
    int (*bind_domain)(void *self, void *object, uint64_t flags);
    /* The caller's variable has the region now. A provider that completes it later calls
     * hmreg_mr_pending() here, and hmreg_mr_complete() when its event is read. */
    void (*published)(void *self, struct provider_mr *mr, struct hmreg_mr *region, void *context);

    /* The key as bytes to send, where HMREG_MR_RAW demands it. *size: in room, out needed. */
    int (*raw_key)(void *self, const struct provider_mr *mr, uint64_t *base, uint8_t *key,
                   size_t *size);
    /* A peer's raw key, made usable here; and given back. */
    int (*map_key)(void *self, uint64_t base, const uint8_t *raw, size_t size, uint64_t *key);
    int (*unmap_key)(void *self, uint64_t key);

    /* Bytes every token of this domain carries for remote_open (loopback: where the owner
     * listens). *size: in room, out needed. Left NULL: none. */
    int (*address)(void *self, uint8_t *buf, size_t *size);
    /* A peer's address bytes, opened. *out is given to hmreg_remote_priv()'s callers. */
    int (*remote_open)(void *self, const uint8_t *address, size_t size, void **out);
    void (*remote_close)(void *self, void *remote);

    /* The domain is closing; no region is left, but the domain may still be asked (hmreg_domain_*)
     * until this returns: it waits for the provider's threads and peers that do. Frees self. */
    void (*destroy)(void *self);
};

/*
 * Makes the public domain. Takes over self: ops->destroy(self) is called at domain close, and
 * also here on failure. config may be NULL. -EINVAL, -HMREG_EBADFLAGS (of config), -ENOMEM,
 * -EPERM in a forked child.
 */
int hmreg_domain_create(struct hmreg *lib, const struct provider_ops *ops,
                        const struct provider_caps *caps, void *self,
                        const struct hmreg_domain_config *config, struct hmreg_domain **out);

/* lib is not NULL and belongs to this process: 0, -EINVAL or -EPERM. Asked before anything of the
 * fabric is, which in a forked child is the parent's. */
int hmreg_lib_check(const struct hmreg *lib);

/* The provider's own part of a domain; NULL if it is not this provider's. */
void *hmreg_domain_priv(const struct hmreg_domain *domain, const char *provider_name);

/* For a fabric whose regions are addresses: when it returns, revoke() has been called for each
 * cached region whose memory had changed before the call. It waits for the kernel's word for some
 * tenths of a second at the most, and goes on without it then. Any thread, until destroy() has
 * returned; with no lock that revoke() takes. */
void hmreg_domain_settle(struct hmreg_domain *domain);

/* An asynchronous registration is under way: its key is not to be had; and it is complete. */
void hmreg_mr_pending(struct hmreg_mr *mr);
void hmreg_mr_complete(struct hmreg_mr *mr);

/* The domain a remote was opened on; NULL for NULL. */
struct hmreg_domain *hmreg_remote_domain(const struct hmreg_remote *remote);

/* The provider's own part of a remote; NULL if ops is not the remote's provider. */
void *hmreg_remote_priv(const struct hmreg_remote *remote, const char *provider_name);

#pragma GCC visibility pop

#endif
