/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The contracts of hmreg_mr_raw_attr(), hmreg_domain_map_raw() and hmreg_domain_unmap_raw() in
 * rows, on a simulated fid_domain, whose raw keys have FAKE_RAW_BYTES or whose keys have 64 bits.
 */
#include "tests/support/failing_allocation.h"
#include "tests/support/table.h"
#include "tests/support/world_ofi.h"
#include "tests/unit/region_states.h"

#include <hmreg/ofi.h>
#include <rdma/fi_errno.h>

#define LEN   4096u
#define ROOM  512
#define LONG  400 /* bytes of a raw key, more than any known fabric's */
#define KEY   UINT64_C(0x0102030405060708)
#define BASE  0x123456789a
#define PLAIN 8 /* bytes of a key of 64 bits */
#define RAW   (FI_MR_RAW | FI_MR_PROV_KEY | FI_MR_VIRT_ADDR)

/* LOCAL has no remote rights, MOVED an address that the caller chose, LATER completes with its
 * event. */
enum of { REGION, NONE, PARTS, LOCAL, MOVED, LATER, GROUP, RAIL };

struct args {
    int usual_;
    enum of of; /* of a key: NONE, GROUP, else the domain */
    int mode;   /* FI_MR_* */
    size_t size;
    uint64_t base; /* of the region; its address: IN_PLACE */
    uint64_t flags;
    bool no_raw, no_out, no_base;
};

#define IN_PLACE 1

static struct hmreg_mr *mr; /* the region, or its rail */
static uint64_t mapped;     /* 0: nothing is */

/* The bytes that the key has, also where the room is too small. */
#define TAKES(bytes)        RETURNS(bytes, NULL)
#define TOO_SMALL(bytes)    FAILS(-HMREG_ETOOSMALL, "takes", NULL), .value = (bytes)
#define REFUSED(code, text) FAILS(code, text, NULL)
#define WRONG(text)         REFUSED(-EINVAL, text)

/* ---- states ----------------------------------------------------------------------------- */

static void key_fails(void)
{
    fake_fabric.raw_code = -FI_ENOSYS;
}

static void key_is_long(void)
{
    fake_fabric.raw_bytes = LONG;
}

static void mapping_fails(void)
{
    fake_fabric.map_code = -FI_ENOMEM;
}

static void no_memory(void)
{
    failing = allocations + 1;
}

static void unmap(void)
{
    failing = 0;
    if (mapped)
        assert_ok(hmreg_domain_unmap_raw(world.domain, mapped));
    mapped = 0;
}

static void map(void)
{
    uint8_t raw[FAKE_RAW_BYTES] = {1};
    size_t size = test_domain_info(world.domain).mr_mode & HMREG_MR_RAW ? sizeof(raw) : PLAIN;

    assert_ok(hmreg_domain_map_raw(world.domain, BASE, raw, size, &mapped, 0));
    test_after(unmap);
}

static void map_twice(void)
{
    map();
    map();
}

static void map_and_unmap(void)
{
    uint64_t key;

    map();
    key = mapped;
    unmap();
    mapped = key;
}

static void map_and_lose(void)
{
    map();
    lose();
}

static void unmapping_fails(void)
{
    map();
    fake_fabric.unmap_code = -FI_EIO;
}

static void is_unmapped(void)
{
    fake_fabric.unmap_code = 0;
    fake_fabric.mapped = 0; /* libfabric has kept it, where the row says so */
    assert_fails(hmreg_domain_unmap_raw(world.domain, mapped), -EINVAL, "not mapped");
    mapped = 0;
}

/* ---- rows ------------------------------------------------------------------------------- */

static const struct row keys[] = {
    {"mr is NULL", ARGS(NONE, 0, PLAIN), WRONG("mr is NULL")},
    {"key_size is NULL", ARGS(REGION, 0, PLAIN, .no_out = true), WRONG("key_size is NULL")},
    {"raw_key is NULL", ARGS(REGION, 0, PLAIN, .no_raw = true), WRONG("raw_key is NULL")},
    {"a flag", ARGS(REGION, 0, PLAIN, .flags = 1), REFUSED(-HMREG_EBADFLAGS, "flags")},
    {"several pieces", ARGS(PARTS, 0, PLAIN), WRONG("composite")},
    {"a group's region", ARGS(GROUP, 0, PLAIN), WRONG("hmreg_mr_rail()")},
    {"no remote access", ARGS(LOCAL, 0, PLAIN), REFUSED(-EACCES, "no remote access")},
    {"it is suspended", .before = suspend, ARGS(REGION, 0, PLAIN),
     REFUSED(-EAGAIN, "hmreg_resume")},
    {"its event is not read", ARGS(LATER, FI_MR_PROV_KEY, PLAIN),
     REFUSED(-EAGAIN, "read its event")},
    {"its domain is lost", .before = lose, ARGS(REGION, 0, PLAIN),
     REFUSED(-ENODEV, "the port is down")},
    {"the provider fails", .before = key_fails, ARGS(REGION, RAW, ROOM),
     REFUSED(-ENOSYS, "fi_mr_raw_attr()")},
    {"how long it is", ARGS(REGION, 0, 0, .no_raw = true), TOO_SMALL(PLAIN)},
    {"a byte too few", ARGS(REGION, 0, PLAIN - 1), TOO_SMALL(PLAIN)},
    {"how long a raw one is", ARGS(REGION, RAW, 0, .no_raw = true), TOO_SMALL(FAKE_RAW_BYTES)},
    {"a byte too few for a raw one", ARGS(REGION, RAW, FAKE_RAW_BYTES - 1),
     TOO_SMALL(FAKE_RAW_BYTES)},
    {"longer than any known", .before = key_is_long, ARGS(REGION, RAW, ROOM),
     FAILS(-HMREG_ETOOSMALL, "fi_mr_raw_attr()", NULL), .value = LONG},

    {"offsets", ARGS(REGION, 0, PLAIN), TAKES(PLAIN)},
    {"addresses", ARGS(REGION, FI_MR_VIRT_ADDR, PLAIN, IN_PLACE), TAKES(PLAIN)},
    {"the caller's addresses", ARGS(MOVED, 0, PLAIN, BASE), TAKES(PLAIN)},
    {"more room", ARGS(REGION, 0, ROOM), TAKES(PLAIN)},
    {"base_addr is NULL", ARGS(REGION, 0, ROOM, .no_base = true), TAKES(PLAIN)},
    {"a raw one", ARGS(REGION, RAW, FAKE_RAW_BYTES, 0x5000), TAKES(FAKE_RAW_BYTES)},
    {"a rail", ARGS(RAIL, 0, PLAIN), TAKES(PLAIN)},
};

/* How many keys libfabric has mapped. */
#define MAPS(number) RETURNS(number, NULL)

static const struct row mappings[] = {
    {"domain is NULL", ARGS(NONE, 0, PLAIN), WRONG("domain is NULL")},
    {"domain is a group", ARGS(GROUP, 0, PLAIN), WRONG("is a group")},
    {"raw_key is NULL", ARGS(REGION, 0, PLAIN, .no_raw = true), WRONG("raw_key is NULL")},
    {"key is NULL", ARGS(REGION, 0, PLAIN, .no_out = true), WRONG("key is NULL")},
    {"a flag", ARGS(REGION, 0, PLAIN, .flags = 1), REFUSED(-HMREG_EBADFLAGS, "flags")},
    {"a byte too few", ARGS(REGION, 0, PLAIN - 1), WRONG("keys of this domain have 8 bytes")},
    {"a byte too many", ARGS(REGION, 0, PLAIN + 1), WRONG("keys of this domain have 8 bytes")},
    {"the domain is lost", .before = lose, ARGS(REGION, RAW, FAKE_RAW_BYTES),
     REFUSED(-ENODEV, "the port is down")},
    {"the provider fails", .before = mapping_fails, ARGS(REGION, RAW, FAKE_RAW_BYTES),
     REFUSED(-ENOMEM, "fi_mr_map_raw()")},
    {"no memory", .before = no_memory, ARGS(REGION, 0, PLAIN), REFUSED(-ENOMEM, "no memory")},
    {"no memory for a raw one", .before = no_memory, ARGS(REGION, RAW, FAKE_RAW_BYTES),
     REFUSED(-ENOMEM, "no memory")},

    {"64 bits", ARGS(REGION, 0, PLAIN), MAPS(0)},
    {"a raw one", ARGS(REGION, RAW, FAKE_RAW_BYTES), MAPS(1)},
};

static const struct row unmappings[] = {
    {"domain is NULL", .before = map, ARGS(NONE), WRONG("domain is NULL")},
    {"it was not mapped", ARGS(REGION), WRONG("not mapped")},
    {"a raw one was not mapped", ARGS(REGION, RAW), WRONG("not mapped")},
    {"it was unmapped", .before = map_and_unmap, ARGS(REGION, RAW), WRONG("not mapped"),
     .after = is_unmapped},
    {"the provider fails", .before = unmapping_fails, ARGS(REGION, RAW),
     REFUSED(-EIO, "fi_mr_unmap_key()"), .value = 1, .after = is_unmapped},

    {"64 bits", .before = map, ARGS(REGION), MAPS(0), .after = is_unmapped},
    {"64 bits, mapped twice", .before = map_twice, ARGS(REGION), MAPS(0)},
    {"a raw one", .before = map, ARGS(REGION, RAW), MAPS(0), .after = is_unmapped},
    {"its domain is lost, whose provider is not called", .before = map_and_lose, ARGS(REGION, RAW),
     MAPS(1), .after = is_unmapped},
};

/* ---- each row --------------------------------------------------------------------------- */

static void close_region(void)
{
    assert_ok(hmreg_mr_close(region));
    region = NULL;
    mapped = 0;
}

static void reg_two(void)
{
    struct hmreg_segment segments[2] = {{.u.memory = {world.host, LEN}},
                                        {.u.memory = {world.host + 2 * LEN, LEN}}};

    assert_ok(hmreg_mr_regsgl(world.domain, segments, 2, HMREG_ACCESS_ALL, 0, 0, 0, &region, NULL));
}

static void reg(enum of of)
{
    bool chosen = of == MOVED || fake_fabric.info->domain_attr->mr_mode & FI_MR_PROV_KEY;
    struct iovec iov = {world.host, LEN};
    struct hmreg_mr_attr attr = {.size = sizeof(attr),
                                 .iov = &iov,
                                 .iov_count = 1,
                                 .access = of == LOCAL ? HMREG_SEND : HMREG_ACCESS_ALL,
                                 .requested_key = chosen ? 0 : KEY,
                                 .set_iova = of == MOVED,
                                 .iova = of == MOVED ? BASE : 0};

    assert_ok(hmreg_mr_regattr(world.domain, &attr, 0, &region));
}

/* No address can be chosen on libfabric. */
static void open_simulated(void)
{
    world_open(.mr_mode = HMREG_MR_VIRT_ADDR | HMREG_MR_PROV_KEY);
    world.key = KEY;
}

static void open_ofi(enum of of, int mode)
{
    world_open(.fabric = &world_ofi, .later = true);
    fake_fabric.info->domain_attr->mr_mode = mode;
    fake_fabric.key = FI_KEY_NOTAVAIL;
    world_add(.fabric = &world_ofi, .domain.flags = of == LATER ? HMREG_OFI_ASYNC : 0);
    if (of == GROUP || of == RAIL)
        assert_ok(hmreg_group_open(world.lib, world.nic, 1, NULL, &world.domain));
}

static void open_row(const struct row *row)
{
    const struct args *args = row->args;

    mapped = 0;
    if (args->of == MOVED)
        open_simulated();
    else
        open_ofi(args->of, args->mode);
    if (args->of == PARTS)
        reg_two();
    else
        reg(args->of);
    test_after(close_region);
    mr = args->of == RAIL ? hmreg_mr_rail(region, 0) : args->of == NONE ? NULL : region;
    if (row->before)
        row->before();
}

static bool is_untouched(const uint8_t *bytes, size_t from)
{
    while (from < ROOM && bytes[from] == 'u')
        from++;
    return from == ROOM;
}

static void check_key(const struct args *args, const uint8_t *raw, uint64_t base, size_t size)
{
    assert_true(is_untouched(raw, size));
    for (size_t i = 0; i < size; i++)
        assert_int_equal(raw[i], size == PLAIN ? KEY >> 8 * i & 0xff : 'k');
    if (args->no_base)
        assert_int_equal(base, 7);
    else
        assert_int_equal(base, args->base == IN_PLACE ? (uintptr_t)world.host : args->base);
}

static int ask_key(const struct row *row)
{
    const struct args *args = row->args;
    uint64_t base = 7;
    uint8_t raw[ROOM];
    size_t size = args->size;
    int rc;

    memset(raw, 'u', ROOM);
    rc = hmreg_mr_raw_attr(mr, args->no_base ? NULL : &base, args->no_raw ? NULL : raw,
                           args->no_out ? NULL : &size, args->flags);
    assert_int_equal(size, row->value ? row->value : args->size);
    if (!rc) {
        check_key(args, raw, base, size);
        return 0;
    }
    assert_true(is_untouched(raw, 0));
    assert_int_equal(base, 7);
    return rc;
}

static struct hmreg_domain *domain_of(const struct args *args)
{
    return args->of == NONE ? NULL : world.domain;
}

/* What libfabric was given, and the key, until it is unmapped. */
static void check_mapping(const struct args *args, const uint8_t *raw, uint64_t key)
{
    assert_true(world_error_is_old());
    close_region();
    assert_fails(hmreg_domain_close(world.domain), -EBUSY, "key");
    if (args->mode & FI_MR_RAW) {
        assert_int_equal(key, 0x9000 + fake_fabric.maps);
        assert_int_equal(fake_fabric.raw_base, BASE);
        assert_int_equal(fake_fabric.raw_size, args->size);
        assert_memory_equal(fake_fabric.raw, raw, args->size);
    } else {
        assert_true(key == KEY);
    }
    assert_ok(hmreg_domain_unmap_raw(world.domain, key));
    world_old_error();
}

static int map_it(const struct row *row)
{
    const struct args *args = row->args;
    uint8_t raw[FAKE_RAW_BYTES];
    uint64_t key = 7;
    int rc;

    for (size_t i = 0; i < sizeof(raw); i++)
        raw[i] = (uint8_t)(i < PLAIN ? KEY >> 8 * i : i);
    rc = hmreg_domain_map_raw(domain_of(args), BASE, args->no_raw ? NULL : raw, args->size,
                              args->no_out ? NULL : &key, args->flags);
    failing = 0;
    table_value(row, fake_fabric.mapped);
    if (!rc)
        check_mapping(args, raw, key);
    else
        assert_int_equal(key, 7);
    return rc;
}

static int unmap_it(const struct row *row)
{
    const struct args *args = row->args;
    int rc = hmreg_domain_unmap_raw(domain_of(args), mapped ? mapped : KEY);

    table_value(row, args->of == NONE ? 0 : fake_fabric.mapped);
    if (!rc && fake_fabric.maps > fake_fabric.mapped)
        assert_int_equal(fake_fabric.unmapped, mapped);
    return rc;
}

TEST(raw_attr__each_row)
{
    CHECK_EACH_IN(keys, open_row, ask_key);
}

TEST(map_raw__each_row)
{
    CHECK_EACH_IN(mappings, open_row, map_it);
}

TEST(unmap_raw__each_row)
{
    CHECK_EACH_IN(unmappings, open_row, unmap_it);
}

/* Exits with 0 if each call is refused, and libfabric not asked. */
static int use_in_child(void)
{
    uint8_t raw[FAKE_RAW_BYTES] = {0};
    size_t size = sizeof(raw);
    uint64_t key;

    return hmreg_mr_raw_attr(region, NULL, raw, &size, 0) != -EPERM ||
           hmreg_domain_map_raw(world.domain, 0, raw, size, &key, 0) != -EPERM ||
           hmreg_domain_unmap_raw(world.domain, mapped) != -EPERM || fake_fabric.mapped != 1;
}

TEST(each_call__in_a_forked_child__eperm)
{
    open_row(&(struct row){ARGS(REGION, RAW)});
    map();
    test_in_child(use_in_child());
}

TEST_MAIN()
