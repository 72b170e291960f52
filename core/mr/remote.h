/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A peer's region of one range without a struct hmreg_remote, for tables, which have very many.
 */
#ifndef HMREG_CORE_MR_REMOTE_H
#define HMREG_CORE_MR_REMOTE_H

#include "core/context/domain.h"

struct remote_link {
    struct hmreg_remote_flat flat;
    uint64_t access;
    void *priv; /* the provider's */
};

/* Does an open link hold anything: a mapped key, or an object of the provider? */
bool remote_links_hold(const struct hmreg_domain *domain);

/* Opens a token on a domain that is no group, as hmreg_remote_open() does; the domain does not
 * count it. Close it with remote_unlink(), unless the domain's links hold nothing. -EXDEV also: the
 * region has several ranges. */
int remote_link(struct hmreg_domain *domain, const uint8_t *token, size_t size,
                struct remote_link *out);
void remote_unlink(struct hmreg_domain *domain, uint64_t key, void *priv);

#endif
