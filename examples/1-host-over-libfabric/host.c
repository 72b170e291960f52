/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Example 1: host memory over libfabric. One buffer is written into another, as a peer would do
 * it: through the network stack, by an address and a key. Here the peer is this program itself.
 *
 *     1-host-over-libfabric [PROVIDER]        PROVIDER of libfabric: tcp (the default), shm, ...
 */
#include "../common/endpoint.h"

#include <hmreg/ofi.h>
#include <stdio.h>
#include <string.h>

static int write_through(struct endpoint *endpoint, struct hmreg *lib, const char *from, char *to,
                         size_t len)
{
    struct hmreg_domain_config exact = {.size = sizeof(exact), .flags = HMREG_DOMAIN_EXACT};
    struct hmreg_domain *domain = NULL;
    struct hmreg_mr *source = NULL, *target = NULL;
    struct hmreg_remote *remote = NULL;
    char token[1024];
    size_t size = sizeof(token);
    uint64_t addr, key;
    int rc;

    /* A domain, in which memory is registered; the fid_domain stays ours. Exact: get() never
     * returns a larger cached region, so the token covers the target only. */
    rc = hmreg_domain_open_ofi(lib, endpoint->domain, endpoint->info, &exact, &domain);

    /* The target: peers may write it. They need its token, which is sent to them as bytes. */
    rc = rc ? rc : hmreg_mr_get(domain, to, len, HMREG_REMOTE_WRITE, &target);
    rc = rc ? rc : hmreg_mr_pack(target, token, &size);

    /* The peer's side: the token becomes an address and a key for RMA calls. */
    rc = rc ? rc : hmreg_remote_open(domain, token, size, &remote);
    rc = rc ? rc : hmreg_remote_addr(remote, 0, len, &addr, &key);

    /* The source: some fabrics want it registered too, and its descriptor in each call. */
    rc = rc ? rc : hmreg_mr_get(domain, from, len, HMREG_WRITE, &source);
    rc = rc ? rc : endpoint_write(endpoint, from, len, hmreg_mr_desc(source), addr, key);

    /* Each get() needs a put(). The next get() of the same memory costs nanoseconds. */
    hmreg_mr_put(source);
    hmreg_remote_close(remote);
    hmreg_mr_put(target);
    hmreg_domain_close(domain);
    return rc;
}

int main(int argc, char **argv)
{
    struct endpoint_hints hints = {.provider = argc > 1 ? argv[1] : "tcp"};
    char from[] = "written through the fabric", to[sizeof(from)] = "";
    struct endpoint endpoint = {0};
    struct hmreg *lib = NULL;
    int rc = endpoint_open(&hints, &endpoint);

    rc = rc ? rc : endpoint_connect_self(&endpoint);
    rc = rc ? rc : hmreg_open(NULL, &lib);
    rc = rc ? rc : write_through(&endpoint, lib, from, to, sizeof(from));
    if (rc)
        fprintf(stderr, "%s: %s\n", hints.provider, failure_text(rc));
    else
        printf("%s: %s\n", endpoint.info->fabric_attr->prov_name, to);
    hmreg_close(lib);
    endpoint_close(&endpoint);
    return rc || strcmp(from, to);
}
