/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The cache under threads: reuse of addresses with a proof that no hit is stale, and all calls at
 * once, after which the counters add up. Seeded: the same seed gives each thread the same sequence
 * of calls. argv[2]: the seed; argv[3]: a multiple of the usual length.
 *
 * The proof: each new piece of memory begins with a unique number, the fabric reads it when it
 * registers, and each get compares. A stale region shows the number of freed memory.
 */
#include "tests/support/cache_fixture.h"
#include "tests/support/random.h"
#include "tests/support/vendors.h"

#include <pthread.h>
#include <sys/mman.h>

#define THREADS 4
#define SLOTS   8
#define LEN     65536

static unsigned seed = 1, length = 1;

struct worker {
    pthread_t thread;
    struct fixture *fixture;
    struct random random;
    unsigned index;
    uint64_t gets, reuses, stale, wrong;
};

static atomic_ullong last_number;
static struct worker workers[THREADS];

static void run(void *(*body)(void *))
{
    for (unsigned i = 0; i < THREADS; i++) {
        workers[i] = (struct worker){.fixture = &fixture, .index = i, .random = random_of(seed, i)};
        assert_int_equal(pthread_create(&workers[i].thread, NULL, body, &workers[i]), 0);
    }
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(workers[i].thread, NULL);
}

static struct worker sum(void)
{
    struct worker all = {.gets = 0};

    for (unsigned i = 0; i < THREADS; i++) {
        all.gets += workers[i].gets;
        all.reuses += workers[i].reuses;
        all.stale += workers[i].stale;
        all.wrong += workers[i].wrong;
    }
    return all;
}

/* ---- host memory, unmapped by one thread while another maps it -------------------------- */

static char *arena;

/* Takes the slot's memory, if it is free. */
static char *take_slot(unsigned slot)
{
    return fixture_map_at(arena + (size_t)slot * LEN, LEN / fixture_page());
}

static void look_for_stale_hits(struct worker *worker, char *memory, uint64_t number)
{
    for (unsigned i = 1 + draw(&worker->random, 3); i; i--) {
        struct hmreg_mr *mr;

        if (hmreg_mr_get(worker->fixture->domain, memory, LEN, HMREG_ACCESS_REMOTE, &mr)) {
            worker->wrong++;
            return;
        }
        worker->gets++;
        worker->stale += counter_seen(mr) != number;
        hmreg_mr_put(mr);
    }
}

static void give_back(struct worker *worker, char *memory)
{
    switch (draw(&worker->random, 3)) {
    case 0: /* other pages at the same address, then none */
        madvise(memory, LEN, MADV_DONTNEED);
        memcpy(memory, &(uint64_t){atomic_fetch_add(&last_number, 1) + 1}, sizeof(uint64_t));
        look_for_stale_hits(worker, memory, *(uint64_t *)(void *)memory);
        munmap(memory, LEN);
        break;
    default:
        munmap(memory, LEN);
    }
    worker->reuses++;
}

static void *reuse_host(void *arg)
{
    struct worker *worker = arg;

    while (worker->reuses < 3000 * length) {
        char *memory = take_slot(draw(&worker->random, SLOTS));
        uint64_t number;

        if (!memory)
            continue;
        number = atomic_fetch_add(&last_number, 1) + 1;
        memcpy(memory, &number, sizeof(number));
        look_for_stale_hits(worker, memory, number);
        give_back(worker, memory);
    }
    return NULL;
}

TEST(reuse__host_memory_among_threads__never_a_stale_hit)
{
    struct hmreg_domain_config config = {.size = sizeof(config), .max_regions = SLOTS / 2};
    struct worker all;

    vendors_reset();
    fixture_open(fixture_monitor(), &config);
    counter.look = true;
    arena = fixture_reserve(SLOTS * LEN / fixture_page());
    run(reuse_host);
    all = sum();
    assert_int_equal(all.stale, 0);
    assert_int_equal(all.wrong, 0);
    assert_true(all.reuses >= 12000 * length);
    assert_true(fixture_stats().hits > 0);
    assert_int_equal(fixture_stats().hits + fixture_stats().misses + fixture_stats().uncached,
                     all.gets);
}

/* ---- device memory, freed and allocated at the same address ----------------------------- */

static void *reuse_device(void *arg)
{
    static char place[THREADS][LEN] __attribute__((aligned(LEN)));
    struct worker *worker = arg;
    char *memory = place[worker->index];
    struct vendor_claim *claim =
        vendor_claim(HMREG_IFACE_ROCR, memory, LEN, HMREG_MEM_DEVICE, (int)worker->index % 2);

    for (; worker->reuses < 3000 * length; worker->reuses++) {
        uint64_t number = atomic_fetch_add(&last_number, 1) + 1;

        vendor_renew(claim);
        memcpy(memory, &number, sizeof(number));
        look_for_stale_hits(worker, memory, number);
    }
    return NULL;
}

TEST(reuse__device_memory_among_threads__never_a_stale_hit)
{
    struct worker all;

    vendors_reset();
    fixture_open(HMREG_MONITOR_DISABLED, NULL);
    counter.look = true;
    run(reuse_device);
    all = sum();
    assert_int_equal(all.stale, 0);
    assert_int_equal(all.wrong, 0);
    assert_int_equal(all.reuses, 12000 * length);
    assert_int_equal(fixture_stats().misses, all.reuses);
}

/* ---- pinned during eviction ------------------------------------------------------------- */

#define SERIALS (1u << 22)

static char few[8][4096];
static atomic_bool ended[SERIALS]; /* deregistered, by key */

static void note_end(uint64_t key)
{
    atomic_store(&ended[key % SERIALS], true);
}

/* Two of the threads hit the same two regions all the time, the others cause evictions. */
static void *hold_or_evict(void *arg)
{
    struct worker *worker = arg;

    for (; worker->gets < 40000 * length; worker->gets++) {
        unsigned which =
            worker->index < 2 ? draw(&worker->random, 2) : 2 + draw(&worker->random, 6);
        struct hmreg_mr *mr = NULL;
        uint64_t key;

        if (hmreg_mr_get(worker->fixture->domain, few[which], 4096, HMREG_ACCESS_REMOTE, &mr)) {
            worker->wrong++;
            continue;
        }
        key = hmreg_mr_key(mr);
        worker->stale += atomic_load(&ended[key % SERIALS]);
        for (unsigned i = draw(&worker->random, 50); i; i--)
            worker->stale += atomic_load(&ended[key % SERIALS]);
        hmreg_mr_put(mr);
    }
    return NULL;
}

TEST(hold__while_others_evict__never_deregistered_in_use)
{
    struct hmreg_domain_config config = {.size = sizeof(config), .max_regions = 2};
    struct worker all;

    vendors_reset();
    fixture_open(HMREG_MONITOR_IMPORT, &config);
    counter.dereg_hook = note_end;
    run(hold_or_evict);
    all = sum();
    assert_int_equal(all.wrong, 0);
    assert_int_equal(all.stale, 0);
    assert_true(fixture_stats().hits > 0);
    assert_true(fixture_stats().evictions > 0);
    assert_in_range(atomic_load(&counter.regs), 1, SERIALS - 1);
}

/* ---- everything at once ----------------------------------------------------------------- */

#define RANGES 24
#define HOLDS  6

static char memory_of_all[RANGES * 4096];

/* A full fabric may refuse: pinned regions cannot be evicted. */
static void get_something(struct worker *worker, char *at, size_t len, uint64_t access,
                          struct hmreg_mr **out)
{
    int rc = hmreg_mr_get(worker->fixture->domain, at, len, access, out);

    if (rc == 0)
        worker->gets++;
    else if (rc != -ENOMEM)
        worker->wrong++;
}

static void do_something(struct worker *worker, struct hmreg_mr **held)
{
    struct hmreg_mr **place = &held[draw(&worker->random, HOLDS)];
    unsigned range = draw(&worker->random, RANGES);
    char *at = memory_of_all + (size_t)range * 4096;
    size_t len = 1 + draw(&worker->random, (RANGES - range) * 4096);

    hmreg_mr_put(*place);
    *place = NULL;
    switch (draw(&worker->random, 100)) {
    case 0:
        hmreg_domain_flush(worker->fixture->domain);
        break;
    case 1:
    case 2:
    case 3:
        hmreg_invalidate(worker->fixture->lib, at, 1);
        break;
    default:
        get_something(worker, at, len, range % 2 ? HMREG_REMOTE_READ : HMREG_REMOTE_WRITE, place);
    }
}

static void *do_everything(void *arg)
{
    struct worker *worker = arg;
    struct hmreg_mr *held[HOLDS] = {NULL};

    for (unsigned i = 0; i < 15000 * length; i++)
        do_something(worker, held);
    for (unsigned i = 0; i < HOLDS; i++)
        hmreg_mr_put(held[i]);
    return NULL;
}

static void everything(uint32_t flags)
{
    struct hmreg_domain_config config = {
        .size = sizeof(config), .flags = flags, .max_regions = 20, .max_bytes = 40 * 4096};
    struct hmreg_stats stats;
    struct worker all;

    vendors_reset();
    fixture_open(HMREG_MONITOR_IMPORT, &config);
    atomic_store(&counter.dereg_code, -EBUSY);
    atomic_store(&counter.dereg_times, 500);
    counter.room = 40; /* reached, so that the cache evicts */
    run(do_everything);
    all = sum();
    stats = fixture_stats();
    assert_int_equal(all.wrong, 0);
    assert_int_equal(stats.hits + stats.misses + stats.uncached, all.gets);
    assert_in_range(stats.regions, 0, 20);
    assert_in_range(stats.bytes, 0, 40 * 4096);
    atomic_store(&counter.dereg_times, 0);
    fixture_close();
}

TEST(everything__usual_domain__books_balance)
{
    everything(0);
}

TEST(everything__exact_domain__books_balance)
{
    everything(HMREG_DOMAIN_EXACT);
}

int main(int argc, char **argv)
{
    if (argc > 2)
        seed = (unsigned)atoi(argv[2]);
    if (argc > 3)
        length = (unsigned)atoi(argv[3]);
    return test_main(argc, argv);
}
