/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * What a descriptor names, and what it takes: NVIDIA's driver maps all of a dmabuf's memory into
 * the device's window (BAR1) at an import, and keeps that memory as long as anything refers to the
 * dmabuf. The driver is the simulated one with descriptors of exactly the range, the NIC a
 * simulated libibverbs that attaches to them.
 */
#include "core/base/dmabuf.h"
#include "core/patch/entry_hook.h"
#include "tests/gpu/cuda/driver.h"
#include "tests/support/fake_verbs.h"
#include "tests/support/queries.h"

#include <hmreg/group.h>
#include <hmreg/verbs.h>
#include <sys/mman.h>

#define MIB   1048576ul
#define BLOCK 65536ul

struct fixture {
    struct bench bench;
    struct hmreg *lib;
    struct ibv_pd *pd;
    struct hmreg_domain *domain;
    size_t page;
};

static struct fixture begun;

static void end(void)
{
    assert_ok(hmreg_domain_close(begun.domain));
    assert_ok(hmreg_close(begun.lib));
    cu.fake->window(0);
    assert_int_equal(fake_verbs.live, 0);
    assert_int_equal(cu.fake->held(-1), 0);
    bench_end(&begun.bench);
}

static struct fixture begin_with(enum hmreg_choice sync_memops)
{
    struct hmreg_domain_config config = {.size = sizeof(config), .sync_memops = sync_memops};
    struct fixture fixture;
    struct ibv_pd *pd;

    driver_need_fake();
    test_setenv("HMREG_FAKE_CUDA_EXACT", "1");
    fixture.bench = bench_begin();
    fixture.pd = pd = fake_verbs_reset();
    fixture.page = (size_t)sysconf(_SC_PAGESIZE);
    fake_verbs.attach = cu.fake->attach;
    fake_verbs.detach = cu.fake->detach;
    fake_peers = 0;
    assert_ok(hmreg_open(NULL, &fixture.lib));
    assert_ok(hmreg_domain_open_verbs(fixture.lib, pd, &config, &fixture.domain));
    begun = fixture;
    test_after(end);
    return fixture;
}

static struct fixture begin(void)
{
    return begin_with(HMREG_CHOICE_DEFAULT);
}

static int reg(struct fixture *fixture, uint64_t addr, size_t len, struct hmreg_mr **mr)
{
    return hmreg_mr_reg(fixture->domain, as_pointer(addr), len,
                        HMREG_REMOTE_READ | HMREG_REMOTE_WRITE, 0, 0, 0, mr, NULL);
}

static int get(struct fixture *fixture, uint64_t addr, size_t len, struct hmreg_mr **mr)
{
    return hmreg_mr_get(fixture->domain, as_pointer(addr), len, HMREG_REMOTE_READ, mr);
}

static enum hmreg_path path_of(const struct hmreg_mr *mr)
{
    struct hmreg_mr_info info = {.size = sizeof(info)};

    assert_ok(hmreg_mr_query(mr, &info));
    return info.path;
}

static void read_bytes(const struct fixture *fixture, const struct hmreg_mr *mr, uint64_t addr,
                       unsigned char *here, size_t len)
{
    struct ibv_mr *local =
        ibv_reg_mr_iova2(fixture->pd, here, len, (uintptr_t)here, IBV_ACCESS_LOCAL_WRITE);

    assert_non_null(local);
    assert_true(fake_verbs_rma(false, here, len, local, addr, hmreg_mr_key(mr)));
    assert_int_equal(ibv_dereg_mr(local), 0);
}

static void check_first(const struct fixture *fixture, const struct hmreg_mr *mr, uint64_t addr,
                        int expected)
{
    unsigned char byte = 0;

    read_bytes(fixture, mr, addr, &byte, 1);
    assert_int_equal(byte, (unsigned char)expected);
}

/* A peer reads the pattern from `first` on through the region. */
static void check_bytes(const struct fixture *fixture, const struct hmreg_mr *mr, uint64_t addr,
                        size_t len, size_t first)
{
    unsigned char *here = malloc(len);

    assert_non_null(here);
    read_bytes(fixture, mr, addr, here, len);
    for (size_t i = 0; i < len; i++)
        assert_int_equal(here[i], pattern(first + i));
    free(here);
}

/* ---- what it names ---------------------------------------------------------------------- */

/* The descriptor's length says what the driver was asked for. */
static void expect_pages(struct fixture *fixture, uint64_t addr, size_t len, size_t before,
                         size_t bytes)
{
    struct hmreg_dmabuf dmabuf;
    struct hmem_range range;

    assert_ok(bench_resolve(&fixture->bench, addr, len, &range));
    assert_ok(hmem_cuda_ops.export_dmabuf(fixture->bench.hmem, addr, len, &range, 0, &dmabuf));
    assert_int_equal(dmabuf_length(dmabuf.fd), bytes);
    assert_int_equal(dmabuf.offset, before);
    assert_int_equal(dmabuf.length, len);
    assert_ptr_equal(mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, dmabuf.fd, 0),
                     MAP_FAILED);
    close(dmabuf.fd);
}

TEST(export__part_of_an_allocation__its_pages)
{
    struct fixture fixture = begin();
    unsigned long long addr = cu_alloc(MIB);
    size_t page = fixture.page;

    expect_pages(&fixture, addr + 5 * page + 9, 10, 9, page);
    expect_pages(&fixture, addr + 6 * page - 1, 2, page - 1, 2 * page);
    expect_pages(&fixture, addr, MIB, 0, MIB);
    expect_pages(&fixture, addr + MIB - 1, 1, page - 1, page);
    CU(cu.free(addr));
}

TEST(export__part_of_several_mappings__its_pages)
{
    struct fixture fixture = begin();
    struct cuda_memory_prop prop = prop_on(0);
    size_t granule = cu_granule();
    unsigned long long addr = cu_reserve(3 * granule);

    for (unsigned i = 0; i < 3; i++)
        cu_map(addr + i * granule, granule, &prop);
    expect_pages(&fixture, addr + granule - 1, granule + 2, fixture.page - 1,
                 granule + 2 * fixture.page);
    CU(cu.unmap(addr, 3 * granule));
    CU(cu.unreserve(addr, 3 * granule));
}

/* Then the whole allocation is asked for. */
TEST(export__part_is_refused__the_whole)
{
    struct fixture fixture = begin();
    unsigned long long addr = cu_alloc(MIB);
    static const unsigned refusals[] = {CUDA_INVALID_VALUE, CUDA_NOT_SUPPORTED};

    for (unsigned i = 0; i < 2; i++) {
        cu_fail("cuMemGetHandleForAddressRange", refusals[i], 0, 1);
        expect_pages(&fixture, addr + 5 * fixture.page + 9, 10, 5 * fixture.page + 9, MIB);
    }
    CU(cu.free(addr));
}

/* ---- pieces in any order ------------------------------------------------------------------ */

#define PIECES 4

/* Physical memory: of piece i each byte is i + 1. */
static unsigned long long piece_with_bytes(unsigned i, uint64_t place, size_t granule)
{
    struct cuda_access access = {{CUDA_LOCATION_DEVICE, 0}, CUDA_ACCESS_READWRITE};
    struct cuda_memory_prop prop = prop_on(0);
    unsigned long long handle = 0;

    CU(cu.create(&handle, granule, &prop, 0));
    CU(cu.map(place, granule, 0, handle, 0));
    CU(cu.set_access(place, granule, &access, 1));
    CU(cu.fill(place, (unsigned char)(i + 1), granule));
    CU(cu.context_wait());
    CU(cu.unmap(place, granule));
    return handle;
}

static uint64_t map_in_order(const unsigned long long handles[PIECES], const unsigned order[PIECES],
                             size_t granule)
{
    struct cuda_access access = {{CUDA_LOCATION_DEVICE, 0}, CUDA_ACCESS_READWRITE};
    uint64_t addr = cu_reserve(PIECES * granule);

    for (unsigned i = 0; i < PIECES; i++)
        CU(cu.map(addr + i * granule, granule, 0, handles[order[i]], 0));
    CU(cu.set_access(addr, PIECES * granule, &access, 1));
    return addr;
}

/* The same memory in several orders, also the same piece twice, all of it registered at once. */
TEST(get__pieces_in_any_order__each_its_bytes)
{
    static const unsigned orders[][PIECES] = {
        {0, 1, 2, 3}, {3, 2, 1, 0}, {2, 0, 3, 1}, {1, 1, 0, 1}};
    enum { ORDERS = sizeof(orders) / sizeof(orders[0]) };
    struct fixture fixture = begin();
    size_t granule = cu_granule();
    unsigned long long handles[PIECES];
    struct hmreg_mr *mrs[ORDERS];
    uint64_t addrs[ORDERS], place = cu_reserve(granule);

    for (unsigned i = 0; i < PIECES; i++)
        handles[i] = piece_with_bytes(i, place, granule);
    for (unsigned i = 0; i < ORDERS; i++) {
        addrs[i] = map_in_order(handles, orders[i], granule);
        assert_ok(get(&fixture, addrs[i], PIECES * granule, &mrs[i]));
    }
    for (unsigned i = 0; i < ORDERS; i++)
        for (unsigned j = 0; j < PIECES; j++) {
            check_first(&fixture, mrs[i], addrs[i] + j * granule, (int)orders[i][j] + 1);
            check_first(&fixture, mrs[i], addrs[i] + (j + 1) * granule - 1, (int)orders[i][j] + 1);
        }
    for (unsigned i = 0; i < ORDERS; i++) {
        hmreg_mr_put(mrs[i]);
        CU(cu.unmap(addrs[i], PIECES * granule));
        CU(cu.unreserve(addrs[i], PIECES * granule));
    }
    for (unsigned i = 0; i < PIECES; i++)
        CU(cu.handle_release(handles[i]));
    CU(cu.unreserve(place, granule));
}

/* Each piece was exported before, the last one first. */
TEST(reg__each_piece_by_itself_and_then_all__each_its_bytes)
{
    static const unsigned order[PIECES] = {2, 0, 3, 1};
    struct fixture fixture = begin();
    size_t granule = cu_granule();
    unsigned long long handles[PIECES];
    struct hmreg_mr *mrs[PIECES], *all = NULL;
    uint64_t addr, place = cu_reserve(granule);

    test_setenv("HMREG_FAKE_CUDA_EXPORT_ONE", "1");
    for (unsigned i = 0; i < PIECES; i++)
        handles[i] = piece_with_bytes(i, place, granule);
    addr = map_in_order(handles, order, granule);
    for (unsigned i = PIECES; i--;)
        assert_ok(reg(&fixture, addr + i * granule, granule, &mrs[i]));
    assert_ok(hmreg_mr_reg(fixture.domain, as_pointer(addr + 9), PIECES * granule - 9,
                           HMREG_REMOTE_READ, 0, 0, HMREG_REG_PARTS, &all, NULL));
    for (unsigned i = 0; i < PIECES; i++) {
        struct hmreg_piece_info piece = {.size = sizeof(piece)};
        unsigned char byte = 0;
        struct ibv_mr *local =
            ibv_reg_mr_iova2(fixture.pd, &byte, 1, (uintptr_t)&byte, IBV_ACCESS_LOCAL_WRITE);

        assert_ok(hmreg_mr_piece(all, i, &piece));
        assert_int_equal(piece.len, i ? granule : granule - 9);
        assert_true(
            fake_verbs_rma(false, &byte, 1, local, addr + (i + 1) * granule - 1, piece.key));
        assert_int_equal(byte, order[i] + 1);
        assert_int_equal(ibv_dereg_mr(local), 0);
        check_first(&fixture, mrs[i], addr + i * granule, (int)order[i] + 1);
    }
    assert_ok(hmreg_mr_close(all));
    for (unsigned i = 0; i < PIECES; i++) {
        assert_ok(hmreg_mr_close(mrs[i]));
        CU(cu.handle_release(handles[i]));
    }
    CU(cu.unmap(addr, PIECES * granule));
    CU(cu.unreserve(addr, PIECES * granule));
    CU(cu.unreserve(place, granule));
}

/* ---- what it takes ---------------------------------------------------------------------- */

/* Blocks of a buffer that is larger than the window. */
TEST(reg__blocks_of_a_buffer_beyond_the_window__each_fits)
{
    struct fixture fixture = begin();
    unsigned long long addr = cu_alloc(16 * MIB);
    struct hmreg_mr *mrs[16];

    cu_write_pattern(addr, 16 * MIB);
    cu.fake->window(MIB);
    for (unsigned i = 0; i < 16; i++) {
        assert_ok(reg(&fixture, addr + i * MIB + 9, BLOCK - 9, &mrs[i]));
        assert_int_equal(path_of(mrs[i]), HMREG_PATH_DMABUF);
        check_bytes(&fixture, mrs[i], addr + i * MIB + 9, BLOCK - 9, i * MIB + 9);
    }
    for (unsigned i = 0; i < 16; i++)
        assert_ok(hmreg_mr_close(mrs[i]));
    CU(cu.free(addr));
}

static void expect_no_room(void)
{
    struct hmreg_explanation why = {.size = sizeof(why)};

    assert_ok(hmreg_mr_explain(NULL, &why));
    assert_string_equal(why.reasons[0].slug, "dmabuf-import-failed");
    assert_int_equal(why.reasons[0].code, -ENOMEM);
    assert_non_null(strstr(why.reasons[0].text, "BAR1"));
    for (uint32_t i = 0; i < why.refused; i++)
        assert_null(strstr(why.reasons[i].text, "MEMLOCK"));
}

TEST(reg__window_is_full__refused_by_its_name)
{
    struct fixture fixture = begin();
    unsigned long long addr = cu_alloc(MIB);
    struct hmreg_mr *mr = (void *)1;

    cu.fake->window(MIB / 2);
    assert_fails(reg(&fixture, addr, MIB, &mr), -EOPNOTSUPP, "no path to this cuda");
    assert_ptr_equal(mr, (void *)1);
    expect_no_room();
    CU(cu.free(addr));
}

TEST(reg__window_is_full__peer_memory_is_tried)
{
    struct fixture fixture = begin();
    unsigned long long addr = cu_alloc(MIB);
    struct hmreg_mr *mr = NULL;

    fake_peers = HMREG_IFACE_BIT(HMREG_IFACE_CUDA);
    cu.fake->window(MIB / 2);
    assert_ok(reg(&fixture, addr, MIB, &mr));
    assert_int_equal(path_of(mr), HMREG_PATH_PEERMEM);
    assert_int_equal(test_why_of(mr).reasons[0].code, -ENOMEM);
    assert_ok(hmreg_mr_close(mr));
    CU(cu.free(addr));
}

/* Regions of host memory, and of memory in use, stay. */
TEST(get__window_is_full__the_cache_stays)
{
    struct fixture fixture = begin();
    unsigned long long addr = cu_alloc(MIB);
    struct hmreg_mr *host, *mr = (void *)1;
    char *memory =
        mmap(NULL, 4 * BLOCK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    for (unsigned i = 0; i < 4; i++) {
        assert_ok(get(&fixture, (uintptr_t)memory + i * BLOCK, BLOCK, &host));
        hmreg_mr_put(host);
    }
    assert_int_equal(fake_verbs.live, 4);
    cu.fake->window(MIB / 2);
    assert_fails(get(&fixture, addr, MIB, &mr), -EOPNOTSUPP, "no path to this cuda");
    assert_ptr_equal(mr, (void *)1);
    expect_no_room();
    assert_non_null(strstr(test_why_of(NULL).room_why, "BAR1"));
    assert_int_equal(fake_verbs.live, 4);
    munmap(memory, 4 * BLOCK);
    CU(cu.free(addr));
}

/* Idle regions of the device give way, as many as are needed. */
TEST(get__window_is_full_of_idle_regions__they_give_way)
{
    struct fixture fixture = begin();
    unsigned long long addr = cu_alloc(4 * MIB);
    struct hmreg_mr *mr = NULL;

    cu.fake->window(20 * BLOCK);
    for (unsigned i = 0; i < 20; i++) {
        assert_ok(get(&fixture, addr + 2 * i * BLOCK, BLOCK, &mr));
        hmreg_mr_put(mr);
    }
    assert_int_equal(fake_verbs.live, 20);
    assert_ok(get(&fixture, addr + 40 * BLOCK, 3 * BLOCK, &mr));
    assert_int_equal(path_of(mr), HMREG_PATH_DMABUF);
    hmreg_mr_put(mr);
    assert_int_equal(fake_verbs.live, 18); /* one, then two gave way */
    assert_ok(get(&fixture, addr + 43 * BLOCK, 16 * BLOCK, &mr));
    hmreg_mr_put(mr);
    assert_int_equal(fake_verbs.live, 3); /* of which the one of three blocks is idle */
    CU(cu.free(addr));
}

/* As the members of a group do. */
TEST(imports__of_one_descriptor__share_its_place_in_the_window)
{
    struct fixture fixture = begin();
    unsigned long long addr = cu_alloc(2 * MIB);
    struct hmreg_dmabuf first, second;
    struct hmem_range range;
    char *imports[2];

    assert_ok(bench_resolve(&fixture.bench, addr, 2 * MIB, &range));
    assert_ok(hmem_cuda_ops.export_dmabuf(fixture.bench.hmem, addr, MIB, &range, 0, &first));
    assert_ok(hmem_cuda_ops.export_dmabuf(fixture.bench.hmem, addr + MIB, MIB, &range, 0, &second));
    cu.fake->window(MIB);
    for (int i = 0; i < 2; i++) {
        imports[i] = cu.fake->attach(first.fd);
        assert_non_null(imports[i]);
    }
    cu.fake->detach(imports[0]);
    assert_null(cu.fake->attach(second.fd));
    assert_int_equal(errno, ENOMEM);
    cu.fake->detach(imports[1]);
    imports[0] = cu.fake->attach(second.fd);
    assert_non_null(imports[0]);
    cu.fake->detach(imports[0]);
    close(first.fd);
    close(second.fd);
    CU(cu.free(addr));
}

TEST(reg__the_topology_is_refused__says_so)
{
    struct fixture fixture = begin();
    unsigned long long addr = cu_alloc(MIB);
    struct hmreg_mr *mr = (void *)1;

    setenv("HMREG_FAKE_ATTACH_REFUSED", "1", 1);
    assert_fails(reg(&fixture, addr, MIB, &mr), -EOPNOTSUPP, "no path to this cuda");
    unsetenv("HMREG_FAKE_ATTACH_REFUSED");
    assert_int_equal(test_why_of(NULL).reasons[0].vendor_code, 524);
    assert_non_null(strstr(test_why_of(NULL).reasons[0].text, "below one PCI switch"));
    CU(cu.free(addr));
}

/* ---- how long the memory lives ---------------------------------------------------------- */

TEST(free__while_registered__the_memory_lives_on)
{
    struct fixture fixture = begin();
    unsigned long long addr = cu_alloc(MIB), next;
    struct hmreg_mr *mr;

    cu_write_pattern(addr, MIB);
    assert_ok(reg(&fixture, addr, MIB, &mr));
    CU(cu.free(addr));
    assert_int_equal(cu.fake->held(0), MIB);
    next = cu_alloc(MIB);
    assert_int_equal(next, addr); /* the address is another allocation's by now */
    check_bytes(&fixture, mr, addr, MIB, 0);
    assert_ok(hmreg_mr_close(mr));
    assert_int_equal(cu.fake->held(0), 0);
    CU(cu.free(next));
}

TEST(free__while_a_descriptor_is_open__the_memory_lives_on)
{
    struct fixture fixture = begin();
    unsigned long long addr = cu_alloc(MIB);
    struct hmreg_dmabuf dmabuf;
    struct hmem_range range;
    size_t available, total, after;
    int other;

    assert_ok(bench_resolve(&fixture.bench, addr, MIB, &range));
    assert_ok(hmem_cuda_ops.export_dmabuf(fixture.bench.hmem, addr, MIB, &range, 0, &dmabuf));
    other = dup(dmabuf.fd);
    CU(cu.free(addr));
    CU(cu.memory_info(&available, &total));
    close(dmabuf.fd);
    assert_int_equal(cu.fake->held(0), MIB);
    close(other);
    CU(cu.memory_info(&after, &total));
    assert_int_equal(after, available + MIB);
}

/* What is mapped anew is exported anew: the older descriptor names the older memory. */
TEST(get__mapped_anew__the_new_memory)
{
    struct fixture fixture = begin();
    struct cuda_memory_prop prop = prop_on(0);
    size_t granule = cu_granule();
    unsigned long long addr = cu_reserve(granule);
    struct hmreg_mr *older, *newer;

    cu_map(addr, granule, &prop);
    assert_ok(get(&fixture, addr, granule, &older));
    CU(cu.unmap(addr, granule));
    cu_map(addr, granule, &prop);
    cu_write_pattern(addr, granule);
    assert_ok(get(&fixture, addr, granule, &newer));
    check_bytes(&fixture, newer, addr, granule, 0);
    hmreg_mr_put(older);
    hmreg_mr_put(newer);
    CU(cu.unmap(addr, granule));
    CU(cu.unreserve(addr, granule));
}

/* Maps memory of one id at one address three times. A peer reads the new memory's bytes. */
static void get_with_one_id(struct fixture *fixture)
{
    struct cuda_memory_prop prop = prop_on(0);
    size_t granule = cu_granule();
    unsigned long long addr = cu_reserve(granule), before = 0, now = 0;
    struct hmreg_mr *mr;

    test_setenv("HMREG_FAKE_CUDA_REUSE_IDS", "1");
    for (unsigned char round = 1; round <= 3; round++) {
        cu_map(addr, granule, &prop);
        CU(cu.pointer_attribute(&now, CUDA_PTR_MEMORY_BLOCK_ID, addr));
        assert_true(!before || now == before); /* though an import may hold the older memory */
        before = now;
        CU(cu.copy_to_device(addr, &round, 1));
        for (unsigned i = 0; i < 2; i++) {
            assert_ok(get(fixture, addr, granule, &mr));
            check_first(fixture, mr, addr, round);
            hmreg_mr_put(mr);
        }
        CU(cu.unmap(addr, granule));
    }
    CU(cu.unreserve(addr, granule));
}

TEST(get__block_ids_are_used_again__the_new_memory)
{
    struct fixture fixture = begin();

    get_with_one_id(&fixture);
    if (!entry_hooks_refusal())
        assert_int_equal(test_stats_of(fixture.domain).hits, 3);
}

static size_t length_of(const struct hmreg_mr *mr)
{
    struct hmreg_mr_info info = {.size = sizeof(info)};

    assert_ok(hmreg_mr_query(mr, &info));
    return info.len;
}

/* An allocation that the window has no room for costs a refusal, evicts nothing, and leaves the
 * room to others. */
TEST(get__covering_beyond_the_window__the_range)
{
    struct hmreg_domain_config config = {.size = sizeof(config), .cover = HMREG_COVER_REMOTE};
    struct fixture fixture = begin();
    struct hmreg_stats stats = {.size = sizeof(stats)};
    unsigned long long large = cu_alloc(MIB), small = cu_alloc(4 * BLOCK);
    struct hmreg_mr *mr;

    assert_ok(hmreg_domain_close(fixture.domain));
    assert_ok(hmreg_domain_open_verbs(fixture.lib, fixture.pd, &config, &fixture.domain));
    begun.domain = fixture.domain;
    cu.fake->window(8 * BLOCK);
    for (unsigned i = 0; i < 2; i++) {
        assert_ok(get(&fixture, large + i * BLOCK, BLOCK, &mr));
        assert_int_equal(length_of(mr), BLOCK);
        hmreg_mr_put(mr);
    }
    for (unsigned i = 0; i < 4; i++) {
        assert_ok(get(&fixture, small + i * BLOCK, BLOCK, &mr));
        assert_int_equal(length_of(mr), 4 * BLOCK);
        hmreg_mr_put(mr);
    }
    assert_ok(hmreg_domain_stats(fixture.domain, &stats));
    assert_int_equal(stats.misses, 3);
    assert_int_equal(stats.hits, 3);
    assert_int_equal(stats.evictions, 0);
    CU(cu.free(large));
    CU(cu.free(small));
}

/* Whether a region by path peermem holds its memory depends on the kernel's client, so where the
 * memory's end is not reported its id may become another memory's under the region. */
TEST(get__id_may_recur_under_peer_memory__not_cached)
{
    struct hmreg_stats stats = {.size = sizeof(stats)};
    struct cuda_memory_prop prop = prop_on(0);
    unsigned long long addr, plain;
    struct fixture fixture;
    struct hmreg_mr *mr;
    size_t granule;

    driver_need_fake();
    granule = cu_granule();
    test_setenv("HMREG_DEVICE_MONITOR", "off");
    fixture = begin();
    fake_peers = HMREG_IFACE_BIT(HMREG_IFACE_CUDA);
    cu.fake->window(4096); /* no dmabuf fits */
    addr = cu_reserve(granule);
    plain = cu_alloc(MIB);
    cu_map(addr, granule, &prop);
    for (int i = 0; i < 2; i++) {
        assert_ok(get(&fixture, addr, granule, &mr));
        assert_int_equal(path_of(mr), HMREG_PATH_PEERMEM);
        hmreg_mr_put(mr);
        assert_ok(get(&fixture, plain, MIB, &mr));
        assert_int_equal(path_of(mr), HMREG_PATH_PEERMEM);
        hmreg_mr_put(mr);
    }
    assert_ok(hmreg_domain_stats(fixture.domain, &stats));
    assert_int_equal(stats.uncached, 2);
    assert_int_equal(stats.misses, 1);
    assert_int_equal(stats.hits, 1);
    CU(cu.unmap(addr, granule));
    CU(cu.unreserve(addr, granule));
    CU(cu.free(plain));
}

/* ---- synchronous calls ------------------------------------------------------------------ */

/* A NIC reads what a copy on the device wrote: when it has returned, or only after waiting. */
static void check_copy(struct fixture *fixture, uint64_t dst, uint64_t src, bool at_once)
{
    struct hmreg_mr *mr;

    cu_write_pattern(src, BLOCK);
    assert_ok(reg(fixture, dst, BLOCK, &mr));
    CU(cu.fill(dst, pattern(0) + 1, BLOCK));
    CU(cu.copy_on_device(dst, src, BLOCK));
    if (at_once)
        check_bytes(fixture, mr, dst, BLOCK, 0);
    else
        check_first(fixture, mr, dst, pattern(0) + 1);
    CU(cu.context_wait());
    check_bytes(fixture, mr, dst, BLOCK, 0);
    assert_ok(hmreg_mr_close(mr));
}

static void check_copies(struct fixture *fixture, bool plain, bool virtual)
{
    struct cuda_memory_prop prop = prop_on(0);
    unsigned long long src = cu_alloc(BLOCK), dst = cu_alloc(BLOCK);
    size_t granule = cu_granule();
    unsigned long long addr = cu_reserve(2 * granule);

    cu_map(addr, granule, &prop);
    cu_map(addr + granule, granule, &prop);
    check_copy(fixture, dst, src, plain);
    check_copy(fixture, addr, addr + granule, virtual);
    CU(cu.unmap(addr, 2 * granule));
    CU(cu.unreserve(addr, 2 * granule));
    CU(cu.free(src));
    CU(cu.free(dst));
}

TEST(sync_memops__off__the_copy_is_late)
{
    struct fixture fixture = begin();

    check_copies(&fixture, false, false);
}

TEST(sync_memops__on__the_copy_is_there)
{
    struct fixture fixture = begin_with(HMREG_CHOICE_ON);

    check_copies(&fixture, true, true);
}

TEST(sync_memops__by_the_environment__unless_the_domain_says_off)
{
    struct fixture fixture;

    test_setenv("HMREG_SYNC_MEMOPS", "1");
    fixture = begin();
    check_copies(&fixture, true, true);
    test_finish();
    test_setenv("HMREG_SYNC_MEMOPS", "1");
    fixture = begin_with(HMREG_CHOICE_OFF);
    check_copies(&fixture, false, false);
}

/* The result of a call that sets it; the context of the thread is its own afterwards. */
static void expect_sync(struct fixture *fixture, uint64_t addr, int code, const char *words)
{
    struct hmreg_mr *mr = (void *)1;
    struct cuda_context *current = NULL;

    assert_fails(reg(fixture, addr, 1, &mr), code, words);
    assert_ptr_equal(mr, (void *)1);
    CU(cu.context_current(&current));
    assert_ptr_equal(current, fixture->bench.context);
    cu.fake->reset();
}

TEST(sync_memops__a_call_fails__no_region)
{
    struct fixture fixture = begin_with(HMREG_CHOICE_ON);
    struct cuda_memory_prop prop = prop_on(0);
    unsigned long long plain = cu_alloc(BLOCK);
    size_t granule = cu_granule();
    unsigned long long addr = cu_reserve(granule);

    cu_map(addr, granule, &prop);
    cu_fail("cuPointerSetAttribute", CUDA_UNKNOWN_ERROR, 0, 1);
    expect_sync(&fixture, plain, -EIO, "CUDA_ERROR_UNKNOWN");
    cu_fail("cuCtxGetFlags", CUDA_UNKNOWN_ERROR, 0, 1);
    expect_sync(&fixture, addr, -EIO, "no context of CUDA device 0 accepts it");
    cu_fail("cuCtxSetFlags", CUDA_UNKNOWN_ERROR, 0, 1);
    expect_sync(&fixture, addr, -EIO, "no context of CUDA device 0 accepts it");
    cu_fail("cuDevicePrimaryCtxRetain", CUDA_UNKNOWN_ERROR, 0, 1);
    expect_sync(&fixture, addr, -EIO, "CUDA_ERROR_UNKNOWN");
    CU(cu.unmap(addr, granule));
    CU(cu.unreserve(addr, granule));
    CU(cu.free(plain));
}

TEST(sync_memops__unknown_value__inval)
{
    struct hmreg_domain_config config = {.size = sizeof(config), .sync_memops = 3};
    struct fixture fixture = begin();
    struct hmreg_domain *domain = (void *)1;
    struct hmreg *lib = (void *)1;

    assert_fails(hmreg_domain_open_verbs(fixture.lib, fixture.pd, &config, &domain), -EINVAL,
                 "config->sync_memops is 3; accepted are 0 (default), 1 (off), 2 (on)");
    assert_ptr_equal(domain, (void *)1);
    test_setenv("HMREG_SYNC_MEMOPS", "yes");
    assert_fails(hmreg_open(NULL, &lib), -EINVAL, "HMREG_SYNC_MEMOPS=yes: accepted are 0 and 1");
}

TEST(sync_memops__of_a_group__inval)
{
    struct hmreg_domain_config config = {.size = sizeof(config), .sync_memops = HMREG_CHOICE_ON};
    struct hmreg_group_config group = {.size = sizeof(group), .domain = &config};
    struct fixture fixture = begin();
    struct hmreg_domain *domain = (void *)1;

    assert_fails(hmreg_group_open(fixture.lib, &fixture.domain, 1, &group, &domain), -EINVAL,
                 "config->domain->sync_memops is set");
    assert_ptr_equal(domain, (void *)1);
}

TEST_MAIN()
