/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A peer's region of one range without a struct hmreg_remote, for tables, which have very many.
 */
#ifndef HMREG_CORE_REMOTE_REMOTE_H
#define HMREG_CORE_REMOTE_REMOTE_H

#include "core/context/domain.h"
#include "core/remote/token.h"

struct remote_link {
    uint64_t base, key;
    uint64_t access;             /* 0: no link */
    struct hmreg_domain *holder; /* it has mapped the key; NULL: no key is mapped */
};

/* Shared by the links of one all-gather: the last token that was read in full, and its domain if
 * that domain's links hold nothing. Later tokens are compared with it. Zero at first.
 */
struct remote_links {
    struct token token;
    const struct hmreg_domain *domain;
};

/* Does an open link hold a mapped key? */
bool remote_links_hold(const struct hmreg_domain *domain);

/* Opens the token that begins at bytes, of which `size` can be read, as hmreg_remote_open() on a
 * domain that is no group. If the link holds a mapped key, the domain counts it. *length: the
 * token's length; NULL: it is `size` long and part of a group's token. End the link with
 * remote_unlink(), unless the domain's links hold nothing. -EXDEV also: the region has several
 * ranges. After a failure *out is no link. */
int remote_link(struct hmreg_domain *domain, const uint8_t *bytes, size_t size,
                struct remote_links *links, struct remote_link *out, size_t *length);
void remote_unlink(const struct remote_link *link);

#endif
