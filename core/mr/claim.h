/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The caller's claim about memory that it registers. A checked claim is compared with the runtimes'
 * answers. A trusted claim replaces them: no runtime is asked, and the caller answers for it.
 */
#ifndef HMREG_CORE_MR_CLAIM_H
#define HMREG_CORE_MR_CLAIM_H

#include "core/context/domain.h"
#include "core/context/resolve.h"

struct claim {
    bool made;    /* the caller sets the fields below: */
    bool trusted; /* they replace the runtimes' answers */
    enum hmreg_iface iface;
    int device; /* HMREG_DEVICE_ANY: no claim about the device */
    /* Trusted claims only: */
    enum hmreg_mem_kind kind;
    uint64_t base, len; /* the allocation; 0: not claimed */
    uint64_t identity;  /* 0: unknown */
};

/* Has hmreg no runtime for the iface? No runtime is asked about its memory, and arrays by iface
 * have no element for it. */
static inline bool claim_is_foreign(enum hmreg_iface iface)
{
    return iface >= HMREG_IFACE_COUNT;
}

/* Checks that the iface exists (-EINVAL). For an iface without a runtime, also that the device is 0
 * or more, or HMREG_DEVICE_ANY (fails with code). */
int claim_check_foreign(enum hmreg_iface iface, int device, int code);

/* Checks the claim in a caller's attributes, except against ranges and memory. -EINVAL. Any
 * thread. */
int claim_check(const struct hmreg_domain *domain, const struct hmreg_mr_attr *attr);

/* The claim in checked attributes. */
struct claim claim_of(const struct hmreg_mr_attr *attr);

/* A trusted claim that memory is the system's. */
struct claim claim_of_system(void);

/* Does a trusted claim, or a claim of an iface without a runtime, fit the range? dmabuf: the
 * caller's dmabuf that contains it, or NULL. -EINVAL: it is other memory. -ERANGE: the range is not
 * in the claimed allocation. */
int claim_check_range(const struct claim *claim, const struct iovec *range,
                      const struct hmreg_mr_dmabuf *dmabuf);

/* Describes a range by a trusted claim, or a claim of an iface without a runtime. dmabuf: the
 * caller's dmabuf that contains the range, or NULL. With HMREG_MR_ALLOCATED host memory is also
 * looked up in the process's mappings. Errors of claim_check_range(). -EINVAL also: the claim is
 * wrong (HMREG_DEBUG=claims). -EFAULT: host memory is not mapped. With HMREG_DEBUG=claims also the
 * errors of resolve(). Any thread. */
int claim_take(struct hmreg_domain *domain, const struct claim *claim, const struct iovec *range,
               const struct hmreg_mr_dmabuf *dmabuf, struct resolved *out);

#endif
