/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See peer.h.
 */
#include "tests/gpu/cuda/peer.h"

#include "tests/support/queries.h"

struct peer peer_begin(void)
{
    struct hmreg_domain_config order = {.size = sizeof(order), .order = {HMREG_PATH_MAPPED}};
    struct peer peer;

    driver_need_fake();
    if (!cu.graph_alloc)
        test_skip("this driver has no graphs with memory");
    test_setenv("HMREG_FAKE_CUDA_POOL_EXPORT", "1"); /* else such memory is not registered */
    test_setenv("HMREG_FAKE_CUDA_ANY_EXPORT", "1");
    peer.bench = bench_begin();
    assert_ok(hmreg_open(NULL, &peer.lib));
    assert_ok(hmreg_domain_open_loopback(peer.lib, NULL, &order, &peer.domain));
    return peer;
}

void peer_end(struct peer *peer)
{
    assert_ok(hmreg_domain_close(peer->domain));
    assert_ok(hmreg_close(peer->lib));
    bench_end(&peer->bench);
}

static void write_once(const struct peer *peer, uint64_t memory, size_t len,
                       const unsigned char bytes[64])
{
    struct hmreg_remote *remote = NULL;
    struct hmreg_mr *mr = NULL;
    unsigned char found[64] = "";
    uint64_t addr, key;

    assert_ok(hmreg_mr_get(peer->domain, as_pointer(memory), len, HMREG_ACCESS_REMOTE, &mr));
    remote = test_remote_of(peer->domain, mr);
    assert_ok(hmreg_remote_addr(remote, 4099, 64, &addr, &key));
    assert_ok(hmreg_loopback_write(remote, bytes, 64, NULL, addr, key));
    hmreg_remote_close(remote);
    hmreg_mr_put(mr);
    CU(cu.copy_to_host(found, memory + 4099, 64));
    assert_memory_equal(found, bytes, 64);
}

void peer_write(const struct peer *peer, uint64_t memory, size_t len, unsigned char value)
{
    unsigned char bytes[64];

    memset(bytes, value, sizeof(bytes));
    write_once(peer, memory, len, bytes);
    write_once(peer, memory, len, bytes);
}

void peer_write_reused(const struct peer *peer, uint64_t base, size_t size, uint64_t memory,
                       size_t len, unsigned char value)
{
    uint64_t plain = cu_alloc(size);

    assert_int_equal(plain, base);
    peer_write(peer, memory, len, value);
    CU(cu.free(plain));
}
