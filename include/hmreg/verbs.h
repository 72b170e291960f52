/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Domains on libibverbs. Link with libhmreg-verbs.
 */
#ifndef HMREG_VERBS_H
#define HMREG_VERBS_H

#include <hmreg/hmreg.h>
#include <infiniband/verbs.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/*
 * Opens a domain on a protection domain, which is borrowed and must outlive *out. Of its regions
 * hmreg_mr_native() and hmreg_mr_desc() are the struct ibv_mr *. A program that forks sees to
 * ibv_fork_init() itself, before anything registers memory; hmreg never calls it.
 * -EINVAL: lib, pd or out is NULL. -HMREG_EBADFLAGS: config->flags.
 * -EIO: the device's limits could not be read. -ENOMEM.
 */
int hmreg_domain_open_verbs(struct hmreg *lib, struct ibv_pd *pd,
                            const struct hmreg_domain_config *config, struct hmreg_domain **out);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
