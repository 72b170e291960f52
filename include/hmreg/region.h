/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * What a region has: keys and descriptors for transfers, its path and addresses. Part of hmreg.h,
 * whose conventions hold here too.
 */
#ifndef HMREG_REGION_H
#define HMREG_REGION_H

#include <hmreg/hmreg.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* The fields of a registration that transfers need, without a call: a region begins with its public
 * head. Both structs are final: they never change in a later version.
 * Any thread may read the head from the return of the call that registers or gets the region until
 * its close or put. It must not read while hmreg_suspend() or hmreg_resume() of the memory runs.
 * Between these calls the keys are HMREG_KEY_NOTAVAIL and HMREG_VERBS_KEY_NOTAVAIL. A region of
 * several registrations has an array of them. A composite's elements are its pieces, as
 * hmreg_mr_piece() numbers them. A group's region has equally many elements for each of its n
 * members: piece p of rail r is element r * (count / n) + p. An element without a registration,
 * such as a missing rail's, has desc and native NULL and the keys HMREG_KEY_NOTAVAIL and
 * HMREG_VERBS_KEY_NOTAVAIL. generation changes when the keys do; a program that has copied keys
 * compares it. If registrations complete in an event queue (hmreg_domain_bind()), the head does not
 * change at the event: call hmreg_mr_desc() and hmreg_mr_key() instead. Raw keys (HMREG_MR_RAW) are
 * not in the head; hmreg_mr_raw_attr() has them. */
struct hmreg_mr_keys {
    void *desc;    /* as hmreg_mr_desc() */
    uint64_t key;  /* as hmreg_mr_key() */
    uint32_t lkey; /* the remote key on verbs; 0 on other providers */
    uint32_t rkey;
    void *native; /* struct fid_mr * or struct ibv_mr *, borrowed; NULL on loopback */
    void *priv;   /* the library's */
};

/* Offsets between the caller's addresses and the addresses of one registration: see
 * hmreg_mr_local_addr(). */
struct hmreg_mr_place {
    uint64_t local, remote;
    uint64_t by_offset; /* all ones: peers count from the region's first byte; else 0 */
};

struct hmreg_mr_head {
    const struct hmreg_mr_keys *keys; /* count elements */
    uint32_t count;                   /* 1, or the number of registrations */
    uint32_t generation;
    /* The library's: */
    const struct hmreg_mr_place *const *domain;
    uint64_t state;
    uint64_t addr;
};

/* hmreg_mr_head_of() returns a region's head; mr must not be NULL. The other two translate the
 * program's address `addr`, in the range of registration `index`. hmreg_mr_local_addr() returns the
 * address for the fabric's local operations: it differs from addr on path mapped (in the mapping)
 * and on verbs with an iova. hmreg_mr_remote_addr() returns the address or offset for peers, as the
 * token has it. In a registration of several ranges, addr must be in the first range. They check
 * nothing and call nothing. For raw keys use the base of hmreg_mr_raw_attr() instead.
 * HMREG_NO_INLINE leaves these out, for parsers of declarations. */
#ifndef HMREG_NO_INLINE
static inline const struct hmreg_mr_head *hmreg_mr_head_of(const struct hmreg_mr *mr);
static inline uint64_t hmreg_mr_local_addr(const struct hmreg_mr *mr, size_t index,
                                           const void *addr);
static inline uint64_t hmreg_mr_remote_addr(const struct hmreg_mr *mr, size_t index,
                                            const void *addr);

static inline const struct hmreg_mr_head *hmreg_mr_head_of(const struct hmreg_mr *mr)
{
    return (const struct hmreg_mr_head *)mr;
}

/* Where the values are; nearly all regions of a domain share these offsets. */
#define HMREG_MR_PLACE(head, index)                                                                \
    (((head)->generation & 3) == 0 ? &(*(head)->domain)[index]                                     \
     : ((head)->generation & 3) == 1                                                               \
         ? (const struct hmreg_mr_place *)(head)->keys[-1].priv + (index)                          \
         : (const struct hmreg_mr_place *)(uintptr_t)(head)->addr + (index))

static inline uint64_t hmreg_mr_local_addr(const struct hmreg_mr *mr, size_t index,
                                           const void *addr)
{
    const struct hmreg_mr_head *head = (const struct hmreg_mr_head *)mr;

    return (uint64_t)(uintptr_t)addr + HMREG_MR_PLACE(head, index)->local;
}

static inline uint64_t hmreg_mr_remote_addr(const struct hmreg_mr *mr, size_t index,
                                            const void *addr)
{
    const struct hmreg_mr_head *head = (const struct hmreg_mr_head *)mr;
    const struct hmreg_mr_place *place = HMREG_MR_PLACE(head, index);

    return (uint64_t)(uintptr_t)addr + place->remote - (head->addr & place->by_offset);
}
#endif

/* The descriptor for local operations; on libfabric the value of fi_mr_desc(). NULL: none is
 * needed, or the region is a composite or a group's. For a composite or a group's region
 * hmreg_last_error() is then -EXDEV and names the call that returns the parts' descriptors.
 * HMREG_REG_SINGLE and HMREG_DOMAIN_SINGLE exclude composites.
 */
void *hmreg_mr_desc(const struct hmreg_mr *mr);
/* The remote key, for a peer. HMREG_KEY_NOTAVAIL: the region has no remote access, has a raw key,
 * is a composite or a group's (-EXDEV in the last error), or its registration is not complete. */
uint64_t hmreg_mr_key(const struct hmreg_mr *mr);
/* The context that the caller passed to the registration (for a cached region, to the get that
 * registered it) or to hmreg_mr_set_context(). */
void *hmreg_mr_context(const struct hmreg_mr *mr);
/* Sets the context of a region that has none, once. It stays until the region ends, and later gets
 * of the region return it. Any thread; if several try at once, one succeeds. Allocates nothing.
 * -EINVAL: mr or context is NULL. -EBUSY: the region has a context. */
int hmreg_mr_set_context(const struct hmreg_mr *mr, void *context);

struct hmreg_mr_info {
    size_t size; /* sizeof(struct hmreg_mr_info) */
    enum hmreg_iface iface;
    int device; /* -1 for host memory */
    enum hmreg_path path;
    uint64_t addr; /* start of the first range, as the caller addresses it; a cached region may
                      begin before the get's address */
    uint64_t len;  /* length of all ranges together, bytes */
    uint64_t access;
    uint64_t identity;   /* the allocation's identity, as in hmreg_mem_info */
    uint64_t local_addr; /* addr for the fabric's local operations. Differs from addr on path mapped
                            (in the mapping), and on verbs for a region with an iova (the iova) */
    int cached;          /* 1: from hmreg_mr_get(), and in the cache */
    enum hmreg_way way;  /* the way of path dmabuf; else NONE */
    uint32_t asks;       /* HMREG_ASKS_*: the question of each hit; 0: none */
    enum hmreg_policy policy; /* KEEP or LAST_PUT; DEFAULT: an explicit region */
};

#define HMREG_ASKS_RUNTIME                                                                         \
    (1u << 0) /* the device's runtime, whether the memory is still the registered allocation */
#define HMREG_ASKS_KERNEL (1u << 1) /* the kernel, whether the mapping has changed */

/* -EINVAL: an argument is NULL or out->size is too small. */
int hmreg_mr_query(const struct hmreg_mr *mr, struct hmreg_mr_info *out);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
