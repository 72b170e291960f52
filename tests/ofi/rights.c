/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 * For how long a peer on a libfabric provider reaches a region after each kind of its end. */
#include "tests/support/rights.h"
#include "tests/support/fabric.h"

#include <string.h>

/* fabric_byte(seed, i) for a seed whose bytes begin with `byte`. */
static unsigned seed_for(char byte)
{
    unsigned seed = 0;

    while (fabric_byte(seed, 0) != (unsigned char)byte)
        seed++;
    return seed;
}

static void take(void *self, const struct hmreg_mr *mr)
{
    assert_ok(peer_take_region(self, mr));
}

static void write_there(void *self, uint64_t addr, uint64_t key, char byte)
{
    (void)peer_intrude(self, addr, key, RIGHTS_BYTES, seed_for(byte));
}

static void peer__after_each_end__reaches_as_long_as_promised(void **state)
{
    struct fabric fabric;
    struct rights_peer peer = {.take = take, .write = write_there, .self = &fabric};

    for (unsigned i = 0; i < rights_ends; i++) { /* a denial may end a connection */
        fabric_open_pair(&fabric, NULL);
        assert_ok(hmreg_domain_set_limits(fabric.domain, 1, HMREG_LIMIT_NONE));
        rights_measure(fabric.lib, fabric.domain, fabric_name(), i, &peer);
        fabric_close(&fabric);
    }
}

FABRIC_TEST_MAIN(TEST(peer__after_each_end__reaches_as_long_as_promised))
