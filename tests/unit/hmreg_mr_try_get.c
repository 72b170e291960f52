/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The contracts of hmreg_mr_try_get() and hmreg_mr_try_put() in rows: what they serve and take back
 * at once, and that each leaves the rest as it is. Neither locks, allocates, reads changes, nor
 * calls a vendor or NIC.
 */
#define FAILING_MALLOC
#include "tests/support/failing_allocation.h"
#include "tests/support/inside.h"
#include "tests/support/table.h"
#include "tests/unit/slow_steps.h"

#include <hmreg/lost.h>
#include <hmreg/suspend.h>

#include <pthread.h>

#define LEN     4096u
#define BEGIN   LEN            /* of what is got in world.host, which has 2 * LEN bytes */
#define NOWHERE UINT64_MAX - 1 /* the address is NULL */
#define BOTH    HMREG_ACCESS_REMOTE

struct args {
    int usual_;
    uint64_t at, len;
    uint64_t access;
    bool no_domain, no_out, device;
    bool debug; /* HMREG_DEBUG=puts */
};

#define PUTS         ARGS(0)
#define CHECKED      ARGS(.debug = true)
#define IN_HOST(...) ARGS(__VA_ARGS__)
#define IT           IN_HOST(BEGIN, 2 * LEN, BOTH)
#define SERVES(key)  RETURNS(key, "")
#define NOTHING      SERVES(0) /* -EAGAIN */
#define TAKEN        RETURNS(true, NULL)
#define LEFT         RETURNS(false, NULL) /* -EAGAIN */
#define LAST_PUT     .domain.policy = HMREG_POLICY_LAST_PUT
#define NO_CACHE     .domain.flags = HMREG_DOMAIN_NO_CACHE
#define EXACT        .domain.flags = HMREG_DOMAIN_EXACT
#define ANY_RIGHTS   .domain.rights = HMREG_RIGHTS_ANY
#define NO_MONITOR   .monitor = HMREG_MONITOR_DISABLED
#define THREE        .as = {.nics = 3, .group = true}

/* ---- what may take long ----------------------------------------------------------------- */

static unsigned slow_steps(void)
{
    return locks + drains + allocations;
}

/* ---- states ----------------------------------------------------------------------------- */

static struct hmreg_mr *held[2];
static unsigned count;

static void put_all(void)
{
    while (count)
        hmreg_mr_put(held[--count]);
}

static void hold(const void *addr, size_t len)
{
    held[count++] = world_get(addr, len);
    test_after(put_all);
}

static void hold_it(void)
{
    hold(world.host + BEGIN, 2 * LEN);
}

static void hold_device(void)
{
    hold(world.gpu[1], LEN);
}

static void hold_twice(void)
{
    hold_it();
    hold(world.host + BEGIN, LEN);
}

static void get_it(void)
{
    hmreg_mr_put(world_get(world.host + BEGIN, 2 * LEN));
}

static void get_parts(void)
{
    get_it();
    assert_int_equal(world_key(world.host + BEGIN + LEN, LEN), 1);
}

static void get_device(void)
{
    assert_int_equal(world_key(world.gpu[1], LEN), 1);
}

static void *get_there(void *unused)
{
    get_it();
    return NULL;
}

static void get_on_a_thread(void)
{
    test_on_a_thread(get_there, NULL);
}

static void get_on_a_thread_and_here(void)
{
    get_on_a_thread();
    get_it();
}

static void *hold_there(void *unused)
{
    hold_it();
    return NULL;
}

static void hold_of_a_thread(void)
{
    test_on_a_thread(hold_there, NULL);
    test_after(put_all);
}

static void hold_of_a_thread_beside(void)
{
    hold_of_a_thread();
    world_key(world.host + 4 * LEN, LEN);
}

static void get_claim(void)
{
    struct hmreg_mr *mr = NULL;

    assert_ok(hmreg_mr_get(world.domain, world.host + BEGIN, 2 * LEN, BOTH | HMREG_GET_HOST, &mr));
    hmreg_mr_put(mr);
}

static void get_exact(void)
{
    struct iovec iov = {world.host + BEGIN, 2 * LEN};
    struct hmreg_mr_attr attr = {.size = sizeof(attr),
                                 .iov = &iov,
                                 .iov_count = 1,
                                 .access = BOTH,
                                 .ordering = HMREG_ORDERING_RELAXED};
    struct hmreg_mr *mr = NULL;

    assert_ok(hmreg_mr_get_attr(world.domain, &attr, 0, &mr));
    hmreg_mr_put(mr);
}

static void change(void)
{
    get_it();
    world_change(world.host + BEGIN, 1);
}

static void change_another(void)
{
    get_it();
    world_change(world.host + 4 * LEN, 1);
}

static void change_another_and_read(void)
{
    change_another();
    world_key(world.host + 5 * LEN, 1);
}

static void flush(void)
{
    get_it();
    assert_ok(hmreg_domain_flush(world.domain));
}

static void end_suspension(void)
{
    assert_ok(hmreg_resume(world.lib, world.host, 3 * LEN, NULL));
}

static void get_and_suspend(void)
{
    get_it();
    assert_ok(hmreg_suspend(world.lib, world.host, 3 * LEN));
    test_after(end_suspension);
}

static void get_and_resume(void)
{
    hold_it();
    assert_ok(hmreg_suspend(world.lib, world.host, 3 * LEN));
    end_suspension();
}

static void get_and_lose(void)
{
    get_it();
    assert_ok(hmreg_domain_lost(world.domain, "gone"));
}

static void hold_and_change(void)
{
    hold_it();
    world_change(world.host + BEGIN, 1);
    assert_int_equal(world_stats().retired, 1); /* which reads it */
}

static void hold_and_suspend(void)
{
    hold_it();
    assert_ok(hmreg_suspend(world.lib, world.host, 3 * LEN));
    test_after(end_suspension);
}

static void hold_and_lose(void)
{
    hold_it();
    assert_ok(hmreg_domain_lost(world.domain, "gone"));
}

/* ---- rows ------------------------------------------------------------------------------- */

static const struct row asked[] = {
    /* whose cause hmreg_mr_get() reports */
    {"domain is NULL", .before = get_it, ARGS(BEGIN, LEN, BOTH, .no_domain = true), NOTHING},
    {"mr is NULL", .before = get_it, ARGS(BEGIN, 2 * LEN, BOTH, .no_out = true), NOTHING},
    {"addr is NULL", .before = get_it, IN_HOST(NOWHERE, LEN, BOTH), NOTHING},
    {"len is 0", .before = get_it, IN_HOST(BEGIN, 0, BOTH), NOTHING},
    {"it wraps", .before = get_it, IN_HOST(BEGIN, SIZE_MAX, BOTH), NOTHING},
    {"access is 0", .before = get_it, IN_HOST(BEGIN, 2 * LEN, 0), NOTHING},
    {"access has an unknown bit", .before = get_it,
     IN_HOST(BEGIN, 2 * LEN, BOTH | UINT64_C(1) << 40), NOTHING},
    {"access has the highest bit", .before = get_it,
     IN_HOST(BEGIN, 2 * LEN, BOTH | UINT64_C(1) << 63), NOTHING},
    {"it is suspended", .before = get_and_suspend, IT, NOTHING},
    {"the domain is lost", .before = get_and_lose, IT, NOTHING},
    {"puts are checked", .before = get_it, ARGS(BEGIN, 2 * LEN, BOTH, .debug = true), NOTHING},

    /* what this thread has had, and where */
    {"nothing was got", IT, NOTHING},
    {"it was got", .before = get_it, IT, SERVES(1)},
    {"it is held", .before = hold_it, IT, SERVES(1)},
    {"another thread got it", .before = get_on_a_thread, IT, NOTHING},
    {"another thread got it, then this one", .before = get_on_a_thread_and_here, IT, SERVES(1)},
    {"a part from its begin", .before = get_it, IN_HOST(BEGIN, 1, BOTH), SERVES(1)},
    {"its last byte, where parts were got", .before = get_parts, IN_HOST(3 * LEN - 1, 1, BOTH),
     SERVES(1)},
    {"a part of an exact domain", .as = {EXACT}, .before = get_it, IN_HOST(BEGIN, LEN, BOTH),
     NOTHING},
    {"all of an exact domain", .as = {EXACT}, .before = get_it, IT, SERVES(1)},
    {"a byte more", .before = get_it, IN_HOST(BEGIN, 2 * LEN + 1, BOTH), NOTHING},
    {"from the byte before it", .before = get_parts, IN_HOST(BEGIN - 1, LEN, BOTH), NOTHING},
    {"the byte after it", .before = get_parts, IN_HOST(3 * LEN, 1, BOTH), NOTHING},
    {"more rights", .before = get_it, IN_HOST(BEGIN, 2 * LEN, BOTH | HMREG_SEND), NOTHING},
    {"more rights, where any do", .as = {ANY_RIGHTS}, .before = get_it,
     IN_HOST(BEGIN, 2 * LEN, BOTH | HMREG_SEND), NOTHING},
    {"fewer rights", .before = get_it, IN_HOST(BEGIN, 2 * LEN, HMREG_REMOTE_READ), NOTHING},
    {"fewer rights, where any do", .as = {ANY_RIGHTS}, .before = get_it,
     IN_HOST(BEGIN, 2 * LEN, HMREG_REMOTE_READ), SERVES(1)},
    {"by a claim that held", .before = get_claim, IN_HOST(BEGIN, 2 * LEN, BOTH | HMREG_GET_HOST),
     SERVES(1)},
    {"of a group", THREE, .before = get_it, IT, SERVES(1)},
    {"attributes that are part of the key", .before = get_exact, IT, NOTHING},

    /* never stale */
    {"its memory has changed", .before = change, IT, NOTHING},
    {"other memory has changed", .before = change_another, IT, NOTHING},
    {"other memory has changed, which a get has read", .before = change_another_and_read, IT,
     SERVES(1)},
    {"it was flushed", .before = flush, IT, NOTHING},
    {"it was suspended", .before = get_and_resume, IT, NOTHING},
    {"hits ask the runtime", .before = get_device, ARGS(0, LEN, BOTH, .device = true), NOTHING},
    {"without a monitor", .as = {NO_MONITOR}, .before = hold_it, IT, NOTHING},
    {"it ends with its last put", .as = {LAST_PUT}, .before = hold_it, IT, NOTHING},
    {"without a cache", .as = {NO_CACHE}, .before = hold_it, IT, NOTHING},
};

static const struct row given[] = {
    {"NULL", PUTS, TAKEN},
    {"it is held", .before = hold_it, PUTS, TAKEN},
    {"it is held twice", .before = hold_twice, PUTS, TAKEN},
    {"device memory", .before = hold_device, PUTS, TAKEN},
    {"of a group", THREE, .before = hold_it, PUTS, TAKEN},
    {"of an exact domain", .as = {EXACT}, .before = hold_it, PUTS, TAKEN},
    {"of an exact domain, its memory has changed", .as = {EXACT}, .before = hold_and_change, PUTS,
     LEFT},
    {"another thread's, nothing was got here", .before = hold_of_a_thread, PUTS, LEFT},
    {"another thread's, another was got here", .before = hold_of_a_thread_beside, PUTS, TAKEN},

    {"its memory has changed", .before = hold_and_change, PUTS, LEFT},
    {"it is suspended", .before = hold_and_suspend, PUTS, LEFT},
    {"it was suspended", .before = get_and_resume, PUTS, LEFT},
    {"its domain is lost", .before = hold_and_lose, PUTS, LEFT},
    {"without a monitor", .as = {NO_MONITOR}, .before = hold_it, PUTS, LEFT},
    {"it ends with its last put", .as = {LAST_PUT}, .before = hold_it, PUTS, LEFT},
    {"without a cache", .as = {NO_CACHE}, .before = hold_it, PUTS, LEFT},
    {"puts are checked", .before = hold_it, CHECKED, LEFT},
};

/* ---- each row --------------------------------------------------------------------------- */

static void open_row(const struct row *row)
{
    const struct args *args = row->args;

    count = 0;
    if (args->debug)
        test_setenv("HMREG_DEBUG", "puts");
    world_open_as(&row->as);
    if (inside_is_fenced(world.domain))
        test_skip("no membarrier(2) here: every put takes the other path");
    if (row->before)
        row->before();
}

static int try_get(const struct row *row)
{
    const struct args *args = row->args;
    const char *base = args->device ? world.gpu[1] : world.host;
    const void *addr = args->at == NOWHERE ? NULL : table_at(base, args->at);
    struct hmreg_domain *domain = args->no_domain ? NULL : world.domain;
    struct hmreg_mr *mr = UNTOUCHED;
    unsigned before = slow_steps();
    int rc = hmreg_mr_try_get(domain, addr, args->len, args->access, args->no_out ? NULL : &mr);

    assert_int_equal(slow_steps(), before);
    table_value(row, rc ? 0 : table_key(mr));
    if (!rc) {
        hmreg_mr_put(mr);
        return 0;
    }
    assert_int_equal(rc, -EAGAIN);
    assert_ptr_equal(mr, UNTOUCHED);
    return 0;
}

/* No thread holds one that was held once and is given back; one that is not is still held. */
static void check_held(struct hmreg_mr *mr, bool taken)
{
    bool is_held = count || !taken;
    unsigned live = world_live(WORLD_EACH);

    assert_ok(hmreg_domain_flush(world.domain));
    assert_int_equal(world_live(WORLD_EACH), is_held ? live : 0);
    if (!taken)
        hmreg_mr_put(mr);
}

static int try_put(const struct row *row)
{
    struct hmreg_mr *mr = count ? held[--count] : NULL;
    unsigned before = slow_steps();
    int rc = hmreg_mr_try_put(mr);

    assert_int_equal(slow_steps(), before);
    assert_string_equal(world_log(), "");
    assert_int_equal(rc, row->value ? 0 : -EAGAIN);
    check_held(mr, !rc);
    return 0;
}

TEST(try_get__each_row)
{
    CHECK_EACH_IN(asked, open_row, try_get);
}

TEST(try_put__each_row)
{
    CHECK_EACH_IN(given, open_row, try_put);
}

TEST_MAIN()
