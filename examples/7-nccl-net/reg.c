/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Registration, in place of a plugin's own cache and of its loop over NICs. Communicators that
 * register the same buffer get the same region, of all rails. Any thread.
 */
#include "plugin.h"

/* The one place that says how many regions there may be, which gets share one, and how long: a peer
 * must not reach a buffer after its last deregMr. Single: a work request takes one key. */
const struct hmreg_domain_config reg_policy = {
    .size = sizeof(reg_policy),
    .flags = HMREG_DOMAIN_SINGLE,
    .max_regions = HMREG_LIMIT_NONE,
    .rights = HMREG_RIGHTS_LOCAL,
    .policy = HMREG_POLICY_LAST_PUT,
};

int reg_get(const struct device *device, void *data, size_t size, uint64_t access, int fd,
            uint64_t offset, struct hmreg_mr **out)
{
    const struct hmreg_mr_dmabuf dmabuf = {fd, offset, size, (char *)data - offset};
    const struct hmreg_mr_attr attr = {.size = sizeof(attr), .access = access, .dmabuf = &dmabuf};

    return fd < 0 ? hmreg_mr_get(device->domain, data, size, access, out)
                  : hmreg_mr_get_attr(device->domain, &attr, HMREG_REG_DMABUF, out);
}

void reg_put(struct hmreg_mr *mr)
{
    hmreg_mr_put(mr);
}
