/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Makes tokens for the owner: packs all of a region or a part of it, and many regions at once. A
 * token has the addresses and keys that the peer's RMA calls must use. They follow from the
 * region's mr_mode and path, so the peer needs to know neither. remote.c is the peer's end.
 *
 * A part is [begin, end) in bytes from the start of the region's first range: RMA offsets and the
 * addresses of mappings are found from it.
 */
#include "core/base/error.h"
#include "core/base/failure.h"
#include "core/base/validate.h"
#include "core/remote/token.h"
#include "core/group/group.h"
#include "core/remote/rails_token.h"
#include "core/mr/mr.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- one token -------------------------------------------------------------------------- */

/* A token before it is written. Only the token's share of the arrays is written. */
struct draft {
    struct token token; /* its pointers name the arrays */
    uint8_t *segment;   /* few_segments, or on the heap */
    uint8_t *raw;       /* few_raw, or on the heap: raw_room bytes */
    size_t raw_room;
    uint8_t few_segments[TOKEN_FEW_SEGMENTS * TOKEN_SEGMENT_BYTES];
    uint64_t number; /* the domain's, little-endian */
    uint8_t few_raw[TOKEN_MAX_BLOB];
};

static int fail_memory(size_t bytes)
{
    return hmreg_fail(-ENOMEM, "hmreg has no memory for %zu bytes of a token", bytes);
}

/* A token's share of one registration. The region is of no group, or a rail. */
struct owner {
    const struct hmreg_mr *mr;
    size_t native;
    size_t first, last;  /* its ranges: [first, last) */
    uint64_t start;      /* bytes of the region before it */
    uint64_t begin, end; /* the part of it, from its first byte */
};

/* With room for a segment of each of the region's ranges. -ENOMEM. */
static int begin_draft(struct draft *draft, const struct hmreg_mr *mr)
{
    size_t bytes = mr_count(mr) * TOKEN_SEGMENT_BYTES;

    draft->segment = bytes <= sizeof(draft->few_segments) ? draft->few_segments : malloc(bytes);
    draft->raw = draft->few_raw;
    draft->raw_room = sizeof(draft->few_raw);
    return draft->segment ? 0 : fail_memory(bytes);
}

static void end_draft(struct draft *draft)
{
    if (draft->segment != draft->few_segments)
        free(draft->segment);
    if (draft->raw != draft->few_raw)
        free(draft->raw);
}

/* Makes room for a raw key of so many bytes, and for others of its size. -EMSGSIZE, -ENOMEM. */
static int grow_raw(struct draft *draft, size_t size)
{
    size_t used = draft->token.raw_size, room = 2 * draft->raw_room;
    uint8_t *raw;

    if (size > TOKEN_MAX_RAW - used)
        return hmreg_fail(-EMSGSIZE,
                          "the raw keys take %zu bytes and more; a token has room for %d: register "
                          "the memory in parts",
                          used + size, TOKEN_MAX_RAW);
    while (room < used + size)
        room *= 2;
    raw = draft->raw == draft->few_raw ? malloc(room) : realloc(draft->raw, room);
    if (!raw)
        return fail_memory(room);
    if (draft->raw == draft->few_raw)
        memcpy(raw, draft->few_raw, used);
    draft->raw = raw;
    draft->raw_room = room;
    draft->token.raw = raw;
    return 0;
}

static void add_segment(struct draft *draft, uint64_t base, uint64_t len, uint64_t key)
{
    struct token_segment segment = {base, len, key};

    token_put_segment(draft->segment + (size_t)draft->token.segments++ * TOKEN_SEGMENT_BYTES,
                      &segment);
}

/* Adds a segment, or several, of one registration. With HMREG_MR_VIRT_ADDR each range is a segment
 * with its own address, unless the caller chose the address of the first byte; else all ranges
 * together are one segment that starts at 0. */
static void add_segments(struct draft *draft, const struct owner *owner, uint64_t key)
{
    const struct hmreg_mr *mr = owner->mr;
    uint64_t begin = owner->begin, end = owner->end, start = 0;

    if (mr_has_iova(mr) || !(mr->domain->caps.mr_mode & HMREG_MR_VIRT_ADDR)) {
        uint64_t base = mr_has_iova(mr) ? mr_ext(mr)->iova + owner->start : 0;

        add_segment(draft, base + begin, end - begin, key);
        return;
    }
    for (size_t i = owner->first; i < owner->last && start < end; i++) {
        struct iovec iov = mr_iov(mr, i);
        uint64_t from = begin > start ? begin - start : 0;
        uint64_t to = end - start < iov.iov_len ? end - start : iov.iov_len;

        if (from < to)
            add_segment(draft, (uint64_t)(uintptr_t)iov.iov_base + from, to - from, key);
        start += iov.iov_len;
    }
}

/* The base of a raw key is the address of the registration's first byte, whichever address
 * add_segments() uses for it. */
static void rebase(struct draft *draft, const struct owner *owner, unsigned index, uint64_t base)
{
    const struct hmreg_mr *mr = owner->mr;
    uint8_t *place = draft->segment + (size_t)index * TOKEN_SEGMENT_BYTES;
    struct token_segment segment = token_segment(&draft->token, index);

    if (!(mr->domain->caps.mr_mode & HMREG_MR_VIRT_ADDR) ||
        owner->begin < mr_iov(mr, owner->first).iov_len)
        segment.base = base + owner->begin;
    token_put_segment(place, &segment);
    if (!index)
        draft->token.raw_base = base;
}

/* Asks for the registration's raw key, behind those that the draft has. */
static int ask_raw(struct draft *draft, const struct owner *owner, uint64_t *base, size_t *size)
{
    size_t used = draft->token.raw_size;
    struct hmreg_mr_keys keys;
    const struct hmreg_domain *domain = mr_copy_live(owner->mr, owner->native, &keys);

    *size = draft->raw_room - used;
    return domain ? domain->ops.raw_key(domain->self, &keys, base, draft->raw + used, size)
                  : mr_fail_without();
}

static int take_raw(struct draft *draft, const struct owner *owner, uint64_t *base, size_t *size)
{
    struct hmreg_error_guard guard;
    int rc;

    hmreg_error_guard(&guard);
    rc = ask_raw(draft, owner, base, size);
    while (rc == -HMREG_ETOOSMALL) {
        rc = grow_raw(draft, *size);
        rc = rc ? rc : ask_raw(draft, owner, base, size);
    }
    hmreg_error_unguard(&guard, !rc);
    return rc;
}

/* Likewise for raw keys: adds the key's bytes. index: the key's index in the token. */
static int add_raw(struct draft *draft, const struct owner *owner, unsigned index)
{
    struct token *token = &draft->token;
    unsigned first = token->segments;
    uint64_t base = 0;
    size_t size;
    int rc = take_raw(draft, owner, &base, &size);

    if (rc)
        return rc;
    token->raw_size = (uint16_t)(token->raw_size + size);
    add_segments(draft, owner, index);
    rebase(draft, owner, first, base);
    return 0;
}

static int add_registration(struct draft *draft, const struct owner *owner, unsigned index)
{
    struct hmreg_mr_keys keys;
    int rc;

    if (owner->mr->domain->caps.mr_mode & HMREG_MR_RAW)
        return add_raw(draft, owner, index);
    rc = mr_copy_keys(owner->mr, owner->native, &keys);
    if (!rc)
        add_segments(draft, owner, keys.key);
    return rc;
}

/* Adds several registrations: only those that have a byte of the part, and only their share of
 * it. */
static int add_registrations(struct draft *draft, const struct hmreg_mr *mr, uint64_t begin,
                             uint64_t end)
{
    struct owner owner = {mr, 0, 0, mr_count(mr), 0, begin, end};
    unsigned index = 0;
    int rc = 0;

    if (mr_parts(mr) == 1)
        return add_registration(draft, &owner, 0);
    for (size_t i = 0; i < mr_parts(mr) && owner.start < end && !rc; i++) {
        uint64_t len = mr_iov(mr, i).iov_len, before = owner.start;

        owner.native = owner.first = i;
        owner.last = i + 1;
        owner.begin = begin > before ? begin - before : 0;
        owner.end = end - before < len ? end - before : len;
        if (owner.begin < owner.end)
            rc = add_registration(draft, &owner, index++);
        owner.start += len;
    }
    return rc;
}

static int fill(struct draft *draft, const struct hmreg_mr *mr, uint64_t begin, uint64_t end)
{
    const struct hmreg_domain *domain = mr->domain;
    struct token *token = &draft->token;

    *token = (struct token){
        .iface = mr_body(mr)->iface,
        .extension_size = TOKEN_LIFE_BYTES,
        .instance = context_life(domain->lib),
        .generation = mr_generation(mr),
        .len = end - begin,
        .access = mr_body(mr)->access & HMREG_ACCESS_REMOTE,
        .segment = draft->segment,
        .address_size = domain->caps.number ? sizeof(draft->number) : 0,
        .address = (const uint8_t *)&draft->number,
        .raw = draft->raw,
    };
    draft->number = htole64(domain->caps.number);
    strncpy(token->provider, domain->ops.name, sizeof(token->provider) - 1);
    /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): end_draft() frees what the draft has */
    return add_registrations(draft, mr, begin, end);
}

/* Fills in the draft for a rail from one registration: its member may be replaced meanwhile. */
static int fill_of_rail(struct draft *draft, const struct hmreg_mr *mr, uint64_t begin,
                        uint64_t end)
{
    struct hmreg_error_guard guard;
    uint64_t generation;
    int rc;

    hmreg_error_guard(&guard);
    do {
        generation = mr_generation(mr);
        rc = fill(draft, mr, begin, end);
    } while (generation != mr_generation(mr));
    hmreg_error_unguard(&guard, !rc);
    return rc;
}

/* Call end_draft() afterwards, after a failure too. */
static int describe(const struct hmreg_mr *mr, uint64_t begin, uint64_t end, struct draft *draft)
{
    int rc = begin_draft(draft, mr);

    if (rc)
        return rc;
    return mr_is_handle(mr) ? fill_of_rail(draft, mr, begin, end) : fill(draft, mr, begin, end);
}

/* ---- checks ----------------------------------------------------------------------------- */

static int check_region(const struct hmreg_mr *mr)
{
    int rc = mr_check_usable(mr);

    if (rc)
        return rc;
    if (!(mr_body(mr)->access & HMREG_ACCESS_REMOTE))
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

/* How many of the len bytes at addr, which is in range `index`, the ranges contain without a
 * gap. */
static uint64_t run_length(const struct hmreg_mr *mr, size_t index, uint64_t addr)
{
    struct iovec iov = mr_asked(mr, index);
    uint64_t end = (uint64_t)(uintptr_t)iov.iov_base + iov.iov_len;

    while (++index < mr_count(mr)) {
        iov = mr_asked(mr, index);
        if ((uint64_t)(uintptr_t)iov.iov_base != end)
            break;
        end += iov.iov_len;
    }
    return end - addr;
}

/* Finds the bytes' offset in the region. */
static int find_part(const struct hmreg_mr *mr, uint64_t addr, size_t len, uint64_t *begin)
{
    uint64_t start = 0;

    for (size_t i = 0; i < mr_count(mr); i++) {
        struct iovec iov = mr_asked(mr, i);
        uint64_t from = addr - (uint64_t)(uintptr_t)iov.iov_base;

        if (from < iov.iov_len && len <= run_length(mr, i, addr)) {
            *begin = start + from;
            return 0;
        }
        start += iov.iov_len;
    }
    return hmreg_fail(-ERANGE,
                      "addr %#" PRIx64 " + len %zu is not inside the region of %" PRIu64
                      " bytes at %#" PRIx64,
                      addr, len, mr_len(mr), mr_start(mr));
}

/* ---- public calls ----------------------------------------------------------------------- */

static int write_token(const struct token *token, void *buf, size_t *size)
{
    size_t needed = token_size(token);

    if (*size < needed)
        return fail_too_small(needed, "the token takes", size);
    token_write(token, buf);
    *size = needed;
    return 0;
}

static int pack(const struct hmreg_mr *mr, uint64_t begin, uint64_t end, void *buf, size_t *size)
{
    struct draft draft;
    int rc = describe(mr, begin, end, &draft);

    rc = rc ? rc : write_token(&draft.token, buf, size);
    end_draft(&draft);
    return rc;
}

static int size_of(const struct hmreg_mr *mr, uint64_t begin, uint64_t end, size_t *size)
{
    struct draft draft;
    int rc = describe(mr, begin, end, &draft);

    *size = rc ? 0 : token_size(&draft.token);
    end_draft(&draft);
    return rc;
}

/* The sizes of the rails' tokens; leaves those of missing rails unchanged. */
static int size_rails(const struct hmreg_mr *mr, uint64_t begin, uint64_t end, size_t *sizes)
{
    int rc = 0;

    for (size_t i = 0; i < mr->domain->group->count && !rc; i++)
        if (mr_live(mr, i * mr_parts(mr)))
            rc = size_of(&mr_ext(mr)->handles[i].mr, begin, end, &sizes[i]);
    return rc;
}

/* A group's region: one token, which contains its rails' tokens. */
static int pack_rails(const struct hmreg_mr *mr, uint64_t begin, uint64_t end, uint8_t *buf,
                      size_t *size)
{
    size_t sizes[HMREG_GROUP_MAX] = {0}, count = mr->domain->group->count, needed;
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
            rc = pack(&mr_ext(mr)->handles[i].mr, begin, end, at, &sizes[i]);
    if (rc)
        return rc;
    *size = needed;
    return 0;
}

/* The generation shows that a member was withdrawn or replaced meanwhile: pack again. */
static int pack_group(const struct hmreg_mr *mr, uint64_t begin, uint64_t end, uint8_t *buf,
                      size_t *size)
{
    struct hmreg_error_guard guard;
    size_t room = *size;
    uint64_t generation;
    int rc;

    hmreg_error_guard(&guard);
    do {
        generation = mr_generation(mr);
        *size = room;
        rc = pack_rails(mr, begin, end, buf, size);
    } while (generation != mr_generation(mr));
    hmreg_error_unguard(&guard, !rc);
    return rc;
}

static int pack_part(const struct hmreg_mr *mr, uint64_t begin, uint64_t end, void *buf,
                     size_t *size)
{
    return mr_of_group(mr) ? pack_group(mr, begin, end, buf, size)
                           : pack(mr, begin, end, buf, size);
}

int hmreg_mr_pack(const struct hmreg_mr *mr, void *buf, size_t *size)
{
    LOGS_FAILURE(mr_log(mr));
    int rc = check_region(mr);

    rc = rc ? rc : check_buffer(buf, size);
    return rc ? rc : pack_part(mr, 0, mr_len(mr), buf, size);
}

int hmreg_mr_pack_range(const struct hmreg_mr *mr, const void *addr, size_t len, void *buf,
                        size_t *size)
{
    LOGS_FAILURE(mr_log(mr));
    uint64_t begin = 0;
    int rc = check_region(mr);

    rc = rc ? rc : validate_range(addr, len);
    rc = rc ? rc : check_buffer(buf, size);
    rc = rc ? rc : find_part(mr, (uint64_t)(uintptr_t)addr, len, &begin);
    return rc ? rc : pack_part(mr, begin, begin + len, buf, size);
}

/* ---- a provider's keys of parts --------------------------------------------------------- */

static int check_single(const struct hmreg_mr *mr, const char *provider_name)
{
    const struct hmreg_domain *domain = mr_domain(mr);
    int rc = mr_check_usable(mr);

    if (rc)
        return rc;
    if (mr_of_group(mr))
        return hmreg_fail(
            -EOPNOTSUPP,
            "mr: a group's region has no memory windows: use its rails (hmreg_mr_rail())");
    if (strcmp(domain->ops.name, provider_name) != 0)
        return hmreg_fail(-EOPNOTSUPP, "mr: its domain is of %s; only %s has memory windows",
                          domain->ops.name, provider_name);
    if (mr_parts(mr) > 1)
        return hmreg_fail(-EOPNOTSUPP,
                          "mr: the region is a composite of %zu registrations; a memory window "
                          "needs a single one (HMREG_REG_SINGLE)",
                          mr_count(mr));
    return 0;
}

/* With the columns' lock held: all is of one NIC, whichever the rail has. */
static struct provider_subrange subrange_of(const struct hmreg_mr *mr,
                                            const struct hmreg_domain *domain, uint64_t begin,
                                            size_t len)
{
    uint64_t base =
        mr_has_iova(mr) ? mr_ext(mr)->iova : (uint64_t)(uintptr_t)mr_iov(mr, 0).iov_base;

    return (struct provider_subrange){.self = domain->self,
                                      .native = mr_current(mr, 0).native,
                                      .path = mr_path(mr),
                                      .base = base + begin,
                                      .len = len};
}

int hmreg_mr_subrange(const struct hmreg_mr *mr, const char *provider_name, const void *addr,
                      size_t len, struct provider_subrange *out)
{
    const struct hmreg_domain *domain;
    struct group *group;
    uint64_t begin = 0;
    int rc = mr ? check_single(mr, provider_name) : mr_check(mr);

    rc = rc ? rc : validate_range(addr, len);
    rc = rc ? rc : find_part(mr, (uint64_t)(uintptr_t)addr, len, &begin);
    if (rc)
        return rc;
    group = mr_lock_columns(mr);
    domain = mr_live(mr, 0);
    if (domain)
        *out = subrange_of(mr, domain, begin, len);
    mr_unlock_columns(group);
    return domain ? 0 : mr_fail_without();
}

/* ---- many tokens ------------------------------------------------------------------------ */

/* The tokens written so far. They are copied to the caller's buffer only after the last one is
 * written. */
struct tokens {
    uint8_t *bytes;
    size_t size, room;
};

static int grow(struct tokens *tokens, size_t more)
{
    size_t room = tokens->room ? tokens->room : 4096;
    uint8_t *bytes;

    if (more <= tokens->room - tokens->size)
        return 0;
    while (room < tokens->size + more)
        room *= 2;
    bytes = realloc(tokens->bytes, room);
    if (!bytes)
        return hmreg_fail(-ENOMEM, "hmreg has no memory for %zu bytes of tokens", room);
    tokens->bytes = bytes;
    tokens->room = room;
    return 0;
}

static int append(struct tokens *tokens, const struct hmreg_mr *mr)
{
    struct draft draft;
    int rc = describe(mr, 0, mr_len(mr), &draft);

    rc = rc ? rc : grow(tokens, token_size(&draft.token));
    if (!rc) {
        token_write(&draft.token, tokens->bytes + tokens->size);
        tokens->size += token_size(&draft.token);
    }
    end_draft(&draft);
    return rc;
}

static int check_regions(struct hmreg_mr *const *mrs, size_t count)
{
    int rc = validate_pointer(mrs, "mrs");

    if (!rc && !count)
        rc = hmreg_fail(-EINVAL, "count is 0; it must be at least 1");
    for (size_t i = 0; i < count && !rc; i++) {
        rc = check_region(mrs[i]);
        if (!rc && mr_of_group(mrs[i]))
            rc =
                hmreg_fail(-EINVAL, "the region is of a group: pack its rails, one for each member "
                                    "(hmreg_mr_rail())");
        if (rc)
            hmreg_fail_at(rc, "mrs[%zu]", i);
    }
    return rc;
}

static int hand_over(const struct tokens *tokens, void *buf, size_t *size)
{
    if (*size < tokens->size)
        return fail_too_small(tokens->size, "the tokens take", size);
    assert(tokens->bytes); /* there is one region at least */
    memcpy(buf, tokens->bytes, tokens->size);
    *size = tokens->size;
    return 0;
}

int hmreg_mr_pack_many(struct hmreg_mr *const *mrs, size_t count, void *buf, size_t *size)
{
    LOGS_FAILURE(mrs && count ? mr_log(*mrs) : NULL);
    struct tokens tokens = {0};
    int rc = check_regions(mrs, count);

    rc = rc ? rc : check_buffer(buf, size);
    for (size_t i = 0; i < count && !rc; i++) {
        rc = append(&tokens, mrs[i]);
        if (rc)
            hmreg_fail_at(rc, "mrs[%zu]", i);
    }
    rc = rc ? rc : hand_over(&tokens, buf, size);
    free(tokens.bytes);
    return rc;
}
