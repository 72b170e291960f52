/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Threads get, put, register, close, suspend and resume while a member of their group is withdrawn
 * and replaced, over and over. No thread meets a key of a NIC that is out of the group, and each
 * NIC is called for its own registrations only, once for each.
 */
/* A provider's call: what hmreg_window_open() asks for, without a window of verbs. */
#include "core/contract/provider.h"

#include "tests/support/nics.h"

#include <errno.h>
#include <hmreg/suspend.h>

#define RAILS   3
#define LEN     4096
#define BUFFERS 16
#define THREADS 3
#define ROUNDS  (TEST_TSAN ? 60 : 100)

static char memory[BUFFERS][LEN] __attribute__((aligned(LEN)));
static char apart[2][LEN] __attribute__((aligned(LEN))); /* suspended and resumed */
static struct hmreg_mr *apart_mr[2];                     /* cached, explicit */
static struct hmreg *lib;
static struct hmreg_domain *group;
static atomic_bool stop;

/* The rails that stay are there, with their own NIC's registration. */
static void check(const struct hmreg_mr *mr)
{
    for (size_t i = 0; i < RAILS; i += 2) {
        struct hmreg_mr *rail = hmreg_mr_rail(mr, i);

        assert_non_null(rail);
        assert_ptr_equal(hmreg_mr_head_of(rail)->keys->native, &nics[i]);
    }
    hmreg_mr_rail(mr, 1); /* there or not */
}

/* With so many suspensions a call may return -EAGAIN, although none was of its memory. */
static struct hmreg_mr *get(void *addr)
{
    struct hmreg_mr *mr = NULL;
    int rc;

    while ((rc = hmreg_mr_get(group, addr, LEN, HMREG_ACCESS_REMOTE, &mr)) == -EAGAIN)
        ;
    assert_ok(rc);
    return mr;
}

static struct hmreg_mr *reg(void *addr)
{
    struct hmreg_mr *mr = NULL;
    int rc;

    while ((rc = hmreg_mr_reg(group, addr, LEN, HMREG_ACCESS_ALL, 0, 0, 0, &mr, NULL)) == -EAGAIN)
        ;
    assert_ok(rc);
    return mr;
}

static void *work(void *argument)
{
    unsigned random = (unsigned)(uintptr_t)argument;

    while (!atomic_load(&stop)) {
        struct hmreg_mr *got, *made;

        random = random * 1103515245 + 12345;
        got = get(memory[random >> 16 & (BUFFERS - 1)]);
        check(got);
        if (!(random >> 20 & 7)) {
            made = reg(memory[0]);
            check(made);
            assert_ok(hmreg_mr_close(made));
        }
        hmreg_mr_put(got);
    }
    return NULL;
}

static void *suspend_often(void *argument)
{
    while (!atomic_load(&stop)) {
        assert_ok(hmreg_suspend(lib, apart, sizeof(apart)));
        assert_ok(hmreg_domain_progress(group));
        assert_ok(hmreg_resume(lib, apart, sizeof(apart), NULL));
        for (int i = 0; i < 2; i++)
            check(apart_mr[i]);
    }
    return NULL;
}

/* Each word of the rail's keys is the old registration's, none, or the new one's. */
static void *read_often(void *argument)
{
    const struct hmreg_mr *rail = argument;

    while (!atomic_load(&stop)) {
        struct hmreg_piece_info piece = {.size = sizeof(piece)};
        struct hmreg_mr_info info = {.size = sizeof(info)};
        uint64_t key = hmreg_mr_key(rail);

        assert_true(key == HMREG_KEY_NOTAVAIL || (key >= 100 && key < atomic_load(&nics_keys)));
        assert_null(hmreg_mr_desc(rail));
        assert_ok(hmreg_mr_query(rail, &info));
        assert_int_equal(info.len, LEN);
        if (!hmreg_mr_piece(rail, 0, &piece))
            assert_true(!piece.native || piece.native == &nics[1] || piece.native == &nics[5]);
    }
    return NULL;
}

/* As hmreg_window_open(): the registration is of the NIC that gets the call. */
static void *look_often(void *argument)
{
    const struct hmreg_mr *rail = argument;
    struct provider_subrange window;

    while (!atomic_load(&stop))
        if (!hmreg_mr_subrange(rail, "nic", memory[3], LEN, &window))
            assert_ptr_equal(window.native, window.self);
    return NULL;
}

static void replace_often(const struct hmreg_mr *held)
{
    struct hmreg_domain *in = nics[1].domain, *out = nics[5].domain;

    for (int i = 0; i < ROUNDS; i++) {
        struct hmreg_domain *before = in;
        struct hmreg_mr *mr;

        assert_ok(hmreg_group_withdraw(group, 1, "a round"));
        assert_null(hmreg_mr_rail(held, 1));
        mr = get(memory[i % BUFFERS]);
        assert_null(hmreg_mr_rail(mr, 1));
        hmreg_mr_put(mr);
        assert_ok(hmreg_group_replace(group, 1, out));
        in = out;
        out = before;
        nic_replaced(group, 1);
        assert_non_null(hmreg_mr_rail(held, 1));
        assert_ptr_equal(hmreg_mr_head_of(hmreg_mr_rail(held, 1))->keys->native,
                         &nics[in == nics[1].domain ? 1 : 5]);
    }
}

TEST(withdraw_and_replace__under_gets_puts_and_closes)
{
    struct hmreg_config config = {.size = sizeof(config), .monitor = HMREG_MONITOR_IMPORT};
    struct hmreg_domain *members[RAILS];
    struct hmreg_mr *held;
    pthread_t threads[THREADS], suspends, reads, looks;

    assert_ok(hmreg_open(&config, &lib));
    for (unsigned i = 0; i < RAILS; i++)
        members[i] = nic_open(lib, i);
    nic_open(lib, 5);
    assert_ok(hmreg_group_open(lib, members, RAILS, NULL, &group));
    held = get(memory[3]);
    apart_mr[0] = get(apart[0]);
    apart_mr[1] = reg(apart[1]);
    assert_int_equal(pthread_create(&suspends, NULL, suspend_often, NULL), 0);
    assert_int_equal(pthread_create(&reads, NULL, read_often, hmreg_mr_rail(held, 1)), 0);
    assert_int_equal(pthread_create(&looks, NULL, look_often, hmreg_mr_rail(held, 1)), 0);
    for (uintptr_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, work, (void *)(i + 1)), 0);
    replace_often(held);
    atomic_store(&stop, true);
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    pthread_join(suspends, NULL);
    pthread_join(reads, NULL);
    pthread_join(looks, NULL);
    for (int i = 0; i < 2; i++) /* also if resumed while the last replacement ran */
        assert_non_null(hmreg_mr_rail(apart_mr[i], 1));
    hmreg_mr_put(apart_mr[0]);
    assert_ok(hmreg_mr_close(apart_mr[1]));
    hmreg_mr_put(held);
    assert_ok(hmreg_domain_close(group));
    for (unsigned i = 0; i < NICS_MOST; i++) {
        if (nics[i].domain)
            assert_ok(hmreg_domain_close(nics[i].domain));
        assert_int_equal(atomic_load(&nics[i].regs), atomic_load(&nics[i].deregs));
    }
    assert_ok(hmreg_close(lib));
}

TEST_MAIN()
