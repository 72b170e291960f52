/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Data direct: a second PCIe function of some mlx5 NICs (ConnectX-8 and later, with the firmware's
 * option), through which they reach device memory on another path than the CPU's. Its calls came
 * with rdma-core 54 (libmlx5's node MLX5_1.25). They are looked up in the libmlx5 that libibverbs
 * has loaded for the NIC; nothing is loaded here.
 */
#ifndef HMREG_PROVIDERS_VERBS_VERBS_DIRECT_H
#define HMREG_PROVIDERS_VERBS_VERBS_DIRECT_H

#include <hmreg/hmreg.h>
#include <infiniband/verbs.h>

enum direct_state {
    DIRECT_USABLE,
    DIRECT_NOT_MLX5, /* the NIC has another driver */
    DIRECT_TOO_OLD,  /* libmlx5 lacks the calls */
    DIRECT_NONE,     /* the NIC has no data direct: errnum */
};

struct direct {
    void *library; /* NULL: none is loaded */
    enum direct_state state;
    int errnum; /* errno value of mlx5dv_get_data_direct_sysfs_path() */
    struct ibv_mr *(*reg)(struct ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova, int fd,
                          int access, int mlx5_access);
};

/* Finds out, once, whether the NIC has data direct. Never fails; pair it with
 * verbs_direct_close(). */
void direct_open(struct direct *direct, struct ibv_context *context);
void direct_close(struct direct *direct);

/* Refuses: -EOPNOTSUPP, *why: the reason. Call only if the state is not DIRECT_USABLE. */
int direct_refuse(const struct direct *direct, const char *nic, struct hmreg_reason *why);

/* As ibv_reg_dmabuf_mr(), for data direct. Call only if the state is DIRECT_USABLE. */
struct ibv_mr *direct_import(const struct direct *direct, struct ibv_pd *pd, uint64_t offset,
                             size_t length, uint64_t iova, int fd, int access);

#endif
