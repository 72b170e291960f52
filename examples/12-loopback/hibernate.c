/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * What a process does before it is saved to an image, and after it is restored. Over a fabric it
 * closes its fid_domain or ibv_pd in between, and hmreg_domain_renew_ofi() or _verbs() has the new
 * one.
 */
#include "parts.h"

#include <hmreg/hibernate.h>
#include <hmreg/loopback.h>
#include <stdio.h>

static char buffer[4096];

/* In between nothing is registered, and nothing can be. */
static int sleep_and_wake(struct hmreg *lib, struct hmreg_domain *domain)
{
    struct hmreg_mr *mr = NULL;
    int rc = hmreg_hibernate(lib);

    rc = rc ? rc : expect(hmreg_mr_get(domain, buffer, sizeof(buffer), HMREG_SEND, &mr) == -EAGAIN);
    return rc ? rc : hmreg_thaw(lib, NULL);
}

int hibernate(struct hmreg *lib)
{
    struct hmreg_domain *domain = NULL;
    struct hmreg_mr *mr = NULL;
    uint32_t generation = 0;
    int rc = hmreg_domain_open_loopback(lib, NULL, NULL, &domain);

    rc = rc ? rc : hmreg_mr_get(domain, buffer, sizeof(buffer), HMREG_REMOTE_WRITE, &mr);
    if (!rc)
        generation = hmreg_mr_head_of(mr)->generation;
    rc = rc ? rc : sleep_and_wake(lib, domain);
    rc = rc ? rc : expect(hmreg_mr_head_of(mr)->generation != generation);
    if (!rc)
        printf("hibernate: the region is the same, its registration another one\n");
    hmreg_mr_put(mr);
    hmreg_domain_close(domain);
    return rc;
}
