/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Groups: the domains of several NICs (rails), used as one.
 *
 * A group is a domain whose members are other domains. Every call of <hmreg/hmreg.h> that takes a
 * domain or a region accepts a group's. A registration asks the vendors once what the memory is,
 * exports its dmabuf once, and registers it on each member by the member's own paths, keys and
 * modes. A hit of hmreg_mr_get() is one look-up for all rails. Rail i of a region is its
 * registration on member i.
 */
#ifndef HMREG_GROUP_H
#define HMREG_GROUP_H

#include <hmreg/hmreg.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

#define HMREG_GROUP_MAX 64 /* most members of a group */

/* A registration succeeds if at least one rail does. hmreg_mr_rail() gives the reason of each
 * failed rail. */
#define HMREG_GROUP_PARTIAL (1u << 0)
/* The open group owns its members: hmreg_domain_close() of the group closes them too. If a member
 * cannot be closed, hmreg_domain_close() closes neither the group nor any member. A member has at
 * most one owner. */
#define HMREG_GROUP_OWNS_MEMBERS (1u << 1)

struct hmreg_group_config {
    size_t size;    /* sizeof(struct hmreg_group_config) */
    uint32_t flags; /* HMREG_GROUP_* */
    /* The group's own cache, limits and checks. order, ways, sync_memops and key_* must be zero:
     * each member keeps its own. NULL: the defaults. */
    const struct hmreg_domain_config *domain;
};

/*
 * Opens a group of `count` members, of any providers, all of the same lib. The group borrows its
 * members, unless it has HMREG_GROUP_OWNS_MEMBERS. Each member stays usable by itself and in other
 * groups; it cannot be closed while it is in a group.
 *
 * config: NULL for the defaults. Close the group with hmreg_domain_close(). hmreg_domain_query() of
 * a group returns the union of the members' modes and the smallest of their limits.
 *
 * A call on a group is a call on each of its members, on the calling thread. If a member has
 * HMREG_MR_PROV_KEY, the library chooses the keys of all rails; otherwise requested_key is the key
 * of each rail. A member whose fabric caches registrations itself turns the group's cache off,
 * unless config sets its limits.
 *
 * Any thread.
 * -EINVAL: lib, members, a member or out is NULL; count is 0 or above HMREG_GROUP_MAX; a member is
 *   a group, is named twice, is of another lib, or has an owner already; config->domain has an
 *   order, ways, sync_memops or keys; a size is too small, or a byte beyond what the library knows
 *   is not zero.
 * -HMREG_EBADFLAGS: flags of either config.
 * -EOPNOTSUPP: registrations of a member complete in an event queue of libfabric (HMREG_OFI_ASYNC).
 * -ENOMEM.
 */
int hmreg_group_open(struct hmreg *lib, struct hmreg_domain *const *members, size_t count,
                     const struct hmreg_group_config *config, struct hmreg_domain **out);

/*
 * The registration of a region on one member. It is a region of that member: its head,
 * hmreg_mr_desc(), _key(), _query(), _piece(), _raw_attr(), _pack() and _explain() describe this
 * rail; hmreg_mr_bind() and _enable() accept it. It exists as long as the region; hmreg_mr_close()
 * and hmreg_mr_put() do not accept it. On a domain that is no group, rail 0 of a region is the
 * region itself.
 *
 * The group's region itself has desc and native NULL and key HMREG_KEY_NOTAVAIL. Its
 * hmreg_mr_explain(), and the path of its hmreg_mr_query(), describe the rail with the most refused
 * paths; its local_addr is the caller's address.
 *
 * NULL, with one of these in the last error:
 * -EINVAL: mr is NULL or partly closed.
 * -ENOENT: the group has no such rail, or attr->rails excluded it.
 *
 * Any other error: the error of this rail's registration (HMREG_GROUP_PARTIAL).
 */
struct hmreg_mr *hmreg_mr_rail(const struct hmreg_mr *mr, size_t rail);

/*
 * Finds the token of one rail in the token of a group's region. A peer that reaches the region by
 * this rail passes it to hmreg_remote_open(). *rail_token points into token. The token of a region
 * without a group is the token of its rail 0. -EINVAL: an argument is NULL. -EBADMSG: not a token,
 * truncated, or damaged. -EPROTONOSUPPORT: of a newer format. -ENOENT: the region has no such rail.
 */
int hmreg_token_rail(const void *token, size_t size, size_t rail, const void **rail_token,
                     size_t *rail_size);

/*
 * Opens a peer's region on each member of a group: rail i of the token on member i. count: the
 * number of the group's members; 1 if domain is no group. remotes: count elements. Each becomes a
 * remote to close with hmreg_remote_close(), or NULL if the token has no such rail or the member is
 * withdrawn. Rails of the token beyond count are not opened. On a group with HMREG_GROUP_PARTIAL a
 * rail that cannot be opened is NULL as well. A peer that has its rails in another order opens each
 * by hmreg_token_rail() and hmreg_remote_open(). -EINVAL: an argument is NULL, or count is not the
 * number of members. -ENOENT: the token has none of these rails. Errors of hmreg_remote_open() and
 * hmreg_token_rail(); no remote is then open.
 */
int hmreg_remote_open_rails(struct hmreg_domain *domain, const void *token, size_t size,
                            struct hmreg_remote **remotes, size_t count);

/* The states of a group's member. */
enum hmreg_member_state {
    HMREG_MEMBER_PRESENT,
    HMREG_MEMBER_WITHDRAWN, /* nothing is registered on it */
    HMREG_MEMBER_REPLACING, /* replaced; the library is registering regions on the new member */
};

/*
 * Takes a member out of a group, because its NIC is gone or will be removed. On return no get and
 * no registration of the group registers on it or returns its keys. New regions lack that rail, as
 * with HMREG_GROUP_PARTIAL, and hmreg_mr_rail() says why.
 *
 * In every existing region, held or not, the member's keys become HMREG_KEY_NOTAVAIL and
 * HMREG_VERBS_KEY_NOTAVAIL and the generation changes. The regions and their other rails stay; the
 * call calls no other member.
 *
 * Registrations on the member end: of cached regions without a holder at once, of explicit regions
 * at hmreg_mr_close(), of held cached regions after their last put. The registrations of held
 * cached regions end at the next hmreg_domain_progress() of the group, replacement or withdrawal
 * after that put. The library's thread ends them within ten seconds, unless a member's fabric
 * permits one thread at a time.
 *
 * Call hmreg_mr_close() and the last hmreg_mr_put() when your transfers on the member have ended. A
 * second call continues with the regions that the first could not change (-ENOMEM).
 *
 * why: a reason for people; copied. Any thread. The call waits for no other thread, but deregisters
 * idle cached regions on the calling thread.
 *
 * If the NIC may not answer, call hmreg_domain_lost(), which also withdraws it. While a NIC does
 * not answer, no replacement in the group can end. Regions that other threads are registering are
 * returned without the member.
 * -EINVAL: an argument is NULL, group is no group, or it has no such member.
 * -ENOMEM: some regions still have the rail; call again.
 */
int hmreg_group_withdraw(struct hmreg_domain *group, size_t member, const char *why);

/*
 * Replaces a withdrawn member by a domain. New registrations of the group use it at once. A thread
 * of the library registers the existing regions on it, one after the other, and nothing on other
 * members.
 *
 * Each region that has received the rail has a new generation; its struct hmreg_mr and its rails'
 * stay. hmreg_remote_renew() takes the rail's new token. A get does not wait: it returns the region
 * with the rails that it has by then.
 *
 * If the registration of a region fails, the region lacks the rail until the next replacement, and
 * hmreg_mr_rail() says why. So does a region of a caller's dmabuf (-EINVAL), and one that is bound
 * to an endpoint (-EOPNOTSUPP). Suspended regions receive the rail at hmreg_resume().
 *
 * Meanwhile hmreg_mr_close() of the region that the thread is registering, and hmreg_suspend() of
 * its memory, wait. Once the member is withdrawn again or its domain is lost, they return -EBUSY
 * until the fabric's call returns. hmreg_domain_close() of the group returns -EBUSY.
 *
 * With HMREG_GROUP_OWNS_MEMBERS the group owns the new member, and the caller owns the old one
 * again. The old member can be closed once the group has no registration on it.
 *
 * Any thread.
 * -EINVAL: an argument is NULL, group is no group or has no such member, the member was not
 *   withdrawn; domain is a member already, is a group, is of another lib, has an owner, or demands
 *   more or permits less than hmreg_domain_query() of the group returns.
 * -EOPNOTSUPP: as hmreg_group_open().
 * -EBUSY: a replacement in the group has not ended.
 * -ENODEV: domain is lost.
 */
int hmreg_group_replace(struct hmreg_domain *group, size_t member, struct hmreg_domain *domain);

struct hmreg_group_member {
    size_t size; /* sizeof(struct hmreg_group_member) */
    enum hmreg_member_state state;
    struct hmreg_domain *domain;
    size_t regions, done,
        failed;    /* of the last replacement: regions that lacked the member when it began or were
                      being registered; how many of them have it now; and how many remain without it */
    char why[256]; /* reason of the last withdrawal; "": there was none */
};

/* The state of a group's member. Any thread. -EINVAL: an argument is NULL, group is no group or has
 * no such member, or out->size is too small. */
int hmreg_group_query(struct hmreg_domain *group, size_t member, struct hmreg_group_member *out);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
