/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See mlx5.h. Of a device that is no NIC of mlx5 the calls answer EOPNOTSUPP, as the real ones do.
 */
#include "simulated/nic/mlx5.h"

#include <errno.h>

#define EXPORTED __attribute__((visibility("default")))

extern struct fake_mlx5 hmreg_fake_mlx5;
bool mlx5dv_is_supported(struct ibv_device *device);
int mlx5dv_get_data_direct_sysfs_path(struct ibv_context *context, char *path, size_t size);
struct ibv_mr *mlx5dv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length,
                                    uint64_t iova, int fd, int access, int mlx5_access);

EXPORTED struct fake_mlx5 hmreg_fake_mlx5;

EXPORTED bool mlx5dv_is_supported(struct ibv_device *device)
{
    return hmreg_fake_mlx5.supported && hmreg_fake_mlx5.supported(device);
}

#ifndef FAKE_MLX5_OLD

EXPORTED int mlx5dv_get_data_direct_sysfs_path(struct ibv_context *context, char *path, size_t size)
{
    return mlx5dv_is_supported(context->device) ? hmreg_fake_mlx5.path(context, path, size)
                                                : EOPNOTSUPP;
}

EXPORTED struct ibv_mr *mlx5dv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length,
                                             uint64_t iova, int fd, int access, int mlx5_access)
{
    if (mlx5dv_is_supported(pd->context->device))
        return hmreg_fake_mlx5.reg(pd, offset, length, iova, fd, access, mlx5_access);
    errno = EOPNOTSUPP;
    return NULL;
}

#endif
