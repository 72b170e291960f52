/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See large.h. The region is a composite, or a registration if there is one piece. Of a group it
 * has such a rail on each member; a piece is registered on all rails by one thread, so that it is
 * exported once.
 */
#include "core/mr/large.h"

#include "core/base/error.h"
#include "core/base/high_fd.h"
#include "core/base/validate.h"
#include "core/group/group.h"
#include "core/mr/explicit.h"
#include "core/mr/pieces.h"
#include "core/mr/rails.h"
#include "core/mr/undone.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The region of one rail, or of a domain that is no group. */
struct lane {
    struct hmreg_domain *domain;
    size_t rail;
    struct hmreg_mr *mr; /* a composite; or the one piece, NULL while it is not registered */
    bool missed;         /* the region does without this rail */
};

struct large {
    struct hmreg_domain *domain;
    struct attributes attributes;
    uint8_t *auth_key;             /* a copy; NULL: none */
    struct hmreg_mr_dmabuf dmabuf; /* fd: a duplicate; -1: none */
    struct composite pieces;
    struct resolved found; /* the memory of the whole range */
    struct shared shared;
    struct hmreg_mr *group_mr; /* NULL: the domain is no group */
    pthread_mutex_t lock;      /* guards `missed`, and the reasons of group_mr */
    size_t lanes;
    struct lane lane[];
};

const struct composite *large_pieces(const struct large *large)
{
    return &large->pieces;
}

/* ---- creation --------------------------------------------------------------------------- */

static struct large *allocate(struct hmreg_domain *domain)
{
    size_t lanes = hmreg_group_count(domain);
    struct large *large = calloc(1, sizeof(*large) + lanes * sizeof(large->lane[0]));

    if (!large) {
        hmreg_fail(-ENOMEM, "no memory for a region of pieces");
        return NULL;
    }
    large->domain = domain;
    large->dmabuf.fd = -1;
    large->shared = (struct shared)SHARED_INIT;
    pthread_mutex_init(&large->lock, NULL);
    return large;
}

static int check_attributes(const struct hmreg_domain *domain, struct attributes *attributes)
{
    if (domain->caps.async)
        return hmreg_fail(-EOPNOTSUPP,
                          "registrations of this domain complete in your event queue; they are in "
                          "the background already: register each piece by itself");
    if (attributes_of_segments(attributes))
        return hmreg_fail(-EINVAL, "attr->segments is set; a job registers one range");
    if (attributes->request.count != 1)
        return hmreg_fail(-EINVAL, "attr->iov_count is %zu; a job registers one range",
                          attributes->request.count);
    if (attributes->request.endpoints)
        return hmreg_fail(-EINVAL,
                          "attr->%s is set; it must be NULL here: bind the region with "
                          "hmreg_mr_bind()",
                          attributes->attr.endpoint ? "endpoint" : "endpoints");
    return attributes_keep_nothing(attributes);
}

static int check_piece_len(const struct hmreg_domain *domain, uint64_t piece_len)
{
    if (piece_len <= domain->caps.max_len)
        return 0;
    return hmreg_fail(-EINVAL,
                      "config->piece_len is %" PRIu64
                      "; a region of this domain has at most %" PRIu64 " bytes",
                      piece_len, domain->caps.max_len);
}

/* Copies what the attributes point to. */
static int own_attributes(struct large *large)
{
    struct request *request = &large->attributes.request;

    if (request->auth_key_size) {
        large->auth_key = malloc(request->auth_key_size);
        if (!large->auth_key)
            return hmreg_fail(-ENOMEM, "no memory for an authorization key");
        memcpy(large->auth_key, request->auth_key, request->auth_key_size);
        request->auth_key = large->auth_key;
    }
    large->attributes.in_dmabuf = *request->iov;
    request->iov = &large->attributes.in_dmabuf;
    if (!request->dmabuf)
        return 0;
    large->dmabuf = *request->dmabuf;
    large->dmabuf.fd = high_fd_duplicate(request->dmabuf->fd);
    request->dmabuf = &large->dmabuf;
    return large->dmabuf.fd < 0 ? hmreg_fail_os(errno, "dmabuf: fd cannot be duplicated") : 0;
}

static int add_lane(struct large *large, struct hmreg_domain *domain, size_t rail)
{
    struct lane *lane = &large->lane[large->lanes++];

    lane->domain = domain;
    lane->rail = rail;
    if (large->pieces.count == 1)
        return 0;
    return composite_new(domain, &large->pieces, &large->found, &lane->mr);
}

static int add_rails(struct large *large)
{
    const struct group *group = large->domain->group;
    struct request whole = large->pieces.whole;
    int rc;

    whole.iov = large->pieces.iov;
    whole.count = large->pieces.count;
    rc = rails_new(large->domain, &whole, &large->found, &large->group_mr);
    for (size_t i = 0; i < group->count && !rc; i++)
        if (group_registers_on(whole.rails, i))
            rc = add_lane(large, group->members[i], i);
    return rc;
}

static int prepare(struct large *large, bool any_key, uint64_t piece_len)
{
    struct hmreg_domain *domain = large->domain;
    struct request *whole = &large->pieces.whole;
    uint64_t chosen;
    int rc = own_attributes(large);

    rc = rc ? rc : request_resolve(domain, &large->attributes.request, &large->found);
    if (rc)
        return rc;
    *whole = large->attributes.request;
    whole->any_key = any_key || (domain->group && (domain->caps.mr_mode & HMREG_MR_PROV_KEY));
    whole->shared = &large->shared;
    chosen = pieces_length(whole->iov->iov_len, domain->caps.max_len);
    rc = pieces_divide(domain, &large->found, piece_len ? piece_len : chosen, piece_len != 0,
                       &large->shared, &large->pieces);
    if (rc)
        return rc;
    return domain->group ? add_rails(large) : add_lane(large, domain, 0);
}

int large_new(struct hmreg_domain *domain, const struct hmreg_mr_attr *attr, uint64_t flags,
              bool any_key, uint64_t piece_len, struct large **out)
{
    struct large *large = allocate(domain);
    int rc;

    if (!large)
        return -ENOMEM;
    undone_retry(domain, 1);
    rc = request_from_long_attr(domain, attr, flags, &large->attributes);
    rc = rc ? rc : check_attributes(domain, &large->attributes);
    rc = rc ? rc : check_piece_len(domain, piece_len);
    rc = rc ? rc : prepare(large, any_key, piece_len);
    if (rc) {
        large_free(large);
        return rc;
    }
    *out = large;
    return 0;
}

bool large_begins_alone(const struct large *large)
{
    const struct request *whole = &large->pieces.whole;
    bool chooses = true;

    for (size_t i = 0; i < large->lanes; i++)
        chooses &= (large->lane[i].domain->caps.mr_mode & HMREG_MR_PROV_KEY) != 0;
    return !chooses && !whole->any_key && (whole->access & HMREG_ACCESS_REMOTE);
}

/* ---- pieces ----------------------------------------------------------------------------- */

static bool is_missed(struct large *large, const struct lane *lane)
{
    bool missed;

    if (!large->group_mr)
        return false;
    pthread_mutex_lock(&large->lock);
    missed = lane->missed;
    pthread_mutex_unlock(&large->lock);
    return missed;
}

static bool all_missed(const struct large *large)
{
    for (size_t i = 0; i < large->lanes; i++)
        if (!large->lane[i].missed)
            return false;
    return true;
}

/* Another piece may have failed on the same rail before. */
static int miss(struct large *large, struct lane *lane, int rc)
{
    if (lane->missed)
        return 0;
    rc = rails_miss(large->group_mr, lane->rail, rc);
    if (rc)
        return rc;
    lane->missed = true;
    if (!all_missed(large))
        return 0;
    hmreg_error_restore(&mr_ext(large->group_mr)->missing->error);
    return mr_ext(large->group_mr)->missing->error.code;
}

static int make_on(struct large *large, struct lane *lane, const struct request *request,
                   size_t piece)
{
    bool single = large->pieces.count == 1;
    struct hmreg_mr **made = single ? &lane->mr : &mr_ext(lane->mr)->pieces[piece];
    int rc = region_create_one(lane->domain, request, &large->pieces.found[piece], NULL, made);

    if (!rc || !large->group_mr)
        return rc;
    pthread_mutex_lock(&large->lock);
    rc = miss(large, lane, rc);
    pthread_mutex_unlock(&large->lock);
    return rc;
}

/* Puts the piece before the text of the thread's last error. */
static int fail_piece(const struct large *large, size_t piece, int rc)
{
    const struct iovec *iov = large->pieces.iov;
    struct hmreg_error why;

    if (large->pieces.count == 1)
        return rc;
    hmreg_error_save(&why);
    return hmreg_fail_vendor(rc, why.source, why.vendor_code, why.vendor_text,
                             "piece %zu of %zu, %zu bytes at %p: %s", piece, large->pieces.count,
                             iov[piece].iov_len, iov[piece].iov_base, why.text);
}

int large_make(struct large *large, size_t piece)
{
    struct request request = composite_piece(&large->pieces, piece);
    struct hmreg_error_guard guard;
    int rc = 0;

    request.any_key |= piece > 0; /* the caller's key is for the first piece */
    hmreg_error_guard(&guard);
    for (size_t i = 0; i < large->lanes && !rc; i++)
        if (!is_missed(large, &large->lane[i]))
            rc = make_on(large, &large->lane[i], &request, piece);
    hmreg_error_unguard(&guard, !rc);
    return rc ? fail_piece(large, piece, rc) : 0;
}

/* ---- ends ------------------------------------------------------------------------------- */

static void undo_lane(struct lane *lane)
{
    if (lane->mr)
        undone_add(lane->mr);
    lane->mr = NULL;
}

static void finish_lane(struct large *large, struct lane *lane)
{
    if (lane->missed) {
        undo_lane(lane);
        return;
    }
    if (large->pieces.count > 1)
        mr_body(lane->mr)->path = mr_body(mr_pieces(lane->mr)[0])->path;
    if (!large->group_mr)
        return;
    mr_ext(lane->mr)->is_rail = true;
    mr_ext(large->group_mr)->rails[lane->rail] = lane->mr;
}

/* Imports and mappings have references of their own. */
static void close_descriptors(struct large *large)
{
    shared_end(&large->shared);
    if (large->dmabuf.fd >= 0)
        close(large->dmabuf.fd);
    large->dmabuf.fd = -1;
}

struct hmreg_mr *large_publish(struct large *large)
{
    struct hmreg_mr *mr;

    for (size_t i = 0; i < large->lanes; i++)
        finish_lane(large, &large->lane[i]);
    mr = large->group_mr ? large->group_mr : large->lane[0].mr;
    if (large->group_mr)
        mr_body(mr)->path = mr_body(mr_explained(mr, NULL))->path;
    large->group_mr = NULL;
    large->lanes = 0;
    close_descriptors(large);
    mr_publish(mr);
    return mr;
}

void large_undo(struct large *large)
{
    struct hmreg_error before;

    hmreg_error_save(&before);
    for (size_t i = 0; i < large->lanes; i++)
        undo_lane(&large->lane[i]);
    large->lanes = 0;
    close_descriptors(large);
    hmreg_error_restore(&before);
}

void large_free(struct large *large)
{
    if (!large)
        return;
    large_undo(large);
    if (large->group_mr)
        region_free(large->group_mr);
    free(large->auth_key);
    pieces_free(&large->pieces);
    pthread_mutex_destroy(&large->lock);
    free(large);
}
