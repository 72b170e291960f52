/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See pd.h.
 */
#include "preload/verbs/pd.h"

#include "preload/engine.h"
#include "preload/record.h"

#include <errno.h>
#include <stdatomic.h>

static int open_verbs(struct hmreg *lib, void *object, const struct hmreg_domain_config *config,
                      const void *context, struct hmreg_domain **out)
{
    return hmreg_domain_open_verbs(lib, object, config, out);
}

struct hmreg_domain *pd_domain(struct ibv_pd *pd)
{
    return engine_domain(pd, pd->context, open_verbs, NULL);
}

struct ibv_mr *pd_native(const struct hmreg_mr *region, struct made *made)
{
    struct hmreg_mr_info info = {.size = sizeof(info)};

    hmreg_mr_query(region, &info);
    made->iface = (uint8_t)info.iface;
    made->device = (int16_t)info.device;
    made->path = (uint8_t)info.path;
    return hmreg_mr_head_of(region)->keys->native;
}

void pd_refused(int rc)
{
    if (rc == -EXDEV || rc == -EMSGSIZE)
        record_passed_on(
            "several-registrations",
            "a range of several physical allocations, or longer than the device's "
            "limit, was passed on: it needs several registrations, and an ibv_mr is one");
    else
        engine_refused(rc, "not-registered");
}

enum forks { FORKS_UNKNOWN, FORKS_FREE, FORKS_PROTECTED };

bool pd_keeps_pages_from_children(void)
{
    static _Atomic int forks;

    if (atomic_load(&forks) == FORKS_UNKNOWN)
        atomic_store(&forks,
                     ibv_is_fork_initialized() == IBV_FORK_ENABLED ? FORKS_PROTECTED : FORKS_FREE);
    return atomic_load(&forks) == FORKS_PROTECTED;
}
