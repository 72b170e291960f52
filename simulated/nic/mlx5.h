/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A simulated libmlx5.so.1: rdma-core 54's two calls of data direct under their version, or neither
 * (FAKE_MLX5_OLD, as Debian 12's). The simulated libibverbs that loads it, as the real one loads
 * its drivers, says in hmreg_fake_mlx5 what they do.
 */
#ifndef SIMULATED_MLX5_H
#define SIMULATED_MLX5_H

#include <infiniband/verbs.h>
#include <stdbool.h>

struct fake_mlx5 {
    bool (*supported)(struct ibv_device *device); /* NULL: none is a NIC of mlx5 */
    int (*path)(struct ibv_context *context, char *path, size_t size);
    struct ibv_mr *(*reg)(struct ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova, int fd,
                          int access, int mlx5_access);
};

#endif
