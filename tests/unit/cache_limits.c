/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The limits of each cache and of all caches together, and the
 * validation of a hit, as configured for the domain.
 */
#include "tests/support/cache_fixture.h"
#include "tests/support/inside.h"
#include "tests/support/vendors.h"

#include <pthread.h>
#include <semaphore.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#define LEN 4096

static char memory[64][LEN] __attribute__((aligned(LEN)));
static char places[200][64];

static void open_fixture(const struct hmreg_domain_config *config)
{
    vendors_reset();
    fixture_open(HMREG_MONITOR_IMPORT, config);
}

static void touch(unsigned first, unsigned count)
{
    for (unsigned i = first; i < first + count; i++)
        fixture_key(memory[i], LEN);
}

static uint64_t regions(void)
{
    return fixture_stats().regions;
}

/* ---- of each cache ---------------------------------------------------------------------- */

#define THOUSANDS 3000

/* Regions of a page each, up to the limit of bytes, then one of the whole limit. */
static struct hmreg_mr *take_place_of_thousands(char *place, bool one_is_held)
{
    size_t page = fixture_page();
    struct hmreg_domain_config config = {
        .size = sizeof(config), .max_regions = HMREG_LIMIT_NONE, .max_bytes = THOUSANDS * page};
    struct hmreg_mr *held;

    fixture_open(HMREG_MONITOR_IMPORT, &config);
    for (size_t i = 0; i < THOUSANDS; i++)
        fixture_key(place + i * page, page);
    held = fixture_get(place + THOUSANDS / 2 * page, page);
    if (!one_is_held)
        hmreg_mr_put(held);
    assert_int_equal(fixture_stats().evictions, 0);
    hmreg_mr_put(fixture_get(place, THOUSANDS * page));
    assert_int_equal(fixture_stats().uncached, 1);
    test_wait_until(!inside_makes_room(fixture.domain));
    return held;
}

/* They are too many for the get itself: the library's thread makes room for the next one. */
TEST(limit__one_region_instead_of_thousands__they_all_go)
{
    char *place = fixture_map_at(fixture_reserve(THOUSANDS), THOUSANDS);

    take_place_of_thousands(place, false);
    assert_int_equal(fixture_stats().evictions, THOUSANDS);
    hmreg_mr_put(fixture_get(place, THOUSANDS * fixture_page()));
    assert_int_equal(fixture_stats().uncached, 1);
    assert_int_equal(fixture_stats().regions, 1);
    fixture_close();
    munmap(place, THOUSANDS * fixture_page());
}

TEST(limit__one_of_thousands_is_held__none_evicted_needlessly)
{
    char *place = fixture_map_at(fixture_reserve(THOUSANDS), THOUSANDS);
    struct hmreg_mr *held;

    held = take_place_of_thousands(place, true);
    assert_int_equal(fixture_stats().evictions, 0);
    hmreg_mr_put(held);
    fixture_close();
    munmap(place, THOUSANDS * fixture_page());
}

#define HELD                                                                                       \
    (sizeof(places) / sizeof(places[0])) /* more than the cache examines in one hold of its lock   \
                                          */

static void hold_all(struct hmreg_mr **held)
{
    for (unsigned i = 0; i < HELD; i++)
        held[i] = fixture_get(places[i], sizeof(places[i]));
}

static void put_all(struct hmreg_mr **held)
{
    for (unsigned i = 0; i < HELD; i++)
        hmreg_mr_put(held[i]);
}

static void expect_uncached(unsigned before)
{
    for (unsigned i = 0; i < 3; i++)
        fixture_key(memory[i], LEN);
    assert_int_equal(fixture_stats().uncached, before + 3);
    assert_int_equal(fixture_stats().evictions, 0);
}

/* Each but the last. */
static void use_all_but_one(void)
{
    for (unsigned i = 0; i + 1 < HELD; i++)
        assert_int_equal(fixture_key(places[i], sizeof(places[i])), i + 1);
}

TEST(limit__filled_by_hundreds_that_are_held__served_uncached)
{
    static const struct hmreg_domain_config configs[] = {
        {.size = sizeof(configs[0]), .max_regions = HELD},
        {.size = sizeof(configs[0]),
         .max_regions = HMREG_LIMIT_NONE,
         .max_bytes = HELD * sizeof(places[0])},
    };
    struct hmreg_mr *held[HELD];

    for (unsigned i = 0; i < 2; i++) {
        open_fixture(&configs[i]);
        hold_all(held);
        use_all_but_one();
        fixture_key(places[HELD - 1], sizeof(places[0]));
        expect_uncached(0);
        put_all(held);
        use_all_but_one();
        fixture_key(memory[3], sizeof(places[0]));
        use_all_but_one(); /* the one not used since the failed search has gone */
        assert_int_equal(fixture_stats().evictions, 1);
        assert_int_equal(fixture_stats().uncached, 3);
        fixture_close();
    }
}

/* ---- of all ----------------------------------------------------------------------------- */

static void get_in(struct hmreg_domain *domain, void *addr)
{
    struct hmreg_mr *mr = NULL;

    assert_ok(hmreg_mr_get(domain, addr, LEN, HMREG_SEND, &mr));
    hmreg_mr_put(mr);
}

static uint64_t regions_of(struct hmreg_domain *domain)
{
    struct hmreg_stats stats = {.size = sizeof(stats)};

    assert_ok(hmreg_domain_stats(domain, &stats));
    return stats.regions;
}

static void open_limited(const char *max_regions)
{
    setenv("HMREG_CACHE_MAX_COUNT", max_regions, 1);
    open_fixture(NULL);
    unsetenv("HMREG_CACHE_MAX_COUNT");
}

TEST(limit__of_all__own_ones_go_first_then_other_domains)
{
    struct hmreg_domain *other;

    open_limited("6");
    other = counter_open_more(fixture.lib, NULL);
    touch(0, 4);
    get_in(other, memory[10]);
    get_in(other, memory[11]);
    get_in(other, memory[12]); /* evicts its own 10 */
    assert_int_equal(regions(), 4);
    assert_int_equal(regions_of(other), 2);
    assert_ok(hmreg_domain_flush(other));
    touch(4, 2);
    get_in(other, memory[13]); /* evicts the least recently used of the fixture's */
    assert_int_equal(regions(), 5);
    assert_int_equal(regions_of(other), 1);
    assert_int_equal(atomic_load(&counter.regions),
                     7); /* deregistered by the next call of its own domain */
    assert_int_equal(fixture_key(memory[1], LEN), 2);
    assert_int_equal(atomic_load(&counter.regions), 6);
    assert_int_equal(atomic_load(&counter.most), 7);
    assert_ok(hmreg_domain_close(other));
}

/* ---- the deregistering thread ----------------------------------------------------------- */

#define KEYS 64

/* Each domain has a thread of its own, as FI_THREAD_DOMAIN requires. */
static pthread_t registrars[KEYS]; /* by key */
static atomic_uint strayed;        /* deregistrations by another thread than the registrar */

static void note_registrar(const struct provider_request *request)
{
    registrars[atomic_load(&counter.regs)] = pthread_self();
}

static void compare_registrar(uint64_t key)
{
    atomic_fetch_add(&strayed, !pthread_equal(registrars[key], pthread_self()));
}

static void watch_threads(void)
{
    atomic_store(&strayed, 0);
    counter.reg_hook = note_registrar;
    counter.dereg_hook = compare_registrar;
}

/* A domain that another thread than the main one drives. */
struct driver {
    struct hmreg *lib;
    struct hmreg_domain *domain;
    sem_t go_on, done;
};

/* Needs room for four at once, which evicts regions of other domains. */
static void *drive(void *arg)
{
    struct driver *driver = arg;
    struct hmreg_mr *held[4];

    for (unsigned i = 0; i < 4; i++)
        assert_ok(hmreg_mr_get(driver->domain, memory[10 + i], LEN, HMREG_SEND, &held[i]));
    for (unsigned i = 0; i < 4; i++)
        hmreg_mr_put(held[i]);
    sem_post(&driver->done);
    sem_wait(&driver->go_on);
    get_in(driver->domain, memory[14]);
    assert_ok(hmreg_domain_close(driver->domain));
    return NULL;
}

static pthread_t start_driver(struct driver *driver)
{
    pthread_t thread;

    driver->domain = counter_open_more(fixture.lib, NULL);
    sem_init(&driver->go_on, 0, 0);
    sem_init(&driver->done, 0, 0);
    assert_int_equal(pthread_create(&thread, NULL, drive, driver), 0);
    sem_wait(&driver->done);
    return thread;
}

TEST(get__evicts_another_domains__its_own_thread_deregisters)
{
    struct driver driver;
    pthread_t thread;

    open_limited("4");
    watch_threads();
    touch(0, 4);
    thread = start_driver(&driver);
    assert_int_equal(regions(), 0);
    assert_int_equal(regions_of(driver.domain), 4);
    assert_int_equal(atomic_load(&counter.deregs), 0);
    touch(4, 1); /* evicts the driver's, and deregisters its own */
    assert_int_equal(atomic_load(&counter.deregs), 4);
    assert_int_equal(regions_of(driver.domain), 3);
    sem_post(&driver.go_on);
    pthread_join(thread, NULL);
    assert_int_equal(atomic_load(&strayed), 0);
}

/* ---- a domain closes while another evicts from it --------------------------------------- */

static sem_t visiting, leave;
static atomic_bool stay;

long __wrap_syscall(long number, long a, long b, long c, long d, long e, long f);
long __real_syscall(long number, long a, long b, long c, long d, long e, long f);

/* The evicting thread holds no lock while it waits for the barrier. */
long __wrap_syscall(long number, long a, long b, long c, long d, long e, long f)
{
    if (number == SYS_membarrier && atomic_exchange(&stay, false)) {
        sem_post(&visiting);
        sem_wait(&leave);
    }
    return __real_syscall(number, a, b, c, d, e, f);
}

static void *get_thirteenth(void *domain)
{
    get_in(domain, memory[13]);
    return NULL;
}

struct closer {
    struct hmreg_domain *domain;
    atomic_bool done;
    int rc;
};

static void *close_it(void *arg)
{
    struct closer *closer = arg;

    closer->rc = hmreg_domain_close(closer->domain);
    atomic_store(&closer->done, true);
    return NULL;
}

TEST(close__another_domain_evicts_there__waits_for_it)
{
    pthread_t getter, closing;
    struct closer closer = {.done = false};

    open_limited("1");
    closer.domain = counter_open_more(fixture.lib, NULL);
    sem_init(&visiting, 0, 0);
    sem_init(&leave, 0, 0);
    if (inside_is_fenced(fixture.domain))
        test_skip("this system has no membarrier(2)");
    get_in(closer.domain, memory[10]);
    atomic_store(&stay, true);
    assert_int_equal(pthread_create(&getter, NULL, get_thirteenth, fixture.domain), 0);
    sem_wait(&visiting);
    assert_int_equal(pthread_create(&closing, NULL, close_it, &closer), 0);
    test_wait_until_others_sleep();
    assert_false(atomic_load(&closer.done));
    sem_post(&leave);
    pthread_join(getter, NULL);
    pthread_join(closing, NULL);
    assert_int_equal(closer.rc, 0);
    assert_int_equal(regions(), 1);
}

/* ---- argument checks -------------------------------------------------------------------- */

TEST(config__unknown_check__einval)
{
    struct hmreg_domain_config config = {.size = sizeof(config)};
    struct hmreg_domain *made = NULL;

    open_fixture(NULL);
    config.check[HMREG_IFACE_ZE] = (enum hmreg_check)3;
    assert_fails(counter_try(fixture.lib, &config, &made), -EINVAL, "config->check[3] is 3");
    assert_null(made);
}

TEST(config__unknown_rights__einval)
{
    struct hmreg_domain_config config = {.size = sizeof(config), .rights = 3};
    struct hmreg_domain *made = NULL;

    open_fixture(NULL);
    assert_fails(counter_try(fixture.lib, &config, &made), -EINVAL, "HMREG_RIGHTS_EXACT");
    assert_null(made);
}

/* ---- validation of a hit ---------------------------------------------------------------- */

static unsigned asked_by_five_hits(enum hmreg_check check)
{
    struct hmreg_domain_config config = {.size = sizeof(config),
                                         .check = {[HMREG_IFACE_CUDA] = check}};
    unsigned before;

    open_fixture(&config);
    vendor_claim(HMREG_IFACE_CUDA, memory[0], LEN, HMREG_MEM_DEVICE, 0);
    fixture_key(memory[0], LEN);
    before = vendors[HMREG_IFACE_CUDA].identities;
    for (int i = 0; i < 5; i++)
        assert_int_equal(fixture_key(memory[0], LEN), 1);
    assert_int_equal(fixture_stats().hits, 5);
    assert_ok(hmreg_invalidate(fixture.lib, memory[0], LEN));
    assert_int_equal(fixture_key(memory[0], LEN), 2);
    fixture_close();
    return vendors[HMREG_IFACE_CUDA].identities - before -
           1; /* the last registration reads it, too */
}

TEST(check__device_memory__asked_at_each_hit_or_never)
{
    assert_int_equal(asked_by_five_hits(HMREG_CHECK_DEFAULT), 5);
    assert_int_equal(asked_by_five_hits(HMREG_CHECK_ALWAYS), 5);
    assert_int_equal(asked_by_five_hits(HMREG_CHECK_NOTICE), 0);
    test_setenv("HMREG_CACHE_CHECK", "cuda=notice");
    assert_int_equal(asked_by_five_hits(HMREG_CHECK_DEFAULT), 0);
    assert_int_equal(asked_by_five_hits(HMREG_CHECK_ALWAYS), 5);
}

TEST_MAIN()
