/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Another interposing library, as users write one: its function has no version, while libibverbs'
 * has. Of each call it writes a line.
 */
#include <dlfcn.h>
#include <infiniband/verbs.h>
#include <unistd.h>

#undef ibv_reg_mr
#pragma GCC visibility push(default)

struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
{
    struct ibv_mr *(*next)(struct ibv_pd *, void *, size_t, int);

    *(void **)&next = dlsym(RTLD_NEXT, "ibv_reg_mr");
    return write(STDOUT_FILENO, "other\n", 6) == 6 ? next(pd, addr, length, access) : NULL;
}
