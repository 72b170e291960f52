/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See split.h. Jobs divide ranges too (large.c), but into more pieces for their threads. Here one
 * thread registers, and each piece is one more key for local operations: the fewer, the better.
 */
#include "core/mr/split.h"

#include "core/base/error.h"
#include "core/mr/pieces.h"
#include "core/mr/rails.h"
#include "core/mr/region.h"

#include <errno.h>
#include <inttypes.h>

int split_check(const struct hmreg_domain *domain, const struct request *request)
{
    const struct iovec *range = request->iov;
    uint64_t max_len = domain->caps.max_len, longest;

    if (range->iov_len <= max_len)
        return 0;
    if (request_is_single(domain, request))
        return hmreg_fail(-EMSGSIZE,
                          "the region is longer than this domain's %" PRIu64
                          " bytes, and is to be one registration: get it in parts, or with "
                          "HMREG_MR_PARTS (or HMREG_DOMAIN_PARTS) and use hmreg_mr_segment()",
                          max_len);
    longest = pieces_longest(max_len);
    if ((range->iov_len - 1) / longest < HMREG_SEGMENTS_MAX)
        return 0;
    return hmreg_fail(-EMSGSIZE,
                      "the region is longer than %d pieces of %" PRIu64
                      " bytes (this domain's max_len is %" PRIu64
                      "): get it in parts, or register each by hmreg_mr_reg_large()",
                      HMREG_SEGMENTS_MAX, longest, max_len);
}

static int create_rail(struct hmreg_domain *member, const struct request *request, const void *what,
                       struct hmreg_mr **out)
{
    struct composite pieces = *(const struct composite *)what;

    pieces.whole = *request;
    return composite_create(member, &pieces, pieces.found, out);
}

static int create(struct hmreg_domain *domain, const struct composite *pieces,
                  const struct resolved *found, struct hmreg_mr **out)
{
    if (!domain->group)
        return composite_create(domain, pieces, found, out);
    return rails_create(domain, &pieces->whole, found, create_rail, pieces, out);
}

static int make_of_pieces(struct hmreg_domain *domain, const struct request *request,
                          const struct resolved *found, struct hmreg_mr *mr)
{
    struct composite pieces = {.whole = *request};
    struct shared shared = SHARED_INIT;
    struct hmreg_mr *whole = NULL;
    struct hmreg_error_guard guard;
    int rc;

    mr_body(mr)->key_taken = false;
    pieces.whole.shared = &shared;
    hmreg_error_guard(&guard);
    rc =
        pieces_divide(domain, found, pieces_longest(domain->caps.max_len), false, &shared, &pieces);
    rc = rc ? rc : create(domain, &pieces, found, &whole);
    hmreg_error_unguard(&guard, !rc);
    shared_end(&shared);
    pieces_free(&pieces);
    if (!rc)
        region_move(whole, mr);
    return rc;
}

int split_make(struct hmreg_domain *domain, const struct request *request,
               const struct resolved *found, struct hmreg_mr *mr)
{
    if (request->iov->iov_len <= domain->caps.max_len)
        return rails_make(domain, request, found, mr);
    return make_of_pieces(domain, request, found, mr);
}
