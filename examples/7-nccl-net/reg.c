/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Registration, in place of a plugin's own cache and of its loop over NICs. Communicators that
 * register the same buffer get the same region, of all rails. Any thread.
 */
#include "plugin.h"

#include <errno.h>
#include <stdlib.h>

/* The one place that says how many regions there may be, which gets share one, and how long: a peer
 * must not reach a buffer after its last deregMr. */
const struct hmreg_domain_config reg_policy = {
    .size = sizeof(reg_policy),
    .max_regions = HMREG_LIMIT_NONE,
    .rights = HMREG_RIGHTS_LOCAL,
    .policy = HMREG_POLICY_LAST_PUT,
};

/* -EMSGSIZE: the range needs several regions, and a work request takes one. */
static int load_rail(struct buffer *buffer, int i)
{
    const struct hmreg_mr *rail = hmreg_mr_rail(buffer->mr, (size_t)i);
    const struct hmreg_mr_head *head = hmreg_mr_head_of(rail);
    struct hmreg_mr_info info = {.size = sizeof(info)};
    int rc;

    if (head->count > 1)
        return -EMSGSIZE;
    buffer->rail[i].lkey = head->keys->lkey;
    buffer->rail[i].rkey = head->keys->rkey;
    buffer->rail[i].desc = head->keys->desc;
    if (buffer->rail[i].lkey)
        return 0; /* verbs: at NCCL's addresses */
    rc = hmreg_mr_query(rail, &info);
    buffer->rail[i].shift = info.local_addr - info.addr;
    return rc;
}

int reg_get(const struct device *device, void *data, size_t size, uint64_t access, int fd,
            uint64_t offset, struct buffer **out)
{
    const struct hmreg_mr_dmabuf dmabuf = {fd, offset, size, (char *)data - offset};
    const struct hmreg_mr_attr attr = {.size = sizeof(attr), .access = access, .dmabuf = &dmabuf};
    struct buffer *buffer = (struct buffer *)calloc(1, sizeof(*buffer));
    int rc = !buffer  ? -ENOMEM
             : fd < 0 ? hmreg_mr_get(device->domain, data, size, access, &buffer->mr)
                      : hmreg_mr_get_attr(device->domain, &attr, HMREG_REG_DMABUF, &buffer->mr);

    for (int i = 0; i < device->rails && !rc; i++)
        rc = load_rail(buffer, i);
    if (rc)
        reg_put(buffer);
    else
        *out = buffer;
    return rc;
}

void reg_put(struct buffer *buffer)
{
    if (buffer)
        hmreg_mr_put(buffer->mr);
    free(buffer);
}
