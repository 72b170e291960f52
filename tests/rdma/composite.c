/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 * Virtual memory of two devices on a real kernel: a region of two registrations, each by a dmabuf,
 * that RMA accesses piece by piece through one token, and that becomes stale when a piece is
 * replaced. CUDA's, since its simulated driver maps memory of any device next to any other. */
#include "tests/rdma/device.h"
#include "tests/rdma/virtual.h"
#include "tests/support/queries.h"

/* Two adjacent pieces, of device 0 and 1. */
struct pair {
    unsigned long long addr;
    size_t granule;
    unsigned char *source; /* 2 * granule of host memory */
    struct hmreg_mr *source_mr;
};

static void map_piece(const struct pair *pair, int device)
{
    virtual_map(pair->addr + (unsigned)device * pair->granule, pair->granule, device);
}

static void pair_open(struct bench *bench, struct pair *pair)
{
    struct cuda_memory_prop prop = {.type = CUDA_MEMORY_PINNED,
                                    .location = {CUDA_LOCATION_DEVICE, 0}};

    struct cuda_context *context = NULL; /* which the export of a device's memory needs */

    *pair = (struct pair){0};
    for (int device = 0; device < 2; device++)
        assert_int_equal(cu.primary_retain(&context, device), CUDA_OK);
    assert_int_equal(cu.granularity(&pair->granule, &prop, 0), CUDA_OK);
    assert_int_equal(cu.reserve(&pair->addr, 2 * pair->granule, 0, 0, 0), CUDA_OK);
    map_piece(pair, 0);
    map_piece(pair, 1);
    pair->source = malloc(2 * pair->granule);
    assert_ok(hmreg_mr_reg(bench->domain, pair->source, 2 * pair->granule, HMREG_READ | HMREG_WRITE,
                           0, 0, 0, &pair->source_mr, NULL));
}

static void pair_close(struct pair *pair)
{
    assert_ok(hmreg_mr_close(pair->source_mr));
    free(pair->source);
    assert_int_equal(cu.unmap(pair->addr, 2 * pair->granule), CUDA_OK);
    assert_int_equal(cu.unreserve(pair->addr, 2 * pair->granule), CUDA_OK);
    for (int device = 0; device < 2; device++)
        assert_int_equal(cu.primary_release(device), CUDA_OK);
}

/* Accesses each piece by its own key; then all of the memory has the written bytes. */
static void write_and_compare(struct bench *bench, struct pair *pair, const struct hmreg_mr *mr,
                              unsigned seed)
{
    struct hmreg_piece_info piece = {.size = sizeof(piece)};
    unsigned char *found = malloc(2 * pair->granule);
    struct hmreg_remote *remote = NULL;
    char token[4096];
    size_t size = sizeof(token), count = 0;
    uint64_t offset = 0, addr, key;

    for (size_t i = 0; i < 2 * pair->granule; i++)
        pair->source[i] = (unsigned char)(i * 31 + i / 251 + seed);
    assert_ok(hmreg_mr_pack(mr, token, &size));
    assert_ok(hmreg_remote_open(bench->domain, token, size, &remote));
    for (; hmreg_mr_piece(mr, count, &piece) == 0; count++) {
        assert_ok(hmreg_remote_addr(remote, offset, piece.len, &addr, &key));
        assert_int_equal(bench_rdma(bench, IBV_WR_RDMA_WRITE, pair->source + offset, piece.len,
                                    pair->source_mr, addr, (uint32_t)key),
                         IBV_WC_SUCCESS);
        offset += piece.len;
    }
    hmreg_remote_close(remote);
    assert_int_equal(count, 2);
    assert_int_equal(offset, 2 * pair->granule);
    assert_ok(hmreg_copy(bench->lib, found, (void *)(uintptr_t)pair->addr, 2 * pair->granule));
    assert_memory_equal(found, pair->source, 2 * pair->granule);
    free(found);
}

TEST(composite__of_two_devices__rdma_lands_in_both)
{
    struct hmreg_mr *mr = NULL, *single = NULL;
    struct bench bench;
    struct pair pair;

    device_open(&bench, HMREG_PATH_DMABUF);
    virtual_load();
    pair_open(&bench, &pair);
    assert_ok(hmreg_mr_reg(bench.domain, (void *)(uintptr_t)pair.addr, 2 * pair.granule,
                           HMREG_REMOTE_WRITE, 0, 0, 0, &mr, NULL));
    assert_true(hmreg_mr_key(mr) == HMREG_KEY_NOTAVAIL);
    assert_fails(hmreg_mr_reg(bench.domain, (void *)(uintptr_t)pair.addr, 2 * pair.granule,
                              HMREG_REMOTE_WRITE, 0, 0, HMREG_REG_SINGLE, &single, NULL),
                 -EXDEV, "HMREG_REG_PARTS");
    assert_int_equal(test_info_of(mr).path, HMREG_PATH_DMABUF);
    write_and_compare(&bench, &pair, mr, 1);
    assert_ok(hmreg_mr_close(mr));
    pair_close(&pair);
    device_close(&bench);
}

TEST(composite__piece_exchanged__rdma_lands_in_the_new)
{
    struct bench bench;
    struct pair pair;

    device_open(&bench, HMREG_PATH_DMABUF);
    virtual_load();
    pair_open(&bench, &pair);
    for (unsigned i = 0; i < 4; i++) {
        struct hmreg_mr *mr = NULL;

        assert_ok(hmreg_mr_get(bench.domain, (void *)(uintptr_t)pair.addr, 2 * pair.granule,
                               HMREG_REMOTE_WRITE, &mr));
        write_and_compare(&bench, &pair, mr, 10 + i);
        hmreg_mr_put(mr);
        if (i % 2 == 0)
            continue;
        assert_int_equal(cu.unmap(pair.addr + pair.granule, pair.granule), CUDA_OK);
        map_piece(&pair, 1);
    }
    assert_int_equal(test_stats_of(bench.domain).hits, 2);
    assert_int_equal(test_stats_of(bench.domain).misses, 2);
    assert_ok(hmreg_domain_flush(bench.domain));
    pair_close(&pair);
    device_close(&bench);
}

TEST_MAIN()
