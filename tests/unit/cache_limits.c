/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Limits that change while the caches are in use, for each cache and for all together; and what a
 * hit makes sure of, as the domain was told.
 */
#include "tests/support/cache_bed.h"
#include "tests/support/vendors.h"

#include "core/cache_set.h"
#include "core/settings.h"

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define LEN 4096

static char memory[64][LEN] __attribute__((aligned(LEN)));
static char places[200][64];

static void open_bed(struct bed *bed, const struct hmreg_domain_config *config)
{
    vendors_reset();
    bed_open(bed, HMREG_MONITOR_IMPORT, config);
}

static void touch(const struct bed *bed, unsigned first, unsigned count)
{
    for (unsigned i = first; i < first + count; i++)
        bed_key(bed, memory[i], LEN);
}

static uint64_t regions(const struct bed *bed)
{
    return bed_stats(bed).regions;
}

/* ---- of each cache ---------------------------------------------------------------------- */

static void set_limits__lowered__idle_ones_go_at_once_and_held_ones_stay(void **state)
{
    struct hmreg_domain_info info = {.size = sizeof(info)};
    struct hmreg_mr *held[2];
    struct bed bed;

    open_bed(&bed, NULL);
    touch(&bed, 0, 10);
    held[0] = bed_get(&bed, memory[0], LEN);
    held[1] = bed_get(&bed, memory[1], LEN);
    assert_ok(hmreg_domain_set_limits(bed.domain, 4, HMREG_LIMIT_NONE));
    assert_int_equal(atomic_load(&counter.regions), 4);
    assert_int_equal(bed_key(&bed, memory[9], LEN), 10); /* the last used stay */
    assert_int_equal(bed_key(&bed, memory[8], LEN), 9);
    assert_ok(hmreg_domain_query(bed.domain, &info));
    assert_int_equal(info.max_regions, 4);
    assert_ok(hmreg_domain_set_limits(bed.domain, 1, LEN));
    assert_int_equal(regions(&bed), 2);
    bed_key(&bed, memory[20], LEN);
    assert_int_equal(bed_stats(&bed).uncached, 1);
    hmreg_mr_put(held[0]);
    hmreg_mr_put(held[1]);
    bed_key(&bed, memory[21], LEN);
    assert_int_equal(regions(&bed), 1);
    bed_close(&bed);
}

static void set_limits__raised__more_is_remembered(void **state)
{
    struct hmreg_domain_config config = {.size = sizeof(config), .max_regions = 2};
    struct bed bed;

    open_bed(&bed, &config);
    touch(&bed, 0, 4);
    assert_int_equal(regions(&bed), 2);
    assert_ok(hmreg_domain_set_limits(bed.domain, 8, HMREG_LIMIT_NONE));
    touch(&bed, 0, 8);
    touch(&bed, 0, 8);
    assert_int_equal(regions(&bed), 8);
    assert_int_equal(atomic_load(&counter.regs), 10);
    bed_close(&bed);
}

#define THOUSANDS 3000

/* Regions of a page each, up to the limit of bytes, then one of all of it. */
static struct hmreg_mr *take_place_of_thousands(struct bed *bed, char *place, bool one_is_held)
{
    size_t page = bed_page();
    struct hmreg_domain_config config = {
        .size = sizeof(config), .max_regions = HMREG_LIMIT_NONE, .max_bytes = THOUSANDS * page};
    struct hmreg_mr *held;

    bed_open(bed, HMREG_MONITOR_IMPORT, &config);
    for (size_t i = 0; i < THOUSANDS; i++)
        bed_key(bed, place + i * page, page);
    held = bed_get(bed, place + THOUSANDS / 2 * page, page);
    if (!one_is_held)
        hmreg_mr_put(held);
    assert_int_equal(bed_stats(bed).evictions, 0);
    hmreg_mr_put(bed_get(bed, place, THOUSANDS * page));
    return held;
}

static void limit__one_region_instead_of_thousands__they_all_go(void **state)
{
    char *place = bed_map_at(bed_reserve(THOUSANDS), THOUSANDS);
    struct bed bed;

    take_place_of_thousands(&bed, place, false);
    assert_int_equal(bed_stats(&bed).evictions, THOUSANDS);
    assert_int_equal(bed_stats(&bed).uncached, 0);
    assert_int_equal(bed_stats(&bed).regions, 1);
    bed_close(&bed);
    munmap(place, THOUSANDS * bed_page());
}

static void limit__one_of_thousands_is_held__none_goes_in_vain(void **state)
{
    char *place = bed_map_at(bed_reserve(THOUSANDS), THOUSANDS);
    struct hmreg_mr *held;
    struct bed bed;

    held = take_place_of_thousands(&bed, place, true);
    assert_int_equal(bed_stats(&bed).evictions, 0);
    assert_int_equal(bed_stats(&bed).uncached, 1);
    hmreg_mr_put(held);
    bed_close(&bed);
    munmap(place, THOUSANDS * bed_page());
}

#define HELD                                                                                       \
    (sizeof(places) / sizeof(places[0])) /* more than one hold of the cache's lock looks at */

/* With all room in use: by regions that are held. */
static void hold_all(const struct bed *bed, struct hmreg_mr **held)
{
    for (unsigned i = 0; i < HELD; i++)
        held[i] = bed_get(bed, places[i], sizeof(places[i]));
}

static void put_all(struct hmreg_mr **held)
{
    for (unsigned i = 0; i < HELD; i++)
        hmreg_mr_put(held[i]);
}

static void expect_uncached(const struct bed *bed, unsigned before)
{
    for (unsigned i = 0; i < 3; i++)
        bed_key(bed, memory[i], LEN);
    assert_int_equal(bed_stats(bed).uncached, before + 3);
    assert_int_equal(bed_stats(bed).evictions, 0);
}

static void limit__filled_by_hundreds_that_are_held__served_uncached(void **state)
{
    static const struct hmreg_domain_config configs[] = {
        {.size = sizeof(configs[0]), .max_regions = HELD},
        {.size = sizeof(configs[0]),
         .max_regions = HMREG_LIMIT_NONE,
         .max_bytes = HELD * sizeof(places[0])},
    };
    struct hmreg_mr *held[HELD];
    struct bed bed;

    for (unsigned i = 0; i < 2; i++) {
        open_bed(&bed, &configs[i]);
        hold_all(&bed, held);
        expect_uncached(&bed, 0);
        put_all(held);
        bed_key(&bed, memory[3], LEN);
        assert_int_equal(bed_stats(&bed).uncached, 3);
        bed_close(&bed);
    }
}

static void set_limits__lowered_below_hundreds_that_are_held__served_uncached(void **state)
{
    struct hmreg_mr *held[HELD];
    struct bed bed;

    open_bed(&bed, NULL);
    hold_all(&bed, held);
    assert_ok(hmreg_domain_set_limits(bed.domain, HELD / 2, HMREG_LIMIT_NONE));
    expect_uncached(&bed, 0);
    assert_ok(hmreg_set_limits(bed.lib, HELD / 2, HMREG_LIMIT_NONE));
    expect_uncached(&bed, 3);
    put_all(held);
    bed_close(&bed);
}

static void set_limits__zero__nothing_is_remembered(void **state)
{
    struct bed bed;

    open_bed(&bed, NULL);
    touch(&bed, 0, 3);
    assert_ok(hmreg_domain_set_limits(bed.domain, 0, HMREG_LIMIT_NONE));
    assert_int_equal(atomic_load(&counter.regions), 0);
    touch(&bed, 0, 3);
    assert_int_equal(bed_stats(&bed).uncached, 3);
    bed_close(&bed);
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

static void set_limits__of_all__own_ones_go_first_then_other_domains(void **state)
{
    struct hmreg_domain *other;
    struct bed bed;

    open_bed(&bed, NULL);
    other = counter_open_more(bed.lib, NULL);
    assert_ok(hmreg_set_limits(bed.lib, 6, HMREG_LIMIT_NONE));
    touch(&bed, 0, 4);
    get_in(other, memory[10]);
    get_in(other, memory[11]);
    get_in(other, memory[12]); /* its own 10 goes */
    assert_int_equal(regions(&bed), 4);
    assert_int_equal(regions_of(other), 2);
    assert_ok(hmreg_domain_flush(other));
    touch(&bed, 4, 2);
    get_in(other, memory[13]); /* one of the bed's goes: the least recently used */
    assert_int_equal(regions(&bed), 5);
    assert_int_equal(regions_of(other), 1);
    assert_int_equal(atomic_load(&counter.regions), 7); /* of its own domain's calls, the next */
    assert_int_equal(bed_key(&bed, memory[1], LEN), 2);
    assert_int_equal(atomic_load(&counter.regions), 6);
    assert_int_equal(atomic_load(&counter.most), 7);
    assert_ok(hmreg_domain_close(other));
    bed_close(&bed);
}

/* What never fits takes nobody's place, though its own cache is full as well. */
static void set_limits__of_all__a_range_beyond_them_evicts_nothing(void **state)
{
    struct hmreg_domain_config config = {.size = sizeof(config), .max_regions = 4};
    struct hmreg_mr *mr = NULL;
    struct bed bed;

    open_bed(&bed, &config);
    assert_ok(hmreg_set_limits(bed.lib, HMREG_LIMIT_NONE, 4 * LEN));
    touch(&bed, 0, 4);
    assert_ok(hmreg_mr_get(bed.domain, memory[8], 4 * LEN + 1, HMREG_SEND, &mr));
    hmreg_mr_put(mr);
    assert_int_equal(bed_stats(&bed).uncached, 1);
    assert_int_equal(bed_stats(&bed).evictions, 0);
    assert_int_equal(regions(&bed), 4);
    bed_close(&bed);
}

/* ---- whose thread deregisters ----------------------------------------------------------- */

#define KEYS 64

/* Each domain has a thread of its own, as FI_THREAD_DOMAIN demands. */
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

/* The domain that the main thread does not drive. */
struct driver {
    struct hmreg *lib;
    struct hmreg_domain *domain;
    sem_t go_on, done;
};

/* Needs room for four at once, so that what others have must go. */
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

static pthread_t start_driver(struct driver *driver, struct bed *bed)
{
    pthread_t thread;

    driver->domain = counter_open_more(bed->lib, NULL);
    sem_init(&driver->go_on, 0, 0);
    sem_init(&driver->done, 0, 0);
    assert_int_equal(pthread_create(&thread, NULL, drive, driver), 0);
    sem_wait(&driver->done);
    return thread;
}

static void get__evicts_another_domains__its_own_thread_deregisters(void **state)
{
    struct driver driver;
    pthread_t thread;
    struct bed bed;

    open_bed(&bed, NULL);
    watch_threads();
    assert_ok(hmreg_set_limits(bed.lib, 4, HMREG_LIMIT_NONE));
    touch(&bed, 0, 4);
    thread = start_driver(&driver, &bed);
    assert_int_equal(regions(&bed), 0);
    assert_int_equal(regions_of(driver.domain), 4);
    assert_int_equal(atomic_load(&counter.deregs), 0);
    touch(&bed, 4, 1); /* evicts of the driver's, and deregisters its own */
    assert_int_equal(atomic_load(&counter.deregs), 4);
    assert_int_equal(regions_of(driver.domain), 3);
    sem_post(&driver.go_on);
    pthread_join(thread, NULL);
    assert_int_equal(atomic_load(&strayed), 0);
    bed_close(&bed);
}

static void set_limits__of_all__no_domains_fabric_is_called(void **state)
{
    struct driver driver;
    pthread_t thread;
    struct bed bed;

    open_bed(&bed, NULL);
    watch_threads();
    touch(&bed, 0, 4);
    thread = start_driver(&driver, &bed);
    assert_ok(hmreg_set_limits(bed.lib, 2, HMREG_LIMIT_NONE));
    assert_int_equal(regions(&bed) + regions_of(driver.domain), 2);
    assert_int_equal(atomic_load(&counter.deregs), 0);
    touch(&bed, 5, 1);
    assert_in_range(atomic_load(&counter.deregs), 1, 5);
    sem_post(&driver.go_on);
    pthread_join(thread, NULL);
    assert_int_equal(atomic_load(&strayed), 0);
    bed_close(&bed);
}

/* ---- one closes while another evicts there ---------------------------------------------- */

static sem_t visiting, leave;
static atomic_bool stay;

long __wrap_syscall(long number, long a, long b, long c, long d, long e, long f);
long __real_syscall(long number, long a, long b, long c, long d, long e, long f);

/* A visitor holds no lock while it waits for the barrier. */
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

static void close__another_domain_evicts_there__waits_for_it(void **state)
{
    pthread_t getter, closing;
    struct closer closer = {.done = false};
    struct bed bed;

    open_bed(&bed, NULL);
    closer.domain = counter_open_more(bed.lib, NULL);
    sem_init(&visiting, 0, 0);
    sem_init(&leave, 0, 0);
    assert_ok(hmreg_set_limits(bed.lib, 1, HMREG_LIMIT_NONE));
    if (bed.domain->caches->pool.hot.fenced)
        test_skip("this system has no membarrier(2)");
    get_in(closer.domain, memory[10]);
    atomic_store(&stay, true);
    assert_int_equal(pthread_create(&getter, NULL, get_thirteenth, bed.domain), 0);
    sem_wait(&visiting);
    assert_int_equal(pthread_create(&closing, NULL, close_it, &closer), 0);
    for (int i = 0; i < 200 && !atomic_load(&closer.done); i++)
        usleep(1000); /* time to go wrong in; what is right needs none */
    assert_false(atomic_load(&closer.done));
    sem_post(&leave);
    pthread_join(getter, NULL);
    pthread_join(closing, NULL);
    assert_int_equal(closer.rc, 0);
    assert_int_equal(regions(&bed), 1);
    bed_close(&bed);
}

static void set_limits__of_all_lowered__idle_ones_go_everywhere(void **state)
{
    struct hmreg_domain *other;
    struct hmreg_mr *held;
    struct bed bed;

    open_bed(&bed, NULL);
    other = counter_open_more(bed.lib, NULL);
    touch(&bed, 0, 5);
    for (int i = 10; i < 15; i++)
        get_in(other, memory[i]);
    held = bed_get(&bed, memory[0], LEN);
    assert_ok(hmreg_set_limits(bed.lib, HMREG_LIMIT_NONE, 3 * LEN));
    assert_int_equal(regions(&bed) + regions_of(other), 3);
    assert_ok(hmreg_set_limits(bed.lib, 0, 0));
    assert_int_equal(regions(&bed) + regions_of(other), 1);
    hmreg_mr_put(held);
    assert_ok(hmreg_domain_flush(bed.domain));
    assert_ok(hmreg_domain_flush(other));
    assert_int_equal(atomic_load(&counter.regions), 0);
    get_in(other, memory[20]);
    assert_int_equal(regions_of(other), 0);
    assert_ok(hmreg_domain_close(other));
    bed_close(&bed);
}

static void set_limits__of_all_in_the_environment__hold(void **state)
{
    struct bed bed;

    setenv("HMREG_CACHE_MAX_COUNT", "3", 1);
    setenv("HMREG_CACHE_MAX_SIZE", "8192", 1);
    open_bed(&bed, NULL);
    unsetenv("HMREG_CACHE_MAX_COUNT");
    unsetenv("HMREG_CACHE_MAX_SIZE");
    touch(&bed, 0, 8);
    assert_int_equal(regions(&bed), 2);
    assert_int_equal(atomic_load(&counter.most), 3);
    bed_close(&bed);
}

/* ---- the door --------------------------------------------------------------------------- */

static void set_limits__wrong_arguments__einval(void **state)
{
    struct hmreg_domain_config config = {.size = sizeof(config), .flags = HMREG_DOMAIN_NO_CACHE};
    struct hmreg_domain *made = NULL;
    struct provider_caps caps = {.fabric = "test", .key_size = 8, .iov_limit = 1};
    struct provider_ops ops = {.name = "test"};
    struct bed bed;

    open_bed(&bed, &config);
    assert_fails(hmreg_set_limits(NULL, 1, 1), -EINVAL, "lib is NULL");
    assert_fails(hmreg_domain_set_limits(NULL, 1, 1), -EINVAL, "domain is NULL");
    assert_fails(hmreg_domain_set_limits(bed.domain, 1, 1), -EINVAL, "opened without a cache");
    config.check[HMREG_IFACE_ZE] = (enum hmreg_check)3;
    assert_fails(hmreg_domain_create(bed.lib, &ops, &caps, NULL, &config, &made), -EINVAL,
                 "config->check[3] is 3");
    assert_null(made);
    bed_close(&bed);
}

static void set_limits__in_a_forked_child__eperm(void **state)
{
    struct bed bed;
    int status;
    pid_t child;

    open_bed(&bed, NULL);
    child = fork();
    if (child == 0)
        _exit(hmreg_set_limits(bed.lib, 1, 1) != -EPERM ||
              hmreg_domain_set_limits(bed.domain, 1, 1) != -EPERM);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    bed_close(&bed);
}

/* ---- what a hit makes sure of ----------------------------------------------------------- */

static unsigned asked_by_five_hits(enum hmreg_check check)
{
    struct hmreg_domain_config config = {.size = sizeof(config),
                                         .check = {[HMREG_IFACE_CUDA] = check}};
    unsigned before;
    struct bed bed;

    open_bed(&bed, &config);
    vendor_claim(HMREG_IFACE_CUDA, memory[0], LEN, HMREG_MEM_DEVICE, 0);
    bed_key(&bed, memory[0], LEN);
    before = vendors[HMREG_IFACE_CUDA].identities;
    for (int i = 0; i < 5; i++)
        assert_int_equal(bed_key(&bed, memory[0], LEN), 1);
    assert_int_equal(bed_stats(&bed).hits, 5);
    assert_ok(hmreg_invalidate(bed.lib, memory[0], LEN));
    assert_int_equal(bed_key(&bed, memory[0], LEN), 2);
    bed_close(&bed);
    return vendors[HMREG_IFACE_CUDA].identities - before - 1; /* the last registration asks, too */
}

static void check__device_memory__asked_at_each_hit_or_never(void **state)
{
    assert_int_equal(asked_by_five_hits(HMREG_CHECK_DEFAULT), 5);
    assert_int_equal(asked_by_five_hits(HMREG_CHECK_ALWAYS), 5);
    assert_int_equal(asked_by_five_hits(HMREG_CHECK_NOTICE), 0);
    setenv("HMREG_CACHE_CHECK", "cuda=notice", 1);
    assert_int_equal(asked_by_five_hits(HMREG_CHECK_DEFAULT), 0);
    assert_int_equal(asked_by_five_hits(HMREG_CHECK_ALWAYS), 5);
    unsetenv("HMREG_CACHE_CHECK");
}

static void check__notice_of_host_memory__never_stale_after_munmap(void **state)
{
    struct hmreg_domain_config config = {.size = sizeof(config), .check = {HMREG_CHECK_NOTICE}};
    char *place = bed_map(1);
    struct bed bed;

    vendors_reset();
    bed_open(&bed, HMREG_MONITOR_USERFAULTFD, &config);
    for (uint64_t i = 1; i <= 200; i++) {
        assert_int_equal(bed_key(&bed, place, bed_page()), i);
        assert_int_equal(bed_key(&bed, place, bed_page()), i);
        munmap(place, bed_page());
        assert_non_null(bed_map_at(place, 1));
    }
    assert_int_equal(bed_stats(&bed).hits, 200);
    munmap(place, bed_page());
    bed_close(&bed);
}

static void check__in_the_environment__read_or_refused(void **state)
{
    static const char *const wrong[] = {
        "",        "never",      "cuda",         "cuda=",
        "=notice", "gpu=notice", "cuda=notice,", "cuda=notice,always=cuda"};
    struct settings settings;

    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        setenv("HMREG_CACHE_CHECK", wrong[i], 1);
        assert_fails(settings_read(NULL, &settings), -EINVAL, "accepted are always, notice");
    }
    setenv("HMREG_CACHE_CHECK", "notice,rocr=always", 1);
    assert_ok(settings_read(NULL, &settings));
    assert_int_equal(settings.check[HMREG_IFACE_SYSTEM], HMREG_CHECK_NOTICE);
    assert_int_equal(settings.check[HMREG_IFACE_ROCR], HMREG_CHECK_ALWAYS);
    assert_int_equal(settings.check[HMREG_IFACE_ZE], HMREG_CHECK_NOTICE);
    unsetenv("HMREG_CACHE_CHECK");
}

TEST_MAIN(TEST(limit__one_region_instead_of_thousands__they_all_go),
          TEST(limit__one_of_thousands_is_held__none_goes_in_vain),
          TEST(limit__filled_by_hundreds_that_are_held__served_uncached),
          TEST(set_limits__lowered_below_hundreds_that_are_held__served_uncached),
          TEST(set_limits__lowered__idle_ones_go_at_once_and_held_ones_stay),
          TEST(set_limits__raised__more_is_remembered),
          TEST(set_limits__zero__nothing_is_remembered),
          TEST(set_limits__of_all__own_ones_go_first_then_other_domains),
          TEST(set_limits__of_all__a_range_beyond_them_evicts_nothing),
          TEST(get__evicts_another_domains__its_own_thread_deregisters),
          TEST(set_limits__of_all__no_domains_fabric_is_called),
          TEST(close__another_domain_evicts_there__waits_for_it),
          TEST(set_limits__of_all_lowered__idle_ones_go_everywhere),
          TEST(set_limits__of_all_in_the_environment__hold),
          TEST(set_limits__wrong_arguments__einval), TEST(set_limits__in_a_forked_child__eperm),
          TEST(check__device_memory__asked_at_each_hit_or_never),
          TEST(check__notice_of_host_memory__never_stale_after_munmap),
          TEST(check__in_the_environment__read_or_refused))
