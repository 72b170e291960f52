/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Gets and puts of many regions in one call: each region is as one of hmreg_mr_get(), and a call
 * that fails leaves nothing behind.
 */
#include "tests/support/cache_fixture.h"
#include "tests/support/vendors.h"

#include <errno.h>
#include <hmreg/group.h>
#include <hmreg/loopback.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define LEN  4096
#define MANY 148

static char memory[MANY][LEN] __attribute__((aligned(LEN)));
static struct iovec iov[MANY];
static struct hmreg_mr *mrs[MANY];

static void open_with(struct fixture *fixture, const struct hmreg_domain_config *config)
{
    vendors_reset();
    fixture_open(fixture, HMREG_MONITOR_IMPORT, config);
    for (size_t i = 0; i < MANY; i++) {
        iov[i] = (struct iovec){memory[i], LEN};
        mrs[i] = (struct hmreg_mr *)1;
    }
}

static void open_flagged(struct fixture *fixture, uint32_t flags, uint64_t max_regions)
{
    struct hmreg_domain_config config = {
        .size = sizeof(config), .flags = flags, .max_regions = max_regions};

    open_with(fixture, &config);
}

static void get_many(const struct fixture *fixture, size_t count)
{
    assert_ok(hmreg_mr_get_many(fixture->domain, iov, count, HMREG_ACCESS_REMOTE, mrs));
}

static void assert_none(size_t count)
{
    for (size_t i = 0; i < count; i++)
        assert_null(mrs[i]);
}

static uint64_t pins_of(const struct fixture *fixture);

/* Gets and puts all; the number of registrations that took. */
static unsigned cost_of(const struct fixture *fixture, size_t count)
{
    unsigned before = atomic_load(&counter.regs);

    get_many(fixture, count);
    hmreg_mr_put_many(mrs, count);
    assert_int_equal(pins_of(fixture), 0);
    return atomic_load(&counter.regs) - before;
}

static int add_pins(const struct hmreg_entry_info *entry, void *context)
{
    *(uint64_t *)context += entry->pins;
    return 0;
}

static uint64_t pins_of(const struct fixture *fixture)
{
    uint64_t pins = 0;

    assert_ok(hmreg_domain_dump(fixture->domain, add_pins, &pins));
    return pins;
}

/* ---- what is got ------------------------------------------------------------------------ */

TEST(get_many__again__each_as_a_get)
{
    struct fixture fixture;

    open_flagged(&fixture, 0, 0);
    get_many(&fixture, MANY);
    for (size_t i = 0; i < MANY; i++) {
        assert_true(fixture_is_cached(mrs[i]));
        assert_int_equal(hmreg_mr_key(mrs[i]), fixture_key(&fixture, memory[i], LEN));
    }
    assert_int_equal(pins_of(&fixture), MANY);
    hmreg_mr_put_many(mrs, MANY);
    assert_int_equal(cost_of(&fixture, MANY), 0);
    assert_int_equal(fixture_stats(&fixture).misses, MANY);
    assert_int_equal(fixture_stats(&fixture).hits, 2 * MANY);
    fixture_close(&fixture);
}

TEST(get_many__some_are_cached__the_others_are_registered)
{
    struct fixture fixture;

    open_flagged(&fixture, 0, 0);
    for (size_t i = 0; i < MANY; i += 3)
        fixture_key(&fixture, memory[i], LEN);
    assert_int_equal(cost_of(&fixture, MANY), MANY - (MANY + 2) / 3);
    fixture_close(&fixture);
}

TEST(get_many__parts_and_repeats__one_region)
{
    struct fixture fixture;

    open_flagged(&fixture, 0, 0);
    iov[0].iov_len = 4 * LEN;
    iov[1] = iov[0];
    for (size_t i = 2; i < 4; i++)
        iov[i] = (struct iovec){memory[i] + 10, 20};
    get_many(&fixture, 4);
    for (size_t i = 1; i < 4; i++)
        assert_ptr_equal(mrs[i], mrs[0]);
    assert_int_equal(pins_of(&fixture), 4);
    hmreg_mr_put_many(mrs, 4);
    assert_int_equal(pins_of(&fixture), 0);
    assert_int_equal(atomic_load(&counter.regs), 1);
    fixture_close(&fixture);
}

TEST(get_many__exact_domain__parts_are_regions_of_their_own)
{
    struct fixture fixture;

    open_flagged(&fixture, HMREG_DOMAIN_EXACT, 0);
    iov[1] = (struct iovec){memory[0], 20};
    assert_int_equal(cost_of(&fixture, MANY), MANY);
    assert_int_equal(cost_of(&fixture, MANY), 0);
    fixture_close(&fixture);
}

TEST(get_many__other_rights__as_the_domain_permits)
{
    for (int rights = HMREG_RIGHTS_EXACT; rights <= HMREG_RIGHTS_ANY; rights++) {
        struct hmreg_domain_config config = {.size = sizeof(config),
                                             .rights = (enum hmreg_rights)rights};
        struct fixture fixture;

        open_with(&fixture, &config);
        get_many(&fixture, MANY);
        hmreg_mr_put_many(mrs, MANY);
        assert_ok(hmreg_mr_get_many(fixture.domain, iov, MANY, HMREG_REMOTE_READ, mrs));
        assert_int_equal(atomic_load(&counter.regs), rights == HMREG_RIGHTS_ANY ? MANY : 2 * MANY);
        hmreg_mr_put_many(mrs, MANY);
        fixture_close(&fixture);
    }
}

TEST(get_many__host_and_devices__each_in_its_cache)
{
    struct hmreg_stats stats = {.size = sizeof(stats)};
    struct vendor_claim *claims[2];
    struct fixture fixture;

    open_flagged(&fixture, 0, 0);
    claims[0] = vendor_claim(HMREG_IFACE_CUDA, memory[5], LEN, HMREG_MEM_DEVICE, 0);
    claims[1] = vendor_claim(HMREG_IFACE_ZE, memory[70], LEN, HMREG_MEM_DEVICE, 1);
    assert_int_equal(cost_of(&fixture, MANY), MANY);
    assert_int_equal(cost_of(&fixture, MANY), 0);
    assert_ok(hmreg_cache_stats(fixture.domain, HMREG_IFACE_CUDA, 0, &stats));
    assert_int_equal(stats.regions, 1);
    get_many(&fixture, MANY);
    hmreg_mr_put_many(mrs, MANY);
    for (int i = 0; i < 2; i++)
        vendor_renew(claims[i]);
    get_many(&fixture, MANY); /* a hit of device memory asks its vendor */
    assert_int_equal(hmreg_mr_key(mrs[5]), MANY + 1);
    assert_int_equal(hmreg_mr_key(mrs[70]), MANY + 2);
    hmreg_mr_put_many(mrs, MANY);
    fixture_close(&fixture);
}

TEST(get_many__group__each_on_all_rails)
{
    struct hmreg_domain *members[3];
    struct fixture fixture;

    open_flagged(&fixture, 0, 0);
    members[0] = fixture.domain;
    members[1] = counter_open_more(fixture.lib, NULL);
    members[2] = counter_open_more(fixture.lib, NULL);
    assert_ok(hmreg_group_open(fixture.lib, members, 3, NULL, &fixture.domain));
    assert_int_equal(cost_of(&fixture, MANY), 3 * MANY);
    assert_int_equal(cost_of(&fixture, MANY), 0);
    atomic_store(&counter.reg_code, -EIO);
    atomic_store(&counter.reg_times, 1);
    assert_fails(hmreg_mr_get_many(fixture.domain, iov, MANY, HMREG_SEND, mrs), -EIO, "iov[0]: ");
    assert_none(MANY);
    assert_int_equal(pins_of(&fixture), 0);
    assert_ok(hmreg_domain_close(fixture.domain));
    for (int i = 1; i < 3; i++)
        assert_ok(hmreg_domain_close(members[i]));
    fixture.domain = members[0];
    fixture_close(&fixture);
}

TEST(get_many__endpoint_mode__each_has_its_own)
{
    struct hmreg_loopback_config config = {.size = sizeof(config), .mr_mode = HMREG_MR_ENDPOINT};
    struct hmreg_domain *domain = NULL;
    struct fixture fixture;

    open_flagged(&fixture, 0, 0);
    assert_ok(hmreg_domain_open_loopback(fixture.lib, &config, NULL, &domain));
    iov[1] = iov[0];
    assert_ok(hmreg_mr_get_many(domain, iov, 2, HMREG_SEND, mrs));
    assert_ptr_not_equal(mrs[0], mrs[1]);
    assert_false(fixture_is_cached(mrs[0]));
    hmreg_mr_put_many(mrs, 2);
    assert_ok(hmreg_domain_close(domain));
    fixture_close(&fixture);
}

TEST(get_many__more_than_the_limit__the_rest_is_not_cached)
{
    struct fixture fixture;

    open_flagged(&fixture, 0, 10);
    get_many(&fixture, MANY);
    for (size_t i = 0; i < MANY; i++)
        assert_int_equal(fixture_is_cached(mrs[i]), i < 10);
    hmreg_mr_put_many(mrs, MANY);
    assert_int_equal(atomic_load(&counter.regions), 10);
    fixture_close(&fixture);
}

TEST(get_many__no_cache__registered_each_time)
{
    struct fixture fixture;

    open_flagged(&fixture, HMREG_DOMAIN_NO_CACHE, 0);
    assert_int_equal(cost_of(&fixture, MANY), MANY);
    assert_int_equal(cost_of(&fixture, MANY), MANY);
    fixture_close(&fixture);
}

TEST(get_many__put_checks__found)
{
    struct fixture fixture;

    setenv("HMREG_DEBUG", "puts", 1);
    open_flagged(&fixture, 0, 0);
    unsetenv("HMREG_DEBUG");
    assert_int_equal(cost_of(&fixture, MANY), MANY);
    assert_int_equal(cost_of(&fixture, MANY), 0);
    hmreg_mr_put_many(mrs, 2);
    assert_int_equal(fixture_stats(&fixture).wrong_puts, 2);
    fixture_close(&fixture);
}

/* ---- memory that changes ---------------------------------------------------------------- */

TEST(get_many__memory_changed_before__registered_anew)
{
    struct fixture fixture;
    char *place = fixture_map(MANY);

    vendors_reset();
    fixture_open(&fixture, HMREG_MONITOR_MEMHOOKS, NULL);
    for (size_t i = 0; i < MANY; i++)
        iov[i] = (struct iovec){place + i * fixture_page(), fixture_page()};
    assert_int_equal(cost_of(&fixture, MANY), MANY);
    munmap(iov[70].iov_base, 3 * fixture_page());
    assert_non_null(fixture_map_at(iov[70].iov_base, 3));
    assert_int_equal(cost_of(&fixture, MANY), 3);
    assert_int_equal(cost_of(&fixture, MANY), 0);
    munmap(place, MANY * fixture_page());
    fixture_close(&fixture);
}

static struct hmreg *notified;

static void give_notice(const struct provider_request *request)
{
    counter.reg_hook = NULL;
    assert_ok(hmreg_invalidate(notified, memory[0], 4 * LEN));
}

/* The notice comes after ranges 0 to 2 were got, and while 3 is being registered. */
TEST(get_many__invalidated_meanwhile__ends_with_its_put)
{
    struct fixture fixture;

    open_flagged(&fixture, 0, 0);
    notified = fixture.lib;
    for (size_t i = 0; i < 3; i++)
        fixture_key(&fixture, memory[i], LEN);
    counter.reg_hook = give_notice;
    get_many(&fixture, MANY);
    assert_int_equal(atomic_load(&counter.regs), MANY + 1); /* 3 was registered twice */
    assert_int_equal(fixture_stats(&fixture).zombies, 3);
    hmreg_mr_put_many(mrs, MANY);
    assert_int_equal(fixture_stats(&fixture).zombies, 0);
    assert_int_equal(atomic_load(&counter.regions), MANY - 3);
    assert_int_equal(cost_of(&fixture, MANY), 3);
    fixture_close(&fixture);
}

/* ---- failures --------------------------------------------------------------------------- */

static void fail_at_page(const struct provider_request *request)
{
    if (request->iov[0].iov_base == memory[71])
        atomic_store(&counter.reg_times, 1);
}

TEST(get_many__one_cannot_be_registered__none_is_got)
{
    struct fixture fixture;

    open_flagged(&fixture, 0, 0);
    for (size_t i = 0; i < MANY; i += 2)
        fixture_key(&fixture, memory[i], LEN);
    atomic_store(&counter.reg_times, 0);
    atomic_store(&counter.reg_code, -EIO);
    counter.reg_hook = fail_at_page;
    assert_fails(hmreg_mr_get_many(fixture.domain, iov, MANY, HMREG_ACCESS_REMOTE, mrs), -EIO,
                 "iov[71]: ");
    assert_none(MANY);
    assert_int_equal(pins_of(&fixture), 0);
    assert_int_equal(fixture_stats(&fixture).failures, 1);
    atomic_store(&counter.reg_code, 0);
    counter.reg_hook = NULL;
    /* What was registered stays cached: 1 to 69. */
    assert_int_equal(cost_of(&fixture, MANY), MANY / 2 - 35);
    assert_ok(hmreg_domain_flush(fixture.domain));
    assert_int_equal(atomic_load(&counter.regions), 0);
    fixture_close(&fixture);
}

/* Of uncached regions nothing stays. */
TEST(get_many__fails_without_a_cache__all_are_deregistered)
{
    struct fixture fixture;

    open_flagged(&fixture, HMREG_DOMAIN_NO_CACHE, 0);
    atomic_store(&counter.reg_code, -ENOMEM);
    counter.reg_hook = fail_at_page;
    assert_fails(hmreg_mr_get_many(fixture.domain, iov, MANY, HMREG_ACCESS_REMOTE, mrs), -ENOMEM,
                 "iov[71]: ");
    assert_none(MANY);
    assert_int_equal(atomic_load(&counter.regions), 0);
    fixture_close(&fixture);
}

/* `get` hits up to the range that is wrong, or misses. */
static void wrong_range(const struct fixture *fixture, struct iovec wrong, int code,
                        const char *words)
{
    struct iovec right = iov[100];
    unsigned before = atomic_load(&counter.regs);

    iov[100] = wrong;
    assert_fails(hmreg_mr_get_many(fixture->domain, iov, MANY, HMREG_ACCESS_REMOTE, mrs), code,
                 words);
    assert_none(MANY);
    assert_int_equal(atomic_load(&counter.regs), before);
    assert_int_equal(pins_of(fixture), 0);
    iov[100] = right;
}

static void wrong_ranges(const struct fixture *fixture)
{
    wrong_range(fixture, (struct iovec){NULL, LEN}, -EINVAL, "iov[100]: range: addr is NULL");
    wrong_range(fixture, (struct iovec){memory[100], 0}, -EINVAL, "iov[100]: range: len is 0");
    wrong_range(fixture, (struct iovec){memory[100], SIZE_MAX}, -EINVAL, "wraps");
    wrong_range(fixture, (struct iovec){memory[100], (1ull << 50) + 1}, -EMSGSIZE,
                "iov[100]: the region is longer");
}

TEST(get_many__wrong_arguments__refused_before_the_fabric)
{
    struct fixture fixture;

    open_flagged(&fixture, 0, 0);
    assert_fails(hmreg_mr_get_many(NULL, iov, 2, HMREG_SEND, mrs), -EINVAL, "domain is NULL");
    assert_none(2);
    assert_fails(hmreg_mr_get_many(fixture.domain, NULL, 2, HMREG_SEND, mrs), -EINVAL,
                 "iov is NULL");
    assert_fails(hmreg_mr_get_many(fixture.domain, iov, 2, HMREG_SEND, NULL), -EINVAL,
                 "mrs is NULL");
    assert_fails(hmreg_mr_get_many(fixture.domain, iov, 0, HMREG_SEND, mrs), -EINVAL, "count is 0");
    assert_fails(hmreg_mr_get_many(fixture.domain, iov, 2, 0, mrs), -EINVAL, "access is 0");
    assert_fails(hmreg_mr_get_many(fixture.domain, iov, 2, 1, mrs), -EINVAL, "unknown bits");
    wrong_ranges(&fixture);
    assert_int_equal(atomic_load(&counter.regs), 0);
    assert_int_equal(cost_of(&fixture, MANY), MANY);
    wrong_ranges(&fixture);
    fixture_close(&fixture);
}

static int childs_part(const struct fixture *fixture)
{
    if (hmreg_mr_get_many(fixture->domain, iov, MANY, HMREG_ACCESS_REMOTE, mrs) != -EPERM)
        return 1;
    hmreg_mr_put_many(mrs, MANY);
    return atomic_load(&counter.deregs) ? 2 : 0;
}

TEST(get_many__forked_child__perm)
{
    struct fixture fixture;
    int status;
    pid_t child;

    test_forks_wipe();
    open_flagged(&fixture, 0, 0);
    get_many(&fixture, MANY);
    child = fork();
    if (child == 0)
        _exit(childs_part(&fixture));
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    hmreg_mr_put_many(mrs, MANY);
    assert_int_equal(pins_of(&fixture), 0);
    fixture_close(&fixture);
}

/* ---- threads ---------------------------------------------------------------------------- */

struct other {
    const struct fixture *fixture;
    struct iovec iov[MANY];
    struct hmreg_mr *mrs[MANY];
    int rc;
};

static void *get_them(void *arg)
{
    struct other *other = arg;

    other->rc = hmreg_mr_get_many(other->fixture->domain, other->iov, MANY, HMREG_ACCESS_REMOTE,
                                  other->mrs);
    return NULL;
}

static sem_t reached, go_on;
static atomic_int stops;

static void stop_here(const struct provider_request *request)
{
    if (atomic_fetch_sub(&stops, 1) != 1)
        return;
    sem_post(&reached);
    sem_wait(&go_on);
}

static void start(struct other *other, pthread_t *thread, const struct fixture *fixture)
{
    other->fixture = fixture;
    for (size_t i = 0; i < MANY; i++)
        other->iov[i] = iov[MANY - 1 - i];
    assert_int_equal(pthread_create(thread, NULL, get_them, other), 0);
}

/* The other thread is stopped while it registers; this one gets all that it does not need. */
TEST(get_many__another_registers__waits_for_its_range_only)
{
    static struct other other;
    struct fixture fixture;
    pthread_t thread;

    open_flagged(&fixture, 0, 0);
    sem_init(&reached, 0, 0);
    sem_init(&go_on, 0, 0);
    atomic_store(&stops, 11);
    counter.reg_hook = stop_here;
    start(&other, &thread, &fixture); /* registers MANY - 1 ... MANY - 11, and stops */
    while (sem_wait(&reached))
        ;
    get_many(&fixture, MANY - 11);
    assert_int_equal(atomic_load(&counter.regs), MANY);
    sem_post(&go_on);
    pthread_join(thread, NULL);
    assert_ok(other.rc);
    assert_int_equal(atomic_load(&counter.regs), MANY);
    for (size_t i = 0; i < MANY - 11; i++)
        assert_ptr_equal(other.mrs[MANY - 1 - i], mrs[i]);
    hmreg_mr_put_many(mrs, MANY - 11);
    hmreg_mr_put_many(other.mrs, MANY); /* of another thread */
    assert_int_equal(pins_of(&fixture), 0);
    fixture_close(&fixture);
}

/* In opposite orders, again and again: neither waits for the other for ever. */
TEST(get_many__two_threads_in_opposite_orders__both_end)
{
    static struct other other;
    struct fixture fixture;
    pthread_t thread;

    open_flagged(&fixture, 0, 0);
    for (int i = 0; i < 200; i++) {
        start(&other, &thread, &fixture);
        get_many(&fixture, MANY);
        pthread_join(thread, NULL);
        assert_ok(other.rc);
        hmreg_mr_put_many(mrs, MANY);
        hmreg_mr_put_many(other.mrs, MANY);
        assert_int_equal(atomic_load(&counter.regs), (i + 1) * MANY);
        assert_ok(hmreg_domain_flush(fixture.domain));
    }
    fixture_close(&fixture);
}

/* ---- put -------------------------------------------------------------------------------- */

TEST(put_many__null_and_nothing__no_effect)
{
    struct fixture fixture;

    open_flagged(&fixture, 0, 0);
    hmreg_mr_put_many(NULL, 3);
    hmreg_mr_put_many(mrs, 0);
    get_many(&fixture, 4);
    hmreg_mr_put(mrs[0]);
    hmreg_mr_put(mrs[2]);
    mrs[0] = mrs[2] = NULL;
    hmreg_mr_put_many(mrs, 4);
    assert_int_equal(pins_of(&fixture), 0);
    fixture_close(&fixture);
}

TEST(put_many__several_domains_and_an_explicit_region__as_each_put)
{
    struct hmreg_domain *domain;
    struct hmreg_mr *explicit = NULL;
    struct fixture fixture, more;

    open_flagged(&fixture, 0, 0);
    domain = counter_open_more(fixture.lib, NULL);
    more = (struct fixture){fixture.lib, domain};
    get_many(&fixture, 4);
    mrs[4] = fixture_get(&more, memory[0], LEN);
    mrs[6] = fixture_get(&more, memory[1], LEN);
    assert_ok(hmreg_mr_reg(domain, memory, LEN, HMREG_SEND, 0, 0, 0, &explicit, NULL));
    mrs[5] = explicit;
    mrs[7] = mrs[3];
    mrs[3] = NULL;
    hmreg_mr_put_many(mrs, 8);
    assert_int_equal(pins_of(&fixture), 0);
    assert_int_equal(pins_of(&more), 0);
    assert_ok(hmreg_mr_close(explicit));
    assert_ok(hmreg_domain_close(domain));
    fixture_close(&fixture);
}

TEST(put_many__ended_regions__deregistered)
{
    struct fixture fixture;

    open_flagged(&fixture, 0, 0);
    get_many(&fixture, MANY);
    assert_ok(hmreg_invalidate(fixture.lib, memory, sizeof(memory)));
    assert_int_equal(fixture_stats(&fixture).zombies, MANY);
    hmreg_mr_put_many(mrs, MANY);
    assert_int_equal(atomic_load(&counter.regions), 0);
    fixture_close(&fixture);
}

TEST_MAIN()
