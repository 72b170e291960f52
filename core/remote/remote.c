/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Opens tokens for a peer, and finds addresses and keys for RMA calls. An application may have a
 * million remotes, so a remote of a single segment takes 72 bytes, and opening copies only the
 * fields that it keeps. pack.c makes tokens for the owner.
 */
#include "core/remote/remote.h"

#include "core/base/error.h"
#include "core/base/failure.h"
#include "core/base/life.h"
#include "core/base/validate.h"
#include "core/remote/token.h"
#include "core/group/group.h"
#include "core/remote/rails_token.h"
#include "core/mr/mr.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct remote_segment {
    uint64_t base;
    uint64_t end; /* the offset in the region of the first byte after it */
    uint64_t key;
};

struct hmreg_remote {
    struct hmreg_domain *domain;
    uint64_t number; /* number of the owner's domain in this process; 0: tokens of its kind have
                        none */
    uint64_t len;
    uint64_t instance, generation; /* of the token */
    uint16_t iface;
    uint16_t access;
    uint16_t segments;
    bool raw; /* own_keys() follow the segments */
    struct remote_segment segment[];
};

_Static_assert(sizeof(struct hmreg_remote) + sizeof(struct remote_segment) <= 72, "small");
_Static_assert(HMREG_ACCESS_ALL <= UINT16_MAX && TOKEN_MAX_SEGMENTS <= UINT16_MAX &&
                   HMREG_IFACE_MAX <= UINT16_MAX,
               "fit the fields");

/* For remotes with raw keys: bit i: segment i has its own mapped key, which must be unmapped; else
 * it shares the previous segment's. */
static uint64_t *own_keys(struct hmreg_remote *remote, size_t segment)
{
    return (uint64_t *)&remote->segment[remote->segments] + segment / 64;
}

static size_t own_bytes(const struct token *token)
{
    return token->raw_size ? ((size_t)token->segments + 63) / 64 * sizeof(uint64_t) : 0;
}

/* ---- raw keys --------------------------------------------------------------------------- */

static void unmap_raw_keys(struct hmreg_remote *remote)
{
    if (domain_is_lost(remote->domain)) /* its fabric may not return */
        return;
    for (unsigned i = remote->raw ? remote->segments : 0; i-- > 0;)
        if (*own_keys(remote, i) & UINT64_C(1) << i % 64)
            remote->domain->ops.unmap_raw(remote->domain->self, remote->segment[i].key);
}

/* The segments' keys are indexes of raw keys: 0, then each equal to the previous or the next. */
static int count_keys(const struct token *token, unsigned *keys)
{
    uint64_t next = 0;

    for (unsigned i = 0; i < token->segments; i++) {
        uint64_t key = token_segment(token, i).key;

        if (key > next || key + 1 < next)
            break;
        next = key + 1;
        *keys = i + 1 == token->segments ? (unsigned)next : 0;
    }
    if (*keys && token->raw_size % *keys == 0)
        return 0;
    return hmreg_fail(-EBADMSG, "token: its raw keys are not the ones that its segments name");
}

static int check_fabric(const struct hmreg_domain *domain)
{
    return domain_is_lost(domain) ? domain_fail_lost(domain) : domain_check_awake(domain);
}

/* Maps the raw keys, and replaces each segment's index of a raw key by the mapped key. */
static int map_raw_keys(struct hmreg_remote *remote, const struct token *token)
{
    const struct hmreg_domain *domain = remote->domain;
    unsigned keys = 0, mapped = 0;
    int rc = check_fabric(domain);

    rc = rc ? rc : count_keys(token, &keys);

    memset(own_keys(remote, 0), 0, own_bytes(token));
    for (unsigned i = 0; i < token->segments && !rc; i++) {
        struct remote_segment *segment = &remote->segment[i];
        size_t bytes = token->raw_size / keys;

        if (segment->key < mapped) {
            segment->key = remote->segment[i - 1].key;
            continue;
        }
        rc = domain->ops.map_raw(domain->self, i ? segment->base : token->raw_base,
                                 token->raw + mapped++ * bytes, bytes, &segment->key);
        if (!rc)
            *own_keys(remote, i) |= UINT64_C(1) << i % 64;
    }
    if (rc)
        unmap_raw_keys(remote);
    return rc;
}

/* ---- opening ---------------------------------------------------------------------------- */

static int check_kind(const struct hmreg_domain *domain, const struct token *token)
{
    if (strcmp(token->provider, domain->ops.name))
        return hmreg_fail(-EXDEV, "token: a %s domain made it, but this is a %s domain",
                          token->provider, domain->ops.name);
    if (!token->raw_size != !(domain->caps.mr_mode & HMREG_MR_RAW))
        return hmreg_fail(-EXDEV, "token: %s raw keys, this domain has %s (HMREG_MR_RAW)",
                          token->raw_size ? "with" : "without", token->raw_size ? "none" : "them");
    return 0;
}

/* If tokens have the number of the owner's domain: is it a domain of this process? */
static int find_owner(const struct hmreg_domain *domain, const struct token *token,
                      uint64_t *number)
{
    *number = 0;
    if (!domain->caps.number)
        return 0;
    if (token->address_size != sizeof(*number))
        return hmreg_fail(-EBADMSG, "token: its address has %u bytes; addresses of %s have %zu",
                          token->address_size, domain->ops.name, sizeof(*number));
    if (token->instance != context_life(domain->lib))
        return hmreg_fail(
            -EHOSTUNREACH,
            "token: another process made it, or this process was restored since, and %s domains "
            "reach only their own process; libfabric's shm and tcp reach others",
            domain->ops.name);
    *number = token_word(token->address);
    return 0;
}

/* NULL: no memory. */
static struct hmreg_remote *make(struct hmreg_domain *domain, const struct token *token)
{
    struct hmreg_remote *remote =
        malloc(sizeof(*remote) + token->segments * sizeof(remote->segment[0]) + own_bytes(token));
    uint64_t end = 0;

    if (!remote)
        return NULL;
    remote->domain = domain;
    remote->len = token->len;
    remote->instance = token->instance;
    remote->generation = token->generation;
    remote->iface = (uint16_t)token->iface;
    remote->access = (uint16_t)token->access;
    remote->segments = token->segments;
    remote->raw = token->raw_size;
    for (unsigned i = 0; i < token->segments; i++) {
        struct token_segment segment = token_segment(token, i);

        end += segment.len;
        remote->segment[i] = (struct remote_segment){segment.base, end, segment.key};
    }
    return remote;
}

static int open_token(struct hmreg_domain *domain, const uint8_t *bytes, size_t size,
                      struct hmreg_remote **out)
{
    struct hmreg_remote *remote;
    struct token token;
    uint64_t number = 0;
    int rc = token_read(bytes, size, &token);

    rc = rc ? rc : check_kind(domain, &token);
    rc = rc ? rc : find_owner(domain, &token, &number);
    if (rc)
        return rc;
    remote = make(domain, &token);
    if (!remote)
        return hmreg_fail(-ENOMEM, "hmreg has no memory for a remote");
    remote->number = number;
    rc = token.raw_size ? map_raw_keys(remote, &token) : 0;
    if (rc) {
        free(remote);
        return rc;
    }
    atomic_fetch_add(&domain->remotes, 1);
    *out = remote;
    return 0;
}

static int check_no_group(const struct hmreg_domain *domain)
{
    if (domain->group)
        return hmreg_fail(-EINVAL, "domain is a group: use hmreg_remote_open_rails()");
    return 0;
}

static int check_no_rails(const void *token, size_t size)
{
    if (rails_token_is(token, size))
        return hmreg_fail(
            -EXDEV, "token: its region is a group's: find a rail's token with hmreg_token_rail()");
    return 0;
}

int hmreg_remote_open(struct hmreg_domain *domain, const void *token, size_t size,
                      struct hmreg_remote **out)
{
    LOGS_FAILURE(domain_log(domain));
    int rc = domain_check(domain);

    rc = rc ? rc : validate_pointer(token, "token");
    rc = rc ? rc : validate_pointer(out, "remote");
    rc = rc ? rc : check_no_group(domain);
    rc = rc ? rc : check_no_rails(token, size);
    return rc ? rc : open_token(domain, token, size, out);
}

void hmreg_remote_close(struct hmreg_remote *remote)
{
    if (!remote || domain_check(remote->domain))
        return;
    unmap_raw_keys(remote);
    atomic_fetch_sub(&remote->domain->remotes, 1);
    free(remote);
}

void *hmreg_remote_priv(const struct hmreg_remote *remote, const char *provider_name,
                        uint64_t *number)
{
    if (!remote)
        return NULL;
    *number = remote->number;
    return hmreg_domain_priv(remote->domain, provider_name);
}

/* ---- opening many ----------------------------------------------------------------------- */

static int fail_at(int rc, size_t index, size_t place)
{
    return hmreg_fail_at(rc, "tokens[%zu], at byte %zu", index, place);
}

static int count_tokens(const uint8_t *bytes, size_t size, size_t *out)
{
    size_t count = 0, length = 0;

    for (size_t at = 0; at < size || !count; at += length, count++) {
        int rc = check_no_rails(bytes + at, size - at);

        rc = rc ? rc : token_length(bytes + at, size - at, &length);
        if (rc)
            return fail_at(rc, count, at);
    }
    *out = count;
    return 0;
}

static void close_many(struct hmreg_remote **remotes, size_t count)
{
    struct hmreg_error why;

    hmreg_error_save(&why);
    while (count)
        hmreg_remote_close(remotes[--count]);
    hmreg_error_restore(&why);
}

static int open_tokens(struct hmreg_domain *domain, const uint8_t *bytes, size_t size, size_t count,
                       struct hmreg_remote **remotes)
{
    size_t at = 0, length = 0;

    for (size_t i = 0; i < count; i++, at += length) {
        int rc = token_length(bytes + at, size - at, &length);

        rc = rc ? rc : open_token(domain, bytes + at, length, &remotes[i]);
        if (rc) {
            rc = fail_at(rc, i, at);
            close_many(remotes, i);
            return rc;
        }
    }
    return 0;
}

static int check_room(size_t tokens, size_t *count)
{
    size_t room = *count;

    if (tokens > room) {
        *count = tokens;
        return hmreg_fail(-HMREG_ETOOSMALL, "there are %zu tokens, count is %zu", tokens, room);
    }
    return 0;
}

int hmreg_remote_open_many(struct hmreg_domain *domain, const void *tokens, size_t size,
                           struct hmreg_remote **remotes, size_t *count)
{
    LOGS_FAILURE(domain_log(domain));
    struct hmreg_remote **opened;
    size_t found = 0;
    int rc = domain_check(domain);

    rc = rc ? rc : validate_pointer(tokens, "tokens");
    rc = rc ? rc : validate_pointer(count, "count");
    if (!rc && !remotes && *count)
        rc = hmreg_fail(-EINVAL, "remotes is NULL, count is %zu", *count);
    rc = rc ? rc : check_no_group(domain);
    rc = rc ? rc : count_tokens(tokens, size, &found);
    rc = rc ? rc : check_room(found, count);
    if (rc)
        return rc;
    opened = malloc(found * sizeof(struct hmreg_remote *));
    if (!opened)
        return hmreg_fail(-ENOMEM, "hmreg has no memory for %zu remotes", found);
    rc = open_tokens(domain, tokens, size, found, opened);
    if (!rc) {
        memcpy(remotes, opened, found * sizeof(struct hmreg_remote *));
        *count = found;
    }
    free(opened);
    return rc;
}

/* ---- renewal ---------------------------------------------------------------------------- */

/* Is the token of the remote's region, or of another? */
static int judge(const struct hmreg_remote *remote, const struct token *token,
                 enum hmreg_remote_state *out)
{
    if (!remote->instance || !token->instance)
        return hmreg_fail(-EOPNOTSUPP, "token: it does not name the process that made it");
    if (token->instance == remote->instance && token->generation < remote->generation)
        return hmreg_fail(-ESTALE,
                          "token: it is older than the remote: registration %" PRIu64
                          ", but the remote has %" PRIu64 " of this owner",
                          token->generation, remote->generation);
    if (token->instance != remote->instance)
        *out = life_is_of_same_process(token->instance, remote->instance) ? HMREG_REMOTE_OTHER_LIFE
                                                                          : HMREG_REMOTE_DEAD;
    else
        *out =
            token->generation == remote->generation ? HMREG_REMOTE_CURRENT : HMREG_REMOTE_RENEWED;
    return 0;
}

static int check_token(const struct hmreg_remote *remote, const void *bytes, size_t size,
                       enum hmreg_remote_state *out)
{
    struct token token;
    int rc = validate_pointer(remote, "remote");

    rc = rc ? rc : domain_check(remote->domain);
    rc = rc ? rc : validate_pointer(bytes, "token");
    rc = rc ? rc : validate_pointer(out, "state");
    rc = rc ? rc : check_no_rails(bytes, size);
    rc = rc ? rc : token_read(bytes, size, &token);
    rc = rc ? rc : check_kind(remote->domain, &token);
    return rc ? rc : judge(remote, &token, out);
}

int hmreg_remote_check(const struct hmreg_remote *remote, const void *token, size_t size,
                       enum hmreg_remote_state *state)
{
    return check_token(remote, token, size, state);
}

/* Exchanges the contents of two remotes with equally many segments. */
static void exchange(struct hmreg_remote *one, struct hmreg_remote *other)
{
    size_t size = (size_t)((char *)own_keys(one, 0) - (char *)one) +
                  (one->raw ? ((size_t)one->segments + 63) / 64 * sizeof(uint64_t) : 0);
    uint64_t *a = (uint64_t *)one, *b = (uint64_t *)other;

    for (size_t i = 0; i < size / sizeof(uint64_t); i++) {
        uint64_t kept = a[i];

        a[i] = b[i];
        b[i] = kept;
    }
}

int hmreg_remote_renew(struct hmreg_remote *remote, const void *token, size_t size)
{
    LOGS_FAILURE(remote ? domain_log(remote->domain) : NULL);
    enum hmreg_remote_state state = HMREG_REMOTE_DEAD;
    struct hmreg_remote *renewed;
    int rc = check_token(remote, token, size, &state);

    if (!rc && state != HMREG_REMOTE_CURRENT && state != HMREG_REMOTE_RENEWED)
        rc = hmreg_fail(-EOWNERDEAD,
                        "the token is of another %s: close the remote and open the token",
                        state == HMREG_REMOTE_DEAD
                            ? "process than the remote's, whose process has ended"
                            : "incarnation of the remote's process, restored from an image");
    rc = rc ? rc : open_token(remote->domain, token, size, &renewed);
    if (rc)
        return rc;
    if (renewed->segments == remote->segments)
        exchange(remote, renewed);
    else
        rc = hmreg_fail(-EMSGSIZE, "the region has %u segments, but had %u: open the token",
                        renewed->segments, remote->segments);
    hmreg_remote_close(renewed);
    return rc;
}

/* ---- links ------------------------------------------------------------------------------ */

bool remote_links_hold(const struct hmreg_domain *domain)
{
    return domain->caps.mr_mode & HMREG_MR_RAW;
}

static bool same_kind(const struct hmreg_domain *one, const struct hmreg_domain *other)
{
    return one == other || (one && one->ops.name == other->ops.name &&
                            !((one->caps.mr_mode ^ other->caps.mr_mode) & HMREG_MR_RAW));
}

static int read_one(const struct hmreg_domain *domain, const uint8_t *bytes, size_t size,
                    struct token *token)
{
    uint64_t number;
    int rc = token_read(bytes, size, token);

    rc = rc ? rc : check_kind(domain, token);
    rc = rc ? rc : find_owner(domain, token, &number);
    if (!rc && token->segments > 1)
        rc = hmreg_fail(-EXDEV,
                        "the region has %u segments, each with its address and key, but a table's "
                        "entry holds one: open the token with hmreg_remote_open()",
                        token->segments);
    return rc;
}

static int map_one_key(struct hmreg_domain *domain, const struct token *token,
                       struct remote_link *out)
{
    unsigned keys = 0;
    int rc = check_fabric(domain);

    rc = rc ? rc : count_keys(token, &keys);
    rc = rc ? rc
            : domain->ops.map_raw(domain->self, token->raw_base, token->raw, token->raw_size,
                                  &out->key);
    if (rc)
        return rc;
    out->holder = domain;
    atomic_fetch_add(&domain->mapped_keys, 1);
    return 0;
}

/* Not inlined: its locals are not saved and guarded for each token of an all-gather. */
static __attribute__((noinline)) int link_in_full(struct hmreg_domain *domain, const uint8_t *bytes,
                                                  size_t size, struct remote_links *links,
                                                  struct remote_link *out, size_t *length)
{
    struct token *token = &links->token;
    struct token_segment segment;
    int rc = length ? token_length(bytes, size, &size) : 0;

    links->domain = NULL;
    rc = rc ? rc : read_one(domain, bytes, size, token);
    if (rc)
        return rc;
    segment = token_segment(token, 0);
    out->base = segment.base;
    out->key = segment.key;
    out->holder = NULL;
    if (remote_links_hold(domain))
        rc = map_one_key(domain, token, out);
    else if (!domain->caps.number)
        links->domain = domain;
    out->access = rc ? 0 : token->access;
    if (length)
        *length = size;
    return rc;
}

int remote_link(struct hmreg_domain *domain, const uint8_t *bytes, size_t size,
                struct remote_links *links, struct remote_link *out, size_t *length)
{
    const struct token *last = &links->token;
    struct token_segment segment;

    out->access = 0;
    if (!same_kind(links->domain, domain) || (!length && size != last->size) ||
        !token_is_like(bytes, size, last, &segment))
        return link_in_full(domain, bytes, size, links, out, length);
    out->base = segment.base;
    out->key = segment.key;
    out->access = last->access;
    out->holder = NULL;
    if (length)
        *length = last->size;
    return 0;
}

void remote_unlink(const struct remote_link *link)
{
    struct hmreg_domain *holder = link->holder;

    if (!holder)
        return;
    if (!domain_is_lost(holder))
        holder->ops.unmap_raw(holder->self, link->key);
    atomic_fetch_sub(&holder->mapped_keys, 1);
}

/* ---- queries ---------------------------------------------------------------------------- */

int hmreg_remote_query(const struct hmreg_remote *remote, struct hmreg_remote_info *out)
{
    struct hmreg_remote_info info = {0};
    int rc = validate_pointer(remote, "remote");

    rc = rc ? rc : domain_check(remote->domain);
    rc = rc ? rc : validate_out(out, sizeof(info), "struct hmreg_remote_info");
    if (rc)
        return rc;
    info.len = remote->len;
    info.access = remote->access;
    info.segments = remote->segments;
    info.iface = (enum hmreg_iface)remote->iface;
    validate_copy_out(out, &info, sizeof(info));
    return 0;
}

int hmreg_remote_flatten(const struct hmreg_remote *remote, struct hmreg_remote_flat *out)
{
    int rc = validate_pointer(remote, "remote");

    rc = rc ? rc : domain_check(remote->domain);
    rc = rc ? rc : validate_pointer(out, "out");
    if (!rc && remote->segments > 1)
        rc = hmreg_fail(-EXDEV,
                        "the region has %u segments, each with its address and key: use "
                        "hmreg_remote_addr()",
                        remote->segments);
    if (rc)
        return rc;
    *out = (struct hmreg_remote_flat){remote->segment[0].base, remote->len, remote->segment[0].key};
    return 0;
}

static int check_place(const struct hmreg_remote *remote, uint64_t offset, size_t len)
{
    if (!len)
        return hmreg_fail(-EINVAL, "len is 0; it must be at least 1");
    if (offset >= remote->len || len > remote->len - offset)
        return hmreg_fail(-ERANGE,
                          "offset %" PRIu64 " + len %zu is outside the region of %" PRIu64 " bytes",
                          offset, len, remote->len);
    return 0;
}

/* The segment that has the byte at an offset inside the region: the first one that ends after
 * it. */
static unsigned find_segment(const struct hmreg_remote *remote, uint64_t offset)
{
    unsigned from = 0, to = remote->segments - 1u;

    while (from < to) {
        unsigned middle = (from + to) / 2;

        if (remote->segment[middle].end > offset)
            to = middle;
        else
            from = middle + 1;
    }
    return from;
}

/* Bytes after the first segment, and all errors. */
static __attribute__((noinline)) int find_addr(const struct hmreg_remote *remote, uint64_t offset,
                                               size_t len, uint64_t *addr, uint64_t *key)
{
    const struct remote_segment *segment;
    uint64_t begins;
    int rc = domain_check(remote->domain);

    rc = rc ? rc : validate_pointer(addr, "addr");
    rc = rc ? rc : validate_pointer(key, "key");
    rc = rc ? rc : check_place(remote, offset, len);
    if (rc)
        return rc;
    segment = &remote->segment[find_segment(remote, offset)];
    begins = segment == remote->segment ? 0 : segment[-1].end;
    if (len > segment->end - offset)
        return hmreg_fail(
            -EXDEV,
            "offset %" PRIu64
            " + len %zu crosses the border of two segments: split it at offset %" PRIu64,
            offset, len, segment->end);
    /* NOLINTBEGIN(clang-analyzer-core.NullDereference): checked by validate_pointer() */
    *addr = segment->base + (offset - begins);
    *key = segment->key;
    /* NOLINTEND(clang-analyzer-core.NullDereference) */
    return 0;
}

int hmreg_remote_addr(const struct hmreg_remote *remote, uint64_t offset, size_t len,
                      uint64_t *addr, uint64_t *key)
{
    const struct remote_segment *first;

    if (!remote)
        return hmreg_fail(-EINVAL, "remote is NULL");
    first = remote->segment;
    /* A len of 0 wraps, which saves a comparison. */
    if (!addr || !key || len - 1 >= first->end || offset > first->end - len ||
        !process_is(remote->domain->lib->epoch))
        return find_addr(remote, offset, len, addr, key);
    *addr = first->base + offset;
    *key = first->key;
    return 0;
}
