/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A user's program on libhmreg-loopback: registers a buffer; it links to libhmreg through it.
 */
#include <hmreg/loopback.h>

#include <stdio.h>

static int registers(struct hmreg *lib)
{
    char buffer[100];
    struct hmreg_domain *domain;
    struct hmreg_mr *mr;
    int rc = hmreg_domain_open_loopback(lib, NULL, NULL, &domain);

    if (rc)
        return rc;
    rc = hmreg_mr_get(domain, buffer, sizeof(buffer), HMREG_ACCESS_ALL, &mr);
    if (!rc)
        hmreg_mr_put(mr);
    return rc ? rc : hmreg_domain_close(domain);
}

int main(void)
{
    struct hmreg *lib;

    if (hmreg_open(NULL, &lib) || registers(lib) || hmreg_close(lib)) {
        fprintf(stderr, "%s\n", hmreg_last_error()->text);
        return 1;
    }
    puts(hmreg_version());
    return 0;
}
