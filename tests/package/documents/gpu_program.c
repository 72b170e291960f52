/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A program that documents run by `hmreg run`: it registers CUDA memory by its address, which fails
 * where the kernel has no peer memory.
 */
#include <infiniband/verbs.h>
#include <stdint.h>
#include <stdio.h>

#define SIZE (1 << 20)

int cuInit(unsigned flags), cuDeviceGet(int *device, int index);
int cuDevicePrimaryCtxRetain(void **context, int device), cuCtxSetCurrent(void *context);
int cuMemAlloc_v2(uint64_t *memory, size_t size);

static uint64_t allocate(void)
{
    uint64_t memory = 0;
    void *context;
    int device;

    return cuInit(0) || cuDeviceGet(&device, 0) || cuDevicePrimaryCtxRetain(&context, device) ||
                   cuCtxSetCurrent(context) || cuMemAlloc_v2(&memory, SIZE)
               ? 0
               : memory;
}

int main(void)
{
    struct ibv_device **list = ibv_get_device_list(NULL);
    struct ibv_context *context = list && list[0] ? ibv_open_device(list[0]) : NULL;
    struct ibv_pd *pd = context ? ibv_alloc_pd(context) : NULL;
    uint64_t memory = allocate();
    struct ibv_mr *mr;

    if (!pd || !memory) {
        fprintf(stderr, "no RDMA device, or no CUDA memory\n");
        return 1;
    }
    mr = ibv_reg_mr(pd, (void *)(uintptr_t)memory, SIZE,
                    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    if (!mr) {
        perror("ibv_reg_mr of device memory");
        return 2;
    }
    return ibv_dereg_mr(mr);
}
