/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See register.h. A registration tries the domain's paths in order, keeps each refusal's reason,
 * and takes the first path that works. Only the region keeps its refusals, so a failing device
 * never changes the paths that are tried for another.
 */
#include "core/mr/register.h"

#include "core/base/error.h"
#include "core/mr/explain.h"
#include "core/context/ways.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define KEY_TRIES 64

/* ---- one path --------------------------------------------------------------------------- */

/* A registration in progress. */
struct attempt {
    struct hmreg_domain *domain;
    struct layout *layout;
    const struct request *request;
    const struct resolved *found; /* request->count elements: the memory of each range */
    struct hmreg_mr_keys *made;   /* the registration fills these two */
    struct mr_note *note;
    struct iovec *iov;        /* request->count elements: the ranges to register */
    struct mapping *mappings; /* request->count elements; NULL: plain host memory */
    uint64_t key;
    enum hmreg_way way;      /* the way of path dmabuf */
    struct refusals refused; /* refusals so far; owned */
    struct hmreg_reason why; /* why the current path was refused; why.code 0: it was not */
};

/* Names the device as its driver does. */
static void name_device(struct attempt *attempt, struct provider_request *below)
{
    struct hmem_device device;

    if (below->device < 0 || below->iface >= HMREG_IFACE_COUNT)
        return;
    context_device(attempt->domain->lib, below->iface, below->device, &device);
    below->driver = device.driver;
    below->driver_device = below->device - (int)device.driver_first;
}

static int call_provider(struct attempt *attempt, const struct hmreg_dmabuf *dmabuf)
{
    const struct request *request = attempt->request;
    struct hmreg_domain *domain = attempt->domain;
    struct provider_request below = {
        .path = attempt->why.path,
        .iov = attempt->iov,
        .count = request->count,
        .access = request->access,
        .requested_key = attempt->key,
        .flags = request->flags & ~REQUEST_PARTS,
        .iface = attempt->found->iface,
        .device = attempt->found->range.device,
        .driver_device = attempt->found->range.device,
        .way = attempt->way,
        .dmabuf = dmabuf,
        .context = request->context,
        .auth_key_size = request->auth_key_size,
        .auth_key = request->auth_key,
        .hmem_data = request->hmem_data,
        .page_size = request->page_size,
        .options = options_settle(domain, &request->options, request->access, attempt->why.path),
    };

    name_device(attempt, &below);
    return domain->ops.reg(domain->self, &below, attempt->made, &attempt->why);
}

/* Makes the thread's last error, which a vendor's runtime reported, the reason of a refusal. */
static int refuse_as_last_error(struct attempt *attempt, int code, const char *slug)
{
    const struct hmreg_error *error = hmreg_last_error();

    attempt->why.vendor_code = error->vendor_code;
    return hmreg_refuse(&attempt->why, code, slug, "%s", error->text);
}

static int export_by_vendor(struct attempt *attempt, const struct iovec *iov,
                            const struct resolved *found, uint64_t flags, struct hmreg_dmabuf *out)
{
    const char *slug = flags ? "no-pcie-mapping" : "no-dmabuf-export";
    struct runtime *runtime = context_runtime(attempt->domain->lib, found->iface);
    int rc = runtime->ops->export_dmabuf(runtime->self, (uint64_t)(uintptr_t)iov->iov_base,
                                         iov->iov_len, &found->range, flags, out);

    return rc ? refuse_as_last_error(attempt, rc, slug) : 0;
}

/* Uses the export that another registration has made, or its failure; else exports for all. */
static int export_shared(struct attempt *attempt, size_t index, uint64_t flags,
                         struct hmreg_dmabuf *out)
{
    struct layout *layout = attempt->layout;
    const struct iovec *iov = &attempt->request->iov[index];
    enum hmreg_path path = attempt->why.path;
    struct hmreg_dmabuf made;
    bool mine;
    struct layout_export *export = layout_take_export(layout, iov, flags, &mine);

    if (!export)
        return hmreg_fail(-ENOMEM, "hmreg has no memory to share an export");
    if (mine) {
        int rc = export_by_vendor(attempt, &export->range, &attempt->found[index], flags, &made);

        layout_exported(layout, export, rc, &made, &attempt->why);
    }
    if (export->rc) {
        attempt->why = export->why;
        attempt->why.path = path;
        return export->rc;
    }
    *out = export->dmabuf;
    out->offset += (uint64_t)((char *)iov->iov_base - (char *)export->range.iov_base);
    out->length = iov->iov_len;
    return 0;
}

/* Exports a range as a dmabuf; release it with unexport(). The caller's own dmabuf is borrowed. */
static int export_range(struct attempt *attempt, size_t index, struct hmreg_dmabuf *out)
{
    const struct hmreg_mr_dmabuf *given = attempt->request->dmabuf;
    uint64_t flags = way_is_pcie(attempt->way) ? HMREG_EXPORT_PCIE : 0;

    if (given) {
        *out =
            (struct hmreg_dmabuf){.fd = given->fd, .offset = given->offset, .length = given->len};
        return 0;
    }
    return attempt->layout->shares ? export_shared(attempt, index, flags, out)
                                   : export_by_vendor(attempt, &attempt->request->iov[index],
                                                      &attempt->found[index], flags, out);
}

/* Closes an exported dmabuf: an import or a mapping holds its own reference. */
static void unexport(const struct attempt *attempt, const struct hmreg_dmabuf *dmabuf)
{
    if (!attempt->request->dmabuf && !attempt->layout->shares)
        close(dmabuf->fd);
}

/* Resets a reason. Its texts are read only if code is not 0, so they are not cleared throughout. */
static void begin_reason(struct hmreg_reason *why, enum hmreg_path path)
{
    why->path = path;
    why->code = 0;
    why->vendor_code = 0;
    why->slug[0] = why->text[0] = '\0';
}

static int note_refusal(struct attempt *attempt)
{
    struct refusals *refused = &attempt->refused;

    log_say(&attempt->domain->lib->settings.log, HMREG_LOG_DEBUG, "%s refused path %s: %s",
            attempt->domain->caps.fabric, hmreg_path_name(attempt->why.path), attempt->why.text);
    if (!refused->reasons) {
        refused->reasons = calloc(HMREG_REASONS_MAX, sizeof(*refused->reasons));
        if (!refused->reasons)
            return hmreg_fail(-ENOMEM, "hmreg has no memory for the reasons of a region's path");
    }
    refused->reasons[refused->count++] = attempt->why;
    return 0;
}

static int try_way(struct attempt *attempt)
{
    struct hmreg_dmabuf dmabuf;
    int rc = way_check(attempt->domain, attempt->way, attempt->request->dmabuf, &attempt->why);

    rc = rc ? rc : export_range(attempt, 0, &dmabuf);
    if (rc)
        return rc;
    rc = call_provider(attempt, &dmabuf);
    /* When NVIDIA's module 570.124 refuses a NIC that is too far for the PCIe mapping, it keeps its
     * lock of the descriptor: the next import of that descriptor would never return. Closing the
     * descriptor returns. */
    if (rc && way_is_pcie(attempt->way) && attempt->layout->shares && !attempt->request->dmabuf)
        layout_replace_export(attempt->layout, attempt->request->iov, HMREG_EXPORT_PCIE);
    unexport(attempt, &dmabuf);
    return rc;
}

static int try_dmabuf(struct attempt *attempt)
{
    const struct resolved *found = attempt->found;
    const enum hmreg_way *way = ways_of(attempt->domain, found->iface, found->range.device);
    int rc;

    if (attempt->request->count > 1)
        return hmreg_refuse(&attempt->why, -EOPNOTSUPP, "one-range-only",
                            "a dmabuf registration takes one range, not %zu ranges",
                            attempt->request->count);
    for (;; way++) {
        attempt->way = *way;
        rc = try_way(attempt);
        if (!rc || !attempt->why.code)
            break;
        way_refused(*way, &attempt->why);
        if (way[1] == HMREG_WAY_NONE) /* the caller notes the last refusal */
            return rc;
        rc = note_refusal(attempt);
        begin_reason(&attempt->why, HMREG_PATH_DMABUF);
        if (rc)
            return rc;
    }
    if (!rc)
        way_taken(attempt->domain, *way, found->iface, found->range.device);
    attempt->note->way = rc ? HMREG_WAY_NONE : (uint8_t)*way;
    return rc;
}

static int map_range(struct attempt *attempt, size_t index)
{
    struct mapping *mapping = &attempt->mappings[index];
    struct hmreg_dmabuf dmabuf;
    int rc = export_range(attempt, index, &dmabuf);

    if (rc)
        return rc;
    rc = mapping_open(&dmabuf, mapping, &attempt->why);
    unexport(attempt, &dmabuf);
    if (!rc)
        attempt->iov[index].iov_base = (void *)(uintptr_t)mapping->addr;
    return rc;
}

static int try_mapped(struct attempt *attempt)
{
    size_t count = attempt->request->count;
    int rc = 0;

    attempt->way = HMREG_WAY_NONE;
    for (size_t i = 0; i < count && !rc; i++)
        rc = map_range(attempt, i);
    if (!rc)
        rc = call_provider(attempt, NULL);
    for (size_t i = 0; i < count && rc; i++)
        mapping_close(&attempt->mappings[i]);
    if (rc)
        memcpy(attempt->iov, attempt->request->iov, count * sizeof(*attempt->iov));
    return rc;
}

/* Registers host memory by its CPU address, which may differ from the device's if a runtime pinned
 * it. Managed memory migrates, so only a fabric that accesses it with the CPU may register it. */
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
            return hmreg_refuse(
                &attempt->why, -EOPNOTSUPP, "no-cpu-address",
                "%s mapped this host memory only for devices: map it for the CPU too",
                hmreg_iface_name(found[i].iface));
        attempt->iov[i].iov_base = (void *)(uintptr_t)found[i].range.host_addr;
    }
    return call_provider(attempt, NULL);
}

/* hmreg exports no memory of an iface without a runtime. */
static int check_export(struct attempt *attempt)
{
    enum hmreg_path path = attempt->why.path;

    if ((path != HMREG_PATH_DMABUF && path != HMREG_PATH_MAPPED) || attempt->request->dmabuf ||
        !claim_is_foreign(attempt->found->iface))
        return 0;
    return hmreg_refuse(&attempt->why, -EOPNOTSUPP, "no-dmabuf-export",
                        "hmreg has no runtime for %s and cannot export its memory: export it "
                        "yourself, and pass the dmabuf (HMREG_REG_DMABUF)",
                        hmreg_iface_name(attempt->found->iface));
}

static int try_path(struct attempt *attempt, enum hmreg_path path)
{
    struct hmreg_domain *domain = attempt->domain;
    int rc = 0;

    begin_reason(&attempt->why, path);
    if (path != HMREG_PATH_SYSTEM)
        rc = domain->ops.can(domain->self, path, attempt->found->iface,
                             attempt->found->range.device, &attempt->why);
    rc = rc ? rc : check_export(attempt);
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

/* Did a path refuse only because no single dmabuf contains the range? */
static bool takes_several(const struct attempt *attempt)
{
    const struct refusals *refused = &attempt->refused;

    if (attempt->request->dmabuf || attempt->request->count > 1 ||
        attempt->found->range.segments < 2)
        return false;
    for (uint32_t i = 0; i < refused->count; i++)
        if (refused->reasons[i].code == -EXDEV)
            return true;
    return false;
}

/* The last path's reason, or peer memory's if no other path takes the memory. */
static const struct hmreg_reason *telling_reason(const struct resolved *found,
                                                 const struct refusals *refused)
{
    const struct hmreg_reason *reason = &refused->reasons[refused->count - 1];

    for (uint32_t i = 0; claim_is_foreign(found->iface) && i < refused->count; i++)
        if (refused->reasons[i].path == HMREG_PATH_PEERMEM)
            reason = &refused->reasons[i];
    return reason;
}

static int refuse_all(const struct hmreg_domain *domain, const struct resolved *found,
                      const struct refusals *refused)
{
    const struct hmreg_reason *last = telling_reason(found, refused);

    explain_keep(found->iface, found->range.device, refused->reasons, refused->count);
    if (refused->count == 1 && last->path == HMREG_PATH_SYSTEM)
        return hmreg_fail_vendor(last->code, domain->ops.name, last->vendor_code, NULL, "%s",
                                 last->text);
    return hmreg_fail(-EOPNOTSUPP, "no path to this %s memory on %s; %s: %s",
                      hmreg_iface_name(found->iface), domain->caps.fabric,
                      hmreg_path_name(last->path), last->text);
}

int register_refused(const struct hmreg_domain *domain, const struct layout *layout,
                     const struct natives *natives)
{
    size_t member = 0;

    while (!natives->rail[member].refused.count)
        member++;
    return refuse_all(domain, &layout->whole, &natives->rail[member].refused);
}

static int refuse_parts(const struct attempt *attempt)
{
    const struct iovec *range = attempt->request->iov;

    explain_keep(attempt->found->iface, attempt->found->range.device, attempt->refused.reasons,
                 attempt->refused.count);
    return hmreg_fail(-EXDEV,
                      "no single dmabuf contains the %zu bytes at %p, but they must be one "
                      "registration: pass each allocation by itself, or HMREG_REG_PARTS (or "
                      "HMREG_DOMAIN_PARTS) and use hmreg_mr_piece()",
                      range->iov_len, range->iov_base);
}

static int all_refused(struct attempt *attempt)
{
    struct refusals *refused = &attempt->refused;

    if (!refused->reasons)
        return hmreg_fail(-EOPNOTSUPP,
                          "config->order of this domain has no path for a caller's dmabuf");
    if (attempt->layout->joined && takes_several(attempt))
        return request_is_single(attempt->domain, attempt->request) ? refuse_parts(attempt)
                                                                    : REGISTER_DIVIDES;
    return refuse_all(attempt->domain, attempt->found, refused);
}

static int try_paths(struct attempt *attempt)
{
    const enum hmreg_path *path = candidates(attempt);
    int rc;

    attempt->refused.count = 0; /* a retry with another key tries all paths again */
    for (; *path != HMREG_PATH_NONE; path++) {
        /* Path peermem needs an address, which a caller's dmabuf may not have in this process. */
        if (*path == HMREG_PATH_PEERMEM && attempt->request->dmabuf)
            continue;
        rc = try_path(attempt, *path);
        if (rc == 0) {
            attempt->note->path = (uint8_t)*path;
            return 0;
        }
        if (!attempt->why.code) /* not a refusal of this path but an error of the request */
            return rc;
        rc = note_refusal(attempt);
        if (rc)
            return rc;
    }
    return all_refused(attempt);
}

/* ---- keys ------------------------------------------------------------------------------- */

/* Must the domain's keys supply a unique key for this request? */
static bool wants_key(const struct attempt *attempt)
{
    const struct provider_caps *caps = &attempt->domain->caps;

    return ((attempt->request->access & HMREG_ACCESS_REMOTE) || caps->local_keys) &&
           !(caps->mr_mode & HMREG_MR_PROV_KEY);
}

/* *taken: whether the key must be given back. */
static int take_key(struct attempt *attempt, bool *taken)
{
    struct keys *keys = &attempt->domain->keys;
    bool any = request_any_key(attempt->domain, attempt->request);
    int rc;

    *taken = !(any && attempt->domain->caps.refuses_keys && keys_are_random(keys));
    if (!*taken)
        return keys_draw(keys, &attempt->key);
    if (any)
        return keys_take_any(keys, &attempt->key);
    rc = keys_take(keys, attempt->request->requested_key);
    if (!rc)
        attempt->key = attempt->request->requested_key;
    return rc;
}

/* The fabric may have keys in use that hmreg did not assign. If a key that the library chose
 * collides with one, another is tried; if the caller requested it, the call fails. */
static int register_with_key(struct attempt *attempt)
{
    bool taken;
    int rc = 0;

    for (int i = 0; i < KEY_TRIES; i++) {
        rc = take_key(attempt, &taken);
        if (rc)
            return rc;
        rc = try_paths(attempt);
        if (rc == 0) {
            attempt->note->key_taken = taken;
            attempt->note->taken_key = attempt->key;
            return 0;
        }
        if (taken)
            keys_give(&attempt->domain->keys, attempt->key);
        if (rc != -HMREG_ENOKEY || !request_any_key(attempt->domain, attempt->request))
            return rc;
    }
    return rc;
}

/* ---- one registration ------------------------------------------------------------------- */

/* Fulfils the promise of the domain's sync_memops for the memory. */
static int sync_memops(const struct attempt *attempt)
{
    const struct request *request = attempt->request;
    int rc = 0;

    for (size_t i = 0; i < request->count && !request->dmabuf && !rc; i++) {
        const struct resolved *found = &attempt->found[i];
        struct runtime *runtime =
            found->range.kind == HMREG_MEM_DEVICE && !claim_is_foreign(found->iface)
                ? context_runtime(attempt->domain->lib, found->iface)
                : NULL;

        if (runtime && runtime->ops->sync_memops)
            rc = runtime->ops->sync_memops(
                runtime->self, (uint64_t)(uintptr_t)request->iov[i].iov_base, found->range.device);
    }
    return rc;
}

static int run(struct attempt *attempt)
{
    int rc = attempt->domain->sync_memops ? sync_memops(attempt) : 0;

    if (rc)
        return rc;
    return wants_key(attempt) ? register_with_key(attempt) : try_paths(attempt);
}

/* A rail keeps its first part's refusals, or those of the whole range before it was divided. */
static void keep_refusals(struct natives *natives, size_t index, struct refusals *refused)
{
    struct mr_rail *rail = &natives->rail[index / natives->parts];

    if (index % natives->parts || rail->refused.reasons)
        free(refused->reasons);
    else
        rail->refused = *refused;
}

/* If the registration failed because the domain's NIC is gone, that becomes the failure. */
static int find_lost(struct hmreg_domain *domain, int rc)
{
    char why[LOST_WHY_BYTES];

    if (rc >= 0 || !domain->ops.gone(domain->self, rc, why, sizeof(why)))
        return rc;
    lost_mark(domain, why);
    return domain_fail_lost(domain);
}

int register_one(struct layout *layout, const struct request *request, const struct resolved *found,
                 struct natives *natives, struct hmreg_domain *domain, size_t index)
{
    size_t range = index / natives->parts * natives->ranges + index % natives->parts;
    struct attempt attempt; /* not cleared, since `why` is large: see begin_reason() */
    int rc;

    if (domain_is_lost(domain))
        return domain_fail_lost(domain);
    attempt.domain = domain;
    attempt.layout = layout;
    attempt.request = request;
    attempt.found = found;
    attempt.made = &natives->made[index];
    attempt.note = &natives->note[index];
    attempt.iov = &natives->iov[range];
    attempt.mappings = natives->mappings ? &natives->mappings[range] : NULL;
    attempt.key = 0;
    attempt.way = HMREG_WAY_NONE;
    attempt.refused = (struct refusals){0, NULL};
    attempt.note->way = HMREG_WAY_NONE;
    attempt.note->key_taken = false;
    rc = find_lost(domain, run(&attempt));
    attempt.note->live = !rc;
    if (!rc || rc == REGISTER_DIVIDES)
        keep_refusals(natives, index, &attempt.refused);
    else
        free(attempt.refused.reasons);
    return rc;
}
