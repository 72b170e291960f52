/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See calls.h: libibverbs is linked.
 */
#include "tests/preload/verbs/calls.h"

#include <dlfcn.h>
#include <string.h>

#undef ibv_reg_mr
#undef ibv_reg_mr_iova

struct calls ib;

/* libibverbs, which is linked, need not have it where this is built. */
static reg_buf_mr_call *find_reg_buf_mr(void)
{
    void *found = dlvsym(RTLD_DEFAULT, "ibv_reg_buf_mr", "IBVERBS_1.17");
    reg_buf_mr_call *call;

    memcpy(&call, &found, sizeof(call));
    return call;
}

void calls_find(void)
{
    ib = (struct calls){
        .get_device_list = ibv_get_device_list,
        .free_device_list = ibv_free_device_list,
        .open_device = ibv_open_device,
        .close_device = ibv_close_device,
        .alloc_pd = ibv_alloc_pd,
        .dealloc_pd = ibv_dealloc_pd,
        .unimport_pd = ibv_unimport_pd,
        .reg_mr = ibv_reg_mr,
        .reg_mr_iova = ibv_reg_mr_iova,
        .reg_mr_iova2 = ibv_reg_mr_iova2,
        .reg_buf_mr = find_reg_buf_mr(),
        .reg_dmabuf_mr = ibv_reg_dmabuf_mr,
        .rereg_mr = ibv_rereg_mr,
        .dereg_mr = ibv_dereg_mr,
        .fork_init = ibv_fork_init,
        .fake = dlsym(RTLD_DEFAULT, FAKE_IBVERBS_SYMBOL),
    };
}
