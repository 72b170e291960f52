/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Explains why a region has its path, why a registration found none, and which path a registration
 * would take. The reasons are data, for people and for programs.
 */
#include "core/mr/explain.h"

#include "core/base/error.h"
#include "core/base/process.h"
#include "core/base/validate.h"
#include "core/context/group.h"
#include "core/mr/mr.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the last registration of each thread that every path refused ----------------------- */

/* A pthread key, not thread-local data, for the reason given in error.c. */
static pthread_key_t kept_key;

static bool make_key(void)
{
    return pthread_key_create(&kept_key, free) == 0;
}

/* The thread's explanation; make: allocates it if there is none. NULL: none, or no memory. */
static struct hmreg_explanation *kept(bool make)
{
    static atomic_int made;
    struct hmreg_explanation *found;

    if (!process_once(&made, make_key))
        return NULL;
    found = pthread_getspecific(kept_key);
    if (found || !make)
        return found;
    found = calloc(1, sizeof(*found));
    if (found && pthread_setspecific(kept_key, found)) {
        free(found);
        found = NULL;
    }
    return found;
}

/* ---- reasons ---------------------------------------------------------------------------- */

static void fill(struct hmreg_explanation *out, enum hmreg_iface iface, int device,
                 enum hmreg_path path, const struct hmreg_reason *reasons, uint32_t count)
{
    *out = (struct hmreg_explanation){
        .size = sizeof(*out),
        .iface = iface,
        .device = device,
        .path = path,
        .refused = count,
    };
    if (count)
        memcpy(out->reasons, reasons, count * sizeof(*reasons));
}

void explain_keep(enum hmreg_iface iface, int device, const struct hmreg_reason *reasons,
                  uint32_t count)
{
    struct hmreg_explanation *out = kept(true);

    if (out)
        fill(out, iface, device, HMREG_PATH_NONE, reasons, count);
}

/* Begins each reason's text with the rail that it is about. */
static void name_rail(struct hmreg_explanation *explanation, size_t rail,
                      const struct hmreg_domain *member)
{
    for (uint32_t i = 0; i < explanation->refused; i++) {
        struct hmreg_reason *reason = &explanation->reasons[i];
        char text[sizeof(reason->text)];

        snprintf(text, sizeof(text), "rail %zu (%.64s): %.160s", rail, member->caps.fabric,
                 reason->text);
        memcpy(reason->text, text, sizeof(text));
    }
}

int hmreg_explain(const struct hmreg_mr *mr, struct hmreg_explanation *out)
{
    const struct hmreg_explanation *last = mr ? NULL : kept(false);
    struct hmreg_explanation explanation;
    bool of_group = mr && mr_rails(mr);
    size_t rail = 0, count;
    int rc = mr ? mr_check(mr) : 0;

    rc = rc ? rc : validate_out(out, sizeof(*out), "struct hmreg_explanation");
    if (rc)
        return rc;
    if (!mr && !last)
        return hmreg_fail(-ENOENT, "mr is NULL, and no registration of this thread was refused");
    if (mr && mr_parts(mr, &count))
        mr = mr_explained(mr, &rail);
    assert(mr || last); /* a region has a rail */
    if (mr)
        fill(&explanation, mr->iface, mr_device(mr), mr->path, mr->more ? mr->more->reasons : NULL,
             mr->more ? mr->more->refused : 0);
    else
        explanation = *last;
    if (of_group)
        name_rail(&explanation, rail, mr->domain);
    validate_copy_out(out, &explanation, sizeof(explanation));
    return 0;
}

/* Would this path work for the device's memory? Nothing is registered. */
static int foresee(struct hmreg_domain *domain, enum hmreg_iface iface, int device,
                   struct hmreg_reason *why)
{
    struct hmem_device info;

    context_device(domain->lib, iface, device, &info);
    if (why->path != HMREG_PATH_PEERMEM && !info.dmabuf)
        return hmreg_refuse(why, -EOPNOTSUPP, "no-dmabuf-export",
                            "this device's runtime does not export dmabufs");
    return domain->ops.can(domain->self, why->path, iface, device, why);
}

static void foresee_one(struct hmreg_domain *domain, enum hmreg_iface iface, int device,
                        struct hmreg_explanation *out)
{
    fill(out, iface, device, HMREG_PATH_NONE, NULL, 0);
    for (const enum hmreg_path *path = domain->order; *path != HMREG_PATH_NONE; path++) {
        struct hmreg_reason *why = &out->reasons[out->refused];

        why->path = *path;
        if (foresee(domain, iface, device, why) == 0) {
            *why = (struct hmreg_reason){0};
            out->path = *path;
            return;
        }
        out->refused++;
    }
}

/* Of a group: the member for which the most paths would be refused. */
static void foresee_all(struct hmreg_domain *domain, enum hmreg_iface iface, int device,
                        struct hmreg_explanation *out)
{
    struct hmreg_explanation other;
    size_t worst = 0;

    if (!domain->group) {
        foresee_one(domain, iface, device, out);
        return;
    }
    foresee_one(domain->group->members[0], iface, device, out);
    for (size_t i = 1; i < domain->group->count; i++) {
        foresee_one(domain->group->members[i], iface, device, &other);
        if (other.refused <= out->refused)
            continue;
        *out = other;
        worst = i;
    }
    name_rail(out, worst, domain->group->members[worst]);
}

int hmreg_domain_explain(struct hmreg_domain *domain, enum hmreg_iface iface, int device,
                         struct hmreg_explanation *out)
{
    struct hmreg_explanation explanation;
    struct hmreg_error before;
    int rc = domain_check(domain);

    rc = rc ? rc : validate_out(out, sizeof(*out), "struct hmreg_explanation");
    rc = rc ? rc : validate_iface(iface);
    rc = rc ? rc : domain_check_device(domain, iface, device);
    if (rc)
        return rc;
    hmreg_error_save(&before);
    if (iface == HMREG_IFACE_SYSTEM)
        fill(&explanation, iface, -1, HMREG_PATH_SYSTEM, NULL, 0);
    else
        foresee_all(domain, iface, device, &explanation);
    hmreg_error_restore(&before);
    validate_copy_out(out, &explanation, sizeof(explanation));
    return 0;
}
