/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Virtual memory: ranges over several physical allocations, holes, and memory that is replaced at
 * the same addresses.
 */
#include "tests/gpu/cuda/driver.h"

/* A reservation of four granules; tests map what they need. */
struct reserved {
    struct bench bench;
    struct cuda_memory_prop prop;
    unsigned long long addr;
    size_t granule;
};

static struct reserved reserved_begin(void)
{
    struct reserved reserved = {.bench = bench_begin()};

    reserved.prop = prop_on(0);
    reserved.granule = cu_granule();
    reserved.addr = cu_reserve(4 * reserved.granule);
    return reserved;
}

static void reserved_end(struct reserved *reserved)
{
    CU(cu.unreserve(reserved->addr, 4 * reserved->granule));
    bench_end(&reserved->bench);
}

static void map(const struct reserved *reserved, unsigned first, unsigned count)
{
    cu_map(reserved->addr + first * reserved->granule, count * reserved->granule, &reserved->prop);
}

static void unmap(const struct reserved *reserved, unsigned first, unsigned count)
{
    CU(cu.unmap(reserved->addr + first * reserved->granule, count * reserved->granule));
}

TEST(resolve__one_piece__says_all)
{
    struct reserved reserved = reserved_begin();
    struct hmem_range range;

    map(&reserved, 1, 2);
    assert_ok(bench_resolve(&reserved.bench, reserved.addr + reserved.granule + 3, 100, &range));
    assert_int_equal(range.kind, HMREG_MEM_DEVICE);
    assert_int_equal(range.device, 0);
    assert_int_equal(range.alloc_base, reserved.addr + reserved.granule);
    assert_int_equal(range.alloc_len, 2 * reserved.granule);
    assert_int_equal(range.segments, 1);
    assert_int_equal(range.host_addr, 0);
    assert_int_equal(range.exportable, cu.fake ? 1 : range.exportable);
    unmap(&reserved, 1, 2);
    reserved_end(&reserved);
}

/* The reservation is longer than its mapped part, and a piece shorter than the range. */
TEST(resolve__several_pieces__counts_those_under_the_range)
{
    struct reserved reserved = reserved_begin();
    struct hmem_range range;

    map(&reserved, 0, 1);
    map(&reserved, 1, 1);
    map(&reserved, 2, 1);
    assert_ok(bench_resolve(&reserved.bench, reserved.addr, 3 * reserved.granule, &range));
    assert_int_equal(range.segments, 3);
    assert_int_equal(range.alloc_base, reserved.addr);
    assert_int_equal(range.alloc_len, 3 * reserved.granule);
    assert_ok(bench_resolve(&reserved.bench, reserved.addr + reserved.granule - 1, 2, &range));
    assert_int_equal(range.segments, 2);
    assert_int_equal(range.alloc_base, reserved.addr);
    assert_int_equal(range.alloc_len, 2 * reserved.granule);
    assert_ok(
        bench_resolve(&reserved.bench, reserved.addr + reserved.granule, reserved.granule, &range));
    assert_int_equal(range.segments, 1);
    unmap(&reserved, 0, 3);
    reserved_end(&reserved);
}

static void expect_leaves(const struct reserved *reserved, uint64_t addr, size_t len, uint64_t at)
{
    struct hmem_range range, before;
    uint64_t identity = 0x5a;
    char words[32];

    memset(&range, 0x5a, sizeof(range));
    before = range;
    snprintf(words, sizeof(words), "at %#llx", (unsigned long long)at);
    assert_fails(bench_resolve(&reserved->bench, addr, len, &range), -ERANGE, words);
    assert_memory_equal(&range, &before, sizeof(range));
    assert_fails(hmem_cuda_ops.identity(reserved->bench.hmem, addr, len, &identity), -ERANGE,
                 words);
    assert_int_equal(identity, 0x5a);
}

/* ---- identity --------------------------------------------------------------------------- */

/* Replacing any piece changes the identity of a range over it. */
TEST(identity__any_piece_exchanged__differs)
{
    struct reserved reserved = reserved_begin();
    uint64_t seen[5] = {0};

    map(&reserved, 0, 1);
    map(&reserved, 1, 1);
    map(&reserved, 2, 1);
    seen[0] = identity_of(&reserved.bench, reserved.addr, 3 * reserved.granule);
    for (unsigned i = 0; i < 3; i++) {
        unmap(&reserved, i, 1);
        map(&reserved, i, 1);
        seen[i + 1] = identity_of(&reserved.bench, reserved.addr, 3 * reserved.granule);
        for (unsigned j = 0; j <= i; j++)
            assert_true(seen[j] != seen[i + 1]);
    }
    unmap(&reserved, 0, 3);
    reserved_end(&reserved);
}

/* The driver has given the older memory's block id to the newer one. */
TEST(identity__reserved_anew__differs)
{
    struct reserved reserved;
    unsigned long long addr;
    uint64_t before;

    driver_need_fake();
    reserved = reserved_begin();
    addr = reserved.addr;
    test_setenv("HMREG_FAKE_CUDA_REUSE_IDS", "1");
    map(&reserved, 0, 1);
    before = identity_of(&reserved.bench, addr, reserved.granule);
    unmap(&reserved, 0, 1);
    CU(cu.unreserve(addr, 4 * reserved.granule));
    reserved.addr = cu_reserve(4 * reserved.granule);
    assert_int_equal(reserved.addr, addr);
    map(&reserved, 0, 1);
    assert_true(identity_of(&reserved.bench, addr, reserved.granule) != before);
    unmap(&reserved, 0, 1);
    reserved_end(&reserved);
}

TEST(identity__other_pieces_exchanged__stays)
{
    struct reserved reserved = reserved_begin();
    uint64_t before;

    map(&reserved, 0, 1);
    map(&reserved, 1, 1);
    before = identity_of(&reserved.bench, reserved.addr, reserved.granule);
    unmap(&reserved, 1, 1);
    assert_int_equal(identity_of(&reserved.bench, reserved.addr, reserved.granule), before);
    map(&reserved, 1, 1);
    assert_int_equal(identity_of(&reserved.bench, reserved.addr, reserved.granule), before);
    unmap(&reserved, 0, 2);
    reserved_end(&reserved);
}

/* The same two allocations in the other order are other bytes. */
TEST(identity__pieces_swapped__differs)
{
    struct reserved reserved = reserved_begin();
    unsigned long long a = 0, b = 0;
    uint64_t before, after;

    CU(cu.create(&a, reserved.granule, &reserved.prop, 0));
    CU(cu.create(&b, reserved.granule, &reserved.prop, 0));
    CU(cu.map(reserved.addr, reserved.granule, 0, a, 0));
    CU(cu.map(reserved.addr + reserved.granule, reserved.granule, 0, b, 0));
    before = identity_of(&reserved.bench, reserved.addr, 2 * reserved.granule);
    unmap(&reserved, 0, 2);
    CU(cu.map(reserved.addr, reserved.granule, 0, b, 0));
    CU(cu.map(reserved.addr + reserved.granule, reserved.granule, 0, a, 0));
    after = identity_of(&reserved.bench, reserved.addr, 2 * reserved.granule);
    assert_true(before != after);
    unmap(&reserved, 0, 2);
    CU(cu.handle_release(a));
    CU(cu.handle_release(b));
    reserved_end(&reserved);
}

TEST(identity__is_what_resolve_says)
{
    struct reserved reserved = reserved_begin();
    struct hmem_range range;

    map(&reserved, 0, 1);
    map(&reserved, 1, 2);
    assert_ok(bench_resolve(&reserved.bench, reserved.addr + 5, reserved.granule, &range));
    assert_int_equal(range.identity,
                     identity_of(&reserved.bench, reserved.addr + 5, reserved.granule));
    /* The pieces as a whole have it too: a region may span all of them. */
    assert_int_equal(range.identity,
                     identity_of(&reserved.bench, range.alloc_base, range.alloc_len));
    unmap(&reserved, 0, 3);
    reserved_end(&reserved);
}

/* ---- properties ------------------------------------------------------------------------- */

TEST(resolve__on_the_host__pinned)
{
    struct hmem_range range;
    struct reserved reserved;

    driver_need_fake(); /* real drivers support it on some devices only */
    reserved = reserved_begin();
    reserved.prop.location = (struct cuda_location){CUDA_LOCATION_HOST_NUMA, 0};
    map(&reserved, 0, 1);
    map(&reserved, 1, 1);
    assert_ok(bench_resolve(&reserved.bench, reserved.addr + 1, reserved.granule, &range));
    assert_int_equal(range.kind, HMREG_MEM_HOST_PINNED);
    assert_int_equal(range.device, -1);
    assert_int_equal(range.segments, 2);
    assert_int_equal(range.alloc_len, 2 * reserved.granule);
    assert_false(range.exportable);
    expect_leaves(&reserved, reserved.addr, 2 * reserved.granule + 1,
                  reserved.addr + 2 * reserved.granule);
    unmap(&reserved, 0, 2);
    reserved_end(&reserved);
}

/* ---- older drivers ---------------------------------------------------------------------- */

struct asked {
    const struct reserved *reserved;
    int rc;
    int code;
    struct hmem_range range;
};

static void *ask_there(void *arg)
{
    struct asked *asked = arg;

    asked->rc = bench_resolve(&asked->reserved->bench, asked->reserved->addr,
                              2 * asked->reserved->granule, &asked->range);
    asked->code = hmreg_last_error()->code;
    return NULL;
}

static void ask_on_a_thread(struct asked *asked)
{
    test_on_a_thread(ask_there, asked);
}

/* Without the MAPPING attributes the library queries the pieces in a context: the thread's own, or
 * the primary one if it is active. Without block ids the replacement of memory cannot be detected.
 */
TEST(resolve__older_driver__walks_without_identity)
{
    struct asked asked = {0};
    uint64_t identity = 0x5a;
    struct hmem_range range;
    struct reserved reserved;

    driver_need_fake();
    reserved = reserved_begin();
    asked.reserved = &reserved;
    test_setenv("HMREG_FAKE_CUDA_NO_MAPPING", "1");
    map(&reserved, 0, 1);
    map(&reserved, 1, 1);
    assert_ok(bench_resolve(&reserved.bench, reserved.addr, 2 * reserved.granule, &range));
    assert_int_equal(range.segments, 2);
    assert_int_equal(range.identity, 0);
    assert_ok(hmem_cuda_ops.identity(reserved.bench.hmem, reserved.addr, 1, &identity));
    assert_int_equal(identity, 0);
    ask_on_a_thread(&asked);
    assert_int_equal(asked.rc, 0);
    assert_int_equal(asked.range.segments, 2);
    unmap(&reserved, 0, 2);
    reserved_end(&reserved);
}

/* The physical memory stays, and less of it is mapped. */
TEST(identity__piece_mapped_shorter__differs)
{
    struct reserved reserved;
    unsigned long long handle = 0;
    uint64_t before;
    size_t granule;

    driver_need_fake(); /* a driver may map whole allocations only */
    reserved = reserved_begin();
    granule = reserved.granule;
    CU(cu.create(&handle, 2 * granule, &reserved.prop, 0));
    map(&reserved, 0, 1);
    CU(cu.map(reserved.addr + granule, 2 * granule, 0, handle, 0));
    map(&reserved, 3, 1);
    before = identity_of(&reserved.bench, reserved.addr, 4 * granule);
    unmap(&reserved, 1, 2);
    CU(cu.map(reserved.addr + granule, granule, 0, handle, 0));
    map(&reserved, 2, 1);
    assert_true(identity_of(&reserved.bench, reserved.addr, 4 * granule) != before);
    CU(cu.handle_release(handle));
    unmap(&reserved, 0, 4);
    reserved_end(&reserved);
}

static unsigned long questions(void)
{
    static const char *const calls[] = {
#define NAME(member, name, parameters) #name,
        CUDA_ENTRIES(NAME, NAME)
#undef NAME
    };
    unsigned long count = 0;

    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
        count += cu.fake->calls(calls[i]);
    return count - cu.fake->calls("cuThreadExchangeStreamCaptureMode"); /* asks nothing */
}

/* A hit asks about each piece's length and memory, and nothing more than that. */
TEST(identity__of_many_pieces__two_questions_each)
{
    struct cuda_memory_prop prop = prop_on(0);
    unsigned long long addr;
    struct bench bench;
    uint64_t before;
    size_t granule;

    driver_need_fake();
    bench = bench_begin();
    granule = cu_granule();
    addr = cu_reserve(200 * granule);
    for (unsigned i = 0; i < 200; i++)
        cu_map(addr + i * granule, granule, &prop);
    cu.fake->reset();
    before = identity_of(&bench, addr, 200 * granule);
    assert_true(questions() <= 3 + 2 * 200);
    CU(cu.unmap(addr + 123 * granule, granule));
    cu_map(addr + 123 * granule, granule, &prop);
    assert_true(identity_of(&bench, addr, 200 * granule) != before);
    CU(cu.unmap(addr, 200 * granule));
    CU(cu.unreserve(addr, 200 * granule));
}

/* A single piece without an id is enough: the range has no identity. */
TEST(identity__one_piece_without_block_id__zero)
{
    struct reserved reserved;
    uint64_t identity = 7;

    driver_need_fake();
    reserved = reserved_begin();
    map(&reserved, 0, 1);
    map(&reserved, 1, 1);
    /* The library queries the first piece's pool, base, size and block id, in this order. */
    cu_fail("cuPointerGetAttribute", CUDA_INVALID_VALUE, 3, 1);
    assert_ok(hmem_cuda_ops.identity(reserved.bench.hmem, reserved.addr, 2 * reserved.granule,
                                     &identity));
    assert_int_equal(identity, 0);
    unmap(&reserved, 0, 2);
    reserved_end(&reserved);
}

/* Without an active context, a query creates none. */
TEST(resolve__older_driver_no_context__eio)
{
    struct reserved reserved = {0};
    struct asked asked = {.reserved = &reserved};

    driver_need_fake();
    reserved.bench.hmem = vendor_open();
    reserved.prop = prop_on(0);
    reserved.granule = cu_granule();
    reserved.addr = cu_reserve(4 * reserved.granule);
    map(&reserved, 0, 2);
    setenv("HMREG_FAKE_CUDA_NO_MAPPING", "1", 1);
    ask_on_a_thread(&asked);
    assert_int_equal(asked.rc, -EIO);
    assert_int_equal(asked.code, -EIO);
    assert_int_equal(cu.contexts(), 0);
    unsetenv("HMREG_FAKE_CUDA_NO_MAPPING");
    ask_on_a_thread(&asked);
    assert_int_equal(asked.rc, 0);
    assert_int_equal(cu.contexts(), 0);
    unmap(&reserved, 0, 2);
    CU(cu.unreserve(reserved.addr, 4 * reserved.granule));
    hmem_cuda_ops.close(reserved.bench.hmem);
}

static void print_ids(const struct reserved *reserved, const char *when)
{
    unsigned long long buffer = 0, block = 0;

    CU(cu.pointer_attribute(&buffer, CUDA_PTR_BUFFER_ID, reserved->addr));
    (void)cu.pointer_attribute(&block, CUDA_PTR_MEMORY_BLOCK_ID, reserved->addr);
    printf("%s: buffer id %llu, block id %llu\n", when, buffer, block);
}

/* For reports from hardware: CUDA does not promise that these ids never recur. */
TEST(identity__mapped_anew__prints_the_ids)
{
    struct reserved reserved = reserved_begin();
    struct hmreg_dmabuf dmabuf = {.fd = -1};
    struct hmem_range range;

    map(&reserved, 0, 1);
    print_ids(&reserved, "mapped");
    unmap(&reserved, 0, 1);
    map(&reserved, 0, 1);
    print_ids(&reserved, "mapped anew");
    assert_ok(bench_resolve(&reserved.bench, reserved.addr, reserved.granule, &range));
    if (!hmem_cuda_ops.export_dmabuf(reserved.bench.hmem, reserved.addr, reserved.granule, &range,
                                     0, &dmabuf)) {
        unmap(&reserved, 0, 1);
        map(&reserved, 0, 1);
        print_ids(&reserved, "mapped anew, with a descriptor of the older memory");
        close(dmabuf.fd);
    }
    unmap(&reserved, 0, 1);
    reserved_end(&reserved);
}

TEST_MAIN()
