/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A hook provider of libfabric, named hmreg: libhmreg_hook-fi.so in a folder of FI_PROVIDER_PATH,
 * switched on by FI_HOOK=hmreg. libfabric passes each fabric that the program opens to fabric(). No
 * object is wrapped. A fabric gets a copy of its table of operations with our function to open a
 * domain; a domain gets our registering operations, and a region our close (ops_copy.h). The
 * program has the provider's own objects, but for regions that hmreg registered (ofi_region.h).
 *
 * A provider may open another one's fabric and domain (ofi_rxm opens tcp's); libfabric hooks these
 * as well. A registration that reaches both layers is recorded at the upper one, where the program
 * made it. A registration that a provider makes for itself on the lower one is recorded there and
 * passed on.
 */
#include "preload/ofi/domain_hook.h"
#include "preload/ofi/ops_copy.h"

#include <rdma/fi_errno.h>
#include <rdma/providers/fi_prov.h>

/* How many nested domains this thread is opening. */
static __thread unsigned opening;

static const struct fi_ops_fabric *real_ops(const struct fid_fabric *fabric)
{
    return ops_copy_original(fabric->ops);
}

static int open_domain(struct fid_fabric *fabric, struct fi_info *info, struct fid_domain **domain,
                       void *context)
{
    int rc;

    opening++;
    rc = real_ops(fabric)->domain(fabric, info, domain, context);
    opening--;
    if (!rc)
        domain_hook_install(*domain, info, opening > 0);
    return rc;
}

static int open_domain2(struct fid_fabric *fabric, struct fi_info *info, struct fid_domain **domain,
                        uint64_t flags, void *context)
{
    int rc;

    opening++;
    rc = real_ops(fabric)->domain2(fabric, info, domain, flags, context);
    opening--;
    if (!rc)
        domain_hook_install(*domain, info, opening > 0);
    return rc;
}

static void change_fabric(void *copy)
{
    struct fi_ops_fabric *ops = copy;

    if (FI_CHECK_OP(ops, struct fi_ops_fabric, domain))
        ops->domain = open_domain;
    if (FI_CHECK_OP(ops, struct fi_ops_fabric, domain2))
        ops->domain2 = open_domain2;
}

/* *fabric is open. libfabric ignores a hook's failure and continues without the hook. */
static int hook_fabric(struct fi_fabric_attr *attr, struct fid_fabric **fabric, void *context)
{
    void *ops = ops_copy_shared((*fabric)->ops, change_fabric);

    if (!ops)
        return -FI_ENOMEM;
    (*fabric)->ops = ops;
    return 0;
}

/* libfabric takes a provider without getinfo for a hook. */
static struct fi_provider provider = {
    .version = FI_VERSION(1, 0),
    .fi_version = FI_VERSION(FI_MAJOR_VERSION, FI_MINOR_VERSION),
    .name = "ofi_hook_hmreg",
    .fabric = hook_fabric,
};

__attribute__((visibility("default"))) struct fi_provider *fi_prov_ini(void);

struct fi_provider *fi_prov_ini(void)
{
    domain_hook_of(__builtin_return_address(0));
    return &provider;
}
