/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A program's own record of each buffer, on its cached region; a thread that must not wait; and the
 * calls that end cached regions: before memory goes that nothing watches, of what the calling
 * thread may deregister, and of all that no get holds.
 */
#include "parts.h"

#include <errno.h>
#include <hmreg/loopback.h>
#include <stdio.h>

static char buffer[4096];
static int record;

static int get_twice(struct hmreg_domain *domain)
{
    struct hmreg_mr *first = NULL, *second = NULL;
    int rc = hmreg_mr_get(domain, buffer, sizeof(buffer), HMREG_SEND, &first);

    rc = rc ? rc : hmreg_mr_set_context(first, &record);
    rc = rc ? rc : hmreg_mr_get(domain, buffer, sizeof(buffer), HMREG_SEND, &second);
    rc = rc ? rc : expect(hmreg_mr_context(second) == &record);
    hmreg_mr_put(second);
    hmreg_mr_put(first);
    return rc;
}

/* As a thread does that makes progress: what is not cached it leaves to one that may wait. */
static int get_at_once(struct hmreg_domain *domain)
{
    struct hmreg_mr *mr = NULL;
    int rc = hmreg_mr_try_get(domain, buffer, sizeof(buffer), HMREG_SEND, &mr);

    if (rc == -EAGAIN)
        rc = hmreg_mr_get(domain, buffer, sizeof(buffer), HMREG_SEND, &mr);
    if (!rc && hmreg_mr_try_put(mr) == -EAGAIN)
        hmreg_mr_put(mr);
    return rc;
}

static int ends(struct hmreg *lib, struct hmreg_domain *domain)
{
    struct hmreg_stats stats = {.size = sizeof(stats)};
    int rc = hmreg_invalidate(lib, buffer, sizeof(buffer)); /* by who frees the memory */

    rc = rc ? rc : hmreg_domain_progress(domain); /* where the fabric is this thread's */
    rc = rc ? rc : get_twice(domain);
    rc = rc ? rc : hmreg_domain_flush(domain);
    rc = rc ? rc : hmreg_domain_stats(domain, &stats);
    return rc ? rc : expect(!stats.regions && stats.misses == 2);
}

int remember(struct hmreg *lib)
{
    struct hmreg_domain *domain = NULL;
    int rc = hmreg_domain_open_loopback(lib, NULL, NULL, &domain);

    rc = rc ? rc : get_twice(domain);
    rc = rc ? rc : get_at_once(domain);
    rc = rc ? rc : ends(lib, domain);
    hmreg_domain_close(domain);
    if (!rc)
        printf("remember: the second get finds the record; nothing stays after a flush\n");
    return rc;
}
