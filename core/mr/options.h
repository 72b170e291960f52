/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * How the fabric registers one region: ordering, atomics, paging on demand, the address for peers,
 * and bits of the provider's own. A provider states in its caps what it accepts; this file refuses
 * everything else, on every provider with the same words.
 */
#ifndef HMREG_CORE_MR_OPTIONS_H
#define HMREG_CORE_MR_OPTIONS_H

#include "core/context/domain.h"

/* The options among a caller's attributes. */
struct provider_options options_of(const struct hmreg_mr_attr *attr);

/* Checks options that are for a region with these access rights. -EINVAL: a value is unknown, or
 * contradicts another one. -EOPNOTSUPP, -HMREG_EBADFLAGS: the domain does not accept it. */
int options_check(const struct hmreg_domain *domain, const struct provider_options *options,
                  uint64_t access);

/* What is possible, of options that passed the check, for a region with these access rights on this
 * path: without HMREG_CHOICE_IF_POSSIBLE. */
struct provider_options options_settle(const struct hmreg_domain *domain,
                                       const struct provider_options *options, uint64_t access,
                                       enum hmreg_path path);

/* Checks that the ranges, one after the other, do not wrap when they begin at iova. -EINVAL. */
int options_check_ranges(const struct provider_options *options, const struct iovec *iov,
                         size_t count);

#endif
