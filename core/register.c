/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See register.h. Paths are tried in the domain's order; each that is refused leaves its reason,
 * and the first that works is taken. Nothing is remembered of a refusal beyond the region it
 * belongs to: one failing device never changes what is tried for another.
 */
#include "core/register.h"

#include "core/error.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define KEY_TRIES 64

/* ---- resolve ---------------------------------------------------------------------------- */

static int check_claim(const struct request *request, const struct resolved *found)
{
    const struct hmem_range *range = &found->range;

    if (request->claimed && request->claimed_iface != found->iface)
        return hmreg_fail(-EINVAL, "iface: the caller says %s, the memory is %s",
                          hmreg_iface_name(request->claimed_iface), hmreg_iface_name(found->iface));
    if (request->claimed && request->claimed_device != HMREG_DEVICE_ANY &&
        request->claimed_device != range->device)
        return hmreg_fail(-EINVAL, "device: the caller says %d, the memory is on %d",
                          request->claimed_device, range->device);
    if ((request->flags & HMREG_HMEM_DEVICE_ONLY) && range->kind != HMREG_MEM_DEVICE)
        return hmreg_fail(-EINVAL, "HMREG_HMEM_DEVICE_ONLY: the memory's kind is %s",
                          hmreg_mem_kind_name(range->kind));
    if ((request->flags & HMREG_HMEM_HOST_ALLOC) && range->kind != HMREG_MEM_HOST_PINNED)
        return hmreg_fail(-EINVAL, "HMREG_HMEM_HOST_ALLOC: the memory's kind is %s",
                          hmreg_mem_kind_name(range->kind));
    return 0;
}

static int check_same(const struct resolved *first, const struct resolved *other, size_t index)
{
    if (first->iface == other->iface && first->range.device == other->range.device &&
        first->range.kind == other->range.kind)
        return 0;
    return hmreg_fail(-EINVAL,
                      "iov[%zu] is %s memory of %s device %d, iov[0] is %s memory of %s device %d; "
                      "one region has one kind",
                      index, hmreg_mem_kind_name(other->range.kind), hmreg_iface_name(other->iface),
                      other->range.device, hmreg_mem_kind_name(first->range.kind),
                      hmreg_iface_name(first->iface), first->range.device);
}

/* A caller's descriptor: what it is of, as far as its address or the caller tells. */
static void resolve_dmabuf(struct hmreg_domain *domain, const struct request *request,
                           struct resolved *found)
{
    uint64_t addr = (uint64_t)(uintptr_t)request->iov[0].iov_base;
    struct hmreg_error before;
    struct resolved known;

    *found = (struct resolved){.iface = HMREG_IFACE_SYSTEM,
                               .range = {.device = -1, .kind = HMREG_MEM_DEVICE, .segments = 1}};
    if (request->claimed) {
        found->iface = request->claimed_iface;
        found->range.device = request->claimed_device;
    }
    hmreg_error_save(&before);
    if (request->dmabuf->base_addr &&
        resolve(domain->lib, addr, request->iov[0].iov_len, &known) == 0 &&
        known.iface != HMREG_IFACE_SYSTEM)
        *found = known;
    hmreg_error_restore(&before);
    found->range.kind = HMREG_MEM_DEVICE;
}

int request_resolve(struct hmreg_domain *domain, const struct request *request,
                    struct resolved *found)
{
    bool must_exist = domain->caps.mr_mode & HMREG_MR_ALLOCATED;

    if (request->dmabuf) {
        resolve_dmabuf(domain, request, found);
        return check_claim(request, found);
    }
    for (size_t i = 0; i < request->count; i++) {
        uint64_t addr = (uint64_t)(uintptr_t)request->iov[i].iov_base;
        int rc = (must_exist ? resolve_fully : resolve)(domain->lib, addr, request->iov[i].iov_len,
                                                        &found[i]);

        rc = rc ? rc : check_claim(request, &found[i]);
        rc = rc ? rc : check_same(&found[0], &found[i], i);
        if (rc)
            return rc;
    }
    return 0;
}

/* ---- one path --------------------------------------------------------------------------- */

/* One registration on its way. */
struct attempt {
    struct hmreg_domain *domain;
    const struct request *request;
    const struct resolved *found; /* request->count of them */
    struct hmreg_mr *mr;          /* being filled */
    uint64_t key;
    struct hmreg_reason why; /* of the path being tried; why.code 0: not refused */
};

static int call_provider(struct attempt *attempt, const struct hmreg_dmabuf *dmabuf)
{
    const struct request *request = attempt->request;
    struct hmreg_domain *domain = attempt->domain;
    struct provider_request below = {
        .path = attempt->why.path,
        .iov = attempt->mr->iov,
        .count = request->count,
        .access = request->access,
        .requested_key = attempt->key,
        .flags = request->flags,
        .iface = attempt->found->iface,
        .device = attempt->found->range.device,
        .dmabuf = dmabuf,
        .context = request->context,
        .auth_key_size = request->auth_key_size,
        .auth_key = request->auth_key,
        .hmem_data = request->hmem_data,
        .page_size = request->page_size,
    };

    return domain->ops.reg(domain->self, &below, &attempt->mr->made, &attempt->why);
}

/* Takes the thread's last error as the reason, where the part that failed is a vendor. */
static int refuse_as_last_error(struct attempt *attempt, int code, const char *slug)
{
    const struct hmreg_error *error = hmreg_last_error();

    attempt->why.vendor_code = error->vendor_code;
    return hmreg_refuse(&attempt->why, code, slug, "%s", error->text);
}

/* A descriptor for a range, given back with unexport(). The caller's own is lent as it is. */
static int export_range(struct attempt *attempt, size_t index, struct hmreg_dmabuf *out)
{
    const struct hmreg_mr_dmabuf *given = attempt->request->dmabuf;
    struct runtime *runtime = context_runtime(attempt->domain->lib, attempt->found->iface);
    const struct iovec *iov = &attempt->request->iov[index];
    int rc;

    if (given) {
        *out =
            (struct hmreg_dmabuf){.fd = given->fd, .offset = given->offset, .length = given->len};
        return 0;
    }
    rc = runtime->ops->export_dmabuf(runtime->self, (uint64_t)(uintptr_t)iov->iov_base,
                                     iov->iov_len, &attempt->found[index].range, out);
    return rc ? refuse_as_last_error(attempt, rc, "no-dmabuf-export") : 0;
}

/* What was imported or mapped holds its own reference. */
static void unexport(const struct attempt *attempt, const struct hmreg_dmabuf *dmabuf)
{
    if (!attempt->request->dmabuf)
        close(dmabuf->fd);
}

static int try_dmabuf(struct attempt *attempt)
{
    struct hmreg_dmabuf dmabuf;
    int rc;

    if (attempt->request->count > 1)
        return hmreg_refuse(&attempt->why, -EOPNOTSUPP, "one-range-only",
                            "a dmabuf registration takes one range, not %zu",
                            attempt->request->count);
    rc = export_range(attempt, 0, &dmabuf);
    if (rc)
        return rc;
    rc = call_provider(attempt, &dmabuf);
    unexport(attempt, &dmabuf);
    return rc;
}

static int map_range(struct attempt *attempt, size_t index)
{
    struct mapping *mapping = &attempt->mr->mappings[index];
    struct hmreg_dmabuf dmabuf;
    int rc = export_range(attempt, index, &dmabuf);

    if (rc)
        return rc;
    rc = mapping_open(&dmabuf, mapping, &attempt->why);
    unexport(attempt, &dmabuf);
    if (!rc)
        attempt->mr->iov[index].iov_base = (void *)(uintptr_t)mapping->addr;
    return rc;
}

static void unmap_ranges(struct hmreg_mr *mr)
{
    for (size_t i = 0; mr->mappings && i < mr->count; i++)
        mapping_close(&mr->mappings[i]);
    free(mr->mappings);
    mr->mappings = NULL;
}

static int try_mapped(struct attempt *attempt)
{
    struct hmreg_mr *mr = attempt->mr;
    int rc = 0;

    mr->mappings = calloc(mr->count, sizeof(*mr->mappings));
    if (!mr->mappings)
        return hmreg_fail(-ENOMEM, "no memory for a mapping");
    for (size_t i = 0; i < mr->count && !rc; i++)
        rc = map_range(attempt, i);
    if (!rc)
        rc = call_provider(attempt, NULL);
    if (rc) {
        unmap_ranges(mr);
        memcpy(mr->iov, attempt->request->iov, mr->count * sizeof(*mr->iov));
    }
    return rc;
}

/* Host memory by the CPU's address, which for registered host memory may differ from the
 * device's. Managed memory moves, so only a fabric that reads it with the CPU follows it. */
static int try_system(struct attempt *attempt)
{
    const struct resolved *found = attempt->found;
    struct hmreg_domain *domain = attempt->domain;

    if (found->range.kind == HMREG_MEM_MANAGED &&
        domain->ops.can(domain->self, HMREG_PATH_MAPPED, found->iface, found->range.device,
                        &attempt->why))
        return hmreg_refuse(&attempt->why, -EOPNOTSUPP, "managed-memory-migrates",
                            "managed memory moves between host and device, and %s cannot follow "
                            "it: use device or pinned host memory",
                            domain->caps.fabric);
    for (size_t i = 0; i < attempt->request->count; i++) {
        if (!found[i].range.host_addr)
            return hmreg_refuse(&attempt->why, -EOPNOTSUPP, "no-cpu-address",
                                "this host memory of %s is mapped for devices only: have it mapped "
                                "for the CPU as well",
                                hmreg_iface_name(found[i].iface));
        attempt->mr->iov[i].iov_base = (void *)(uintptr_t)found[i].range.host_addr;
    }
    return call_provider(attempt, NULL);
}

static int try_path(struct attempt *attempt, enum hmreg_path path)
{
    struct hmreg_domain *domain = attempt->domain;
    int rc = 0;

    attempt->why = (struct hmreg_reason){.path = path};
    if (path != HMREG_PATH_SYSTEM)
        rc = domain->ops.can(domain->self, path, attempt->found->iface,
                             attempt->found->range.device, &attempt->why);
    if (rc)
        return rc;
    switch (path) {
    case HMREG_PATH_SYSTEM:
        return try_system(attempt);
    case HMREG_PATH_DMABUF:
        return try_dmabuf(attempt);
    case HMREG_PATH_PEERMEM:
        return call_provider(attempt, NULL);
    default:
        return try_mapped(attempt);
    }
}

/* ---- all paths -------------------------------------------------------------------------- */

static const enum hmreg_path *candidates(const struct attempt *attempt)
{
    static const enum hmreg_path host[] = {HMREG_PATH_SYSTEM, HMREG_PATH_NONE};

    return attempt->found->range.kind == HMREG_MEM_DEVICE ? attempt->domain->order : host;
}

/* A caller's descriptor may be of memory whose address we do not have. */
static bool applies(const struct attempt *attempt, enum hmreg_path path)
{
    return !(attempt->request->dmabuf && path == HMREG_PATH_PEERMEM);
}

static int note_refusal(struct attempt *attempt)
{
    struct hmreg_mr *mr = attempt->mr;

    if (!mr->reasons) {
        mr->reasons = calloc(HMREG_PATH_COUNT - 1, sizeof(*mr->reasons));
        if (!mr->reasons)
            return hmreg_fail(-ENOMEM, "no memory for the reasons of a region's path");
    }
    mr->reasons[mr->refused++] = attempt->why;
    return 0;
}

/* Was a path refused only because no single descriptor names the range? */
static bool takes_several(const struct attempt *attempt)
{
    const struct hmreg_mr *mr = attempt->mr;

    if (attempt->request->dmabuf || mr->count > 1 || attempt->found->range.segments < 2)
        return false;
    for (uint32_t i = 0; i < mr->refused; i++)
        if (mr->reasons[i].code == -EXDEV)
            return true;
    return false;
}

/* Every path refused: host memory has one path and its own error; device memory's reasons are
 * for hmreg_explain(). */
static int all_refused(struct attempt *attempt)
{
    const struct hmreg_mr *mr = attempt->mr;
    const struct hmreg_reason *first = mr->reasons;

    if (!first)
        return hmreg_fail(-EOPNOTSUPP, "config->order of this domain has no path that a caller's "
                                       "dmabuf can take");
    explain_keep(mr->iface, mr->device, mr->reasons, mr->refused);
    if (mr->refused == 1 && first->path == HMREG_PATH_SYSTEM)
        return hmreg_fail_vendor(first->code, attempt->domain->ops.name, first->vendor_code, NULL,
                                 "%s", first->text);
    hmreg_fail(-EOPNOTSUPP, "no path to this %s memory on %s; %s: %s", hmreg_iface_name(mr->iface),
               attempt->domain->caps.fabric, hmreg_path_name(mr->reasons[mr->refused - 1].path),
               mr->reasons[mr->refused - 1].text);
    return takes_several(attempt) ? -EXDEV : -EOPNOTSUPP;
}

static int try_paths(struct attempt *attempt)
{
    const enum hmreg_path *path = candidates(attempt);
    int rc;

    attempt->mr->refused = 0; /* with another key all paths are tried again */
    for (; *path != HMREG_PATH_NONE; path++) {
        if (!applies(attempt, *path))
            continue;
        rc = try_path(attempt, *path);
        if (rc == 0) {
            attempt->mr->path = *path;
            return 0;
        }
        if (!attempt->why.code) /* not this path's refusal: an error of the request */
            return rc;
        rc = note_refusal(attempt);
        if (rc)
            return rc;
    }
    return all_refused(attempt);
}

/* ---- keys ------------------------------------------------------------------------------- */

/* Are keys of this request ours to keep unique? */
static bool wants_key(const struct attempt *attempt)
{
    const struct provider_caps *caps = &attempt->domain->caps;

    return ((attempt->request->access & HMREG_ACCESS_REMOTE) || caps->local_keys) &&
           !(caps->mr_mode & HMREG_MR_PROV_KEY);
}

/* Ours to choose? A caller's choice means nothing where no peer will use it. */
static bool any_key(const struct attempt *attempt)
{
    return attempt->request->any_key || !(attempt->request->access & HMREG_ACCESS_REMOTE);
}

static int take_key(struct attempt *attempt)
{
    struct keys *keys = &attempt->domain->keys;
    int rc;

    if (any_key(attempt))
        return keys_take_any(keys, &attempt->key);
    rc = keys_take(keys, attempt->request->requested_key);
    if (!rc)
        attempt->key = attempt->request->requested_key;
    return rc;
}

/* The fabric may know keys that did not come through us: one of ours that meets such a key is
 * replaced, one of the caller's is an error. */
static int register_with_key(struct attempt *attempt)
{
    int rc = 0;

    for (int i = 0; i < KEY_TRIES; i++) {
        rc = take_key(attempt);
        if (rc)
            return rc;
        rc = try_paths(attempt);
        if (rc == 0) {
            attempt->mr->key_taken = true;
            attempt->mr->taken_key = attempt->key;
            return 0;
        }
        keys_give(&attempt->domain->keys, attempt->key);
        if (rc != -HMREG_ENOKEY || !any_key(attempt))
            return rc;
    }
    return rc;
}

/* ---- regions ---------------------------------------------------------------------------- */

void region_free(struct hmreg_mr *mr)
{
    unmap_ranges(mr);
    free(mr->reasons);
    free(mr->pieces);
    free(mr);
}

struct hmreg_mr *region_new(struct hmreg_domain *domain, const struct request *request,
                            const struct resolved *found)
{
    struct hmreg_mr *mr = calloc(1, sizeof(*mr) + 2 * request->count * sizeof(*mr->iov));

    if (!mr)
        return NULL;
    mr->domain = domain;
    mr->iface = found->iface;
    mr->device = found->range.device;
    mr->addr = (uint64_t)(uintptr_t)request->iov[0].iov_base;
    mr->access = request->access;
    mr->identity = found->range.identity;
    mr->context = request->context;
    mr->count = request->count;
    mr->iov = (struct iovec *)(mr + 1);
    mr->asked = mr->iov + request->count;
    memcpy(mr->iov, request->iov, request->count * sizeof(*mr->iov));
    memcpy(mr->asked, request->iov, request->count * sizeof(*mr->iov));
    for (size_t i = 0; i < request->count; i++)
        mr->len += request->iov[i].iov_len;
    return mr;
}

int region_create_one(struct hmreg_domain *domain, const struct request *request,
                      const struct resolved *found, struct hmreg_mr **out)
{
    struct attempt attempt = {.domain = domain, .request = request, .found = found};
    struct hmreg_mr *before = *out;
    struct hmreg_error error;
    int rc;

    attempt.mr = region_new(domain, request, found);
    if (!attempt.mr)
        return hmreg_fail(-ENOMEM, "no memory for a region");
    hmreg_error_save(&error);
    if (domain->caps.async)
        *out = attempt.mr;
    rc = wants_key(&attempt) ? register_with_key(&attempt) : try_paths(&attempt);
    if (rc) {
        *out = before;
        region_free(attempt.mr);
        return rc;
    }
    /* Refused paths and keys on the way are no failure of the call. */
    hmreg_error_restore(&error);
    if (!domain->caps.async) /* else it is there, and others may have read it */
        *out = attempt.mr;
    return 0;
}

int region_destroy_one(struct hmreg_mr *mr)
{
    struct hmreg_domain *domain = mr->domain;
    int rc = domain->ops.dereg(domain->self, &mr->made);

    if (rc == -EBUSY)
        return rc;
    if (mr->key_taken)
        keys_give(&domain->keys, mr->taken_key);
    region_free(mr);
    return rc;
}
