/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Memory of every kind that a vendor has, made, ended and made again in any order, and registered
 * between by cached gets: a peer reads the bytes that are there now, whatever was there before. By
 * chance, from a seed that a failure names; HMREG_TEST_SEED and HMREG_TEST_STEPS ask for others.
 */
#include "tests/gpu/gpu.h"
#include "tests/support/queries.h"

#include <hmreg/loopback.h>
#include <inttypes.h>

#define STEPS     3000 /* of a run; the long tier has more */
#define SEEDS     3
#define SLOTS     12 /* of each thread */
#define THREADS   3
#define HELD      3 /* regions of each thread that are held meanwhile */
#define LEN       (384 << 10)
#define LIMIT     8 /* cached regions: fewer than there is memory */
#define READ_MOST 512
#define PAGE      4096

struct slot {
    const struct gpu_maker *maker; /* NULL: one of the kinds that all vendors have */
    enum hmreg_mem_kind kind;
    uint64_t addr; /* 0: free */
    size_t len;
    unsigned seed; /* of its bytes */
};

struct fuzz {
    uint64_t random;
    struct slot slots[SLOTS];
    struct hmreg_mr *held[HELD];
    unsigned wrong, gets;
};

static struct fixture {
    struct hmem *self;
    struct hmreg *lib;
    struct hmreg_domain *domain;
    uint64_t first; /* the seed */
    unsigned steps;
    bool failing; /* a call of the driver fails now and then */
} fixture;

static unsigned draw(struct fuzz *fuzz, unsigned limit)
{
    fuzz->random ^= fuzz->random << 13;
    fuzz->random ^= fuzz->random >> 7;
    fuzz->random ^= fuzz->random << 17;
    return (unsigned)(fuzz->random >> 32) % limit;
}

/* ---- the fixture ------------------------------------------------------------------------- */

static void close_fixture(void)
{
    if (!fixture.lib)
        return;
    assert_ok(hmreg_domain_close(fixture.domain));
    assert_ok(hmreg_close(fixture.lib));
    gpu.end(fixture.self);
    fixture.lib = NULL;
}

static void open_fixture(uint64_t seed, enum hmreg_cover cover)
{
    struct hmreg_config config = {.size = sizeof(config),
                                  .ifaces = HMREG_IFACE_BIT(gpu.ops->iface) |
                                            HMREG_IFACE_BIT(HMREG_IFACE_SYSTEM)};
    struct hmreg_domain_config mapped = {
        .size = sizeof(mapped), .order = {HMREG_PATH_MAPPED}, .max_regions = LIMIT, .cover = cover};

    test_after(close_fixture);
    fixture.first = seed;
    fixture.self = gpu.begin();
    assert_ok(hmreg_open(&config, &fixture.lib));
    assert_ok(hmreg_domain_open_loopback(fixture.lib, NULL, &mapped, &fixture.domain));
}

/* ---- memory ------------------------------------------------------------------------------ */

/* Consecutive addresses of several pieces of memory have bytes in several places. */
static unsigned char *byte_of(const struct slot *slot, size_t i)
{
    unsigned char *byte = gpu.fake()->peek(slot->addr + i);

    /* else the process's own, which the vendor has pinned */
    return byte ? byte : (unsigned char *)(uintptr_t)(slot->addr + i);
}

static void fill(const struct slot *slot)
{
    unsigned char *bytes = byte_of(slot, 0);

    for (size_t i = 0; i < slot->len; i++, bytes++) {
        if (!((slot->addr + i) % PAGE))
            bytes = byte_of(slot, i);
        *bytes = gpu_byte(i, slot->seed);
    }
}

static void end_slot(struct slot *slot)
{
    if (slot->maker)
        slot->maker->end(slot->addr);
    else
        gpu.free(slot->addr, slot->kind);
    slot->addr = 0;
}

static unsigned maker_count(void)
{
    unsigned count = 0;

    while (gpu.makers && gpu.makers[count].name)
        count++;
    return count;
}

static void make_slot(struct fuzz *fuzz, struct slot *slot)
{
    unsigned chosen = draw(fuzz, gpu.kinds + maker_count());

    slot->len = 512 + draw(fuzz, draw(fuzz, 4) ? 8192 : LEN);
    slot->maker = chosen < gpu.kinds ? NULL : &gpu.makers[chosen - gpu.kinds];
    slot->kind = slot->maker ? HMREG_MEM_DEVICE : gpu_kinds[chosen];
    slot->addr = slot->maker
                     ? slot->maker->make(&slot->len)
                     : gpu.alloc((int)draw(fuzz, (unsigned)gpu.devices()), slot->kind, slot->len);
    slot->seed = draw(fuzz, 256);
    if (slot->addr)
        fill(slot);
}

/* ---- regions ----------------------------------------------------------------------------- */

static void complain(struct fuzz *fuzz, const struct slot *slot, const char *what, uint64_t at)
{
    fuzz->wrong++;
    fprintf(stderr, "seed %" PRIu64 ": %s, %s of %zu bytes at %#" PRIx64 ", byte %" PRIu64 "\n",
            fixture.first, what, slot->maker ? slot->maker->name : hmreg_mem_kind_name(slot->kind),
            slot->len, slot->addr, at);
}

/* No operation crosses the border of two pieces, which is a page's. */
static int read_pages(struct hmreg_remote *remote, uint64_t offset, size_t first, char *bytes,
                      size_t len)
{
    int rc = 0;

    while (!rc && len) {
        size_t part = len < PAGE - first ? len : PAGE - first;
        uint64_t addr, key;

        rc = hmreg_remote_addr(remote, offset, part, &addr, &key);
        rc = rc ? rc : hmreg_loopback_read(remote, bytes, part, NULL, addr, key);
        bytes += part;
        offset += part;
        len -= part;
        first = 0;
    }
    return rc;
}

/* Of the region that begins at base. */
static bool read_as_peer(struct hmreg_mr *mr, uint64_t base, uint64_t from, void *bytes, size_t len)
{
    struct hmreg_remote *remote = NULL;
    char token[8192];
    size_t size = sizeof(token);
    int rc = hmreg_mr_pack(mr, token, &size);

    rc = rc ? rc : hmreg_remote_open(fixture.domain, token, size, &remote);
    rc = rc ? rc : read_pages(remote, from - base, from % PAGE, bytes, len);
    hmreg_remote_close(remote);
    return !rc;
}

/* The region may begin before the range. */
static void check_bytes(struct fuzz *fuzz, const struct slot *slot, struct hmreg_mr *mr,
                        size_t from, size_t len)
{
    struct hmreg_mr_info info = {.size = sizeof(info)};
    unsigned char bytes[READ_MOST];
    size_t read = len < READ_MOST ? len : READ_MOST, start = from + draw(fuzz, 2) * (len - read);

    if (hmreg_mr_query(mr, &info)) {
        complain(fuzz, slot, "no query", from);
        return;
    }
    if (!read_as_peer(mr, (uintptr_t)info.addr, slot->addr + start, bytes, read)) {
        complain(fuzz, slot, hmreg_last_error()->text, start);
        return;
    }
    for (size_t i = 0; i < read; i++)
        if (bytes[i] != gpu_byte(start + i, slot->seed)) {
            complain(fuzz, slot, info.cached ? "stale, cached" : "stale", start + i);
            return;
        }
}

static void get(struct fuzz *fuzz, const struct slot *slot)
{
    bool from_start = draw(fuzz, 3) || (slot->maker && slot->maker->from_start);
    size_t from = from_start ? 0 : draw(fuzz, (unsigned)slot->len);
    size_t len = draw(fuzz, 2) ? slot->len - from : 1 + draw(fuzz, (unsigned)(slot->len - from));
    struct hmreg_mr **held = &fuzz->held[draw(fuzz, HELD)], *mr = NULL;

    fuzz->gets++;
    if (hmreg_mr_get(fixture.domain, (void *)(uintptr_t)(slot->addr + from), len,
                     HMREG_ACCESS_REMOTE, &mr)) {
        complain(fuzz, slot, hmreg_last_error()->text, from);
        return;
    }
    check_bytes(fuzz, slot, mr, from, len);
    if (draw(fuzz, 4)) {
        hmreg_mr_put(mr);
        return;
    }
    if (*held)
        hmreg_mr_put(*held);
    *held = mr;
}

/* ---- steps ------------------------------------------------------------------------------- */

/* One of the calls that ask what is at an address. */
static void fail_some(struct fuzz *fuzz)
{
    char names[512], *name, *rest;
    unsigned chosen;

    snprintf(names, sizeof(names), "%s", gpu.queries);
    chosen = draw(fuzz, 3);
    name = strtok_r(names, " ", &rest);
    for (char *next = name; next && chosen; chosen--, next = strtok_r(NULL, " ", &rest))
        name = next;
    gpu_fail(name, gpu.failure, (int)draw(fuzz, 3), 1);
}

static void step(struct fuzz *fuzz)
{
    struct slot *slot = &fuzz->slots[draw(fuzz, SLOTS)];

    if (!slot->addr)
        make_slot(fuzz, slot);
    else if (!draw(fuzz, 6))
        end_slot(slot);
    else if (draw(fuzz, 8))
        get(fuzz, slot);
    else
        fill(slot);
}

/* The application's own calls do not fail, nor does the check. */
static void step_with_failure(struct fuzz *fuzz)
{
    struct slot *slot = &fuzz->slots[draw(fuzz, SLOTS)];
    struct hmreg_mr *mr = NULL;

    if (!slot->addr)
        return;
    fail_some(fuzz);
    if (!hmreg_mr_get(fixture.domain, (void *)(uintptr_t)slot->addr, slot->len, HMREG_ACCESS_REMOTE,
                      &mr))
        hmreg_mr_put(mr);
    gpu.fake()->reset();
    get(fuzz, slot);
}

static void end_all(struct fuzz *fuzz)
{
    for (unsigned i = 0; i < HELD; i++)
        if (fuzz->held[i])
            hmreg_mr_put(fuzz->held[i]);
    for (unsigned i = 0; i < SLOTS; i++)
        if (fuzz->slots[i].addr)
            end_slot(&fuzz->slots[i]);
}

static void *run(void *arg)
{
    struct fuzz *fuzz = arg;

    for (unsigned i = 0; i < fixture.steps && !fuzz->wrong; i++) {
        step(fuzz);
        if (fixture.failing)
            step_with_failure(fuzz);
    }
    end_all(fuzz);
    return NULL;
}

/* Nothing is left of what has ended. */
static void check_end(const struct fuzz *fuzz)
{
    assert_int_equal(fuzz->wrong, 0);
    assert_true(fuzz->gets > fixture.steps / 3);
    assert_ok(hmreg_domain_flush(fixture.domain));
    assert_int_equal(test_stats_of(fixture.domain).regions, 0);
    assert_int_equal(test_stats_of(fixture.domain).retired, 0);
}

/* HMREG_TEST_STEPS of each run, from HMREG_TEST_SEED on. */
static unsigned steps(void)
{
    const char *asked = getenv("HMREG_TEST_STEPS");

    return asked ? (unsigned)atoi(asked) : STEPS;
}

static uint64_t first_seed(void)
{
    const char *asked = getenv("HMREG_TEST_SEED");

    return asked ? strtoull(asked, NULL, 0) : 1;
}

static void run_seeds(enum hmreg_cover cover, bool failing)
{
    gpu_need_fake();
    for (unsigned i = 0; i < SEEDS; i++) {
        struct fuzz fuzz = {.random = (first_seed() + i) * UINT64_C(0x9e3779b97f4a7c15) + 1};
        int before = test_count_fds();

        fixture.failing = failing;
        fixture.steps = steps() / (failing ? 4 : 1);
        open_fixture(first_seed() + i, cover);
        run(&fuzz);
        check_end(&fuzz);
        close_fixture();
        assert_int_equal(test_count_fds(), before);
    }
}

TEST(gets__of_memory_that_ends_in_any_order__exact)
{
    run_seeds(HMREG_COVER_EXACT, false);
}

TEST(gets__that_cover_the_allocation__exact)
{
    run_seeds(HMREG_COVER_REMOTE, false);
}

TEST(gets__while_the_drivers_calls_fail__exact)
{
    run_seeds(HMREG_COVER_EXACT, true);
}

TEST(gets__of_several_threads__exact)
{
    struct fuzz fuzz[THREADS] = {{0}};

    gpu_need_fake();
    fixture.failing = false;
    fixture.steps = steps();
    open_fixture(first_seed(), HMREG_COVER_EXACT);
    for (unsigned i = 0; i < THREADS; i++)
        fuzz[i].random = (first_seed() + i) * UINT64_C(0x9e3779b97f4a7c15) + 1;
    test_on_threads(THREADS, run, fuzz, sizeof(fuzz[0]));
    for (unsigned i = 0; i < THREADS; i++)
        check_end(&fuzz[i]);
}

TEST_MAIN()
