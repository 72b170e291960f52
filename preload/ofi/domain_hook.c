/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See domain_hook.h. The engine's library links libfabric.so.1, so it is loaded only if the program
 * uses that libfabric too, not a copy inside another library.
 */
#include "preload/ofi/domain_hook.h"

#include "preload/guard.h"
#include "preload/mode.h"
#include "preload/ofi/mr_hook.h"
#include "preload/ofi/ofi_domain.h"
#include "preload/ofi/ops_copy.h"

#include <dlfcn.h>
#include <errno.h>
#include <rdma/fi_errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- the engine's library ---------------------------------------------------------------- */

static _Atomic(const void *) hooked_libfabric;

void domain_hook_of(const void *address)
{
    atomic_store(&hooked_libfabric, address);
}

/* Is the libfabric that called us the one that the engine links? */
static bool is_shared_libfabric(void)
{
    void *library = dlopen("libfabric.so.1", RTLD_LAZY | RTLD_NOLOAD);
    const void *inside = library ? dlsym(library, "fi_version") : NULL;
    Dl_info here, there;
    bool same = inside && dladdr(inside, &here) && dladdr(atomic_load(&hooked_libfabric), &there) &&
                here.dli_fbase == there.dli_fbase;

    if (library)
        dlclose(library);
    return same;
}

/* With --gpu: records why the engine is absent. */
static void cannot_load(const char *slug, const char *text)
{
    if (preload_mode()->gpu)
        record_passed_on(slug, text);
}

/* NULL: it cannot be loaded. */
static const struct ofi_engine *load_engine(void)
{
    const struct ofi_engine *engine;
    void *library;

    if (!is_shared_libfabric()) {
        cannot_load("libfabric-not-shared",
                    "hmreg needs libfabric.so.1, and the program's libfabric is part of another "
                    "library: its registrations are recorded and passed on");
        return NULL;
    }
    library = dlopen(OFI_ENGINE_LIBRARY, RTLD_NOW | RTLD_LOCAL);
    engine = library ? dlsym(library, OFI_ENGINE_SYMBOL) : NULL;
    if (!engine)
        cannot_load("no-engine", OFI_ENGINE_LIBRARY " cannot be loaded: install it beside the "
                                                    "hook, with libhmreg and libhmreg-ofi");
    return engine;
}

static void add_engine(struct ofi_domain *domain, const struct fi_info *info)
{
    int error = errno;
    struct guard guard;

    if (!guard_enter(&guard))
        return;
    domain->engine = load_engine();
    if (domain->engine && !domain->lower)
        domain->engine->open(domain, info);
    domain->had_hmreg = domain->hmreg != NULL;
    guard_leave(&guard);
    errno = error;
}

/* ---- a domain's own operations ----------------------------------------------------------- */

static struct ofi_domain *domain_of(const struct fid *fid)
{
    return ops_copy_owner(fid->ops);
}

/* Installs our copies of the provider's tables, or restores the originals. */
static void put_ops(struct ofi_domain *domain, struct fi_ops *ops, struct fi_ops_mr *mr)
{
    domain->fid->fid.ops = ops;
    domain->fid->mr = mr;
}

/* A forked child never touches regions that hmreg registered in its parent, so the provider reports
 * the domain busy. The child's program believes them closed: report success. */
static int close_in_child(struct ofi_domain *domain, int rc)
{
    return rc == -FI_EBUSY && domain->had_hmreg && domain->pid != getpid() ? 0 : rc;
}

/* A provider on libibverbs ends its protection domain here. Leave the guard, so that libibverbs'
 * interposers see that call as the program's and close their hmreg domain; else the protection
 * domain is busy. entered: close_domain() holds the guard. */
static int close_fid(const struct ofi_domain *domain, bool entered)
{
    const struct record_guard ours = record_guard;
    int rc;

    if (entered && domain->on_seen_verbs)
        record_leave();
    rc = fi_close(&domain->fid->fid);
    record_guard = ours;
    return rc;
}

static int close_real(struct ofi_domain *domain, bool entered)
{
    struct fid_domain *fid = domain->fid;
    struct fi_ops *ops = fid->fid.ops;
    struct fi_ops_mr *mr = fid->mr;
    int rc;

    put_ops(domain, domain->ops, domain->mr);
    rc = close_fid(domain, entered);
    if (rc) {
        put_ops(domain, ops, mr);
        return close_in_child(domain, rc);
    }
    if (domain->engine)
        domain->engine->forget(domain);
    ops_copy_free(ops);
    ops_copy_free(mr);
    free(domain);
    return 0;
}

/* Is the hmreg domain this process's own? A forked child leaves its parent's alone. */
static bool is_of_this_process(const struct ofi_domain *domain)
{
    return domain->had_hmreg && domain->pid == getpid();
}

/* A region that the program has not closed keeps the domain busy, whether the provider or hmreg
 * made it. */
static int close_domain(struct fid *fid)
{
    struct ofi_domain *domain = domain_of(fid);
    struct guard guard;
    bool entered = guard_enter(&guard);
    int rc;

    if (is_of_this_process(domain) && atomic_load(&domain->regions)) {
        rc = -FI_EBUSY;
    } else {
        if (is_of_this_process(domain))
            domain->engine->flush(domain);
        rc = close_real(domain, entered);
    }
    if (entered)
        guard_leave(&guard);
    return rc;
}

/* Registrations that complete in an event queue stay the provider's: its event names its own
 * region.
 */
static int bind_domain(struct fid *fid, struct fid *object, uint64_t flags)
{
    struct ofi_domain *domain = domain_of(fid);
    int rc = domain->ops->bind(fid, object, flags);

    if (!rc && (flags & HMREG_BIND_REG_MR))
        atomic_store(&domain->async, true);
    return rc;
}

/* Does the process's ibv_reg_mr() belong to a library of this folder? */
static bool is_libibverbs_interposed(void)
{
    const void *call = dlsym(RTLD_DEFAULT, "ibv_reg_mr");
    Dl_info place;

    return call && dladdr(call, &place) && strstr(place.dli_fname, "/libhmreg-");
}

/* ---- hooking ----------------------------------------------------------------------------- */

static void describe(struct ofi_domain *domain, const struct fi_info *info)
{
    const char *name = info->domain_attr ? info->domain_attr->name : NULL;
    const char *provider = info->fabric_attr ? info->fabric_attr->prov_name : NULL;

    snprintf(domain->nic, sizeof(domain->nic), "%s", name ? name : "");
    domain->verbs = provider && !strncmp(provider, "verbs", strlen("verbs"));
    domain->on_seen_verbs = domain->verbs && is_libibverbs_interposed();
    domain->api_version = info->fabric_attr ? info->fabric_attr->api_version : 0;
    domain->hmem = info->caps & FI_HMEM;
    if (info->domain_attr) {
        domain->hmem |= (info->domain_attr->caps & FI_HMEM) != 0;
        domain->mr_mode = (uint32_t)info->domain_attr->mr_mode;
    }
}

static bool replace_ops(struct ofi_domain *domain)
{
    struct fi_ops *ops = ops_copy_new(domain->ops, domain);
    struct fi_ops_mr *mr = ops_copy_new(domain->mr, domain);

    if (!ops || !mr) {
        ops_copy_free(ops);
        ops_copy_free(mr);
        return false;
    }
    ops->close = close_domain;
    ops->bind = bind_domain;
    mr_hook_change(mr);
    put_ops(domain, ops, mr);
    return true;
}

/* A provider has returned another provider's domain to the program: the domain is no longer a lower
 * one. */
static void raise_domain(struct ofi_domain *domain, const struct fi_info *info)
{
    if (!domain->lower)
        return;
    domain->lower = false;
    add_engine(domain, info);
}

void domain_hook_install(struct fid_domain *fid, const struct fi_info *info, bool lower)
{
    struct ofi_domain *domain;

    if (!info || !fid->mr || !fid->fid.ops)
        return;
    if (mr_hook_is_ours(fid->mr)) {
        if (!lower)
            raise_domain(domain_of(&fid->fid), info);
        return;
    }
    domain = calloc(1, sizeof(*domain));
    if (!domain)
        return;
    domain->fid = fid;
    domain->mr = fid->mr;
    domain->ops = fid->fid.ops;
    domain->lower = lower;
    domain->pid = getpid();
    describe(domain, info);
    if (!replace_ops(domain)) {
        free(domain);
        return;
    }
    add_engine(domain, info);
}
