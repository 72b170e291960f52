/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See ways.h.
 */
#include "core/context/ways.h"

#include "core/base/error.h"
#include "core/base/log.h"

#include <errno.h>

static bool is_coherent(const struct hmreg_domain *domain, enum hmreg_iface iface, int device)
{
    struct hmem_device info = {.coherent = false};

    if (iface < HMREG_IFACE_COUNT)
        context_device(domain->lib, iface, device, &info);
    return info.coherent;
}

const enum hmreg_way *ways_of(const struct hmreg_domain *domain, enum hmreg_iface iface, int device)
{
    static const enum hmreg_way plain[] = {HMREG_WAY_PLAIN, HMREG_WAY_NONE};
    static const enum hmreg_way pcie[] = {HMREG_WAY_PCIE, HMREG_WAY_PLAIN, HMREG_WAY_NONE};
    static const enum hmreg_way direct[] = {HMREG_WAY_DATA_DIRECT, HMREG_WAY_DATA_DIRECT_PCIE,
                                            HMREG_WAY_PLAIN, HMREG_WAY_NONE};
    static const enum hmreg_way both[] = {HMREG_WAY_DATA_DIRECT_PCIE, HMREG_WAY_DATA_DIRECT,
                                          HMREG_WAY_PLAIN, HMREG_WAY_NONE};

    if (domain->ways[0])
        return domain->ways;
    if (!domain->caps.data_direct && !domain->caps.pcie)
        return plain;
    if (!is_coherent(domain, iface, device))
        return domain->caps.data_direct ? direct : plain;
    return domain->caps.data_direct ? both : pcie;
}

int way_check(const struct hmreg_domain *domain, enum hmreg_way way, bool callers,
              struct hmreg_reason *why)
{
    if (way_is_direct(way) && !domain->caps.data_direct)
        return domain->ops.can_data_direct(domain->self, why);
    if (way_is_pcie(way) && callers)
        return hmreg_refuse(why, -EOPNOTSUPP, "mapping-is-the-callers",
                            "the dmabuf is the caller's, whose export chose the mapping: export it "
                            "with HMREG_EXPORT_PCIE");
    return 0;
}

void way_refused(enum hmreg_way way, struct hmreg_reason *why)
{
    if (way == HMREG_WAY_PLAIN)
        return;
    text_write(why->text, sizeof(why->text), "%s: %s", hmreg_way_name(way), why->text);
}

void way_taken(const struct hmreg_domain *domain, enum hmreg_way way, enum hmreg_iface iface,
               int device)
{
    if (way != HMREG_WAY_PLAIN)
        log_say(&domain->lib->settings.log, HMREG_LOG_DEBUG,
                "%s registered memory of %s %d by way %s", domain->caps.fabric,
                hmreg_iface_name(iface), device, hmreg_way_name(way));
}
