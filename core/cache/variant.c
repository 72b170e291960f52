/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See variant.h.
 */
#include "core/cache/variant.h"

#include "core/base/dmabuf.h"
#include "core/base/error.h"
#include "core/explicit/origin.h"

#include <errno.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>

/* Lists of so many segments are compared without an allocation. */
#define FEW_SEGMENTS 8

/* ---- keys ------------------------------------------------------------------------------- */

/* Is the claim part of the key? Not part of the key: a checked claim about memory, and a trusted
 * claim of the system's; they are compared with each region that is found (entry_is_claimed()).
 * Part of it, because it decides what the memory is: a claim about a dmabuf, of an iface without a
 * runtime, or a trusted claim of an iface. A claim about a list applies to each segment. */
static bool has_claim(const struct hmreg_mr_attr *attr, bool list)
{
    if (attr->claim_iface == HMREG_CLAIM_NONE)
        return false;
    return attr->dmabuf || list || claim_is_foreign(attr->iface) ||
           (attr->claim_iface == HMREG_CLAIM_TRUSTED && attr->iface != HMREG_IFACE_SYSTEM);
}

/* Clears the fields that are not part of the key. All other fields are part of it, including fields
 * added later: treat a pointer like auth_key, dmabuf and endpoints. */
static void clear_others(struct hmreg_mr_attr *attr, bool list)
{
    size_t padding = offsetof(struct hmreg_mr_attr, device) + sizeof(attr->device);
    size_t end = offsetof(struct hmreg_mr_attr, claim_kind) + sizeof(attr->claim_kind);
    size_t policy = offsetof(struct hmreg_mr_attr, policy);

    /* The policy is the entry's. */
    memset((char *)attr + policy, 0, sizeof(*attr) - policy);
    attr->size = 0;
    attr->iov = NULL; /* the range is searched by address */
    attr->iov_count = 0;
    attr->access = 0;
    attr->requested_key = 0; /* or HMREG_KEY_ANY, which means the same */
    attr->context = NULL;
    attr->auth_key = NULL;
    memset((char *)attr + padding, 0, offsetof(struct hmreg_mr_attr, dmabuf) - padding);
    memset((char *)attr + end, 0, offsetof(struct hmreg_mr_attr, endpoints) - end);
    attr->endpoint = NULL;
    attr->endpoints = NULL;
    attr->endpoint_count = 0;
    attr->segments = NULL; /* the variant has a list; segment_count says that it is not an iov's */
    if (!has_claim(attr, list)) {
        if (attr->claim_iface == HMREG_CLAIM_TRUSTED)
            attr->claim_base = attr->claim_len = 0;
        attr->claim_iface = HMREG_CLAIM_NONE;
        attr->iface = HMREG_IFACE_SYSTEM;
        attr->device = 0;
    }
    attr->dmabuf = NULL;
}

static bool fill_key(struct variant_key *key, const struct attributes *attributes,
                     const struct layout *list, uint64_t flags)
{
    const struct hmreg_mr_attr *attr = &attributes->attr;
    const struct request *request = &attributes->request;
    bool identified = true;

    memset(key, 0, sizeof(*key));
    memcpy(&key->attr, attr, sizeof(*attr));
    clear_others(&key->attr, list);
    key->count = list ? list->ranges.count : 0;
    if (attr->set_iova &&
        !list) /* regions that give a byte the same address serve each other's gets */
        key->attr.iova -= (uint64_t)(uintptr_t)request->iov->iov_base;
    if (request->endpoints)
        key->attr.endpoint_count = attr->endpoints ? attr->endpoint_count : 1;
    key->flags = flags;
    if (attr->dmabuf) {
        identified = attributes->file.identified;
        key->dev = identified ? attributes->file.dev : 0;
        key->ino = identified ? attributes->file.ino : 0;
        key->base = (uint64_t)(uintptr_t)attr->dmabuf->base_addr;
    }
    return identified;
}

static bool fill_segment(struct variant_segment *segment, const struct iovec *iov,
                         const struct hmreg_mr_dmabuf *dmabuf)
{
    struct dmabuf_file file;

    segment->start = (uint64_t)(uintptr_t)iov->iov_base;
    segment->end = segment->start + iov->iov_len;
    segment->dev = segment->ino = segment->base = 0;
    if (!dmabuf)
        return true;
    segment->base = (uint64_t)(uintptr_t)dmabuf->base_addr;
    if (!dmabuf_look(dmabuf->fd, &file) || !file.identified)
        return false;
    segment->dev = file.dev;
    segment->ino = file.ino;
    return true;
}

/* False: a dmabuf has no identity. */
static bool fill_segments(struct variant_segment *segments, uint64_t *len,
                          const struct layout *list)
{
    bool identified = true;

    *len = 0;
    for (size_t i = 0; i < list->ranges.count; i++) {
        identified &= fill_segment(&segments[i], &list->ranges.iov[i],
                                   list->dmabufs ? list->dmabufs[i] : NULL);
        *len += list->ranges.iov[i].iov_len;
    }
    return identified;
}

/* Byte by byte: no byte of a key is undefined. */
static int compare_keys(const struct variant_key *a, const struct variant_key *b)
{
    const unsigned char *one = (const unsigned char *)a, *other = (const unsigned char *)b;

    return memcmp(one, other, sizeof(*a));
}

static bool is_plain(const struct variant_key *key)
{
    static const struct variant_key plain;

    return !compare_keys(key, &plain);
}

static size_t endpoint_bytes(const struct variant *variant)
{
    return variant->key.attr.endpoint_count * sizeof(variant->endpoints[0]);
}

static size_t segment_bytes(const struct variant *variant)
{
    return variant->key.count * sizeof(variant->segments[0]);
}

/* Either may be NULL: no endpoints. */
static int compare_bytes(const void *one, const void *other, size_t count)
{
    return count ? memcmp(one, other, count) : 0;
}

static int compare(const void *one, const void *other)
{
    const struct variant *a = one, *b = other;
    int difference = compare_keys(&a->key, &b->key);

    if (!difference)
        difference = compare_bytes(a->auth_key, b->auth_key, a->key.attr.auth_key_size);
    if (!difference)
        difference = compare_bytes(a->endpoints, b->endpoints, endpoint_bytes(a));
    if (!difference)
        difference = compare_bytes(a->segments, b->segments, segment_bytes(a));
    return difference;
}

/* ---- variants --------------------------------------------------------------------------- */

void variants_open(struct variants *variants)
{
    *variants = (struct variants){.tree = NULL};
    pthread_mutex_init(&variants->lock, NULL);
}

void variants_close(struct variants *variants)
{
    pthread_mutex_destroy(&variants->lock);
}

static struct variant *copy_of(const struct variant *like)
{
    size_t auth = like->key.attr.auth_key_size, endpoints = endpoint_bytes(like);
    size_t segments = segment_bytes(like);
    struct variant *made = calloc(1, sizeof(*made) + endpoints + segments + auth);
    char *behind;

    if (!made)
        return NULL;
    behind = (char *)(made + 1);
    made->key = like->key;
    made->endpoints = (void *const *)(made + 1);
    made->segments = (const struct variant_segment *)(void *)(behind + endpoints);
    made->len = like->len;
    made->auth_key = (const uint8_t *)behind + endpoints + segments;
    if (endpoints)
        memcpy(behind, like->endpoints, endpoints);
    if (segments)
        memcpy(behind + endpoints, like->segments, segments);
    if (auth)
        memcpy(behind + endpoints + segments, like->auth_key, auth);
    return made;
}

/* Inserts a copy. NULL: no memory. */
static struct variant *insert(struct variants *variants, const struct variant *like)
{
    struct variant *made = copy_of(like);

    if (made && !tsearch(made, &variants->tree, compare)) {
        free(made);
        made = NULL;
    }
    return made;
}

/* The variant equal to `wanted`, which the caller then uses. NULL: no memory. */
static struct variant *use_like(struct variants *variants, const struct variant *wanted)
{
    struct variant *variant, **found;

    pthread_mutex_lock(&variants->lock);
    found = tfind(wanted, &variants->tree, compare);
    variant = found ? *found : insert(variants, wanted);
    variant_use(variant);
    pthread_mutex_unlock(&variants->lock);
    return variant;
}

/* As use_like(), with the list's segments. */
static struct variant *use_list(struct variants *variants, struct variant *wanted,
                                const struct layout *list, bool *identified)
{
    struct variant_segment few[FEW_SEGMENTS], *segments = few;
    struct variant *variant = NULL;

    if (list->ranges.count > FEW_SEGMENTS)
        segments = malloc(list->ranges.count * sizeof(*segments));
    if (segments) {
        *identified = fill_segments(segments, &wanted->len, list);
        wanted->segments = segments;
        variant = use_like(variants, wanted);
    }
    if (segments != few)
        free(segments);
    return variant;
}

int variant_get(struct variants *variants, const struct attributes *attributes,
                const struct layout *list, uint64_t flags, struct variant **out, bool *identified)
{
    struct variant wanted = {.auth_key = attributes->attr.auth_key,
                             .endpoints = attributes->request.endpoints};
    struct variant *variant;
    bool known = fill_key(&wanted.key, attributes, list, flags);

    if (is_plain(&wanted.key)) {
        *out = NULL;
        *identified = true;
        return 0;
    }
    variant = list ? use_list(variants, &wanted, list, &known) : use_like(variants, &wanted);
    if (!variant)
        return hmreg_fail(-ENOMEM, "hmreg has no memory for the attributes of a cached region");
    *out = variant;
    *identified = known;
    return 0;
}

const struct variant_segment *variant_touching(const struct variant *variant, uint64_t start,
                                               uint64_t end)
{
    const struct variant_segment *first = NULL;

    for (size_t i = 0; i < variant->key.count; i++) {
        const struct variant_segment *segment = &variant->segments[i];

        if (segment->start < end && start < segment->end &&
            (!first || segment->start < first->start))
            first = segment;
    }
    return first;
}

/* ---- origins ---------------------------------------------------------------------------- */

/* A segment of a caller's dmabuf has the number of its inode, or an address of its base. */
static struct hmreg_segment segment_of(const struct variant_segment *segment)
{
    uint64_t len = segment->end - segment->start;
    struct hmreg_segment made = {.kind = HMREG_SEGMENT_MEMORY};

    if (!segment->ino && !segment->base) {
        made.u.memory = (struct iovec){(void *)(uintptr_t)segment->start, (size_t)len};
        return made;
    }
    made.kind = HMREG_SEGMENT_DMABUF;
    made.u.dmabuf = (struct hmreg_mr_dmabuf){.fd = -1,
                                             .base_addr = (void *)(uintptr_t)segment->base,
                                             .offset = segment->start - segment->base,
                                             .len = (size_t)len};
    return made;
}

static struct origin *list_origin(const struct variant *variant, struct request *request)
{
    size_t count = variant->key.count;
    struct hmreg_segment *segments = calloc(count, sizeof(*segments));
    struct iovec *iov = calloc(count, sizeof(*iov));
    struct origin *origin = NULL;

    for (size_t i = 0; segments && iov && i < count; i++) {
        segments[i] = segment_of(&variant->segments[i]);
        iov[i] = segments[i].u.memory;
    }
    request->iov = iov;
    request->count = count;
    if (segments && iov)
        origin = origin_new(request, variant->key.attr.segment_count ? segments : NULL,
                            variant->key.attr.segment_count);
    free(segments);
    free(iov);
    return origin;
}

static struct request request_of(const struct variant *variant, const struct hmreg_mr *entry)
{
    const struct hmreg_mr_attr *attr = &variant->key.attr;
    struct request request = attributes_request(attr, variant->key.flags);

    request.access = mr_body(entry)->access;
    request.any_key = true;
    if (mr_body(entry)->claimed)
        request.claim = claim_of_system();
    request.context = hmreg_mr_context(entry);
    request.auth_key = variant->auth_key;
    request.endpoints = attr->endpoint_count ? variant->endpoints : NULL;
    return request;
}

struct origin *variant_origin(const struct variant *variant, const struct hmreg_mr *entry)
{
    static const struct variant none;
    uint64_t max_len = entry->domain->caps.max_len, start = entry->node.start;
    struct iovec range = {(void *)(uintptr_t)start, (size_t)(entry->node.end - start)};
    struct request request = request_of(variant ? variant : &none, entry);
    struct hmreg_mr_dmabuf dmabuf;
    struct origin *origin;

    if (variant && variant->key.count)
        return list_origin(variant, &request);
    request.iov = &range;
    request.count = 1;
    if (request.options.set_iova)
        request.options.iova += start;
    if (variant && (variant->key.flags & HMREG_REG_DMABUF)) {
        dmabuf = (struct hmreg_mr_dmabuf){.fd = -1,
                                          .base_addr = (void *)(uintptr_t)variant->key.base,
                                          .offset = start - variant->key.base,
                                          .len = range.iov_len};
        request.dmabuf = &dmabuf;
    }
    origin = origin_new(&request, NULL, 0);
    if (origin && range.iov_len > max_len)
        origin->piece_len = layout_longest(max_len);
    return origin;
}

int variant_complete(struct hmreg_mr *entry, bool by_replacement)
{
    struct origin *origin = variant_origin(mr_body(entry)->variant, entry);
    int rc = origin_complete(origin, entry, by_replacement);

    free(origin);
    return rc;
}

void variant_use(struct variant *variant)
{
    if (variant)
        atomic_fetch_add(&variant->users, 1);
}

void variant_put(struct variants *variants, struct variant *variant)
{
    unsigned users = variant ? atomic_load(&variant->users) : 0;

    while (users > 1 && !atomic_compare_exchange_weak(&variant->users, &users, users - 1))
        ;
    if (users != 1) /* others use it, for instance the entry of a hit; or it is NULL */
        return;
    pthread_mutex_lock(&variants->lock);
    if (atomic_fetch_sub(&variant->users, 1) == 1) {
        tdelete(variant, &variants->tree, compare);
        free(variant);
    }
    pthread_mutex_unlock(&variants->lock);
}
