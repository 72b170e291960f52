/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Opens a peer's region of a group: a remote for each rail, on the local member with its number.
 */
#include "core/base/error.h"
#include "core/base/failure.h"
#include "core/base/validate.h"
#include "core/group/group.h"
#include "core/remote/rails_token.h"

#include <errno.h>
#include <string.h>

static bool may_lack(const struct hmreg_domain *domain)
{
    return domain->group && (domain->group->flags & HMREG_GROUP_PARTIAL);
}

static int open_rail(struct hmreg_domain *domain, const struct rails_token *token, size_t rail,
                     struct hmreg_remote **out)
{
    int rc;

    if (rail >= token->count || !token->tokens[rail] || group_is_without(domain, rail))
        return 0;
    rc = hmreg_remote_open(group_rail(domain, rail), token->tokens[rail], token->sizes[rail], out);
    return rc ? hmreg_fail_at(rc, "rail %zu", rail) : 0;
}

static void close_all(struct hmreg_remote **remotes, size_t count)
{
    struct hmreg_error failure;

    hmreg_error_save(&failure);
    while (count)
        hmreg_remote_close(remotes[--count]);
    hmreg_error_restore(&failure);
}

/* Fails with the first rail that fails. If rails may be missing, fails only if no rail opens, with
 * the last rail's failure. */
static int open_all(struct hmreg_domain *domain, const struct rails_token *token,
                    struct hmreg_remote **remotes, size_t count)
{
    bool any = false;
    int failed = 0;

    for (size_t i = 0; i < count; i++) {
        int rc = open_rail(domain, token, i, &remotes[i]);

        any |= remotes[i] != NULL;
        if (rc && !may_lack(domain))
            return rc;
        failed = rc ? rc : failed;
    }
    if (any)
        return 0;
    return failed ? failed
                  : hmreg_fail(-ENOENT,
                               "the peer's region has none of the %zu rails of this "
                               "group",
                               count);
}

static int check(struct hmreg_domain *domain, const void *token, struct hmreg_remote **remotes,
                 size_t count)
{
    int rc = domain_check(domain);

    rc = rc ? rc : validate_pointer(token, "token");
    rc = rc ? rc : validate_pointer(remotes, "remotes");
    if (!rc && count != group_rails(domain))
        rc = hmreg_fail(-EINVAL, "count is %zu; the domain has %zu rails", count,
                        group_rails(domain));
    return rc;
}

int hmreg_remote_open_rails(struct hmreg_domain *domain, const void *bytes, size_t size,
                            struct hmreg_remote **remotes, size_t count)
{
    LOGS_FAILURE(domain_log(domain));
    struct hmreg_remote *opened[HMREG_GROUP_MAX] = {NULL};
    struct rails_token token = {.count = 1, .tokens = {bytes}, .sizes = {size}};
    struct hmreg_error_guard guard;
    int rc = check(domain, bytes, remotes, count);

    if (!rc && rails_token_is(bytes, size))
        rc = rails_token_read(bytes, size, &token);
    if (rc)
        return rc;
    hmreg_error_guard(&guard);
    rc = open_all(domain, &token, opened, count);
    hmreg_error_unguard(&guard, !rc);
    if (rc)
        close_all(opened, count);
    else
        memcpy(remotes, opened, count * sizeof(opened[0]));
    return rc;
}
