/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The rules of NVIDIA's exporter and of nvidia-peermem's two clients, on the simulated GPU: which
 * bytes a peer reaches, also after the memory was freed under a registration, and what a BAR1 that
 * is full means to a registration and to the cache.
 */
#include "tests/rdma/device.h"
#include "tests/support/queries.h"
#include "tests/support/softgpu.h"

static void open_with(struct bench *bench, struct target *target, const char *client)
{
    device_open(bench, HMREG_PATH_PEERMEM);
    softgpu_peermem(false);
    softgpu_set("client", client);
    softgpu_peermem(true);
    target_open(bench, target, HMREG_REMOTE_WRITE);
    assert_int_equal(target_rdma(bench, target, IBV_WR_RDMA_WRITE, 0, TARGET_BYTES),
                     IBV_WC_SUCCESS);
}

static void close_freed(struct bench *bench, struct target *target)
{
    assert_ok(hmreg_mr_close(target->mr));
    assert_ok(hmreg_mr_close(target->source_mr));
    free(target->expected);
    free(target->source);
    device_close(bench);
    softgpu_set("client", "softgpu");
}

TEST(freed__client_that_is_told__peer_is_refused)
{
    struct target target;
    struct bench bench;

    open_with(&bench, &target, "nv_mem");
    assert_ok(hmreg_mem_free(bench.lib, target.memory));
    assert_int_not_equal(target_rdma(&bench, &target, IBV_WR_RDMA_WRITE, 0, 64), IBV_WC_SUCCESS);
    close_freed(&bench, &target);
}

/* The default client: the peer writes into memory that the program has freed. */
TEST(freed__default_client__peer_still_writes_until_it_is_deregistered)
{
    struct target target;
    struct bench bench;

    open_with(&bench, &target, "nv_mem_nc");
    assert_ok(hmreg_mem_free(bench.lib, target.memory));
    assert_int_equal(target_rdma(&bench, &target, IBV_WR_RDMA_WRITE, 0, 64), IBV_WC_SUCCESS);
    assert_int_equal(softgpu_stat(-1).buffers, 1);
    close_freed(&bench, &target);
}

/* The exporter holds the memory for the dmabuf, which the region holds. */
TEST(freed__by_dmabuf__memory_lives_until_it_is_deregistered)
{
    struct target target;
    struct bench bench;

    device_open(&bench, HMREG_PATH_DMABUF);
    target_open(&bench, &target, HMREG_REMOTE_WRITE);
    assert_ok(hmreg_mem_free(bench.lib, target.memory));
    assert_int_not_equal(softgpu_stat(-1).buffers, 0);
    assert_int_equal(target_rdma(&bench, &target, IBV_WR_RDMA_WRITE, 0, 64), IBV_WC_SUCCESS);
    close_freed(&bench, &target);
}

static void bytes_on(enum hmreg_path path)
{
    struct target target;
    struct bench bench;

    device_open(&bench, path);
    target_open(&bench, &target, HMREG_REMOTE_WRITE | HMREG_REMOTE_READ);
    assert_int_equal(target_rdma(&bench, &target, IBV_WR_RDMA_WRITE, 7, 70001), IBV_WC_SUCCESS);
    memcpy(target.expected + TARGET_SKEW + 7, target.source, 70001);
    target_assert_expected(&bench, &target);
    target_close(&bench, &target);
    device_close(&bench);
}

TEST(rdma_write__lands_and_neighbours_stay)
{
    bytes_on(HMREG_PATH_DMABUF);
    bytes_on(HMREG_PATH_PEERMEM);
}

/* ---- BAR1 ------------------------------------------------------------------------------- */

/* Two allocations, and room in BAR1 for one. */
static void open_two(struct bench *bench, const enum hmreg_path *order, void **memory)
{
    struct hmreg_domain_config config = {.size = sizeof(config)};

    device_open(bench, HMREG_PATH_PEERMEM);
    bench_close(bench);
    memcpy(config.order, order, 2 * sizeof(order[0]));
    bench_open_with(bench, &config);
    for (int i = 0; i < 2; i++)
        assert_ok(
            hmreg_mem_alloc(bench->lib, device_iface(), 0, HMREG_MEM_DEVICE, 65536, &memory[i]));
    softgpu_set("bar1_kib", "64");
}

static void close_two(struct bench *bench, void **memory)
{
    softgpu_set("bar1_kib", "0");
    for (int i = 0; i < 2; i++)
        assert_ok(hmreg_mem_free(bench->lib, memory[i]));
    device_close(bench);
}

/* NVIDIA's exporter answers ENOMEM whatever fails. */
TEST(dmabuf_refused_for_lack_of_memory__peer_memory_is_taken)
{
    static const enum hmreg_path order[] = {HMREG_PATH_DMABUF, HMREG_PATH_PEERMEM};
    struct hmreg_mr *mr = NULL;
    void *memory[2] = {NULL};
    struct bench bench;

    open_two(&bench, order, memory);
    softgpu_fail(SOFTGPU_OP_MAP, EIO);
    assert_ok(hmreg_mr_get(bench.domain, memory[0], 65536, HMREG_REMOTE_WRITE, &mr));
    assert_int_equal(test_info_of(mr).path, HMREG_PATH_PEERMEM);
    hmreg_mr_put(mr);
    close_two(&bench, memory);
}

/* Idle regions of the device make way; host memory's do not. */
static void idle_region_makes_way(enum hmreg_path path)
{
    const enum hmreg_path order[] = {path, HMREG_PATH_NONE};
    static char host[4096];
    struct hmreg_stats stats = {.size = sizeof(stats)};
    struct hmreg_mr *mrs[3] = {NULL};
    void *memory[2] = {NULL};
    struct bench bench;

    open_two(&bench, order, memory);
    assert_ok(hmreg_mr_get(bench.domain, host, sizeof(host), HMREG_REMOTE_WRITE, &mrs[0]));
    assert_ok(hmreg_mr_get(bench.domain, memory[0], 65536, HMREG_REMOTE_WRITE, &mrs[1]));
    hmreg_mr_put(mrs[0]);
    assert_fails(hmreg_mr_get(bench.domain, memory[1], 65536, HMREG_REMOTE_WRITE, &mrs[2]),
                 -EOPNOTSUPP, "BAR1");
    assert_null(strstr(hmreg_last_error()->text, "RLIMIT_MEMLOCK"));
    assert_ok(hmreg_domain_stats(bench.domain, &stats));
    assert_int_equal(stats.evictions, 0);
    hmreg_mr_put(mrs[1]);
    assert_ok(hmreg_mr_get(bench.domain, memory[1], 65536, HMREG_REMOTE_WRITE, &mrs[2]));
    hmreg_mr_put(mrs[2]);
    assert_ok(hmreg_domain_stats(bench.domain, &stats));
    assert_int_equal(stats.evictions, 1);
    close_two(&bench, memory);
}

TEST(bar1_full__idle_region_of_the_device_makes_way)
{
    idle_region_makes_way(HMREG_PATH_DMABUF);
}

/* nvidia-peermem says then that the memory is not its: EFAULT. */
TEST(bar1_full__by_peer_memory__idle_region_of_the_device_makes_way)
{
    idle_region_makes_way(HMREG_PATH_PEERMEM);
}

static size_t len_of_get(const struct bench *bench, const char *memory)
{
    struct hmreg_mr_info info = {.size = sizeof(info)};
    struct hmreg_mr *mr = NULL;

    assert_ok(hmreg_mr_get(bench->domain, memory, 4096, HMREG_WRITE, &mr));
    assert_ok(hmreg_mr_query(mr, &info));
    hmreg_mr_put(mr);
    return info.len;
}

/* An allocation that BAR1 cannot hold is not covered; once it can, it is. */
TEST(bar1_smaller_than_the_allocation__covering_get_registers_the_range)
{
    struct hmreg_domain_config config = {
        .size = sizeof(config), .order = {HMREG_PATH_DMABUF}, .cover = HMREG_COVER_ALLOCATION};
    size_t bytes = 256 << 10;
    struct bench bench;
    void *memory = NULL;

    device_open(&bench, HMREG_PATH_PEERMEM);
    bench_close(&bench);
    bench_open_with(&bench, &config);
    assert_ok(hmreg_mem_alloc(bench.lib, device_iface(), 0, HMREG_MEM_DEVICE, bytes, &memory));
    softgpu_set("bar1_kib", "64");
    for (int i = 0; i < 3; i++)
        assert_in_range(len_of_get(&bench, (char *)memory + i * 65536), 4096, 65536);
    softgpu_set("bar1_kib", "512");
    assert_int_equal(len_of_get(&bench, (char *)memory + 3 * 65536), bytes);
    softgpu_set("bar1_kib", "0");
    assert_ok(hmreg_mem_free(bench.lib, memory));
    device_close(&bench);
}

TEST_MAIN()
