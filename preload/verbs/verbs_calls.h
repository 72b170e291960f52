/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A table of the interposed calls of libibverbs. libhmreg-preload.so defines their symbols and
 * needs libc only; at the first call it loads libhmreg-preload-verbs.so, whose table records. Where
 * that cannot be loaded, verbs_real passes the calls on.
 *
 * caller: the return address of the program's call; NULL: libibverbs jumped here, from a function
 * that the program has called past this library.
 */
#ifndef HMREG_PRELOAD_VERBS_VERBS_CALLS_H
#define HMREG_PRELOAD_VERBS_VERBS_CALLS_H

#include <infiniband/verbs.h>

struct ibv_mr_init_attr; /* for ibv_reg_mr_ex(), which most libibverbs lack */
struct ibv_buf;          /* for ibv_reg_buf_mr(), which newer ones have */

struct verbs_calls {
    struct ibv_mr *(*reg_mr)(struct ibv_pd *pd, void *addr, size_t length, int access,
                             const void *caller);
    struct ibv_mr *(*reg_mr_iova)(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
                                  int access, const void *caller);
    struct ibv_mr *(*reg_mr_iova2)(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
                                   unsigned access, const void *caller);
    struct ibv_mr *(*reg_mr_ex)(struct ibv_pd *pd, struct ibv_mr_init_attr *attr,
                                const void *caller);
    struct ibv_mr *(*reg_buf_mr)(struct ibv_pd *pd, struct ibv_buf *buf, void *addr, size_t length,
                                 int access, const void *caller);
    struct ibv_mr *(*reg_dmabuf_mr)(struct ibv_pd *pd, uint64_t offset, size_t length,
                                    uint64_t iova, int fd, int access, const void *caller);
    int (*rereg_mr)(struct ibv_mr *mr, int flags, struct ibv_pd *pd, void *addr, size_t length,
                    int access, const void *caller);
    int (*dereg_mr)(struct ibv_mr *mr, const void *caller);
    int (*dealloc_pd)(struct ibv_pd *pd);
    void (*unimport_pd)(struct ibv_pd *pd);
    int (*close_device)(struct ibv_context *context);
};

/* The recording table, else verbs_real. */
const struct verbs_calls *verbs_calls(void);

/* The next definitions behind this library's symbols: libibverbs' own, or another interposing
 * library's. They ignore caller. A function that this libibverbs lacks fails with EOPNOTSUPP. In
 * libhmreg-preload.so. */
extern const struct verbs_calls verbs_real;

/* libhmreg-preload-verbs.so exports a function that returns its table, whose functions pass calls
 * on to `real`. The first `real` is kept. */
#define VERBS_WORK_LIBRARY "libhmreg-preload-verbs.so"
#define VERBS_WORK_SYMBOL  "hmreg_preload_verbs"
typedef const struct verbs_calls *hmreg_preload_verbs_call(const struct verbs_calls *real);
hmreg_preload_verbs_call hmreg_preload_verbs __attribute__((visibility("default")));

#endif
