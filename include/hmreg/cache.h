/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Cached registration: get and put, what ends cached regions, limits, statistics. Part of hmreg.h,
 * whose conventions hold here too.
 */
#ifndef HMREG_CACHE_H
#define HMREG_CACHE_H

#include <hmreg/hmreg.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* A flag beside the access rights of hmreg_mr_get(): the caller knows that the memory is the
 * system's, on no device. The flag is a trusted claim (HMREG_CLAIM_TRUSTED): the get asks no
 * vendor, and a wrong claim makes it register other memory than the caller's. A get without the
 * flag never returns a region registered by such a claim. */
#define HMREG_GET_HOST (UINT64_C(1) << 30)

/*
 * Gets a region that covers [addr, addr+len): a cached one that is still valid, else a new one. It
 * has exactly these access rights, or more if the `rights` of the domain's configuration permit
 * more. Release it with hmreg_mr_put(), from any thread.
 *
 * The region may be larger than the range unless the domain has HMREG_DOMAIN_EXACT;
 * hmreg_mr_query() returns its bounds. The application may free memory while a region of it is
 * cached, but not between get and put. The library chooses keys.
 *
 * On a domain with HMREG_MR_ENDPOINT each get registers a new region that is not bound to an
 * endpoint: use hmreg_mr_get_attr() with an endpoint there. If the domain permits regions of
 * several parts (HMREG_DOMAIN_PARTS; the default except on verbs), a range longer than its max_len
 * becomes a region of several pieces (hmreg_mr_piece()). That region serves gets of ranges inside
 * it too.
 *
 * Errors of hmreg_mr_reg(). If parts are permitted, -EMSGSIZE means: the range is longer than
 * HMREG_SEGMENTS_MAX pieces of max_len.
 */
int hmreg_mr_get(struct hmreg_domain *domain, const void *addr, size_t len, uint64_t access,
                 struct hmreg_mr **mr);
/*
 * As hmreg_mr_get(), with the attributes of hmreg_mr_regattr(): for one range, for several (iov,
 * segments), or with HMREG_REG_DMABUF for the caller's dmabuf. The caller may close descriptors
 * after the call. requested_key must be 0 or any. Release the region with hmreg_mr_put().
 *
 * A cached region serves the get if it contains the range, has the access rights as for
 * hmreg_mr_get(), and was got with the same attributes. Gets without attributes that are compared,
 * and hmreg_mr_get(), serve each other's regions. Compared are:
 * - flags, except HMREG_REG_COVER and HMREG_REG_EXACT (at most one of them), and except
 *   HMREG_REG_SINGLE or HMREG_REG_PARTS if the domain does so anyway
 * - auth_key, by its bytes; page_size; hmem_data, by its address
 * - iova, by the address that it gives each byte
 * - of a dmabuf its inode (not the number of the descriptor), base_addr, and what the caller claims
 * - a trusted claim (except of HMREG_IFACE_SYSTEM), claim_identity included
 * - every attribute that is not named here
 * Not compared are size, context, policy, and a checked claim about memory, which each get checks.
 * hmreg_mr_context() returns the context of the get that registered the region.
 *
 * A region of several ranges or segments serves gets of exactly that list only: the same addresses
 * and lengths in the same order, dmabufs by inode, base_addr, offset and length, the claim too, all
 * in iov or all in segments. The region has the form that hmreg_mr_regattr() gives it, counts by
 * the sum of its lengths in the cache's limits, and ends when any segment's memory changes.
 *
 * A region of a dmabuf keeps the exporter's memory until the region ends. If a runtime knows
 * base_addr + offset, the region ends with that memory. Otherwise it ends at its last put; with
 * policy KEEP, when it is evicted, flushed, or invalidated by these addresses.
 *
 * With attr->endpoint, on a domain with HMREG_MR_ENDPOINT, the region is bound to the endpoint and
 * enabled, and serves gets with the same endpoint; with attr->endpoints so is each rail. After the
 * last put of regions that were got with an endpoint, flush the domain or group, then close the
 * endpoint.
 *
 * Errors of hmreg_mr_regattr(), and of hmreg_mr_bind() and hmreg_mr_enable() where an endpoint is
 * set. Also:
 * -EMSGSIZE of several ranges or segments: together they are longer than the domain's max_len
 * -EINVAL: a requested_key; an endpoint for a rail without HMREG_MR_ENDPOINT; attr->endpoint on a
 *   group or beside attr->endpoints; endpoints without one for a rail with HMREG_MR_ENDPOINT;
 *   another count of endpoints than of rails
 * -HMREG_EBADFLAGS: HMREG_RMA_EVENT
 * -EOPNOTSUPP: registrations of the domain complete in an event queue
 */
int hmreg_mr_get_attr(struct hmreg_domain *domain, const struct hmreg_mr_attr *attr, uint64_t flags,
                      struct hmreg_mr **mr);
/* Releases a region: one put for each get. Before it returns, the last put deregisters a region
 * whose policy is HMREG_POLICY_LAST_PUT, or that gets can no longer find. But if its memory has
 * changed since the last call with the domain, the library's thread or the next such call does. If
 * the fabric is busy with the region, later calls with the domain deregister it. NULL is accepted.
 */
void hmreg_mr_put(struct hmreg_mr *mr);

/*
 * hmreg_mr_get() and hmreg_mr_put() for a thread that must not wait, for instance a progress thread
 * or one that holds a lock. They never register, deregister, allocate, or call a fabric, runtime or
 * callback, and wait for no lock under which other threads do so. try_get returns a cached region
 * that this thread has had from a get before. The region must be valid without a query to the
 * runtime or the kernel (HMREG_ASKS_*), and must not end with its last put. try_put gives back a
 * region of any get, unless the put might deregister it. Any thread may call them, and mix them
 * with the calls above. -EAGAIN: nothing has changed, nor has the last error. Then make the call
 * above on a thread that may wait; it also reports wrong arguments. try_put of NULL: 0.
 */
int hmreg_mr_try_get(struct hmreg_domain *domain, const void *addr, size_t len, uint64_t access,
                     struct hmreg_mr **mr);
int hmreg_mr_try_put(struct hmreg_mr *mr);

/* Invalidates every cached region that overlaps [addr, addr+len), in all domains. Call it before
 * the memory is freed or remapped. A region in use is deregistered after its last put.
 * -EINVAL: lib or addr is NULL, len is 0, or the range wraps. */
int hmreg_invalidate(struct hmreg *lib, const void *addr, size_t len);

/* Deregisters every cached region of the domain that is not in use. If the process then has no
 * cached region in any domain, the library's threads have ended on return, and the process may
 * create a user namespace. -EINVAL: domain is NULL. */
int hmreg_domain_flush(struct hmreg_domain *domain);

/* Deregisters, on the calling thread, regions that no get holds and whose memory changed or that a
 * get of another domain evicted. It is meant for domains whose fabric may be called on the
 * application's threads only (libfabric with FI_THREAD_DOMAIN and the like). For all other domains
 * the library's thread deregisters them within milliseconds. -EINVAL: domain is NULL. */
int hmreg_domain_progress(struct hmreg_domain *domain);

#define HMREG_STATS_TIMES 40

struct hmreg_stats {
    size_t size; /* sizeof(struct hmreg_stats) */
    uint64_t hits, misses, evictions;
    uint64_t invalidations; /* regions invalidated because their memory changed */
    uint64_t uncached;      /* gets whose registration was not cached */
    uint64_t regions;       /* cached now */
    uint64_t bytes;         /* cached now */
    uint64_t retired; /* removed from the cache; deregistration waits for the last put, or will be
                         retried after -EBUSY */
    uint64_t caches;  /* caches that these numbers sum up */
    uint64_t shown;   /* how many of them other processes can see (hmreg stats) */
    uint64_t evicted_limit;  /* evictions because of a limit, or before a fork */
    uint64_t evicted_memory; /* evictions because a registration failed with -ENOMEM */
    uint64_t evicted_room;   /* ... with -ENOSPC */
    uint64_t evicted_keys;   /* ... with -HMREG_ENOKEY */
    uint64_t failures;       /* gets whose registration failed */
    uint64_t regions_max;    /* high-water marks of regions and bytes; a domain adds up the */
    uint64_t bytes_max;      /* its caches' marks, which may be from different times */
    uint64_t waits;          /* gets that waited while another thread registered their range */
    uint64_t waiting;        /* gets that wait so now */
    uint64_t reg_ns;         /* total time of the registrations, ns */
    uint64_t reg_longest_ns; /* time of the longest registration, ns */
    uint64_t reg_times[HMREG_STATS_TIMES]; /* registrations of 2^n to 2^(n+1) ns; the last element
                                              counts all longer ones */
    uint64_t wrong_puts;    /* puts without a matching get; detected with HMREG_DEBUG=puts only */
    uint64_t gave_explicit; /* evictions for an explicit region, a job or a resumed region of this
                               domain */
    uint64_t gave_others;   /* ... for another domain */
};

/* The sums over a domain's caches. -EINVAL: an argument is NULL or out->size is too small. */
int hmreg_domain_stats(struct hmreg_domain *domain, struct hmreg_stats *out);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
