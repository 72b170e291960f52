/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See verbs_direct.h.
 */
#include "providers/verbs/verbs_direct.h"

#include "core/base/error.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdbool.h>

#define ACCESS_DATA_DIRECT 1 /* MLX5DV_REG_DMABUF_ACCESS_DATA_DIRECT */

typedef int path_call(struct ibv_context *context, char *path, size_t size);
typedef bool supported_call(struct ibv_device *device);

/* Is this a NIC of mlx5? True if libmlx5 is too old to tell. */
static bool is_mlx5(void *library, struct ibv_device *device)
{
    supported_call *supported = (supported_call *)dlsym(library, "mlx5dv_is_supported");

    return !supported || supported(device);
}

static enum direct_state ask(struct direct *direct, struct ibv_context *context)
{
    char path[PATH_MAX];
    path_call *find;

    direct->library = dlopen("libmlx5.so.1", RTLD_LAZY | RTLD_NOLOAD);
    if (!direct->library || !is_mlx5(direct->library, context->device))
        return DIRECT_NOT_MLX5;
    find = (path_call *)dlsym(direct->library, "mlx5dv_get_data_direct_sysfs_path");
    *(void **)&direct->reg = dlsym(direct->library, "mlx5dv_reg_dmabuf_mr");
    if (!find || !direct->reg)
        return DIRECT_TOO_OLD;
    direct->errnum = find(context, path, sizeof(path));
    return direct->errnum ? DIRECT_NONE : DIRECT_USABLE;
}

void direct_open(struct direct *direct, struct ibv_context *context)
{
    *direct = (struct direct){.library = NULL};
    direct->state = ask(direct, context);
}

void direct_close(struct direct *direct)
{
    if (direct->library)
        dlclose(direct->library);
    direct->library = NULL;
}

int direct_refuse(const struct direct *direct, const char *nic, struct hmreg_reason *why)
{
    why->vendor_code = direct->errnum;
    switch (direct->state) {
    case DIRECT_NOT_MLX5:
        return hmreg_refuse(why, -EOPNOTSUPP, "no-data-direct",
                            "%s is not an mlx5 NIC; only mlx5 has data direct", nic);
    case DIRECT_TOO_OLD:
        return hmreg_refuse(
            why, -EOPNOTSUPP, "rdma-core-too-old",
            "the loaded libmlx5 has no mlx5dv_reg_dmabuf_mr(): use rdma-core 54 or newer");
    default:
        return hmreg_refuse(
            why, -EOPNOTSUPP, "no-data-direct",
            "%s has no data direct (mlx5dv_get_data_direct_sysfs_path() says: %s): data direct "
            "needs a ConnectX-8 or later, its firmware option, and Linux 6.12",
            nic, hmreg_strerror(direct->errnum));
    }
}

struct ibv_mr *direct_import(const struct direct *direct, struct ibv_pd *pd, uint64_t offset,
                             size_t length, uint64_t iova, int fd, int access)
{
    return direct->reg(pd, offset, length, iova, fd, access, ACCESS_DATA_DIRECT);
}
