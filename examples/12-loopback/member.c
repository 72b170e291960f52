/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A group's member is withdrawn and replaced while a region is registered.
 */
#include "parts.h"

#include <hmreg/group.h>
#include <hmreg/loopback.h>
#include <sched.h>
#include <stdio.h>

static char buffer[4096];

static int await(struct hmreg_domain *group, struct hmreg_group_member *out)
{
    int rc = hmreg_group_query(group, 1, out);

    while (!rc && out->state == HMREG_MEMBER_REPLACING) {
        sched_yield();
        rc = hmreg_group_query(group, 1, out);
    }
    return rc;
}

static int change(struct hmreg_domain *group, struct hmreg_domain *other, struct hmreg_mr *mr)
{
    struct hmreg_group_member info = {.size = sizeof(info)};
    int rc = hmreg_group_withdraw(group, 1, "its cable is cut");

    rc = rc ? rc : expect(!hmreg_mr_rail(mr, 1));
    rc = rc ? rc : hmreg_group_replace(group, 1, other);
    rc = rc ? rc : await(group, &info);
    rc = rc ? rc : expect(info.done == 1 && hmreg_mr_rail(mr, 1));
    if (!rc)
        printf("member: replaced, %zu rail registered anew\n", info.done);
    return rc;
}

int member(struct hmreg *lib)
{
    struct hmreg_domain *domains[3] = {NULL}, *group = NULL;
    struct hmreg_mr *mr = NULL;
    int rc = 0;

    for (int i = 0; i < 3 && !rc; i++)
        rc = hmreg_domain_open_loopback(lib, NULL, NULL, &domains[i]);
    rc = rc ? rc : hmreg_group_open(lib, domains, 2, NULL, &group);
    rc = rc ? rc
            : hmreg_mr_reg(group, buffer, sizeof(buffer), HMREG_REMOTE_WRITE, 0, HMREG_KEY_ANY, 0,
                           &mr, NULL);
    rc = rc ? rc : change(group, domains[2], mr);
    hmreg_mr_close(mr);
    while (hmreg_domain_close(group) == -EBUSY)
        sched_yield();
    for (int i = 0; i < 3; i++)
        hmreg_domain_close(domains[i]);
    return rc;
}
