/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A domain whose NIC is gone: no hit, no registration, and no call of its fabric on a caller's
 * thread, for good. What is to be deregistered goes to the domain's undone list, whose thread calls
 * the fabric (core/mr/undone.h).
 *
 * A domain becomes lost in two steps. lost_mark() stops hits and registrations at once, and may be
 * called wherever the fabric has just failed. lost_settle() ends the idle regions and tells the
 * groups; it is called where no region is being registered.
 */
#ifndef HMREG_CORE_CONTEXT_LOST_H
#define HMREG_CORE_CONTEXT_LOST_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

struct gate;
struct hmreg_domain;

#define LOST_WHY_BYTES 256

struct lost {
    pthread_mutex_t lock;     /* guards why until `is` is set, after which it stays */
    char why[LOST_WHY_BYTES]; /* never empty */
    atomic_bool is, settled;
    struct gate *gate; /* of the domain's caches */
    void (*end_idle)(struct hmreg_domain *domain);
    /* Of a member of groups, set by core/group: withdraws it from each of them. NULL: none. */
    void (*group_lost)(struct hmreg_domain *member, const char *why);
};

bool domain_is_lost(const struct hmreg_domain *domain);

/* Returns -ENODEV, with a text that says why the domain is lost. */
int domain_fail_lost(const struct hmreg_domain *domain);

/* The first reason stays. why: NULL or empty: a text of ours. */
void lost_mark(struct hmreg_domain *domain, const char *why);

/* The second step of a domain that is marked; nothing where it is done, or not marked. Keeps the
 * thread's last error. */
void lost_settle(struct hmreg_domain *domain);

#endif
