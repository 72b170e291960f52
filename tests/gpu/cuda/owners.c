/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Device memory that belongs to something with an end of its own: libraries, green contexts, memory
 * of other APIs, multicast objects. Cached regions of it: what a peer writes is in the memory that
 * is at the address now.
 */
#include "core/patch/entry_hook.h"
#include "tests/gpu/cuda/peer.h"
#include "tests/support/queries.h"

#define BYTES 100000

/* Hits, where the driver's functions can be hooked: then none asks. */
static void check_hits(const struct peer *peer, unsigned long long misses)
{
    assert_int_equal(test_stats_of(peer->domain).misses, misses);
    if (!entry_hooks_refusal())
        assert_int_equal(test_stats_of(peer->domain).hits, misses);
}

/* ---- libraries --------------------------------------------------------------------------- */

/* The first case: nothing is watched yet, so that only a hit's question finds the end. */
TEST(get__variable_of_an_unloaded_library__the_new_memory)
{
    struct peer peer = peer_begin();

    for (unsigned char round = 1; round <= 3; round++) {
        unsigned long long addr = 0, base = 0;
        struct cuda_library *library = cu_library(false, &addr);
        size_t size = 0;

        CU(cu.address_range(&base, &size, addr));
        assert_int_equal(cu.free(base), CUDA_INVALID_VALUE);
        peer_write(&peer, addr, BYTES, round);
        CU(cu.library_unload(library));
        assert_int_equal(cu.library_unload(library), CUDA_INVALID_VALUE);
        peer_write_reused(&peer, base, size, addr, BYTES, (unsigned char)(round + 10));
    }
    assert_int_equal(test_stats_of(peer.domain).misses, 6);
    peer_end(&peer);
}

/* Another context's variable is elsewhere; all end at once. */
TEST(get__variables_of_a_library_in_two_contexts__both_end)
{
    struct peer peer = peer_begin();
    struct cuda_context *other = NULL;

    CU(cu.context_create(&other, 0, 0));
    CU(cu.context_pop(NULL));
    for (unsigned char round = 1; round <= 3; round++) {
        unsigned long long first = 0, second = 0;
        struct cuda_library *library = cu_library(false, &first);
        size_t size = 0;

        peer_write(&peer, first, BYTES, round);
        CU(cu.context_push(other));
        CU(cu.library_global(&second, &size, library, "variable"));
        assert_int_not_equal(first, second);
        peer_write(&peer, second, BYTES, (unsigned char)(round + 10));
        CU(cu.context_pop(NULL));
        CU(cu.library_unload(library));
    }
    assert_int_equal(test_stats_of(peer.domain).misses, 6);
    CU(cu.context_destroy(other));
    peer_end(&peer);
}

/* ---- green contexts ---------------------------------------------------------------------- */

/* Only it retains the primary context of device 1. */
TEST(get__in_a_green_context_that_is_destroyed__the_new_memory)
{
    struct peer peer = peer_begin();
    unsigned long long first = 0;

    driver_need_devices(2);
    for (unsigned char round = 1; round <= 3; round++) {
        struct cuda_context *context = NULL;
        struct cuda_green *green = cu_green(1, &context);
        unsigned long long addr;

        CU(cu.context_push(context));
        addr = cu_alloc(BYTES);
        first = first ? first : addr;
        assert_int_equal(addr, first);
        peer_write(&peer, addr, BYTES, round);
        CU(cu.context_pop(&context));
        CU(cu.green_destroy(green));
        assert_int_equal(cu.green_context(&context, green), CUDA_INVALID_CONTEXT);
    }
    check_hits(&peer, 3);
    peer_end(&peer);
}

TEST(get__of_a_primary_context_that_others_retain__still_there)
{
    struct peer peer = peer_begin();
    struct cuda_context *context = NULL;
    struct cuda_green *green = cu_green(0, &context);
    unsigned long long addr = cu_alloc(BYTES);

    assert_ptr_equal(context, peer.bench.context);
    peer_write(&peer, addr, BYTES, 1);
    CU(cu.green_destroy(green));
    peer_write(&peer, addr, BYTES, 2);
    CU(cu.free(addr));
    peer_end(&peer);
}

/* ---- memory of other APIs ------------------------------------------------------------------ */

TEST(get__buffer_of_another_api__the_new_memory)
{
    struct peer peer = peer_begin();
    unsigned long long first = 0;

    for (unsigned char round = 1; round <= 3; round++) {
        unsigned long long addr = cu_external(BYTES);

        first = first ? first : addr;
        assert_int_equal(addr, first);
        peer_write(&peer, addr, BYTES, round);
        assert_int_equal(cu.free_async(addr, NULL), CUDA_INVALID_VALUE);
        CU(cu.free(addr));
        peer_write_reused(&peer, addr, BYTES, addr, BYTES, (unsigned char)(round + 10));
    }
    assert_int_equal(test_stats_of(peer.domain).misses, 6);
    peer_end(&peer);
}

/* Two buffers of the same bytes have an address each; the object ends before them. */
TEST(get__buffers_of_the_same_bytes__each_by_its_address)
{
    struct cuda_external_handle handle = {.type = CUDA_EXTERNAL_OPAQUE_FD, .size = BYTES};
    struct cuda_external_buffer buffer = {.size = BYTES};
    struct peer peer = peer_begin();
    struct cuda_external *external = NULL;
    unsigned long long addrs[2] = {0};
    unsigned char byte = 0;

    handle.handle.fd = cu.external(BYTES);
    CU(cu.external_import(&external, &handle));
    for (unsigned i = 0; i < 2; i++)
        CU(cu.external_map(&addrs[i], external, &buffer));
    assert_int_not_equal(addrs[0], addrs[1]);
    CU(cu.external_destroy(external));
    for (unsigned char i = 0; i < 2; i++) {
        peer_write(&peer, addrs[i], BYTES, i + 1);
        CU(cu.copy_to_host(&byte, addrs[1 - i] + 4099, 1));
        assert_int_equal(byte, i + 1);
    }
    assert_int_equal(test_stats_of(peer.domain).misses, 2);
    for (unsigned i = 0; i < 2; i++)
        CU(cu.free(addrs[i]));
    peer_end(&peer);
}

/* ---- multicast objects --------------------------------------------------------------------- */

static void check_refused(const struct peer *peer, uint64_t addr, size_t len)
{
    struct hmreg_mem_info info = {.size = sizeof(info)};
    struct hmreg_mr *mr = (void *)1;
    struct hmreg_dmabuf dmabuf;

    assert_fails(hmreg_query(peer->lib, as_pointer(addr), len, &info), -EOPNOTSUPP,
                 "multicast object");
    assert_fails(hmreg_export_dmabuf(peer->lib, as_pointer(addr), len, 0, &dmabuf), -EOPNOTSUPP,
                 "multicast object");
    assert_fails(hmreg_mr_get(peer->domain, as_pointer(addr), len, HMREG_ACCESS_REMOTE, &mr),
                 -EOPNOTSUPP, "register the memory that is bound to it");
    assert_ptr_equal(mr, (void *)1);
}

/* The memory below may be exchanged without a call that names the address. */
TEST(get__of_a_multicast_address__refused_with_the_remedy)
{
    struct cuda_access access = {{CUDA_LOCATION_DEVICE, 0}, CUDA_ACCESS_READWRITE};
    struct cuda_multicast_prop prop = {.devices = 2};
    struct cuda_memory_prop memory_prop = prop_on(0);
    struct peer peer = peer_begin();
    unsigned long long object = 0, memory = 0, addr, own;
    size_t len = cu_granule();
    char byte = 0;

    driver_need_devices(2);
    if (!cu.multicast_create)
        test_skip("this driver has no multicast objects");
    prop.size = len;
    addr = cu_reserve(len);
    own = cu_reserve(len);
    CU(cu.multicast_create(&object, &prop));
    CU(cu.multicast_add(object, 0));
    CU(cu.create(&memory, len, &memory_prop, 0));
    assert_int_equal(cu.map(addr, len, 0, object, 0), CUDA_INVALID_VALUE); /* not all are added */
    CU(cu.multicast_add(object, 1));
    CU(cu.multicast_bind(object, 0, memory, 0, len, 0));
    CU(cu.map(addr, len, 0, object, 0));
    CU(cu.set_access(addr, len, &access, 1));
    assert_int_equal(cu.copy_to_device(addr, &byte, 1), CUDA_INVALID_VALUE);
    check_refused(&peer, addr, len);
    CU(cu.map(own, len, 0, memory, 0));
    CU(cu.set_access(own, len, &access, 1));
    peer_write(&peer, own, len, 1); /* as the error says */
    CU(cu.unmap(own, len));
    CU(cu.handle_release(memory));
    CU(cu.multicast_unbind(object, 0, 0, len));
    CU(cu.unmap(addr, len));
    CU(cu.handle_release(object));
    CU(cu.unreserve(addr, len));
    CU(cu.unreserve(own, len));
    peer_end(&peer);
}

TEST_MAIN()
