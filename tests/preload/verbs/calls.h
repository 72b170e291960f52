/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * libibverbs as a program reaches it: linked (linked.c), or loaded and looked up (looked_up.c).
 */
#ifndef TESTS_PRELOAD_VERBS_CALLS_H
#define TESTS_PRELOAD_VERBS_CALLS_H

#include "tests/support/fake/ibverbs.h"

struct calls {
    struct ibv_device **(*get_device_list)(int *);
    void (*free_device_list)(struct ibv_device **);
    struct ibv_context *(*open_device)(struct ibv_device *);
    int (*close_device)(struct ibv_context *);
    struct ibv_pd *(*alloc_pd)(struct ibv_context *);
    int (*dealloc_pd)(struct ibv_pd *);
    void (*unimport_pd)(struct ibv_pd *);
    struct ibv_mr *(*reg_mr)(struct ibv_pd *, void *, size_t, int);
    struct ibv_mr *(*reg_mr_iova)(struct ibv_pd *, void *, size_t, uint64_t, int);
    struct ibv_mr *(*reg_mr_iova2)(struct ibv_pd *, void *, size_t, uint64_t, unsigned);
    reg_buf_mr_call *reg_buf_mr;
    struct ibv_mr *(*reg_dmabuf_mr)(struct ibv_pd *, uint64_t, size_t, uint64_t, int, int);
    int (*rereg_mr)(struct ibv_mr *, int, struct ibv_pd *, void *, size_t, int);
    int (*dereg_mr)(struct ibv_mr *);
    int (*fork_init)(void);
    struct fake_ibverbs *fake;
};

extern struct calls ib;

/* Fills ib. */
void calls_find(void);

#endif
