/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Virtual memory: ranges over several physical allocations, holes, and memory that is exchanged
 * under addresses that stay.
 */
#include "tests/gpu/cuda/driver.h"

#include <pthread.h>
#include <stdlib.h>

/* A reservation of four granules; tests map what they need. */
struct room {
    struct bench bench;
    struct cuda_memory_prop prop;
    unsigned long long addr;
    size_t granule;
};

static struct room room_begin(void)
{
    struct room room = {.bench = bench_begin()};

    room.prop = prop_on(0);
    room.granule = cu_granule();
    room.addr = cu_reserve(4 * room.granule);
    return room;
}

static void room_end(struct room *room)
{
    CU(cu.unreserve(room->addr, 4 * room->granule));
    bench_end(&room->bench);
}

static void map(const struct room *room, unsigned first, unsigned count)
{
    cu_map(room->addr + first * room->granule, count * room->granule, &room->prop);
}

static void unmap(const struct room *room, unsigned first, unsigned count)
{
    CU(cu.unmap(room->addr + first * room->granule, count * room->granule));
}

static void resolve__one_piece__says_all(void **state)
{
    struct room room = room_begin();
    struct hmem_range range;

    map(&room, 1, 2);
    assert_ok(bench_resolve(&room.bench, room.addr + room.granule + 3, 100, &range));
    assert_int_equal(range.kind, HMREG_MEM_DEVICE);
    assert_int_equal(range.device, 0);
    assert_int_equal(range.alloc_base, room.addr + room.granule);
    assert_int_equal(range.alloc_len, 2 * room.granule);
    assert_int_equal(range.segments, 1);
    assert_int_equal(range.host_addr, 0);
    assert_int_equal(range.exportable, cu.fake ? 1 : range.exportable);
    unmap(&room, 1, 2);
    room_end(&room);
}

/* The reservation is longer than what is mapped, and a piece shorter than the range. */
static void resolve__several_pieces__counts_those_under_the_range(void **state)
{
    struct room room = room_begin();
    struct hmem_range range;

    map(&room, 0, 1);
    map(&room, 1, 1);
    map(&room, 2, 1);
    assert_ok(bench_resolve(&room.bench, room.addr, 3 * room.granule, &range));
    assert_int_equal(range.segments, 3);
    assert_int_equal(range.alloc_base, room.addr);
    assert_int_equal(range.alloc_len, 3 * room.granule);
    assert_ok(bench_resolve(&room.bench, room.addr + room.granule - 1, 2, &range));
    assert_int_equal(range.segments, 2);
    assert_int_equal(range.alloc_base, room.addr);
    assert_int_equal(range.alloc_len, 2 * room.granule);
    assert_ok(bench_resolve(&room.bench, room.addr + room.granule, room.granule, &range));
    assert_int_equal(range.segments, 1);
    unmap(&room, 0, 3);
    room_end(&room);
}

static void expect_leaves(const struct room *room, uint64_t addr, size_t len, uint64_t at)
{
    struct hmem_range range, before;
    uint64_t identity = 0x5a;
    char words[32];

    memset(&range, 0x5a, sizeof(range));
    before = range;
    snprintf(words, sizeof(words), "at %#llx", (unsigned long long)at);
    assert_fails(bench_resolve(&room->bench, addr, len, &range), -ERANGE, words);
    assert_memory_equal(&range, &before, sizeof(range));
    assert_fails(hmem_cuda_ops.identity(room->bench.hmem, addr, len, &identity), -ERANGE, words);
    assert_int_equal(identity, 0x5a);
}

static void resolve__over_a_hole__erange(void **state)
{
    struct room room = room_begin();

    map(&room, 0, 1);
    map(&room, 2, 1);
    expect_leaves(&room, room.addr, 3 * room.granule, room.addr + room.granule);
    expect_leaves(&room, room.addr + room.granule - 1, 2, room.addr + room.granule);
    unmap(&room, 0, 1);
    unmap(&room, 2, 1);
    room_end(&room);
}

static void resolve__beyond_the_reservation__erange(void **state)
{
    struct room room = room_begin();

    map(&room, 2, 2);
    expect_leaves(&room, room.addr + 2 * room.granule, 2 * room.granule + 1,
                  room.addr + 4 * room.granule);
    unmap(&room, 2, 2);
    room_end(&room);
}

/* Two reservations side by side are two allocations, even where both are mapped. */
static void resolve__over_two_reservations__erange(void **state)
{
    struct room room;
    unsigned long long next;

    driver_need_fake();
    room = room_begin();
    next = cu_reserve(room.granule);
    assert_int_equal(next, room.addr + 4 * room.granule);
    map(&room, 3, 1);
    cu_map(next, room.granule, &room.prop);
    expect_leaves(&room, next - 1, 2, next);
    unmap(&room, 3, 1);
    CU(cu.unmap(next, room.granule));
    CU(cu.unreserve(next, room.granule));
    room_end(&room);
}

/* Reserved addresses without memory are CUDA's, though nothing: never the system's. */
static void resolve__nothing_mapped__efault(void **state)
{
    struct room room = room_begin();
    struct hmem_range range;
    uint64_t identity;

    assert_fails(bench_resolve(&room.bench, room.addr, 1, &range), -EFAULT, "without memory");
    assert_fails(hmem_cuda_ops.identity(room.bench.hmem, room.addr, 1, &identity), -EFAULT,
                 "without memory");
    map(&room, 1, 1);
    assert_fails(bench_resolve(&room.bench, room.addr, 2 * room.granule, &range), -EFAULT,
                 "reserved");
    unmap(&room, 1, 1);
    room_end(&room);
}

static void resolve__given_back_reservation__not_mine(void **state)
{
    struct room room = room_begin();
    unsigned long long gone = cu_reserve(room.granule);
    struct hmem_range range;

    CU(cu.unreserve(gone, room.granule));
    assert_int_equal(bench_resolve(&room.bench, gone, 1, &range), -HMEM_NOT_MINE);
    room_end(&room);
}

/* ---- identity --------------------------------------------------------------------------- */

/* Whichever piece is exchanged, the identity of a range over it changes. */
static void identity__any_piece_exchanged__differs(void **state)
{
    struct room room = room_begin();
    uint64_t seen[5] = {0};

    map(&room, 0, 1);
    map(&room, 1, 1);
    map(&room, 2, 1);
    seen[0] = identity_of(&room.bench, room.addr, 3 * room.granule);
    for (unsigned i = 0; i < 3; i++) {
        unmap(&room, i, 1);
        map(&room, i, 1);
        seen[i + 1] = identity_of(&room.bench, room.addr, 3 * room.granule);
        for (unsigned j = 0; j <= i; j++)
            assert_true(seen[j] != seen[i + 1]);
    }
    unmap(&room, 0, 3);
    room_end(&room);
}

static void identity__other_pieces_exchanged__stays(void **state)
{
    struct room room = room_begin();
    uint64_t before;

    map(&room, 0, 1);
    map(&room, 1, 1);
    before = identity_of(&room.bench, room.addr, room.granule);
    unmap(&room, 1, 1);
    assert_int_equal(identity_of(&room.bench, room.addr, room.granule), before);
    map(&room, 1, 1);
    assert_int_equal(identity_of(&room.bench, room.addr, room.granule), before);
    unmap(&room, 0, 2);
    room_end(&room);
}

/* The same two allocations in the other order are other bytes. */
static void identity__pieces_swapped__differs(void **state)
{
    struct room room = room_begin();
    unsigned long long a = 0, b = 0;
    uint64_t before, after;

    CU(cu.create(&a, room.granule, &room.prop, 0));
    CU(cu.create(&b, room.granule, &room.prop, 0));
    CU(cu.map(room.addr, room.granule, 0, a, 0));
    CU(cu.map(room.addr + room.granule, room.granule, 0, b, 0));
    before = identity_of(&room.bench, room.addr, 2 * room.granule);
    unmap(&room, 0, 2);
    CU(cu.map(room.addr, room.granule, 0, b, 0));
    CU(cu.map(room.addr + room.granule, room.granule, 0, a, 0));
    after = identity_of(&room.bench, room.addr, 2 * room.granule);
    assert_true(before != after);
    unmap(&room, 0, 2);
    CU(cu.handle_release(a));
    CU(cu.handle_release(b));
    room_end(&room);
}

static void identity__is_what_resolve_says(void **state)
{
    struct room room = room_begin();
    struct hmem_range range;

    map(&room, 0, 1);
    map(&room, 1, 2);
    assert_ok(bench_resolve(&room.bench, room.addr + 5, room.granule, &range));
    assert_int_equal(range.identity, identity_of(&room.bench, room.addr + 5, room.granule));
    /* The pieces as a whole have it too: a region may be as large as they are. */
    assert_int_equal(range.identity, identity_of(&room.bench, range.alloc_base, range.alloc_len));
    unmap(&room, 0, 3);
    room_end(&room);
}

/* ---- properties ------------------------------------------------------------------------- */

static void resolve__pieces_of_two_devices__not_exportable(void **state)
{
    struct hmem_range range;
    struct room room;

    driver_need_devices(2);
    room = room_begin();
    map(&room, 0, 1);
    room.prop.location.id = 1;
    map(&room, 1, 1);
    assert_ok(bench_resolve(&room.bench, room.addr, 2 * room.granule, &range));
    assert_int_equal(range.segments, 2);
    assert_false(range.exportable);
    assert_ok(bench_resolve(&room.bench, room.addr + room.granule, 1, &range));
    assert_int_equal(range.device, 1);
    unmap(&room, 0, 2);
    room_end(&room);
}

static void resolve__on_the_host__pinned(void **state)
{
    struct hmem_range range;
    struct room room;

    driver_need_fake(); /* real drivers have it with some devices only */
    room = room_begin();
    room.prop.location = (struct cuda_location){CUDA_LOCATION_HOST_NUMA, 0};
    map(&room, 0, 1);
    map(&room, 1, 1);
    assert_ok(bench_resolve(&room.bench, room.addr + 1, room.granule, &range));
    assert_int_equal(range.kind, HMREG_MEM_HOST_PINNED);
    assert_int_equal(range.device, -1);
    assert_int_equal(range.segments, 2);
    assert_int_equal(range.alloc_len, 2 * room.granule);
    assert_false(range.exportable);
    expect_leaves(&room, room.addr, 2 * room.granule + 1, room.addr + 2 * room.granule);
    unmap(&room, 0, 2);
    room_end(&room);
}

/* ---- older drivers ---------------------------------------------------------------------- */

struct asked {
    const struct room *room;
    int rc;
    int code;
    struct hmem_range range;
};

static void *ask_there(void *arg)
{
    struct asked *asked = arg;

    asked->rc = bench_resolve(&asked->room->bench, asked->room->addr, 2 * asked->room->granule,
                              &asked->range);
    asked->code = hmreg_last_error()->code;
    return NULL;
}

static void ask_on_a_thread(struct asked *asked)
{
    pthread_t thread;

    assert_int_equal(pthread_create(&thread, NULL, ask_there, asked), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
}

/* Without the MAPPING attributes the pieces are asked for in a context: the thread's own, or
 * the primary one where it is alive. Without block ids an exchange of memory cannot be detected. */
static void resolve__older_driver__walks_without_identity(void **state)
{
    struct asked asked = {0};
    uint64_t identity = 0x5a;
    struct hmem_range range;
    struct room room;

    driver_need_fake();
    room = room_begin();
    asked.room = &room;
    setenv("HMREG_FAKE_CUDA_NO_MAPPING", "1", 1);
    map(&room, 0, 1);
    map(&room, 1, 1);
    assert_ok(bench_resolve(&room.bench, room.addr, 2 * room.granule, &range));
    assert_int_equal(range.segments, 2);
    assert_int_equal(range.identity, 0);
    assert_ok(hmem_cuda_ops.identity(room.bench.hmem, room.addr, 1, &identity));
    assert_int_equal(identity, 0);
    ask_on_a_thread(&asked);
    assert_int_equal(asked.rc, 0);
    assert_int_equal(asked.range.segments, 2);
    unmap(&room, 0, 2);
    unsetenv("HMREG_FAKE_CUDA_NO_MAPPING");
    room_end(&room);
}

/* One piece that nothing names is enough: the range has no identity. */
static void identity__one_piece_without_block_id__zero(void **state)
{
    struct room room;
    uint64_t identity = 7;

    driver_need_fake();
    room = room_begin();
    map(&room, 0, 1);
    map(&room, 1, 1);
    /* The first piece is asked for its pool, base, size and block id, in this order. */
    cu_fail("cuPointerGetAttribute", CUDA_INVALID_VALUE, 3, 1);
    assert_ok(hmem_cuda_ops.identity(room.bench.hmem, room.addr, 2 * room.granule, &identity));
    assert_int_equal(identity, 0);
    unmap(&room, 0, 2);
    room_end(&room);
}

/* Where no context lives, none is made to answer a question. */
static void resolve__older_driver_no_context__eio(void **state)
{
    struct room room = {0};
    struct asked asked = {.room = &room};

    driver_need_fake();
    room.bench.hmem = vendor_open();
    room.prop = prop_on(0);
    room.granule = cu_granule();
    room.addr = cu_reserve(4 * room.granule);
    map(&room, 0, 2);
    setenv("HMREG_FAKE_CUDA_NO_MAPPING", "1", 1);
    ask_on_a_thread(&asked);
    assert_int_equal(asked.rc, -EIO);
    assert_int_equal(asked.code, -EIO);
    assert_int_equal(cu.contexts(), 0);
    unsetenv("HMREG_FAKE_CUDA_NO_MAPPING");
    ask_on_a_thread(&asked);
    assert_int_equal(asked.rc, 0);
    assert_int_equal(cu.contexts(), 0);
    unmap(&room, 0, 2);
    CU(cu.unreserve(room.addr, 4 * room.granule));
    hmem_cuda_ops.close(room.bench.hmem);
}

TEST_MAIN(
    TEST(resolve__one_piece__says_all), TEST(resolve__several_pieces__counts_those_under_the_range),
    TEST(resolve__over_a_hole__erange), TEST(resolve__beyond_the_reservation__erange),
    TEST(resolve__over_two_reservations__erange), TEST(resolve__nothing_mapped__efault),
    TEST(resolve__given_back_reservation__not_mine), TEST(identity__any_piece_exchanged__differs),
    TEST(identity__other_pieces_exchanged__stays), TEST(identity__pieces_swapped__differs),
    TEST(identity__is_what_resolve_says), TEST(resolve__pieces_of_two_devices__not_exportable),
    TEST(resolve__on_the_host__pinned), TEST(resolve__older_driver__walks_without_identity),
    TEST(identity__one_piece_without_block_id__zero), TEST(resolve__older_driver_no_context__eio))
