/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See request.h. The checks here are common to all registration calls, which have checked their
 * ranges before.
 */
#include "core/mr/request.h"

#include "core/base/error.h"
#include "core/base/validate.h"
#include "core/group/group.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#define CLAIMS (HMREG_HMEM_HOST_ALLOC | HMREG_HMEM_DEVICE_ONLY)
#define KNOWN  (CLAIMS | REQUEST_PARTS)

/* ---- options: how the fabric registers; the first value of each is the domain's default -- */

#define VALUES 4

/* The value's name; NULL: no such value. */
static const char *const orderings[VALUES] = {"default", "strict", "relaxed", NULL};
static const char *const choices[VALUES] = {"default", "off", "on", "if possible"};

/* The values that every fabric accepts. */
#define ALWAYS (PROVIDER_VALUE(HMREG_CHOICE_DEFAULT) | PROVIDER_VALUE(HMREG_CHOICE_IF_POSSIBLE))

struct provider_options options_of(const struct hmreg_mr_attr *attr)
{
    return (struct provider_options){
        .ordering = attr->ordering,
        .atomics = attr->atomics,
        .on_demand = attr->on_demand,
        .set_iova = attr->set_iova,
        .iova = attr->iova,
        .optional_access = attr->optional_access,
        .flags = attr->provider_flags,
    };
}

/* Writes the values of the mask, such as "0 (default), 2 (on)". */
static void list_values(const char *const names[VALUES], uint32_t mask, char *out, size_t size)
{
    size_t used = 0;

    out[0] = '\0';
    for (unsigned i = 0; i < VALUES; i++)
        if (names[i] && (mask & PROVIDER_VALUE(i)))
            used += (size_t)snprintf(out + used, size - used, "%s%u (%s)", used ? ", " : "", i,
                                     names[i]);
}

static int check_value(const struct hmreg_domain *domain, const char *field,
                       const char *const names[VALUES], unsigned value, uint32_t accepted)
{
    char list[64];

    if (value >= VALUES || !names[value]) {
        list_values(names, UINT32_MAX, list, sizeof(list));
        return hmreg_fail(-EINVAL, "%s is %u; accepted are %s", field, value, list);
    }
    accepted |= ALWAYS;
    if (accepted & PROVIDER_VALUE(value))
        return 0;
    list_values(names, accepted, list, sizeof(list));
    return hmreg_fail(-EOPNOTSUPP, "%s is %u (%s), but %s does not support it; accepted: %s", field,
                      value, names[value], domain->caps.fabric, list);
}

static int check_atomics(const struct hmreg_domain *domain, const struct provider_options *options,
                         uint64_t access)
{
    int rc = check_value(domain, "atomics", choices, options->atomics, domain->caps.atomics);

    if (rc || options->atomics != HMREG_CHOICE_ON || (access & HMREG_REMOTE_WRITE))
        return rc;
    return hmreg_fail(-EINVAL,
                      "atomics is %d (on), but access lacks HMREG_REMOTE_WRITE, without which "
                      "peers have no atomic operations",
                      options->atomics);
}

static int check_iova(const struct hmreg_domain *domain, const struct provider_options *options)
{
    if (options->set_iova != 0 && options->set_iova != 1)
        return hmreg_fail(-EINVAL, "set_iova is %d; accepted are 0 and 1", options->set_iova);
    if (!options->set_iova && options->iova)
        return hmreg_fail(-EINVAL, "iova is %#" PRIx64 ", but set_iova is 0; set it to 1",
                          options->iova);
    if (!options->set_iova)
        return 0;
    if (!(domain->caps.mr_mode & HMREG_MR_VIRT_ADDR))
        return options->iova ? hmreg_fail(-EOPNOTSUPP,
                                          "iova is %#" PRIx64 ", but peers of this domain use "
                                          "offsets (it lacks HMREG_MR_VIRT_ADDR); accepted is 0",
                                          options->iova)
                             : 0;
    if (domain->caps.iova)
        return 0;
    return hmreg_fail(-EOPNOTSUPP,
                      "set_iova is 1, iova %#" PRIx64
                      ", but %s lets no caller choose the address; set_iova must be 0 (if you pass "
                      "a dmabuf, base_addr chooses it)",
                      options->iova, domain->caps.fabric);
}

static int check_options_on(const struct hmreg_domain *domain,
                            const struct provider_options *options, uint64_t access)
{
    const struct provider_caps *caps = &domain->caps;
    int rc = check_value(domain, "ordering", orderings, options->ordering, caps->orderings);

    rc = rc ? rc : check_atomics(domain, options, access);
    rc = rc ? rc : check_value(domain, "on_demand", choices, options->on_demand, caps->on_demand);
    rc = rc ? rc : check_iova(domain, options);
    rc = rc ? rc
            : validate_flags(options->optional_access, caps->optional_access, "optional_access");
    return rc ? rc : validate_flags(options->flags, caps->provider_flags, "provider_flags");
}

static enum hmreg_choice settle(enum hmreg_choice choice, bool possible, uint32_t accepted)
{
    if (choice != HMREG_CHOICE_IF_POSSIBLE)
        return choice;
    if (possible && (accepted & PROVIDER_VALUE(HMREG_CHOICE_ON)))
        return HMREG_CHOICE_ON;
    return accepted & PROVIDER_VALUE(HMREG_CHOICE_OFF) ? HMREG_CHOICE_OFF : HMREG_CHOICE_DEFAULT;
}

struct provider_options options_settle(const struct hmreg_domain *domain,
                                       const struct provider_options *options, uint64_t access,
                                       enum hmreg_path path)
{
    const struct provider_caps *caps = &domain->caps;
    struct provider_options settled = *options;

    settled.atomics = settle(options->atomics, access & HMREG_REMOTE_WRITE, caps->atomics);
    settled.on_demand = settle(options->on_demand, path == HMREG_PATH_SYSTEM, caps->on_demand);
    return settled;
}

/* All ranges together must not wrap if they begin at iova. */
static int check_iova_ranges(const struct provider_options *options, const struct iovec *iov,
                             size_t count)
{
    uint64_t end = options->iova;

    for (size_t i = 0; i < count && options->set_iova; i++)
        if (__builtin_add_overflow(end, iov[i].iov_len, &end))
            return hmreg_fail(
                -EINVAL, "iova is %#" PRIx64 ": the region would wrap around the address space",
                options->iova);
    return 0;
}

/* ---- checks ------------------------------------------------------------------------------ */

static int check_key(const struct hmreg_domain *domain, const struct request *request)
{
    if ((domain->caps.mr_mode & HMREG_MR_PROV_KEY) && request->requested_key &&
        request->requested_key != HMREG_KEY_ANY)
        return hmreg_fail(-EKEYREJECTED,
                          "requested_key is %#" PRIx64 ", but this domain chooses keys itself "
                          "(HMREG_MR_PROV_KEY); accepted are HMREG_KEY_ANY and 0",
                          request->requested_key);
    return 0;
}

/* For a group, each registering member decides. */
static int check_options(const struct hmreg_domain *domain, const struct request *request)
{
    const struct group *group = domain->group;
    int rc = 0;

    if (!group)
        return check_options_on(domain, &request->options, request->access);
    for (size_t i = 0; i < group->count && !rc; i++)
        if (group_registers_on(request->rails, i))
            rc = check_options_on(group->members[i], &request->options, request->access);
    return rc;
}

static int check_flags(const struct hmreg_domain *domain, uint64_t flags)
{
    if ((flags & REQUEST_PARTS) == REQUEST_PARTS)
        return hmreg_fail(-HMREG_EBADFLAGS,
                          "flags has HMREG_REG_SINGLE and HMREG_REG_PARTS; give one of them");
    return validate_flags(flags, KNOWN | domain->caps.flags, "flags");
}

bool request_is_single(const struct hmreg_domain *domain, const struct request *request)
{
    const struct group *group = domain->group;
    bool single = domain->flags & HMREG_DOMAIN_SINGLE;

    if (request->flags & REQUEST_PARTS)
        return request->flags & HMREG_REG_SINGLE;
    if (!group || (domain->flags & (HMREG_DOMAIN_SINGLE | HMREG_DOMAIN_PARTS)))
        return single;
    for (size_t i = 0; i < group->count; i++)
        if (group_registers_on(request->rails, i))
            single |= (group->members[i]->flags & HMREG_DOMAIN_SINGLE) != 0;
    return single;
}

int request_check(const struct hmreg_domain *domain, const struct request *request, uint64_t offset)
{
    int rc = validate_access(request->access);

    if (!rc && offset)
        rc = hmreg_fail(-EINVAL, "offset is %" PRIu64 "; it is reserved and must be 0", offset);
    rc = rc ? rc : check_flags(domain, request->flags);
    rc = rc ? rc : check_options(domain, request);
    return rc ? rc : check_key(domain, request);
}

int request_check_length(const struct hmreg_domain *domain, const struct iovec *iov, size_t count)
{
    uint64_t total = 0;

    for (size_t i = 0; i < count; i++)
        if (__builtin_add_overflow(total, iov[i].iov_len, &total) || total > domain->caps.max_len)
            return hmreg_fail(-EMSGSIZE,
                              "the region is longer than this domain's %" PRIu64 " bytes",
                              domain->caps.max_len);
    return 0;
}

int request_from_dmabuf(const struct hmreg_mr_dmabuf *dmabuf, struct iovec *out,
                        struct dmabuf_file *file)
{
    uint64_t start;

    if (!dmabuf)
        return hmreg_fail(-EINVAL, "dmabuf is NULL");
    if (!dmabuf->len)
        return hmreg_fail(-EINVAL, "dmabuf: len is 0; it must be at least 1");
    if (__builtin_add_overflow((uint64_t)(uintptr_t)dmabuf->base_addr, dmabuf->offset, &start) ||
        start + dmabuf->len < start || dmabuf->offset + dmabuf->len < dmabuf->offset)
        return hmreg_fail(-EINVAL, "dmabuf: base_addr + offset %" PRIu64 " + len %zu wraps",
                          dmabuf->offset, dmabuf->len);
    if (dmabuf->fd < 0 || !dmabuf_look(dmabuf->fd, file))
        return hmreg_fail(-EBADF, "dmabuf: fd %d is not an open descriptor", dmabuf->fd);
    if (file->length >= 0 && dmabuf->offset + dmabuf->len > (uint64_t)file->length)
        return hmreg_fail(-EINVAL,
                          "dmabuf: offset %" PRIu64 " + len %zu is beyond its %" PRId64 " bytes",
                          dmabuf->offset, dmabuf->len, file->length);
    *out = (struct iovec){(void *)(uintptr_t)start, dmabuf->len};
    return 0;
}

/* ---- the memory of the ranges ----------------------------------------------------------- */

static int check_claim(const struct request *request, const struct resolved *found)
{
    const struct hmem_range *range = &found->range;
    const struct claim *claim = &request->claim;

    if (claim->made && claim->iface != found->iface)
        return hmreg_fail(-EINVAL, "iface: the caller claims %s, the memory is %s",
                          hmreg_iface_name(claim->iface), hmreg_iface_name(found->iface));
    if (claim->made && claim->device != HMREG_DEVICE_ANY && claim->device != range->device)
        return hmreg_fail(-EINVAL, "device: the caller claims %d, the memory is on %d",
                          claim->device, range->device);
    if ((request->flags & HMREG_HMEM_DEVICE_ONLY) && range->kind != HMREG_MEM_DEVICE)
        return hmreg_fail(-EINVAL, "HMREG_HMEM_DEVICE_ONLY: the memory's kind is %s",
                          hmreg_mem_kind_name(range->kind));
    if ((request->flags & HMREG_HMEM_HOST_ALLOC) && range->kind != HMREG_MEM_HOST_PINNED)
        return hmreg_fail(-EINVAL, "HMREG_HMEM_HOST_ALLOC: the memory's kind is %s",
                          hmreg_mem_kind_name(range->kind));
    return 0;
}

int request_check_same(struct resolved *found, size_t index, bool segments)
{
    const struct resolved *first = &found[0], *other = &found[index];
    bool same =
        first->iface == other->iface && (segments || first->range.device == other->range.device);

    if (segments && other->iface == HMREG_IFACE_SYSTEM && other->range.kind == HMREG_MEM_DEVICE)
        same = true; /* a caller's dmabuf of unknown memory */
    if (same && first->range.kind == other->range.kind)
        return 0;
    if (!resolved_is_host(first) || !resolved_is_host(other))
        return hmreg_fail(-EINVAL,
                          "%s[%zu] is %s memory of %s device %d, but %s[0] is %s memory of %s "
                          "device %d; one region has one %s",
                          segments ? "segments" : "iov", index,
                          hmreg_mem_kind_name(other->range.kind), hmreg_iface_name(other->iface),
                          other->range.device, segments ? "segments" : "iov",
                          hmreg_mem_kind_name(first->range.kind), hmreg_iface_name(first->iface),
                          first->range.device, segments ? "iface and kind" : "kind");
    for (size_t i = 0; i <= index; i++)
        resolved_leave_to_system(&found[i]);
    return 0;
}

/* A fabric that pins pages at registration pins them for the requested access, so the process
 * itself must have that access. */
static int check_touch(const struct request *request, const struct resolved *found, size_t index)
{
    const struct iovec *iov = &request->iov[index];

    if (found->iface != HMREG_IFACE_SYSTEM)
        return 0;
    if (!found->range.host_addr)
        return hmreg_fail(-EFAULT, "part of the %zu bytes at %p is not mapped for reading",
                          iov->iov_len, iov->iov_base);
    if (found->range.read_only && (request->access & REQUEST_WRITING))
        return hmreg_fail(-EFAULT,
                          "part of the %zu bytes at %p is mapped read-only, but access includes "
                          "writing: %#" PRIx64,
                          iov->iov_len, iov->iov_base, request->access & REQUEST_WRITING);
    return 0;
}

/* Finds the memory of a caller's dmabuf as far as its address or the caller's claim identifies
 * it. */
static void resolve_dmabuf(struct hmreg_domain *domain, const struct request *request,
                           struct resolved *found)
{
    uint64_t addr = (uint64_t)(uintptr_t)request->iov[0].iov_base;
    struct hmreg_error_guard guard;
    struct resolved known;

    *found = (struct resolved){.iface = HMREG_IFACE_SYSTEM,
                               .range = {.device = -1, .kind = HMREG_MEM_DEVICE, .segments = 1}};
    if (request->claim.made) {
        found->iface = request->claim.iface;
        found->range.device = request->claim.device;
    }
    hmreg_error_guard(&guard);
    if (request->dmabuf->base_addr &&
        resolve(domain->lib, addr, request->iov[0].iov_len, &known) == 0 &&
        known.iface != HMREG_IFACE_SYSTEM)
        *found = known;
    hmreg_error_unguard(&guard, true);
    found->range.kind = HMREG_MEM_DEVICE;
}

/* Describes a range by its claim alone: a trusted claim, or a claim of an iface without a runtime,
 * which other runtimes can contradict. */
static int resolve_claimed(struct hmreg_domain *domain, const struct request *request, size_t index,
                           struct resolved *found)
{
    const struct iovec *range = &request->iov[index];
    struct resolved known;
    int rc = claim_take(domain, &request->claim, range, request->dmabuf, found);

    if (rc || request->claim.trusted)
        return rc;
    rc = resolve(domain->lib, (uint64_t)(uintptr_t)range->iov_base, range->iov_len, &known);
    return rc || known.iface == HMREG_IFACE_SYSTEM ? rc : check_claim(request, &known);
}

static int resolve_ranges(struct hmreg_domain *domain, const struct request *request,
                          bool must_exist, struct resolved *found)
{
    const struct claim *claim = &request->claim;
    int rc = check_iova_ranges(&request->options, request->iov, request->count);

    if (rc)
        return rc;
    if (request->dmabuf && !claim->trusted) {
        resolve_dmabuf(domain, request, found);
        return check_claim(request, found);
    }
    for (size_t i = 0; i < request->count; i++) {
        uint64_t addr = (uint64_t)(uintptr_t)request->iov[i].iov_base;

        if (claim->trusted || (claim->made && claim_is_foreign(claim->iface)))
            rc = resolve_claimed(domain, request, i, &found[i]);
        else
            rc = (must_exist ? resolve_fully : resolve)(domain->lib, addr, request->iov[i].iov_len,
                                                        &found[i]);
        rc = rc ? rc : check_claim(request, &found[i]);
        rc = rc ? rc : request_check_same(found, i, false);
        if (!rc && must_exist && !request->dmabuf)
            rc = check_touch(request, &found[i], i);
        if (rc)
            return rc;
    }
    return 0;
}

int request_resolve(struct hmreg_domain *domain, const struct request *request,
                    struct resolved *found)
{
    return resolve_ranges(domain, request, domain->caps.mr_mode & HMREG_MR_ALLOCATED, found);
}

int request_resolve_owner(struct hmreg_domain *domain, const struct request *request,
                          struct resolved *found)
{
    return resolve_ranges(domain, request, false, found);
}

int request_check_mapped(struct hmreg_domain *domain, const struct request *request,
                         struct resolved *found)
{
    const struct iovec *iov = request->iov;
    int rc = resolve_mapped(domain->lib, (uint64_t)(uintptr_t)iov->iov_base, iov->iov_len,
                            &found->range);

    return rc ? rc : check_touch(request, found, 0);
}

bool request_any_key(const struct hmreg_domain *domain, const struct request *request)
{
    return request->any_key || request->requested_key == HMREG_KEY_ANY ||
           !(request->access & HMREG_ACCESS_REMOTE) || (domain->caps.mr_mode & HMREG_MR_PROV_KEY);
}
