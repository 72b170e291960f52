/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See fake_verbs.h.
 */
#include "tests/support/fake_verbs.h"

#include <errno.h>
#include <stdlib.h>

#undef ibv_reg_mr /* a macro that chooses between the two functions below */
#define INTERPOSED __attribute__((visibility("default")))

#define DEVICE_ACCESS                                                                              \
    (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |                   \
     IBV_ACCESS_REMOTE_ATOMIC)

struct fake_verbs fake_verbs;

static struct ibv_device device;
static struct ibv_context context = {.device = &device};
static struct ibv_pd pd = {.context = &context};
static uint32_t last_key;

struct ibv_device *fake_verbs_device(void)
{
    return &device;
}

struct ibv_pd *fake_verbs_reset(void)
{
    device = (struct ibv_device){
        .node_type = IBV_NODE_CA, .transport_type = IBV_TRANSPORT_IB, .name = "fake0"};
    fake_verbs = (struct fake_verbs){.limits = {.max_mr_size = 1u << 30, .max_mr = 4711}};
    return &pd;
}

INTERPOSED int ibv_query_device(struct ibv_context *of, struct ibv_device_attr *out)
{
    if (fake_verbs.query_error)
        return fake_verbs.query_error;
    *out = fake_verbs.limits;
    return 0;
}

static bool takes(size_t length, unsigned access)
{
    bool writes = access & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC);

    return length && length <= fake_verbs.limits.max_mr_size && !(access & ~DEVICE_ACCESS) &&
           !(writes && !(access & IBV_ACCESS_LOCAL_WRITE));
}

static struct ibv_mr *reg(void *addr, size_t length, uint64_t iova, unsigned access)
{
    bool remote = access & ~(unsigned)IBV_ACCESS_LOCAL_WRITE;
    struct ibv_mr *mr;

    fake_verbs.regs++;
    fake_verbs.addr = addr;
    fake_verbs.length = length;
    fake_verbs.iova = iova;
    fake_verbs.access = access;
    if (!takes(length, access) || fake_verbs.reg_fails) {
        errno = fake_verbs.reg_fails ? fake_verbs.reg_error : EINVAL;
        return NULL;
    }
    mr = calloc(1, sizeof(*mr));
    if (!mr)
        return NULL;
    *mr = (struct ibv_mr){.context = &context, .pd = &pd, .addr = addr, .length = length};
    mr->lkey = ++last_key << 8;
    mr->rkey = remote ? mr->lkey | 1 : fake_verbs.local_rkey;
    fake_verbs.live++;
    return mr;
}

INTERPOSED struct ibv_mr *ibv_reg_mr(struct ibv_pd *on, void *addr, size_t length, int access)
{
    return reg(addr, length, (uint64_t)(uintptr_t)addr, (unsigned)access);
}

INTERPOSED struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *on, void *addr, size_t length,
                                           uint64_t iova, unsigned access)
{
    return reg(addr, length, iova, access);
}

INTERPOSED int ibv_dereg_mr(struct ibv_mr *mr)
{
    fake_verbs.deregs++;
    if (fake_verbs.dereg_result) {
        errno = fake_verbs.dereg_errno;
        return fake_verbs.dereg_result;
    }
    fake_verbs.live--;
    free(mr);
    return 0;
}
