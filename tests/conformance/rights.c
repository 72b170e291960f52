/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 * For how long a peer on loopback reaches a region after each kind of its end. */
#include "tests/support/rights.h"

#include <hmreg/loopback.h>

struct peer {
    struct hmreg_domain *domain;
    struct hmreg_remote *remote; /* one at a time */
};

static void take(void *self, const struct hmreg_mr *mr)
{
    struct peer *peer = self;
    uint8_t token[2048];
    size_t size = sizeof(token);

    hmreg_remote_close(peer->remote);
    assert_ok(hmreg_mr_pack(mr, token, &size));
    assert_ok(hmreg_remote_open(peer->domain, token, size, &peer->remote));
}

static bool write_there(void *self, uint64_t addr, uint64_t key, char byte)
{
    struct peer *peer = self;
    char bytes[RIGHTS_BYTES];

    memset(bytes, byte, sizeof(bytes));
    hmreg_loopback_write(peer->remote, bytes, sizeof(bytes), NULL, addr, key);
    return false;
}

TEST(peer__after_each_end__reaches_as_long_as_promised)
{
    struct hmreg_domain_config one = {
        .size = sizeof(one), .max_regions = 1, .max_bytes = HMREG_LIMIT_NONE};
    struct peer peer = {.remote = NULL};
    struct rights_peer rights = {.take = take, .write = write_there, .self = &peer};
    struct hmreg_domain *domain;
    struct hmreg *lib;

    assert_ok(hmreg_open(NULL, &lib));
    assert_ok(hmreg_domain_open_loopback(lib, NULL, &one, &domain));
    assert_ok(hmreg_domain_open_loopback(lib, NULL, NULL, &peer.domain));
    for (unsigned i = 0; i < rights_ends; i++)
        rights_measure(lib, domain, "loopback", i, &rights);
    hmreg_remote_close(peer.remote);
    assert_ok(hmreg_domain_close(peer.domain));
    assert_ok(hmreg_domain_close(domain));
    assert_ok(hmreg_close(lib));
}

TEST_MAIN()
