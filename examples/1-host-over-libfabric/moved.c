/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A process that goes on over another fid_domain, as one does that was saved and restored: the
 * region stays the same, and a peer reaches it by a new token.
 *
 *     1-moved [PROVIDER]        PROVIDER of libfabric: tcp (the default), ...
 */
#include "../common/endpoint.h"

#include <hmreg/hibernate.h>
#include <hmreg/ofi.h>
#include <stdio.h>
#include <string.h>

static char target[64], source[64];

static int write_as_peer(struct endpoint *endpoint, struct hmreg_domain *domain,
                         struct hmreg_mr *mr, struct hmreg_mr *from, const char *text)
{
    struct hmreg_remote *remote = NULL;
    char token[1024];
    size_t size = sizeof(token);
    uint64_t addr, key;
    int rc = hmreg_mr_pack(mr, token, &size);

    snprintf(source, sizeof(source), "%s", text);
    rc = rc ? rc : hmreg_remote_open(domain, token, size, &remote);
    rc = rc ? rc : hmreg_remote_addr(remote, 0, sizeof(source), &addr, &key);
    rc = rc ? rc : endpoint_write(endpoint, source, sizeof(source), hmreg_mr_desc(from), addr, key);
    hmreg_remote_close(remote);
    if (!rc)
        printf("%s\n", target);
    return rc;
}

/* Between the two a checkpoint may be taken: nothing of the fabric is open. */
static int move(struct endpoint *endpoint, const struct endpoint_hints *hints, struct hmreg *lib,
                struct hmreg_domain *domain)
{
    int rc = hmreg_hibernate(lib);

    if (rc)
        return rc;
    endpoint_close(endpoint);
    rc = endpoint_open(hints, endpoint);
    rc = rc ? rc : endpoint_connect_self(endpoint);
    rc = rc ? rc : hmreg_domain_renew_ofi(domain, endpoint->domain, endpoint->info);
    return rc ? rc : hmreg_thaw(lib, NULL);
}

static int go(struct endpoint *endpoint, const struct endpoint_hints *hints, struct hmreg *lib)
{
    struct hmreg_domain *domain = NULL;
    struct hmreg_mr *mr = NULL, *from = NULL;
    int rc = hmreg_domain_open_ofi(lib, endpoint->domain, endpoint->info, NULL, &domain);

    rc = rc ? rc
            : hmreg_mr_reg(domain, target, sizeof(target), HMREG_REMOTE_WRITE, 0, HMREG_KEY_ANY, 0,
                           &mr, NULL);
    rc = rc ? rc : hmreg_mr_get(domain, source, sizeof(source), HMREG_WRITE, &from);
    rc = rc ? rc : write_as_peer(endpoint, domain, mr, from, "written before");
    rc = rc ? rc : move(endpoint, hints, lib, domain);
    rc = rc ? rc : write_as_peer(endpoint, domain, mr, from, "written to the same region after");
    hmreg_mr_put(from);
    hmreg_mr_close(mr);
    hmreg_domain_close(domain);
    return rc;
}

int main(int argc, char **argv)
{
    struct endpoint_hints hints = {.provider = argc > 1 ? argv[1] : "tcp"};
    struct endpoint endpoint = {0};
    struct hmreg *lib = NULL;
    int rc = endpoint_open(&hints, &endpoint);

    rc = rc ? rc : endpoint_connect_self(&endpoint);
    rc = rc ? rc : hmreg_open(NULL, &lib);
    rc = rc ? rc : go(&endpoint, &hints, lib);
    if (rc)
        fprintf(stderr, "%s: %s\n", hints.provider, failure_text(rc));
    hmreg_close(lib);
    endpoint_close(&endpoint);
    return rc != 0;
}
