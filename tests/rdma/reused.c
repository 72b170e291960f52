/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Cached regions by peer memory of virtual memory that is mapped anew at the same address, with the
 * MEMORY_BLOCK_ID of the memory before it, as CUDA's documentation permits: whatever the kernel's
 * client does when memory ends, a peer's bytes arrive in the new memory. Where the end of memory is
 * not reported, the id would not tell the two apart, and the regions are not cached.
 */
#include "tests/rdma/device.h"
#include "tests/rdma/virtual.h"
#include "tests/support/queries.h"
#include "tests/support/softgpu.h"

#define ROUNDS 4
#define BYTES  65536u

struct place {
    unsigned long long addr;
    size_t granule;
    unsigned char *source; /* BYTES of host memory */
    struct hmreg_mr *source_mr;
};

static void place_open(struct bench *bench, struct place *place, const char *client)
{
    struct cuda_memory_prop prop = {.type = CUDA_MEMORY_PINNED,
                                    .location = {CUDA_LOCATION_DEVICE, 0}};
    struct cuda_context *context = NULL;

    device_open(bench, HMREG_PATH_PEERMEM);
    softgpu_peermem(false);
    softgpu_set("client", client);
    softgpu_peermem(true);
    virtual_load();
    *place = (struct place){.source = malloc(BYTES)};
    assert_int_equal(cu.primary_retain(&context, 0), CUDA_OK);
    assert_int_equal(cu.granularity(&place->granule, &prop, 0), CUDA_OK);
    assert_int_equal(cu.reserve(&place->addr, place->granule, 0, 0, 0), CUDA_OK);
    assert_ok(hmreg_mr_reg(bench->domain, place->source, BYTES, HMREG_READ | HMREG_WRITE, 0, 0, 0,
                           &place->source_mr, NULL));
}

static void place_close(struct bench *bench, struct place *place)
{
    assert_ok(hmreg_mr_close(place->source_mr));
    free(place->source);
    assert_ok(hmreg_domain_flush(bench->domain));
    assert_int_equal(cu.unreserve(place->addr, place->granule), CUDA_OK);
    assert_int_equal(cu.primary_release(0), CUDA_OK);
    device_close(bench);
    softgpu_set("client", "softgpu");
}

static uint64_t block_id(const struct place *place)
{
    uint64_t id = 0;

    assert_int_equal(cu.pointer_attribute(&id, CUDA_PTR_MEMORY_BLOCK_ID, place->addr), CUDA_OK);
    return id;
}

/* A peer writes through the region, and the program finds its bytes at the address. */
static void write_and_compare(struct bench *bench, struct place *place, const struct hmreg_mr *mr,
                              unsigned seed)
{
    static unsigned char found[BYTES];
    void *memory = (void *)(uintptr_t)place->addr;

    memset(found, 0, BYTES);
    assert_ok(hmreg_copy(bench->lib, memory, found, BYTES));
    for (size_t i = 0; i < BYTES; i++)
        place->source[i] = (unsigned char)(i * 31 + i / 251 + seed);
    assert_int_equal(bench_rdma(bench, IBV_WR_RDMA_WRITE, place->source, BYTES, place->source_mr,
                                place->addr, (uint32_t)hmreg_mr_key(mr)),
                     IBV_WC_SUCCESS);
    assert_ok(hmreg_copy(bench->lib, found, memory, BYTES));
    assert_memory_equal(found, place->source, BYTES);
}

/* The same memory once more: a hit, or where the cache must not hold it another registration. */
static void get_again(struct bench *bench, struct place *place, unsigned seed, bool cached)
{
    struct hmreg_stats before = {.size = sizeof(before)}, after = {.size = sizeof(after)};
    struct hmreg_mr *mr = NULL;

    assert_ok(hmreg_domain_stats(bench->domain, &before));
    assert_ok(hmreg_mr_get(bench->domain, (void *)(uintptr_t)place->addr, BYTES, HMREG_REMOTE_WRITE,
                           &mr));
    assert_ok(hmreg_domain_stats(bench->domain, &after));
    assert_int_equal(after.hits, before.hits + cached);
    assert_int_equal(after.uncached, before.uncached + !cached);
    write_and_compare(bench, place, mr, seed);
    hmreg_mr_put(mr);
}

static void rounds_with(const char *client, bool cached)
{
    uint64_t before = 0;
    unsigned again = 0;
    struct place place;
    struct bench bench;

    place_open(&bench, &place, client);
    for (unsigned i = 0; i < ROUNDS; i++) {
        struct hmreg_mr *mr = NULL;

        virtual_map(place.addr, place.granule, 0);
        again += block_id(&place) == before;
        before = block_id(&place);
        assert_ok(hmreg_mr_get(bench.domain, (void *)(uintptr_t)place.addr, BYTES,
                               HMREG_REMOTE_WRITE, &mr));
        assert_int_equal(test_info_of(mr).path, HMREG_PATH_PEERMEM);
        write_and_compare(&bench, &place, mr, 10 * i);
        hmreg_mr_put(mr);
        get_again(&bench, &place, 10 * i + 1, cached);
        assert_int_equal(cu.unmap(place.addr, place.granule), CUDA_OK);
    }
    assert_int_equal(again, ROUNDS - 1);
    place_close(&bench, &place);
}

static void rounds(const char *monitor, bool cached)
{
    setenv("HMREG_FAKE_CUDA_REUSE_IDS", "1", 1);
    setenv("HMREG_DEVICE_MONITOR", monitor, 1);
    rounds_with("nv_mem_nc", cached);
    rounds_with("nv_mem", cached);
    unsetenv("HMREG_DEVICE_MONITOR");
    unsetenv("HMREG_FAKE_CUDA_REUSE_IDS");
}

TEST(mapped_anew__same_id__ends_are_reported__the_new_memory)
{
    rounds("on", true);
}

TEST(mapped_anew__same_id__hits_ask__the_new_memory)
{
    rounds("off", false);
}

/* Hooks once placed stay, and would report ends to the other case. */
TEST_MAIN()
