/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A program that documents run by `hmreg run`: it registers one buffer five times, for peers.
 */
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>

#define SIZE (128 << 10)

int main(void)
{
    struct ibv_device **list = ibv_get_device_list(NULL);
    struct ibv_context *context = list && list[0] ? ibv_open_device(list[0]) : NULL;
    struct ibv_pd *pd = context ? ibv_alloc_pd(context) : NULL;
    char *buffer = malloc(SIZE);

    if (!pd || !buffer) {
        fprintf(stderr, "no RDMA device\n");
        return 1;
    }
    for (int i = 0; i < 5; i++) {
        struct ibv_mr *mr =
            ibv_reg_mr(pd, buffer, SIZE, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);

        if (!mr || ibv_dereg_mr(mr))
            return 1;
    }
    return 0;
}
