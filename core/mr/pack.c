/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The owner's end of a token: packs a region. A
 * token has the addresses and keys that the peer's RMA calls must use. They follow from the
 * region's mr_mode and path, so the peer needs to know neither. remote.c is the peer's end.
 *
 * A part is [begin, end) in bytes from the start of the region's first range: RMA offsets and the
 * addresses of mappings are found from it.
 */
#include "core/base/error.h"
#include "core/base/validate.h"
#include "core/context/group.h"
#include "core/context/rails_token.h"
#include "core/context/token.h"
#include "core/mr/mr.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

/* ---- one token -------------------------------------------------------------------------- */

/* A token before it is written. Only as much of the arrays is written as the token has. */
struct draft {
    struct token token; /* its pointers name the arrays */
    uint8_t segment[TOKEN_MAX_SEGMENTS * TOKEN_SEGMENT_BYTES];
    uint8_t address[TOKEN_MAX_BLOB];
    uint8_t raw[TOKEN_MAX_BLOB];
};

static void add_segment(struct draft *draft, uint64_t base, uint64_t len, uint64_t key)
{
    struct token_segment segment = {base, len, key};

    token_put_segment(draft->segment + (size_t)draft->token.segments++ * TOKEN_SEGMENT_BYTES,
                      &segment);
}

/* Adds the part [begin, end) of one registration. With HMREG_MR_VIRT_ADDR each range is a segment
 * with its own address, unless the caller chose the address of the first byte; else all ranges
 * together are one segment that starts at 0. */
static void add_segments(struct draft *draft, const struct hmreg_mr *mr, uint64_t begin,
                         uint64_t end, uint64_t key)
{
    uint64_t base = mr_has_iova(mr) ? mr->more->iova : 0, start = 0;

    if (mr_has_iova(mr) || !(mr->domain->caps.mr_mode & HMREG_MR_VIRT_ADDR)) {
        add_segment(draft, base + begin, end - begin, key);
        return;
    }
    for (size_t i = 0; i < mr_count(mr) && start < end; i++) {
        struct iovec iov = mr_iov(mr, i);
        uint64_t from = begin > start ? begin - start : 0;
        uint64_t to = end - start < iov.iov_len ? end - start : iov.iov_len;

        if (from < to)
            add_segment(draft, (uint64_t)(uintptr_t)iov.iov_base + from, to - from, key);
        start += iov.iov_len;
    }
}

/* The base of a raw key is the address of the registration's first byte, whatever add_segments()
 * takes for it. */
static void rebase(struct draft *draft, const struct hmreg_mr *mr, uint64_t begin, unsigned index,
                   uint64_t base)
{
    uint8_t *place = draft->segment + (size_t)index * TOKEN_SEGMENT_BYTES;
    struct token_segment segment = token_segment(&draft->token, index);

    if (!(mr->domain->caps.mr_mode & HMREG_MR_VIRT_ADDR) || begin < mr_iov(mr, 0).iov_len)
        segment.base = base + begin;
    token_put_segment(place, &segment);
    if (!index) {
        draft->token.raw_base = base;
        draft->token.rebased = segment.base != base;
    }
}

/* The same where keys are raw: adds the key's bytes. index: of the key in the token. */
static int add_raw(struct draft *draft, const struct hmreg_mr *mr, uint64_t begin, uint64_t end,
                   unsigned index)
{
    const struct hmreg_domain *domain = mr->domain;
    struct token *token = &draft->token;
    size_t size = sizeof(draft->raw) - token->raw_size;
    unsigned first = token->segments;
    uint64_t base = 0;
    int rc =
        domain->ops.raw_key(domain->self, &mr->made, &base, draft->raw + token->raw_size, &size);

    if (rc)
        return rc;
    token->raw_size = (uint16_t)(token->raw_size + size);
    add_segments(draft, mr, begin, end, index);
    rebase(draft, mr, begin, first, base);
    return 0;
}

static int add_registration(struct draft *draft, const struct hmreg_mr *mr, uint64_t begin,
                            uint64_t end, unsigned index)
{
    if (mr->domain->caps.mr_mode & HMREG_MR_RAW)
        return add_raw(draft, mr, begin, end, index);
    add_segments(draft, mr, begin, end, mr_now(mr).key);
    return 0;
}

/* Of a composite, only the pieces that have a byte of the part, and of each only that part. */
static int add_registrations(struct draft *draft, const struct hmreg_mr *mr, uint64_t begin,
                             uint64_t end)
{
    uint64_t start = 0;
    unsigned index = 0;
    int rc = 0;

    if (!mr_pieces(mr))
        return add_registration(draft, mr, begin, end, 0);
    for (size_t i = 0; i < mr_count(mr) && start < end && !rc; i++) {
        const struct hmreg_mr *piece = mr_pieces(mr)[i];
        uint64_t from = begin > start ? begin - start : 0;
        uint64_t to = end - start < mr_len(piece) ? end - start : mr_len(piece);

        if (from < to)
            rc = add_registration(draft, piece, from, to, index++);
        start += mr_len(piece);
    }
    return rc;
}

static int describe(const struct hmreg_mr *mr, uint64_t begin, uint64_t end, struct draft *draft)
{
    const struct hmreg_domain *domain = mr->domain;
    struct token *token = &draft->token;
    size_t address_size = sizeof(draft->address);
    int rc;

    *token = (struct token){
        .iface = mr->iface,
        .len = end - begin,
        .access = mr->access & HMREG_ACCESS_REMOTE,
        .segment = draft->segment,
        .address = draft->address,
        .raw = draft->raw,
    };
    strncpy(token->provider, domain->ops.name, sizeof(token->provider) - 1);
    rc = add_registrations(draft, mr, begin, end);
    rc = rc ? rc : domain->ops.address(domain->self, draft->address, &address_size);
    if (!rc)
        token->address_size = (uint16_t)address_size;
    return rc;
}

/* ---- checks ----------------------------------------------------------------------------- */

static int check_region(const struct hmreg_mr *mr)
{
    int rc = mr_check(mr);

    if (rc)
        return rc;
    if (!(mr->access & HMREG_ACCESS_REMOTE))
        return hmreg_fail(-EACCES, "the region has no remote access: register it with "
                                   "HMREG_REMOTE_READ or HMREG_REMOTE_WRITE");
    return mr_check_complete(mr);
}

static int check_buffer(const void *buf, const size_t *size)
{
    int rc = validate_pointer(size, "size");

    if (!rc && !buf && *size)
        rc = hmreg_fail(-EINVAL, "buf is NULL, size is %zu", *size);
    return rc;
}

static int fail_too_small(size_t needed, const char *what, size_t *size)
{
    int rc = hmreg_fail(-HMREG_ETOOSMALL, "%s %zu bytes, size is %zu", what, needed, *size);

    *size = needed;
    return rc;
}

/* ---- public calls ----------------------------------------------------------------------- */

static int pack(const struct hmreg_mr *mr, uint64_t begin, uint64_t end, void *buf, size_t *size)
{
    struct draft draft;
    size_t needed;
    int rc = describe(mr, begin, end, &draft);

    if (rc)
        return rc;
    needed = token_size(&draft.token);
    if (*size < needed)
        return fail_too_small(needed, "the token takes", size);
    token_write(&draft.token, buf);
    *size = needed;
    return 0;
}

/* The sizes of the rails' tokens; 0 where there is no rail. */
static int size_rails(const struct hmreg_mr *mr, uint64_t begin, uint64_t end, size_t *sizes)
{
    struct hmreg_error_guard guard;
    int rc = 0;

    hmreg_error_guard(&guard);
    for (size_t i = 0; i < mr->domain->group->count && !rc; i++) {
        sizes[i] = 0;
        if (mr_rails(mr)[i])
            rc = pack(mr_rails(mr)[i], begin, end, NULL, &sizes[i]);
        rc = rc == -HMREG_ETOOSMALL ? 0 : rc;
    }
    hmreg_error_unguard(&guard, !rc);
    return rc;
}

/* A group's region: one token with those of its rails. */
static int pack_rails(const struct hmreg_mr *mr, uint64_t begin, uint64_t end, uint8_t *buf,
                      size_t *size)
{
    size_t sizes[HMREG_GROUP_MAX], count = mr->domain->group->count, needed;
    int rc = size_rails(mr, begin, end, sizes);
    uint8_t *at;

    if (rc)
        return rc;
    needed = rails_token_size(sizes, count);
    if (*size < needed)
        return fail_too_small(needed, "the token takes", size);
    at = rails_token_begin(buf, sizes, count);
    for (size_t i = 0; i < count && !rc; at += sizes[i++])
        if (sizes[i])
            rc = pack(mr_rails(mr)[i], begin, end, at, &sizes[i]);
    if (rc)
        return rc;
    rails_token_end(buf, needed);
    *size = needed;
    return 0;
}

static int pack_part(const struct hmreg_mr *mr, uint64_t begin, uint64_t end, void *buf,
                     size_t *size)
{
    return mr_rails(mr) ? pack_rails(mr, begin, end, buf, size) : pack(mr, begin, end, buf, size);
}

int hmreg_mr_pack(const struct hmreg_mr *mr, void *buf, size_t *size)
{
    int rc = check_region(mr);

    rc = rc ? rc : check_buffer(buf, size);
    return rc ? rc : pack_part(mr, 0, mr_len(mr), buf, size);
}
