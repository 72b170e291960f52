/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The README's two functions over libfabric's tcp: the endpoint is connected to itself, so that the
 * owner serves its token to a peer in this process. The second header is the README's blocks of C.
 */
#include "examples/common/endpoint.h"
#include "readme_program.h"

#include <rdma/fi_errno.h>
#include <stdio.h>
#include <string.h>

static struct endpoint endpoint;
static struct hmreg_domain *domain;
static char data[] = "written by the peer";

/* tcp connects while its queue is read. */
static int progress(int posted)
{
    struct fi_cq_entry entry;
    ssize_t got;

    do
        got = fi_cq_read(endpoint.cq, &entry, 1);
    while (posted && got == -FI_EAGAIN);
    return got == 1 || got == -FI_EAGAIN ? 0 : (int)got;
}

static int serve(const void *token, size_t size)
{
    struct hmreg_remote *remote = NULL;
    int rc = hmreg_remote_open(domain, token, size, &remote);

    rc = rc ? rc : peer(domain, remote, data, sizeof(data), endpoint.ep, endpoint.peer, progress);
    hmreg_remote_close(remote);
    return rc;
}

int main(void)
{
    static char buffer[1 << 16];
    const struct endpoint_hints hints = {.provider = "tcp"};
    struct hmreg *lib = NULL;
    int rc = endpoint_open(&hints, &endpoint);

    rc = rc ? rc : endpoint_connect_self(&endpoint);
    rc = rc ? rc : hmreg_open(NULL, &lib);
    rc = rc ? rc : hmreg_domain_open_ofi(lib, endpoint.domain, endpoint.info, NULL, &domain);
    rc = rc ? rc : owner(domain, buffer, sizeof(buffer), serve);
    if (rc)
        fprintf(stderr, "%s\n", failure_text(rc));
    rc = rc ? rc : hmreg_domain_close(domain);
    rc = rc ? rc : hmreg_close(lib);
    endpoint_close(&endpoint);
    return rc || strcmp(buffer, data) != 0;
}
