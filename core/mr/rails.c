/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See rails.h. The memory is resolved before, once for all rails. Each rail is then an unpublished
 * explicit region of its member, which takes that member's paths, keys and modes, and may itself be
 * a composite.
 */
#include "core/mr/rails.h"

#include "core/base/error.h"
#include "core/group/group.h"
#include "core/mr/region.h"
#include "core/mr/shared.h"
#include "core/mr/undone.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- creation --------------------------------------------------------------------------- */

/* A region in progress. */
struct making {
    const struct group *group;
    struct request request; /* of each rail */
    rail_create *create;
    const void *what;
    struct hmreg_mr *mr;
    size_t made; /* rails */
};

/* Begins the text of the thread's last error with the rail. */
static void name_rail(const struct group *group, size_t rail)
{
    struct hmreg_error error;
    char text[sizeof(error.text)];

    hmreg_error_save(&error);
    snprintf(text, sizeof(text), "rail %zu (%.64s): %.160s", rail,
             group->members[rail]->caps.fabric, error.text);
    snprintf(error.text, sizeof(error.text), "%s", text);
    hmreg_error_restore(&error);
}

/* Errors that say nothing about the rail: something is short at the moment, and a get evicts. */
static bool is_shortage(int rc)
{
    return rc == -ENOMEM || rc == -ENOSPC || rc == -HMREG_ENOKEY;
}

/* Keeps the thread's last error as the reason why there is no such rail. */
static int miss_rail(struct hmreg_mr *mr, size_t rail)
{
    struct mr_missing *missing = calloc(1, sizeof(*missing));
    struct mr_missing **end = &mr_ext(mr)->missing;

    if (!missing)
        return hmreg_fail(-ENOMEM, "no memory for the reasons of a rail");
    missing->rail = rail;
    hmreg_error_save(&missing->error);
    while (*end)
        end = &(*end)->next;
    *end = missing;
    return 0;
}

/* Ends a rail of a region that is not finished. Keeps the thread's last error. */
static void end_rail(struct making *making, size_t rail)
{
    struct hmreg_mr **made = &mr_ext(making->mr)->rails[rail];

    if (!*made)
        return;
    if (making->request.endpoints)
        mr_unbind(*made);
    undone_add(*made);
    *made = NULL;
}

/* Binds a rail to its endpoint, if it has one, and enables it; or ends it. */
static int ready(struct making *making, size_t rail)
{
    void *endpoint = making->request.endpoints ? making->request.endpoints[rail] : NULL;
    int rc = endpoint ? mr_ready(mr_ext(making->mr)->rails[rail], endpoint) : 0;

    if (rc)
        end_rail(making, rail);
    return rc;
}

int rails_miss(struct hmreg_mr *mr, size_t rail, int rc)
{
    const struct group *group = mr->domain->group;

    name_rail(group, rail);
    if (!(group->flags & HMREG_GROUP_PARTIAL) || is_shortage(rc))
        return rc;
    return miss_rail(mr, rail);
}

static int make_rail(struct making *making, size_t rail)
{
    struct hmreg_mr **made = &mr_ext(making->mr)->rails[rail];
    int rc = making->create(making->group->members[rail], &making->request, making->what, made);

    rc = rc ? rc : ready(making, rail);
    if (!rc) {
        mr_ext(*made)->is_rail = true;
        making->made++;
        return 0;
    }
    return rails_miss(making->mr, rail, rc);
}

static int make_rails(struct making *making)
{
    int rc = 0;

    for (size_t i = 0; i < making->group->count && !rc; i++)
        if (group_registers_on(making->request.rails, i))
            rc = make_rail(making, i);
    if (!rc && !making->made) {
        hmreg_error_restore(&mr_ext(making->mr)->missing->error);
        rc = mr_ext(making->mr)->missing->error.code;
    }
    return rc;
}

static int make(struct making *making)
{
    struct shared shared = SHARED_INIT, *callers = making->request.shared;
    struct hmreg_error_guard guard;
    int rc;

    making->request.shared = callers ? callers : &shared;
    hmreg_error_guard(&guard);
    rc = make_rails(making);
    for (size_t i = 0; rc && i < making->group->count; i++)
        end_rail(making, i);
    hmreg_error_unguard(&guard, !rc);
    shared_end(&shared);
    making->request.shared = callers;
    return rc;
}

int rails_new(struct hmreg_domain *domain, const struct request *request,
              const struct resolved *found, struct hmreg_mr **out)
{
    struct hmreg_mr *mr = region_new(domain, request, found);

    if (mr)
        mr_ext(mr)->rails = calloc(domain->group->count, sizeof(struct hmreg_mr *));
    if (!mr || !mr_ext(mr)->rails) {
        if (mr)
            region_free(mr);
        return hmreg_fail(-ENOMEM, "no memory for a region of %zu rails", domain->group->count);
    }
    mr_body(mr)->made = PROVIDER_MR_OF_PARTS;
    *out = mr;
    return 0;
}

int rails_create(struct hmreg_domain *domain, const struct request *request,
                 const struct resolved *found, rail_create *create, const void *what,
                 struct hmreg_mr **out)
{
    struct making making = {
        .group = domain->group, .request = *request, .create = create, .what = what};
    int rc = rails_new(domain, request, found, &making.mr);

    if (rc)
        return rc;
    making.request.any_key |= (domain->caps.mr_mode & HMREG_MR_PROV_KEY) != 0;
    rc = make(&making);
    if (rc) {
        region_free(making.mr);
        return rc;
    }
    mr_body(making.mr)->path = mr_body(mr_explained(making.mr, NULL))->path;
    *out = making.mr;
    return 0;
}

/* ---- ranges ----------------------------------------------------------------------------- */

static int create_ranges(struct hmreg_domain *member, const struct request *request,
                         const void *found, struct hmreg_mr **out)
{
    return region_create(member, request, found, out);
}

int rails_create_ranges(struct hmreg_domain *domain, const struct request *request,
                        const struct resolved *found, struct hmreg_mr **out)
{
    struct request each = *request;

    if (!domain->group)
        return region_create(domain, request, found, out);
    if (!(request->flags & REQUEST_PARTS) && (domain->flags & HMREG_DOMAIN_SINGLE))
        each.flags |= HMREG_MR_SINGLE;
    if (!(request->flags & REQUEST_PARTS) && (domain->flags & HMREG_DOMAIN_PARTS))
        each.flags |= HMREG_MR_PARTS;
    return rails_create(domain, &each, found, create_ranges, found, out);
}

int rails_make(struct hmreg_domain *domain, const struct request *request,
               const struct resolved *found, struct hmreg_mr *mr)
{
    struct hmreg_mr *whole = NULL;
    int rc;

    if (!domain->group)
        return region_make(domain, request, found, mr);
    mr_body(mr)->key_taken = false;
    rc = rails_create_ranges(domain, request, found, &whole);
    if (!rc)
        region_move(whole, mr);
    return rc;
}

/* ---- queries ---------------------------------------------------------------------------- */

static const struct mr_missing *find_missing(const struct hmreg_mr *mr, size_t rail)
{
    const struct mr_missing *missing = mr_ext(mr)->missing;

    while (missing && missing->rail != rail)
        missing = missing->next;
    return missing;
}

/* Records why there is no such rail. */
static void fail_rail(const struct hmreg_mr *mr, size_t rail)
{
    const struct mr_missing *missing;

    if (rail >= hmreg_group_count(mr->domain)) {
        hmreg_fail(-ENOENT, "rail is %zu; the region's domain has %zu", rail,
                   hmreg_group_count(mr->domain));
        return;
    }
    missing = find_missing(mr, rail);
    if (missing)
        hmreg_error_restore(&missing->error);
    else
        hmreg_fail(-ENOENT, "rail %zu was not asked for: rails of the attributes lacks its bit",
                   rail);
}

struct hmreg_mr *hmreg_mr_rail(const struct hmreg_mr *mr, size_t rail)
{
    struct hmreg_mr *found = NULL;

    if (mr_check(mr))
        return NULL;
    if (rail < hmreg_group_count(mr->domain))
        found = mr_rails(mr) ? mr_rails(mr)[rail] : (struct hmreg_mr *)mr;
    if (!found)
        fail_rail(mr, rail);
    return found;
}
