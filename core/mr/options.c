/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See options.h. The first value of each option is the domain's default.
 */
#include "core/mr/options.h"

#include "core/base/error.h"
#include "core/base/validate.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define VALUES 4

/* NULL: there is no such value. */
static const char *const orderings[VALUES] = {"default", "strict", "relaxed", NULL};
static const char *const choices[VALUES] = {"default", "off", "on", "if possible"};

/* What every fabric accepts. */
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
    return hmreg_fail(-EOPNOTSUPP, "%s is %u (%s), which %s does not do; accepted: %s", field,
                      value, names[value], domain->caps.fabric, list);
}

static int check_atomics(const struct hmreg_domain *domain, const struct provider_options *options,
                         uint64_t access)
{
    int rc = check_value(domain, "atomics", choices, options->atomics, domain->caps.atomics);

    if (rc || options->atomics != HMREG_CHOICE_ON || (access & HMREG_REMOTE_WRITE))
        return rc;
    return hmreg_fail(-EINVAL,
                      "atomics is %d (on), but access lacks HMREG_REMOTE_WRITE, which peers need "
                      "for atomic operations",
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
                      "set_iova is 1, iova %#" PRIx64 ", but %s lets no caller choose the address; "
                      "accepted is set_iova 0 (for a dmabuf of yours, base_addr chooses it)",
                      options->iova, domain->caps.fabric);
}

int options_check(const struct hmreg_domain *domain, const struct provider_options *options,
                  uint64_t access)
{
    const struct provider_caps *caps = &domain->caps;
    int rc = check_value(domain, "ordering", orderings, options->ordering, caps->orderings);

    rc = rc ? rc : check_atomics(domain, options, access);
    rc = rc ? rc : check_value(domain, "on_demand", choices, options->on_demand, caps->on_demand);
    rc = rc ? rc : check_iova(domain, options);
    return rc ? rc
              : validate_flags(options->optional_access, caps->optional_access, "optional_access");
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

int options_check_ranges(const struct provider_options *options, const struct iovec *iov,
                         size_t count)
{
    uint64_t end = options->iova;

    for (size_t i = 0; i < count && options->set_iova; i++)
        if (__builtin_add_overflow(end, iov[i].iov_len, &end))
            return hmreg_fail(-EINVAL, "iova is %#" PRIx64 ": the region's bytes would wrap",
                              options->iova);
    return 0;
}
