/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * In the place of libhmreg-verbs: loopback domains, on which every registration and deregistration
 * of a get waits at the gate that the test passes as its protection domain, until it is open.
 */
#include <errno.h>
#include <hmreg/loopback.h>
#include <unistd.h>

/* waiting: how many calls wait. open, which the test writes: they may go on. passed: how many did.
 */
struct gate {
    uint32_t waiting, open, passed;
};

#define TRIES                                                                                      \
    60000 /* of a millisecond: a minute, in which a test that works has long opened it             \
           */

static void pass(const struct hmreg_mr *mr, const struct hmreg_mr_info *info, void *context)
{
    struct gate *gate = context;

    __atomic_add_fetch(&gate->waiting, 1, __ATOMIC_SEQ_CST);
    for (int i = 0; i < TRIES && !__atomic_load_n(&gate->open, __ATOMIC_SEQ_CST); i++)
        usleep(1000);
    __atomic_add_fetch(&gate->passed, 1, __ATOMIC_SEQ_CST);
    __atomic_sub_fetch(&gate->waiting, 1, __ATOMIC_SEQ_CST);
}

#pragma GCC visibility push(default)
int hmreg_domain_open_verbs(struct hmreg *lib, void *pd, const struct hmreg_domain_config *config,
                            struct hmreg_domain **out);
int hmreg_domain_renew_verbs(struct hmreg_domain *domain, void *pd);
#pragma GCC visibility pop

int hmreg_domain_open_verbs(struct hmreg *lib, void *pd, const struct hmreg_domain_config *config,
                            struct hmreg_domain **out)
{
    struct hmreg_domain_config gated = *config;

    if (!pd)
        return -EINVAL;
    gated.made = pass;
    gated.ended = pass;
    gated.callback_context = pd;
    return hmreg_domain_open_loopback(lib, NULL, &gated, out);
}

int hmreg_domain_renew_verbs(struct hmreg_domain *domain, void *pd)
{
    return pd ? 0 : -EINVAL;
}
