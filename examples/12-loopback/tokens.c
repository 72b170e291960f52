/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Many tokens in one call, and what a peer keeps of each; and the tokens of a group's rails, for
 * peers with as many rails and for one with fewer.
 */
#include "parts.h"

#include <hmreg/group.h>
#include <hmreg/loopback.h>
#include <stdio.h>

#define COUNT 3
#define RAILS 2

static char buffers[COUNT][4096];

/* A peer's array of addresses and keys, which needs no call for each transfer. */
static int flatten_all(struct hmreg_remote *const *remotes, const struct hmreg_mr *const *mrs)
{
    struct hmreg_remote_flat flats[COUNT];
    uint64_t addr, key;
    int rc = 0;

    for (int i = 0; i < COUNT && !rc; i++) {
        rc = hmreg_remote_flatten(remotes[i], &flats[i]);
        rc = rc ? rc : hmreg_remote_flat_addr(&flats[i], 100, 1, &addr, &key);
        rc = rc ? rc : expect(key == hmreg_mr_head_of(mrs[i])->keys->key);
    }
    return rc;
}

static int many(struct hmreg_domain *domain, struct hmreg_domain *peer)
{
    struct hmreg_mr *mrs[COUNT] = {NULL};
    struct hmreg_remote *remotes[COUNT] = {NULL};
    char all[COUNT * 256];
    size_t size = sizeof(all), count = COUNT;
    int rc = 0;

    for (int i = 0; i < COUNT && !rc; i++)
        rc = hmreg_mr_get(domain, buffers[i], sizeof(buffers[i]), HMREG_REMOTE_WRITE, &mrs[i]);
    rc = rc ? rc : hmreg_mr_pack_many(mrs, COUNT, all, &size);
    rc = rc ? rc : hmreg_remote_open_many(peer, all, size, remotes, &count);
    rc = rc ? rc : flatten_all(remotes, (const struct hmreg_mr *const *)mrs);
    for (int i = 0; i < COUNT; i++) {
        hmreg_remote_close(remotes[i]);
        hmreg_mr_put(mrs[i]);
    }
    return rc;
}

static int open_rails(struct hmreg_domain *group, struct hmreg_domain *single, const char *token,
                      size_t size)
{
    struct hmreg_remote *remotes[RAILS] = {NULL}, *last = NULL;
    const void *rail;
    size_t rail_size;
    int rc = hmreg_remote_open_rails(group, token, size, remotes, RAILS);

    rc = rc ? rc : hmreg_token_rail(token, size, RAILS - 1, &rail, &rail_size);
    rc = rc ? rc : hmreg_remote_open(single, rail, rail_size, &last);
    for (int i = 0; i < RAILS; i++)
        hmreg_remote_close(remotes[i]);
    hmreg_remote_close(last);
    return rc;
}

static int of_rails(struct hmreg *lib, struct hmreg_domain *const *members,
                    struct hmreg_domain *single)
{
    struct hmreg_domain *group = NULL;
    struct hmreg_mr *mr = NULL;
    char token[1024];
    size_t size = sizeof(token);
    int rc = hmreg_group_open(lib, members, RAILS, NULL, &group);

    rc = rc ? rc : hmreg_mr_get(group, buffers[0], sizeof(buffers[0]), HMREG_REMOTE_WRITE, &mr);
    rc = rc ? rc : hmreg_mr_pack(mr, token, &size);
    rc = rc ? rc : open_rails(group, single, token, size);
    hmreg_mr_put(mr);
    hmreg_domain_close(group);
    return rc;
}

int tokens(struct hmreg *lib)
{
    struct hmreg_domain *domains[RAILS + 1] = {NULL};
    int rc = 0;

    for (int i = 0; i <= RAILS && !rc; i++)
        rc = hmreg_domain_open_loopback(lib, NULL, NULL, &domains[i]);
    rc = rc ? rc : many(domains[0], domains[RAILS]);
    rc = rc ? rc : of_rails(lib, domains, domains[RAILS]);
    for (int i = 0; i <= RAILS; i++)
        hmreg_domain_close(domains[i]);
    if (!rc)
        printf("tokens: %d in one call, and %d of rails\n", COUNT, RAILS);
    return rc;
}
