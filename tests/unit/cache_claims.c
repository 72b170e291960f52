/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Gets that say what the memory is: a claim that it is the system's costs a hit nothing, asks no
 * runtime when it is trusted, and is no finding for gets without that claim.
 */
#include "tests/support/cache_fixture.h"
#include "tests/support/inside.h"
#include "tests/support/queries.h"
#include "tests/support/vendors.h"

#include <hmreg/loopback.h>
#include <hmreg/suspend.h>

#define LEN 4096

/* ---- what a hit does without -------------------------------------------------------------- */

static _Thread_local unsigned locks, copies; /* of attributes; the reaper has locks of its own */

int __real_pthread_mutex_lock(pthread_mutex_t *mutex);
int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex);

int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex)
{
    locks++;
    return __real_pthread_mutex_lock(mutex);
}

struct attributes;

int __real_request_from_attr(const struct hmreg_domain *domain, const struct hmreg_mr_attr *callers,
                             uint64_t flags, struct attributes *out);
int __wrap_request_from_attr(const struct hmreg_domain *domain, const struct hmreg_mr_attr *callers,
                             uint64_t flags, struct attributes *out);

int __wrap_request_from_attr(const struct hmreg_domain *domain, const struct hmreg_mr_attr *callers,
                             uint64_t flags, struct attributes *out)
{
    copies++;
    return __real_request_from_attr(domain, callers, flags, out);
}

/* ---- gets ------------------------------------------------------------------------------- */

static char memory[4][LEN] __attribute__((aligned(LEN)));

static void open_fixture(enum hmreg_policy policy)
{
    struct hmreg_domain_config config = {.size = sizeof(config), .policy = policy};

    vendors_reset();
    fixture_open(HMREG_MONITOR_IMPORT, &config);
    fixture_key(memory[3], LEN); /* the runtimes start */
}

struct asked {
    struct iovec iov;
    struct hmreg_mr_attr attr;
};

static struct hmreg_mr_attr *ask(struct asked *out, void *addr, int claim)
{
    out->iov = (struct iovec){addr, LEN};
    out->attr = (struct hmreg_mr_attr){.size = sizeof(out->attr),
                                       .iov = &out->iov,
                                       .iov_count = 1,
                                       .access = HMREG_ACCESS_REMOTE,
                                       .claim_iface = claim};
    return &out->attr;
}

static struct hmreg_mr *get_by(const struct hmreg_mr_attr *attr)
{
    struct hmreg_mr *mr = NULL;

    assert_ok(hmreg_mr_get_attr(fixture.domain, attr, 0, &mr));
    return mr;
}

static struct hmreg_mr *get(int claim)
{
    struct asked asked;

    return get_by(ask(&asked, memory[0], claim));
}

/* Does the thread's table serve it at once, without a lock or a call? */
static bool hits(const struct hmreg_mr_attr *attr)
{
    struct hmreg_mr *mr = inside_hit(fixture.domain, attr);
    unsigned before = locks + copies;

    hmreg_mr_put(mr);
    if (!mr)
        return false;
    assert_ptr_equal(get_by(attr), mr);
    hmreg_mr_put(mr);
    return locks + copies == before;
}

static unsigned asks(void)
{
    unsigned count = 0;

    for (int i = 0; i < HMREG_IFACE_COUNT; i++)
        count += vendors[i].resolves + vendors[i].identities;
    return count;
}

static bool has_variants(void)
{
    return inside_variants(fixture.domain);
}

/* ---- hits ------------------------------------------------------------------------------- */

TEST(hit__each_claim_of_host_memory__as_quick_as_without)
{
    struct asked asked;

    for (int claim = HMREG_CLAIM_NONE; claim <= HMREG_CLAIM_TRUSTED; claim++) {
        open_fixture(HMREG_POLICY_KEEP);
        ask(&asked, memory[0], claim);
        asked.attr.device = claim == HMREG_CLAIM_TRUSTED ? HMREG_DEVICE_ANY : 0;
        hmreg_mr_put(get_by(&asked.attr));
        assert_false(has_variants());
        hmreg_mr_put(get_by(&asked.attr));
        assert_true(hits(&asked.attr));
        assert_int_equal(fixture_stats().misses, 2);
        fixture_close();
    }
}

static struct hmreg_mr *get_plain(uint64_t flag)
{
    struct hmreg_mr *mr = NULL;

    assert_ok(hmreg_mr_get(fixture.domain, memory[0], LEN, HMREG_ACCESS_REMOTE | flag, &mr));
    return mr;
}

/* The flag of a plain get is the trusted claim: no runtime is asked, the next get hits at once, and
 * a get without the flag registers a region of its own. */
TEST(hit__plain_get_with_the_flag__as_quick_and_no_runtime_asked)
{
    struct hmreg_mr *mr, *other;
    unsigned asked, before;

    open_fixture(HMREG_POLICY_KEEP);
    asked = asks();
    mr = get_plain(HMREG_GET_HOST);
    hmreg_mr_put(mr);
    before = locks;
    assert_ptr_equal(get_plain(HMREG_GET_HOST), mr);
    hmreg_mr_put(mr);
    assert_int_equal(locks, before);
    assert_int_equal(asks(), asked);
    hmreg_mr_put(get(HMREG_CLAIM_TRUSTED));
    assert_int_equal(fixture_stats().misses, 2);
    other = get_plain(0);
    assert_ptr_not_equal(other, mr);
    assert_true(asks() > asked);
    hmreg_mr_put(other);
    fixture_close();
}

TEST(flag__not_of_a_registration__refused)
{
    struct hmreg_mr *mr = NULL;

    open_fixture(HMREG_POLICY_KEEP);
    assert_int_equal(hmreg_mr_reg(fixture.domain, memory[0], LEN,
                                  HMREG_ACCESS_REMOTE | HMREG_GET_HOST, 0, HMREG_KEY_ANY, 0, &mr,
                                  NULL),
                     -EINVAL);
    assert_int_equal(hmreg_mr_get(fixture.domain, memory[0], LEN, HMREG_GET_HOST, &mr), -EINVAL);
    assert_null(mr);
    fixture_close();
}

/* The call ignores iface and device if nothing is claimed. */
TEST(hit__iface_without_a_claim__as_quick)
{
    struct asked asked;
    struct hmreg_mr *mr;

    open_fixture(HMREG_POLICY_KEEP);
    ask(&asked, memory[0], HMREG_CLAIM_NONE);
    asked.attr.iface = HMREG_IFACE_CUDA;
    asked.attr.device = 1;
    mr = get_by(&asked.attr);
    hmreg_mr_put(mr);
    assert_ptr_equal(fixture_get(memory[0], LEN), mr);
    hmreg_mr_put(mr);
    assert_true(hits(&asked.attr));
}

TEST(hit__claim_of_another_iface_or_device__inval)
{
    struct hmreg_mr *mr = NULL;
    struct asked asked;

    open_fixture(HMREG_POLICY_KEEP);
    hmreg_mr_put(fixture_get(memory[0], LEN));
    ask(&asked, memory[0], HMREG_CLAIM_CHECKED);
    asked.attr.iface = HMREG_IFACE_CUDA;
    assert_false(hits(&asked.attr));
    assert_fails(hmreg_mr_get_attr(fixture.domain, &asked.attr, 0, &mr), -EINVAL,
                 "the caller claims cuda, the memory is system");
    asked.attr.iface = HMREG_IFACE_SYSTEM;
    for (int claim = HMREG_CLAIM_CHECKED; claim <= HMREG_CLAIM_TRUSTED; claim++) {
        asked.attr.claim_iface = claim;
        asked.attr.device = 1;
        assert_fails(hmreg_mr_get_attr(fixture.domain, &asked.attr, 0, &mr), -EINVAL,
                     "device is 1");
    }
    assert_null(mr);
    assert_int_equal(fixture_stats().hits, 0);
}

TEST(hit__claim_of_a_device__as_quick_and_checked)
{
    struct hmreg_mr *mr = NULL;
    struct asked asked;

    vendors_reset();
    vendors[HMREG_IFACE_CUDA].reports = true;
    fixture_open(HMREG_MONITOR_IMPORT, NULL);
    vendor_claim(HMREG_IFACE_CUDA, memory[0], LEN, HMREG_MEM_DEVICE, 1)->watched = true;
    ask(&asked, memory[0], HMREG_CLAIM_CHECKED)->iface = HMREG_IFACE_CUDA;
    asked.attr.device = 1;
    hmreg_mr_put(get_by(&asked.attr));
    hmreg_mr_put(get_by(&asked.attr));
    assert_true(hits(&asked.attr));
    asked.attr.device = 0;
    assert_false(hits(&asked.attr));
    assert_fails(hmreg_mr_get_attr(fixture.domain, &asked.attr, 0, &mr), -EINVAL,
                 "the caller claims 0, the memory is on 1");
    assert_null(mr);
}

/* ---- who shares what one caller claimed -------------------------------------------------- */

static void assert_shares(struct hmreg_mr *mr, int claim, bool shares)
{
    struct hmreg_mr *other = get(claim);

    assert_int_equal(other == mr, shares);
    hmreg_mr_put(other);
}

static void *from_a_thread(void *mr)
{
    assert_shares(mr, HMREG_CLAIM_TRUSTED, true);
    return NULL;
}

static void shares_what_was_claimed(enum hmreg_policy policy, enum hmreg_monitor monitor)
{
    struct hmreg_domain_config config = {.size = sizeof(config), .policy = policy};
    struct hmreg_mr *claimed, *found;

    vendors_reset();
    fixture_open(monitor, &config);
    claimed = get(HMREG_CLAIM_TRUSTED);
    test_on_a_thread(from_a_thread, claimed);
    for (int i = 0; i < 2; i++)
        assert_shares(claimed, HMREG_CLAIM_TRUSTED, true);
    assert_shares(claimed, HMREG_CLAIM_CHECKED, false);
    found = fixture_get(memory[0], LEN);
    assert_ptr_not_equal(found, claimed);
    for (int i = 0; i < 2; i++) {
        assert_shares(found, HMREG_CLAIM_NONE, true);
        assert_shares(found, HMREG_CLAIM_CHECKED, true);
    }
    hmreg_mr_put(claimed);
    hmreg_mr_put(found);
    fixture_close();
}

TEST(claimed__by_one__shared_with_those_who_claim_it_too)
{
    shares_what_was_claimed(HMREG_POLICY_KEEP, HMREG_MONITOR_IMPORT);
    shares_what_was_claimed(HMREG_POLICY_LAST_PUT, HMREG_MONITOR_IMPORT);
    shares_what_was_claimed(HMREG_POLICY_LAST_PUT, HMREG_MONITOR_DEFAULT);
}

/* ---- no runtime is asked ----------------------------------------------------------------- */

static void asks_none(enum hmreg_policy policy)
{
    unsigned before;

    open_fixture(policy);
    before = asks();
    assert_true(before > 0);
    for (int i = 0; i < 3; i++)
        hmreg_mr_put(get(HMREG_CLAIM_TRUSTED));
    assert_int_equal(asks(), before);
    fixture_close();
}

TEST(trusted__host_memory_beside_runtimes__misses_and_hits_ask_none)
{
    asks_none(HMREG_POLICY_KEEP);
    asks_none(HMREG_POLICY_LAST_PUT);
}

TEST(trusted__suspended_and_resumed__asks_none)
{
    struct hmreg_mr *mr;
    unsigned before;

    open_fixture(HMREG_POLICY_KEEP);
    mr = get(HMREG_CLAIM_TRUSTED);
    before = asks();
    assert_ok(hmreg_suspend(fixture.lib, memory[0], LEN));
    assert_ok(hmreg_resume(fixture.lib, memory[0], LEN, NULL));
    assert_int_equal(asks(), before);
    hmreg_mr_put(mr);
}

TEST_MAIN()
