/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See remote.h. Linked with --wrap=hmreg_domain_create, where loopback's domain gets ours before
 * it.
 */
#include "tests/model/remote.h"

#include "tests/support/pinning.h"

#include <hmreg/loopback.h>
#include <string.h>

int __wrap_hmreg_domain_create(struct hmreg *lib, const struct provider_ops *ops,
                               const struct provider_caps *caps, void *self,
                               const struct hmreg_domain_config *config, struct hmreg_domain **out);
int __real_hmreg_domain_create(struct hmreg *lib, const struct provider_ops *ops,
                               const struct provider_caps *caps, void *self,
                               const struct hmreg_domain_config *config, struct hmreg_domain **out);

int __wrap_hmreg_domain_create(struct hmreg *lib, const struct provider_ops *ops,
                               const struct provider_caps *caps, void *self,
                               const struct hmreg_domain_config *config, struct hmreg_domain **out)
{
    struct provider_caps ours = *caps;

    if (!strcmp(ops->name, "loopback")) {
        ops = pinning_before(ops);
        ours.any_thread = false; /* the seed does not determine when the reaper runs */
    }
    return __real_hmreg_domain_create(lib, ops, &ours, self, config, out);
}

/* The token of any region gives access to all of its domain's regions. */
static struct hmreg_remote *way;

static int open_way(struct hmreg_domain *domain)
{
    static char place[64]
        __attribute__((aligned(4096))); /* pinning.c reads the first bytes of a page */
    static void (*hook)(const struct pinned *region);
    char token[4096];
    size_t size = sizeof(token);
    struct hmreg_mr *mr;
    int rc = hmreg_mr_reg(domain, place, sizeof(place), HMREG_ACCESS_REMOTE, 0, 0, 0, &mr, NULL);

    if (rc)
        return rc;
    rc = hmreg_mr_pack(mr, token, &size);
    rc = rc ? rc : hmreg_remote_open(domain, token, size, &way);
    hook = pinning.dereg_hook; /* the hook is for gets' registrations only */
    pinning.dereg_hook = NULL;
    rc = rc ? rc : hmreg_mr_close(mr);
    pinning.dereg_hook = hook;
    return rc;
}

int remote_open_domain(enum plan_fabric fabric, struct hmreg *lib,
                       const struct hmreg_domain_config *config, struct hmreg_domain **out)
{
    struct hmreg_loopback_config modes = {.size = sizeof(modes),
                                          .mr_mode = HMREG_MR_VIRT_ADDR | HMREG_MR_PROV_KEY};
    int rc;

    if (fabric == PLAN_PINNING)
        return pinning_open(lib, config, out);
    rc = hmreg_domain_open_loopback(lib, &modes, config, out);
    return rc ? rc : open_way(*out);
}

int remote_close_domain(struct hmreg_domain *domain)
{
    hmreg_remote_close(way);
    way = NULL;
    return hmreg_domain_close(domain);
}

bool remote_reaches(void)
{
    return way || pinning.ring;
}

int remote_write(struct hmreg_mr *mr, uint64_t at, const void *bytes, size_t len)
{
    if (way)
        return hmreg_loopback_write(way, bytes, len, NULL, at, hmreg_mr_key(mr));
    return pinned_write(pinned_of(mr), at, bytes, len);
}

int remote_read(struct hmreg_mr *mr, uint64_t at, void *bytes, size_t len)
{
    if (way)
        return hmreg_loopback_read(way, bytes, len, NULL, at, hmreg_mr_key(mr));
    return pinned_read(pinned_of(mr), at, bytes, len);
}
