/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See reuse.h.
 */
#include "tests/gpu/reuse.h"

#include "tests/support/test.h"

#include <hmreg/loopback.h>
#include <pthread.h>

#if TEST_TSAN || TEST_ASAN
#define PART 20 /* of the usual number of times */
#else
#define PART 1
#endif

#define SLOTS    6
#define REMEMBER 64
#define TEXT     32
#define LIVED    4096

struct fixture {
    const struct reuse *reuse;
    struct hmreg *lib;
    struct hmreg_domain *domain;
    struct hmreg_remote *remote;
    char *memory[SLOTS];
    size_t len[SLOTS];
    char *before[REMEMBER]; /* addresses of the last allocations */
    unsigned allocated, reused;
    uint64_t random;
};

static unsigned draw(struct fixture *fixture, unsigned limit)
{
    fixture->random ^= fixture->random << 13;
    fixture->random ^= fixture->random >> 7;
    fixture->random ^= fixture->random << 17;
    return (unsigned)(fixture->random >> 32) % limit;
}

/* A piece of memory that is written to. */
struct write {
    char text[TEXT];
    uint64_t addr, key;
};

/* Writes of the peer, of memory that has been got. */
struct batch {
    unsigned count;
    struct write writes[SLOTS];
    struct hmreg_mr *mrs[SLOTS];
    char *at[SLOTS];
};

/* ---- the fixture ----------------------------------------------------------------------------- */

/* The token of any region gives access to all of its domain's regions. */
static void open_way(struct fixture *fixture)
{
    static char place[64];
    char token[512];
    size_t size = sizeof(token);
    struct hmreg_mr *mr = NULL;

    assert_ok(hmreg_mr_reg(fixture->domain, place, sizeof(place), HMREG_ACCESS_REMOTE, 0, 0, 0, &mr,
                           NULL));
    assert_ok(hmreg_mr_pack(mr, token, &size));
    assert_ok(hmreg_remote_open(fixture->domain, token, size, &fixture->remote));
    assert_ok(hmreg_mr_close(mr));
}

/* Regions use a mapping of the descriptor, which stays the old memory's when the address is reused.
 */
static void open_fixture(struct fixture *fixture, const struct reuse *reuse)
{
    struct hmreg_config config = {.size = sizeof(config), .ifaces = HMREG_IFACE_BIT(reuse->iface)};
    struct hmreg_domain_config mapped = {.size = sizeof(mapped), .order = {HMREG_PATH_MAPPED}};
    struct hmreg_loopback_config modes = {.size = sizeof(modes), .mr_mode = HMREG_MR_PROV_KEY};

    mapped.cover = reuse->covered ? HMREG_COVER_REMOTE : HMREG_COVER_DEFAULT;
    *fixture = (struct fixture){.reuse = reuse, .random = 88172645463325252u};
    assert_ok(hmreg_open(&config, &fixture->lib));
    assert_ok(hmreg_domain_open_loopback(fixture->lib, &modes, &mapped, &fixture->domain));
    open_way(fixture);
}

static struct hmreg_stats close_fixture(struct fixture *fixture)
{
    struct hmreg_stats stats = {.size = sizeof(stats)};

    for (unsigned i = 0; i < SLOTS; i++)
        if (fixture->memory[i])
            fixture->reuse->free(fixture->memory[i]);
    assert_ok(hmreg_domain_stats(fixture->domain, &stats));
    hmreg_remote_close(fixture->remote);
    assert_ok(hmreg_domain_close(fixture->domain));
    assert_ok(hmreg_close(fixture->lib));
    return stats;
}

static void add_write(struct fixture *fixture, struct batch *batch, struct hmreg_mr *mr, char *at)
{
    struct write *write = &batch->writes[batch->count];
    struct hmreg_mr_info info = {.size = sizeof(info)};

    assert_ok(hmreg_mr_query(mr, &info));
    write->addr = (uintptr_t)at - info.addr;
    write->key = hmreg_mr_key(mr);
    snprintf(write->text, sizeof(write->text), "allocation %u", fixture->allocated);
    batch->mrs[batch->count] = mr;
    batch->at[batch->count++] = at;
}

/* Writes through the regions as a peer does, and checks the bytes by the vendor's own copy. */
static void write_and_check(struct fixture *fixture, const struct batch *batch)
{
    for (unsigned i = 0; i < batch->count; i++)
        assert_ok(hmreg_loopback_write(fixture->remote, batch->writes[i].text, TEXT, NULL,
                                       batch->writes[i].addr, batch->writes[i].key));
    for (unsigned i = 0; i < batch->count; i++) {
        char in[TEXT] = "";

        assert_ok(hmreg_copy(fixture->lib, in, batch->at[i], TEXT));
        assert_string_equal(in, batch->writes[i].text);
    }
}

static void write_one(struct fixture *fixture, struct hmreg_mr *mr, char *at)
{
    struct batch batch = {.count = 0};

    add_write(fixture, &batch, mr, at);
    write_and_check(fixture, &batch);
}

static struct hmreg_mr *get_first(struct fixture *fixture, unsigned slot, size_t len)
{
    struct hmreg_mr *mr = NULL;

    assert_ok(hmreg_mr_get(fixture->domain, fixture->memory[slot], len, HMREG_ACCESS_REMOTE, &mr));
    return mr;
}

static struct hmreg_mr *get_region(struct fixture *fixture, unsigned slot)
{
    return get_first(fixture, slot, fixture->len[slot]);
}

static bool was_there_before(const struct fixture *fixture, const char *memory)
{
    for (unsigned i = 0; i < REMEMBER; i++)
        if (fixture->before[i] == memory)
            return true;
    return false;
}

static void allocate(struct fixture *fixture, unsigned slot, size_t len)
{
    char *memory = fixture->reuse->alloc((int)slot % 2, len);

    fixture->reused += was_there_before(fixture, memory);
    fixture->before[fixture->allocated++ % REMEMBER] = memory;
    fixture->memory[slot] = memory;
    fixture->len[slot] = len;
}

static void renew(struct fixture *fixture, unsigned slot)
{
    static const size_t lengths[] = {100, 4096, 5000, 16384};

    if (fixture->memory[slot])
        fixture->reuse->free(fixture->memory[slot]);
    allocate(fixture, slot, lengths[draw(fixture, 4)]);
}

/* New memory in some of the slots, at addresses of before; written to after all have it. */
static void renew_some(struct fixture *fixture)
{
    struct batch batch = {.count = 0};
    unsigned first = draw(fixture, SLOTS), count = 1 + draw(fixture, SLOTS);

    for (unsigned i = 0; i < count; i++) {
        unsigned slot = (first + i) % SLOTS;

        renew(fixture, slot);
        /* A miss; and a hit on the same. */
        hmreg_mr_put(
            get_first(fixture, slot, fixture->len[slot] / (fixture->reuse->covered ? 2 : 1)));
        add_write(fixture, &batch, get_region(fixture, slot),
                  fixture->memory[slot] + draw(fixture, (unsigned)fixture->len[slot] - TEXT));
    }
    write_and_check(fixture, &batch);
    for (unsigned i = 0; i < count; i++)
        hmreg_mr_put(batch.mrs[i]);
}

void reuse_addresses(const struct reuse *reuse, unsigned times)
{
    unsigned enough = (unsigned)test_times(times / PART);
    struct hmreg_stats stats;
    struct fixture fixture;

    open_fixture(&fixture, reuse);
    while (fixture.reused < enough)
        renew_some(&fixture);
    stats = close_fixture(&fixture);
    assert_true(fixture.reused >= fixture.allocated / 2);
    assert_int_equal(stats.hits, fixture.allocated);
    assert_int_equal(stats.misses, fixture.allocated);
}

/* ---- threads that free while others get ---------------------------------------------------- */

#define CREW 4

/* Threads only count errors: cmocka's assertions are for the main thread. */
struct member {
    pthread_t thread;
    struct fixture *fixture;
    unsigned number, rounds, wrong;
};

/* Writes through the region as a peer does; are the bytes in the memory then? */
static bool reaches(struct fixture *fixture, struct hmreg_mr *mr, char *memory, const char *text)
{
    struct hmreg_mr_info info = {.size = sizeof(info)};
    char in[TEXT] = "";

    return !hmreg_mr_query(mr, &info) &&
           !hmreg_loopback_write(fixture->remote, text, TEXT, NULL, (uintptr_t)memory - info.addr,
                                 hmreg_mr_key(mr)) &&
           !hmreg_copy(fixture->lib, in, memory, TEXT) && !strcmp(in, text);
}

/* Memory's life, from the library's allocation, which needs no context of the thread: two gets, a
 * write by each; it ends before the last put, or after it. */
static bool live_once(const struct member *member, unsigned round)
{
    struct fixture *fixture = member->fixture;
    struct hmreg_mr *mr = NULL;
    char text[TEXT] = "";
    void *memory = NULL;
    bool right = !hmreg_mem_alloc(fixture->lib, fixture->reuse->iface, (int)member->number % 2,
                                  HMREG_MEM_DEVICE, LIVED, &memory);

    for (unsigned i = 0; right && i < 2; i++) {
        hmreg_mr_put(mr);
        mr = NULL;
        snprintf(text, sizeof(text), "%u of %u, %u", round, member->number, i);
        right = !hmreg_mr_get(fixture->domain, memory, LIVED, HMREG_ACCESS_REMOTE, &mr) &&
                reaches(fixture, mr, memory, text);
    }
    if (round % 2)
        hmreg_mr_put(mr);
    right = !hmreg_mem_free(fixture->lib, memory) && right;
    if (round % 2 == 0)
        hmreg_mr_put(mr);
    return right;
}

static void *live(void *arg)
{
    struct member *member = arg;

    for (unsigned i = 0; i < member->rounds && !member->wrong; i++)
        member->wrong += !live_once(member, i);
    return NULL;
}

void reuse_by_threads(const struct reuse *reuse, unsigned times)
{
    struct member crew[CREW];
    struct fixture fixture;

    open_fixture(&fixture, reuse);
    for (unsigned i = 0; i < CREW; i++) {
        crew[i] = (struct member){
            .fixture = &fixture, .number = i, .rounds = (unsigned)test_times(times / CREW / PART)};
        assert_int_equal(pthread_create(&crew[i].thread, NULL, live, &crew[i]), 0);
    }
    for (unsigned i = 0; i < CREW; i++)
        assert_int_equal(pthread_join(crew[i].thread, NULL), 0);
    for (unsigned i = 0; i < CREW; i++)
        assert_int_equal(crew[i].wrong, 0);
    close_fixture(&fixture);
}

void reuse_held(const struct reuse *reuse, unsigned times)
{
    struct hmreg_stats stats;
    struct fixture fixture;

    open_fixture(&fixture, reuse);
    for (unsigned i = 0; i < times; i++) {
        struct hmreg_mr *old, *fresh;
        size_t len = 16384;

        allocate(&fixture, 0, len);
        old = get_region(&fixture, 0);
        reuse->free(fixture.memory[0]);
        allocate(&fixture, 0, len);
        fresh = get_region(&fixture, 0);
        assert_ptr_not_equal(fresh, old);
        write_one(&fixture, fresh, fixture.memory[0] + 77);
        hmreg_mr_put(old);
        write_one(&fixture, fresh, fixture.memory[0] + 78);
        hmreg_mr_put(fresh);
        reuse->free(fixture.memory[0]);
        fixture.memory[0] = NULL;
    }
    stats = close_fixture(&fixture);
    assert_true(fixture.reused >= times);
    assert_int_equal(stats.hits, 0);
    assert_int_equal(stats.retired, 0);
}
