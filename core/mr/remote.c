/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Both ends of a token: the owner of a region packs it, a peer opens it. The token has the
 * addresses and keys that the peer's RMA calls must use. They follow from the owner's mr_mode and
 * path, so the peer needs to know neither.
 */
#include "core/base/error.h"
#include "core/base/validate.h"
#include "core/context/group.h"
#include "core/context/rails_token.h"
#include "core/context/token.h"
#include "core/mr/mr.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct hmreg_remote {
    struct hmreg_domain *domain;
    void *priv;            /* the provider's */
    unsigned mapped_count; /* raw keys mapped so far */
    uint64_t mapped[TOKEN_MAX_SEGMENTS];
    struct token token;
};

/* ---- packing ---------------------------------------------------------------------------- */

/* With HMREG_MR_VIRT_ADDR each range is a segment with its own address, unless the caller chose the
 * address; else all ranges together are one segment that starts at 0. */
static void add_segments(const struct hmreg_mr *mr, struct token *token)
{
    uint64_t key = mr_now(mr).key;
    uint64_t base = mr_has_iova(mr) ? mr->more->iova : 0;

    if (mr_has_iova(mr) || !(mr->domain->caps.mr_mode & HMREG_MR_VIRT_ADDR)) {
        token->segment[token->segments++] = (struct token_segment){base, mr_len(mr), key};
        return;
    }
    for (size_t i = 0; i < mr_count(mr); i++)
        token->segment[token->segments++] = (struct token_segment){
            (uint64_t)(uintptr_t)mr_iov(mr, i).iov_base, mr_iov(mr, i).iov_len, key};
}

/* Adds the segments of one registration and, if keys are raw, its key's bytes. */
static int add_registration(const struct hmreg_mr *mr, unsigned index, struct token *token)
{
    const struct hmreg_domain *domain = mr->domain;
    unsigned first = token->segments;
    size_t size = sizeof(token->raw) - token->raw_size;
    uint64_t base = 0;
    int rc;

    add_segments(mr, token);
    if (!(domain->caps.mr_mode & HMREG_MR_RAW))
        return 0;
    rc = domain->ops.raw_key(domain->self, &mr->made, &base, token->raw + token->raw_size, &size);
    if (rc)
        return rc;
    token->raw_size = (uint16_t)(token->raw_size + size);
    token->segment[first].base = base;
    for (unsigned i = first; i < token->segments; i++)
        token->segment[i].key = index;
    return 0;
}

static int add_registrations(const struct hmreg_mr *mr, struct token *token)
{
    int rc = 0;

    if (!mr_pieces(mr))
        return add_registration(mr, 0, token);
    for (unsigned i = 0; i < mr_count(mr) && !rc; i++)
        rc = add_registration(mr_pieces(mr)[i], i, token);
    return rc;
}

static int describe(const struct hmreg_mr *mr, struct token *token)
{
    const struct hmreg_domain *domain = mr->domain;
    size_t address_size = sizeof(token->address);
    int rc;

    memset(token, 0, sizeof(*token));
    strncpy(token->provider, domain->ops.name, sizeof(token->provider) - 1);
    token->iface = mr->iface;
    token->len = mr_len(mr);
    token->access = mr->access & HMREG_ACCESS_REMOTE;
    rc = add_registrations(mr, token);
    if (!rc)
        rc = domain->ops.address(domain->self, token->address, &address_size);
    if (!rc)
        token->address_size = (uint16_t)address_size;
    return rc;
}

static int check_pack(const struct hmreg_mr *mr, const void *buf, const size_t *size)
{
    int rc = mr_check(mr);

    rc = rc ? rc : validate_pointer(size, "size");
    if (rc)
        return rc;
    if (!buf && *size)
        return hmreg_fail(-EINVAL, "buf is NULL, size is %zu", *size);
    if (!(mr->access & HMREG_ACCESS_REMOTE))
        return hmreg_fail(-EACCES, "the region has no remote access: register it with "
                                   "HMREG_REMOTE_READ or HMREG_REMOTE_WRITE");
    return mr_check_complete(mr);
}

/* The sizes of the rails' tokens; 0 where there is no rail. */
static int size_rails(const struct hmreg_mr *mr, size_t *sizes)
{
    struct hmreg_error_guard guard;
    int rc = 0;

    hmreg_error_guard(&guard);
    for (size_t i = 0; i < mr->domain->group->count && !rc; i++) {
        sizes[i] = 0;
        if (mr_rails(mr)[i])
            rc = hmreg_mr_pack(mr_rails(mr)[i], NULL, &sizes[i]);
        rc = rc == -HMREG_ETOOSMALL ? 0 : rc;
    }
    hmreg_error_unguard(&guard, !rc);
    return rc;
}

/* A group's region: one token with those of its rails. */
static int pack_rails(const struct hmreg_mr *mr, uint8_t *buf, size_t *size)
{
    size_t sizes[HMREG_GROUP_MAX], count = mr->domain->group->count, needed;
    int rc = size_rails(mr, sizes);
    uint8_t *at;

    if (rc)
        return rc;
    needed = rails_token_size(sizes, count);
    if (*size < needed) {
        rc = hmreg_fail(-HMREG_ETOOSMALL, "the token takes %zu bytes, size is %zu", needed, *size);
        *size = needed;
        return rc;
    }
    at = rails_token_begin(buf, sizes, count);
    for (size_t i = 0; i < count && !rc; at += sizes[i++])
        if (sizes[i])
            rc = hmreg_mr_pack(mr_rails(mr)[i], at, &sizes[i]);
    if (rc)
        return rc;
    rails_token_end(buf, needed);
    *size = needed;
    return 0;
}

int hmreg_mr_pack(const struct hmreg_mr *mr, void *buf, size_t *size)
{
    struct token token;
    size_t needed;
    int rc = check_pack(mr, buf, size);

    if (!rc && mr_rails(mr))
        return pack_rails(mr, buf, size);
    if (rc)
        return rc;
    rc = describe(mr, &token);
    if (rc)
        return rc;
    needed = token_size(&token);
    if (*size < needed) {
        rc = hmreg_fail(-HMREG_ETOOSMALL, "the token takes %zu bytes, size is %zu", needed, *size);
        *size = needed;
        return rc;
    }
    token_write(&token, buf);
    *size = needed;
    return 0;
}

/* ---- opening ---------------------------------------------------------------------------- */

static void unmap_keys(struct hmreg_remote *remote)
{
    while (remote->mapped_count)
        remote->domain->ops.unmap_key(remote->domain->self, remote->mapped[--remote->mapped_count]);
}

/* Maps the raw keys, and replaces each segment's index of a raw key by the mapped key. */
static int map_keys(struct hmreg_remote *remote)
{
    struct hmreg_domain *domain = remote->domain;
    struct token *token = &remote->token;
    uint64_t last = 0;
    size_t bytes;

    for (unsigned i = 0; i < token->segments; i++)
        if (token->segment[i].key > last)
            last = token->segment[i].key;
    if (last >= TOKEN_MAX_SEGMENTS || token->raw_size % (last + 1))
        return hmreg_fail(-EBADMSG, "token: its raw keys are not what its segments say");
    bytes = token->raw_size / (last + 1);
    while (remote->mapped_count <= last) {
        unsigned i = remote->mapped_count;
        int rc = domain->ops.map_key(domain->self, token->segment[i].base, token->raw + i * bytes,
                                     bytes, &remote->mapped[i]);

        if (rc) {
            unmap_keys(remote);
            return rc;
        }
        remote->mapped_count++;
    }
    for (unsigned i = 0; i < token->segments; i++)
        token->segment[i].key = remote->mapped[token->segment[i].key];
    return 0;
}

static int open_token(struct hmreg_remote *remote)
{
    struct hmreg_domain *domain = remote->domain;
    const struct token *token = &remote->token;
    int rc;

    if (strcmp(token->provider, domain->ops.name))
        return hmreg_fail(-EXDEV, "token: made by a %s domain, this is a %s domain",
                          token->provider, domain->ops.name);
    if (!token->raw_size != !(domain->caps.mr_mode & HMREG_MR_RAW))
        return hmreg_fail(-EXDEV, "token: %s raw keys, this domain has %s (HMREG_MR_RAW)",
                          token->raw_size ? "with" : "without", token->raw_size ? "none" : "them");
    rc = token->raw_size ? map_keys(remote) : 0;
    if (rc)
        return rc;
    rc = domain->ops.remote_open(domain->self, token->address, token->address_size, &remote->priv);
    if (rc)
        unmap_keys(remote);
    return rc;
}

int hmreg_remote_open(struct hmreg_domain *domain, const void *token, size_t size,
                      struct hmreg_remote **out)
{
    struct hmreg_remote *remote = NULL;
    int rc = domain_check(domain);

    rc = rc ? rc : validate_pointer(token, "token");
    rc = rc ? rc : validate_pointer(out, "remote");
    if (!rc && domain->group)
        rc = hmreg_fail(-EINVAL, "domain is a group: use hmreg_remote_open_rails()");
    if (!rc && rails_token_is(token, size))
        rc = hmreg_fail(-EXDEV, "token: of a group's region: find that of a rail by "
                                "hmreg_token_rail()");
    if (rc)
        return rc;
    remote = calloc(1, sizeof(*remote));
    if (!remote)
        return hmreg_fail(-ENOMEM, "no memory for a remote");
    remote->domain = domain;
    rc = token_read(token, size, &remote->token);
    rc = rc ? rc : open_token(remote);
    if (rc) {
        free(remote);
        return rc;
    }
    atomic_fetch_add(&domain->remotes, 1);
    *out = remote;
    return 0;
}

void hmreg_remote_close(struct hmreg_remote *remote)
{
    if (!remote || domain_check(remote->domain))
        return;
    remote->domain->ops.remote_close(remote->domain->self, remote->priv);
    unmap_keys(remote);
    atomic_fetch_sub(&remote->domain->remotes, 1);
    free(remote);
}

void *hmreg_remote_priv(const struct hmreg_remote *remote, const char *provider_name)
{
    return remote && !strcmp(remote->domain->ops.name, provider_name) ? remote->priv : NULL;
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
    info.len = remote->token.len;
    info.access = remote->token.access;
    info.segments = remote->token.segments;
    info.iface = remote->token.iface;
    validate_copy_out(out, &info, sizeof(info));
    return 0;
}

static int check_place(const struct hmreg_remote *remote, uint64_t offset, size_t len)
{
    if (!len)
        return hmreg_fail(-EINVAL, "len is 0; it must be at least 1");
    if (offset >= remote->token.len || len > remote->token.len - offset)
        return hmreg_fail(-ERANGE,
                          "offset %" PRIu64 " + len %zu is outside the region of %" PRIu64 " bytes",
                          offset, len, remote->token.len);
    return 0;
}

int hmreg_remote_addr(const struct hmreg_remote *remote, uint64_t offset, size_t len,
                      uint64_t *addr, uint64_t *key)
{
    const struct token_segment *segment;
    uint64_t begins = 0;
    int rc = validate_pointer(remote, "remote");

    rc = rc ? rc : domain_check(remote->domain);
    rc = rc ? rc : validate_pointer(addr, "addr");
    rc = rc ? rc : validate_pointer(key, "key");
    rc = rc ? rc : check_place(remote, offset, len);
    if (rc)
        return rc;
    for (segment = remote->token.segment; offset - begins >= segment->len; segment++)
        begins += segment->len;
    if (len > segment->len - (offset - begins))
        return hmreg_fail(-EXDEV,
                          "offset %" PRIu64 " + len %zu runs over two segments: split it "
                          "at offset %" PRIu64,
                          offset, len, begins + segment->len);
    *addr = segment->base + (offset - begins);
    *key = segment->key;
    return 0;
}
