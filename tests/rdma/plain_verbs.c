/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A plain verbs program, which knows nothing of hmreg: registers ranges of host memory, deregisters
 * some, writes its pid, and ends when its input does. One registration must fail.
 */
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define RIGHTS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ)
#define COUNT  20

static struct ibv_pd *open_pd(void)
{
    struct ibv_device **list = ibv_get_device_list(NULL);
    struct ibv_context *context = list && list[0] ? ibv_open_device(list[0]) : NULL;

    return context ? ibv_alloc_pd(context) : NULL;
}

int main(void)
{
    struct ibv_pd *pd = open_pd();
    struct ibv_mr *regions[COUNT];
    char byte;

    if (!pd)
        return perror("plain_verbs: no RDMA device"), 1;
    for (size_t i = 0; i < COUNT; i++) {
        size_t length = 4096 << (i % 4);
        char *memory = malloc(length);

        regions[i] = memory ? ibv_reg_mr(pd, memory, length, RIGHTS) : NULL;
        if (!regions[i])
            return perror("plain_verbs: ibv_reg_mr"), 1;
    }
    if (ibv_reg_mr(pd, (void *)(uintptr_t)4096, 4096, RIGHTS))
        return fputs("plain_verbs: an address without a mapping was registered\n", stderr), 1;
    for (size_t i = 0; i < COUNT; i += 2)
        if (ibv_dereg_mr(regions[i]))
            return perror("plain_verbs: ibv_dereg_mr"), 1;
    printf("%d\n", getpid());
    fflush(stdout);
    return read(STDIN_FILENO, &byte, 1) == 0 ? 0 : 1;
}
