/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The callbacks made and ended of a domain: once for each registration, on which threads, and what
 * they may call.
 */
#include "tests/support/cache_fixture.h"
#include "tests/support/vendors.h"

#include <pthread.h>
#include <semaphore.h>
#include <sys/prctl.h>

#define LEN 4096

static char memory[8][LEN] __attribute__((aligned(LEN)));

static struct {
    struct hmreg *lib;
    unsigned made, ended;
    uint64_t made_key, ended_key;
    struct hmreg_mr_info info;
    void *context;
    char thread[16];
    sem_t called;
} seen;

static void see(const struct hmreg_mr *mr, const struct hmreg_mr_info *info)
{
    char token[1024];
    size_t size = sizeof(token);
    struct hmreg_mem_info found = {.size = sizeof(found)};

    seen.info = *info;
    seen.context = hmreg_mr_context(mr);
    prctl(PR_GET_NAME, seen.thread);
    hmreg_mr_desc(mr);
    assert_ok(hmreg_mr_pack(mr, token, &size));
    assert_ok(hmreg_query(seen.lib, (void *)(uintptr_t)info->addr, info->len, &found));
    assert_ok(hmreg_invalidate(seen.lib, memory[7], LEN));
    assert_int_not_equal(hmreg_mr_query(NULL, &seen.info), 0); /* its error is not the caller's */
    seen.info = *info;
}

static void made(const struct hmreg_mr *mr, const struct hmreg_mr_info *info, void *context)
{
    assert_ptr_equal(context, &seen);
    seen.made++;
    seen.made_key = hmreg_mr_key(mr);
    see(mr, info);
}

static void ended(const struct hmreg_mr *mr, const struct hmreg_mr_info *info, void *context)
{
    assert_ptr_equal(context, &seen);
    seen.ended++;
    seen.ended_key = hmreg_mr_key(mr);
    see(mr, info);
    sem_post(&seen.called);
}

static struct hmreg_domain_config with_callbacks(uint32_t flags, uint64_t max_regions)
{
    memset(&seen, 0, sizeof(seen));
    sem_init(&seen.called, 0, 0);
    return (struct hmreg_domain_config){.size = sizeof(struct hmreg_domain_config),
                                        .flags = flags,
                                        .max_regions = max_regions,
                                        .made = made,
                                        .ended = ended,
                                        .callback_context = &seen};
}

static void open_fixture(uint32_t flags, uint64_t max_regions)
{
    struct hmreg_domain_config config = with_callbacks(flags, max_regions);

    vendors_reset();
    fixture_open(HMREG_MONITOR_IMPORT, &config);
    seen.lib = fixture.lib;
}

/* ---- the context ------------------------------------------------------------------------ */

static void *race(void *mr)
{
    static char each[2];
    static atomic_int next;
    void *own = &each[atomic_fetch_add(&next, 1) % 2];

    return hmreg_mr_set_context(mr, own) ? NULL : own;
}

/* Set once, found by later gets and when the region ends, and gone with it. */
TEST(context__set_once__found_until_the_region_ends)
{
    struct hmreg_mr *mr = NULL, *again = NULL;
    pthread_t threads[2];
    void *set[2];

    open_fixture(0, 8);
    assert_ok(hmreg_mr_get(fixture.domain, memory[0], LEN, HMREG_ACCESS_ALL, &mr));
    assert_null(hmreg_mr_context(mr));
    assert_fails(hmreg_mr_set_context(mr, NULL), -EINVAL, "context is NULL");
    assert_fails(hmreg_mr_set_context(NULL, &mr), -EINVAL, "mr is NULL");
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, race, mr), 0);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], &set[i]);
    assert_true(!set[0] != !set[1]);
    assert_ptr_equal(hmreg_mr_context(mr), set[0] ? set[0] : set[1]);
    assert_fails(hmreg_mr_set_context(mr, &mr), -EBUSY, "has a context already");
    assert_ok(hmreg_mr_get(fixture.domain, memory[0], LEN, HMREG_ACCESS_ALL, &again));
    assert_ptr_equal(again, mr);
    assert_ptr_equal(hmreg_mr_context(again), set[0] ? set[0] : set[1]);
    hmreg_mr_put(mr);
    hmreg_mr_put(again);
    assert_ok(hmreg_domain_flush(fixture.domain));
    assert_ptr_equal(seen.context, set[0] ? set[0] : set[1]);
    assert_ok(hmreg_mr_get(fixture.domain, memory[0], LEN, HMREG_ACCESS_ALL, &mr));
    assert_null(hmreg_mr_context(mr));
    hmreg_mr_put(mr);
    fixture_close();
}

/* On a fabric that may be called on any thread. */
TEST(ended__nobody_calls__on_the_reaper)
{
    struct hmreg_domain_config config = with_callbacks(0, 0);
    struct hmreg_domain *served;

    vendors_reset();
    fixture_open(HMREG_MONITOR_IMPORT, NULL);
    seen.lib = fixture.lib;
    served = counter_open_served(fixture.lib, &config);
    hmreg_domain_close(fixture.domain);
    fixture.domain = served;
    fixture_key(memory[0], LEN);
    assert_ok(hmreg_invalidate(fixture.lib, memory[0], 1));
    sem_wait(&seen.called);
    assert_string_equal(seen.thread, "hmreg-reaper");
}

/* ---- callbacks that do not return, and threads that end --------------------------------- */

static jmp_buf back;
static bool leave;

static void leave_made(const struct hmreg_mr *mr, const struct hmreg_mr_info *info, void *context)
{
    pthread_testcancel();
    if (leave)
        longjmp(back, 1);
}

static void open_left(void)
{
    struct hmreg_domain_config config = {.size = sizeof(config), .made = leave_made};

    vendors_reset();
    fixture_open(HMREG_MONITOR_IMPORT, &config);
}

/* In a process of its own: its domain cannot be closed. */
static int get_after_longjmp(void)
{
    uint64_t key;

    open_left();
    leave = true;
    if (!setjmp(back)) {
        fixture_key(memory[0], LEN);
        return 1;
    }
    leave = false;
    key = fixture_key(memory[0], LEN);
    if (fixture_key(memory[0], LEN) == key)
        return 2; /* a region that is pending serves none */
    key = fixture_key(memory[1], LEN);
    if (fixture_key(memory[1], LEN) != key)
        return 3;
    return hmreg_domain_close(fixture.domain) == -EBUSY ? 0 : 4;
}

TEST(made__leaves_by_longjmp__no_other_get_waits)
{
    test_in_child(get_after_longjmp());
}

/* A fabric whose calls are cancellation points. */
static void reg_may_be_cancelled(const struct provider_request *request)
{
    pthread_testcancel();
}

static void dereg_may_be_cancelled(uint64_t key)
{
    pthread_testcancel();
}

static struct hmreg_mr *cancelled;

static void reg_it(void)
{
    assert_ok(hmreg_mr_reg(fixture.domain, memory[0], LEN, HMREG_SEND, 0, 0, 0, &cancelled, NULL));
}

static void close_it(void)
{
    assert_ok(hmreg_mr_close(cancelled));
}

static void get_it(void)
{
    cancelled = fixture_get(memory[0], LEN);
}

static void put_it(void)
{
    assert_ok(hmreg_invalidate(fixture.lib, memory[0], LEN));
    hmreg_mr_put(cancelled);
}

static void flush(void)
{
    assert_ok(hmreg_domain_flush(fixture.domain));
}

static void close_domain(void)
{
    assert_ok(hmreg_domain_close(fixture.domain));
}

struct call {
    void (*make)(void);
};

static void *call_cancelled(void *arg)
{
    const struct call *call = arg;

    pthread_cancel(pthread_self());
    call->make();
    sem_post(&seen.called);
    pthread_testcancel();
    return NULL;
}

static void check_cancelled(void (*make)(void))
{
    struct call call = {make};
    void *result;

    result = test_on_a_thread(call_cancelled, &call);
    assert_ptr_equal(result, PTHREAD_CANCELED);
    assert_int_equal(sem_trywait(&seen.called), 0);
}

TEST(calls__on_a_thread_that_is_cancelled__finish_first)
{
    sem_init(&seen.called, 0, 0);
    open_left();
    atomic_store(&counter.reg_hook, reg_may_be_cancelled);
    atomic_store(&counter.dereg_hook, dereg_may_be_cancelled);
    check_cancelled(reg_it);
    check_cancelled(close_it);
    check_cancelled(get_it);
    check_cancelled(put_it);
    fixture_key(memory[1], LEN);
    check_cancelled(flush);
    assert_int_equal(atomic_load(&counter.regions), 0);
    fixture_key(memory[1], LEN);
    check_cancelled(close_domain);
    fixture.domain = NULL;
}

TEST_MAIN();
