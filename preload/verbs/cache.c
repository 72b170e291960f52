/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See cache.h. A work request that the program has posted and not seen completed names its region
 * by the key alone. A receive that is pending when the program deregisters its region fails without
 * us; where the key stays valid it writes into memory that the program has freed by then. So unless
 * the user accepts that, only regions that the NIC just reads outlive their deregistration.
 *
 * While ibv_fork_init() is in force libibverbs keeps registered pages from children:
 * a cached registration would keep them from a child that the program forks after it has
 * deregistered them. So there nothing is cached.
 */
#include "preload/verbs/cache.h"

#include "preload/engine.h"
#include "preload/mode.h"
#include "preload/record.h"

static const struct passed_on remote = {
    "remote-rights", "a registration that peers may use was not cached, since its key would stay "
                     "valid after the program has deregistered it; --cache=remote accepts that"};
static const struct passed_on written = {
    "local-write", "a registration that the NIC may write (IBV_ACCESS_LOCAL_WRITE) was not cached, "
                   "since a receive that is pending when the program deregisters it would write "
                   "into the memory later; --cache=write accepts that"};
static const struct passed_on fork_init = {
    "fork-init", "nothing is cached in a program that calls ibv_fork_init() (or has "
                 "RDMAV_FORK_SAFE) on this kernel: its children would lack memory that is cached. "
                 "Linux 5.12 or later needs no ibv_fork_init()"};

static const struct passed_on left = {
    "call-left", "nothing is cached any more once a signal handler of the program has left a "
                 "registration by a jump (siglongjmp) or an exception: what that call held is held "
                 "for ever"};

static const struct passed_on *refuse(const struct asked *asked)
{
    if (record_any_left())
        return &left;
    if (asked_remote(asked->access) && !preload_mode()->remote)
        return &remote;
    if (asked_written(asked->access) && !preload_mode()->write)
        return &written;
    return pd_keeps_pages_from_children() ? &fork_init : NULL;
}

/* hmreg_mr_get() is the quicker one. */
static bool is_plain(const struct hmreg_mr_attr *attr)
{
    return !attr->set_iova && !attr->optional_access && attr->ordering == HMREG_ORDERING_DEFAULT &&
           attr->atomics == HMREG_CHOICE_DEFAULT;
}

static int get(struct hmreg_domain *domain, const struct hmreg_mr_attr *attr,
               struct hmreg_mr **region)
{
    if (is_plain(attr))
        return hmreg_mr_get(domain, attr->iov->iov_base, attr->iov->iov_len, attr->access, region);
    return hmreg_mr_get_attr(domain, attr, 0, region);
}

void cache_revoke(struct hmreg_mr *region, const struct asked *asked)
{
    struct hmreg *lib = engine_library();
    struct hmreg_domain *domain = pd_domain(asked->pd);

    /* The domain finds it ended, so that the last put deregisters it. */
    if (lib && domain) {
        hmreg_invalidate(lib, asked->addr, asked->length);
        hmreg_domain_progress(domain);
    }
    hmreg_mr_put(region);
}

struct hmreg_mr *cache_get(const struct asked *asked, struct ibv_mr **native, struct made *made)
{
    struct hmreg_mr *region = NULL;
    struct hmreg_domain *domain;
    struct hmreg_mr_attr attr;
    struct iovec iov;
    const struct passed_on *why = asked_translate(asked, &iov, &attr);
    int rc;

    why = why ? why : refuse(asked);
    if (why) {
        record_passed_on(why->slug, why->text);
        return NULL;
    }
    domain = pd_domain(asked->pd);
    if (!domain)
        return NULL;
    engine_expect();
    rc = get(domain, &attr, &region);
    if (rc) {
        pd_refused(rc);
        return NULL;
    }
    made->hit = !engine_registered();
    *native = pd_native(region, made);
    return region;
}
