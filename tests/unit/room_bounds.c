/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * What a registration that finds no room may cost, and what may happen meanwhile: other threads
 * register or close domains, the process forks, the library's thread is stopped.
 */
#define PAGES 4096
#include "tests/support/inside.h"
#include "tests/unit/room_fixture.h"

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

/* Called before a failure names the holders; NULL: none. */
static void (*before_tell)(void);

struct room;
struct room_holders;

void __real_room_tell(const struct room *room, int rc, const struct room_holders *holders);
void __wrap_room_tell(const struct room *room, int rc, const struct room_holders *holders);
void __wrap_room_tell(const struct room *room, int rc, const struct room_holders *holders)
{
    if (before_tell)
        before_tell();
    __real_room_tell(room, rc, holders);
}

/* A fabric that does not return has the library's thread. */
static bool is_stuck;
static unsigned hurries;

struct reaper_client;

bool __real_reaper_hurry(struct reaper_client *client);
bool __wrap_reaper_hurry(struct reaper_client *client);
bool __wrap_reaper_hurry(struct reaper_client *client)
{
    hurries++;
    return !is_stuck && __real_reaper_hurry(client);
}

static void begin(void)
{
    before_tell = NULL;
    is_stuck = false;
    hurries = 0;
    open_lib();
}

static int reg_of(struct hmreg_domain *domain, unsigned first, unsigned pages, struct hmreg_mr **mr)
{
    return hmreg_mr_reg(domain, memory[first], pages * PAGE, HMREG_SEND, 0, 0, 0, mr, NULL);
}

/* ---- other threads ------------------------------------------------------------------------- */

static struct hmreg_mr *held;

/* Its memory has other contents then. */
static void close_first(void)
{
    void *again[64];

    hmreg_mr_put(held);
    assert_ok(hmreg_domain_close(domains[0]));
    domains[0] = NULL;
    for (int i = 0; i < 64; i++) {
        again[i] = malloc(inside_domain_size());
        assert_non_null(again[i]);
        memset(again[i], 'x', inside_domain_size());
    }
    for (int i = 0; i < 64; i++)
        free(again[i]);
}

TEST(reg__another_thread_closes_a_holder__it_is_told_as_it_was)
{
    struct hmreg_mr *mr = NULL;

    begin();
    scarce_limit_locked(4 * PAGE);
    open_domain(0, true);
    open_domain(2, true);
    held = get_of(domains[0], memory[0], 4 * PAGE);
    before_tell = close_first;
    assert_fails(reg_of(domains[2], 8, 2, &mr), -ENOMEM, "of scarce nic0: 1 cached of 16384 bytes");
}

static void name_long(struct hmreg_domain *domain)
{
    char fabric[64] = "", nic[64] = "";

    memset(fabric, 'f', sizeof(fabric) - 1);
    memset(nic, 'n', sizeof(nic) - 1);
    inside_set_names(domain, fabric, nic);
}

TEST(reg__holders_have_long_names__what_to_do_is_not_cut)
{
    struct hmreg_explanation why = {.size = sizeof(why)};
    struct hmreg_mr *mr = NULL, *kept[DOMAINS];

    begin();
    scarce_limit_locked(4 * PAGE);
    for (unsigned i = 0; i < DOMAINS; i++) {
        domains[i] = scarce_open(lib, i / 2, i != 0, NULL);
        name_long(domains[i]);
    }
    for (unsigned i = 1; i < DOMAINS; i++)
        kept[i] = get_of(domains[i], memory[i], PAGE);
    fill(domains[0], 8, 1);
    assert_fails(reg_of(domains[3], 100, 2, &mr), -ENOMEM, "hmreg_domain_progress(): try again");
    assert_ok(hmreg_mr_explain(NULL, &why));
    assert_non_null(strstr(why.room_why, "hmreg_domain_progress(): try again"));
    for (unsigned i = 1; i < DOMAINS; i++)
        hmreg_mr_put(kept[i]);
}

/* Nothing that another thread's registration leaves can help. */
TEST(reg__exceeds_the_limit_while_others_register__fails_at_once)
{
    struct hmreg_mr *mr = NULL;

    begin();
    scarce_limit_locked(4 * PAGE);
    open_domain(0, true);
    inside_add_traffic(1);
    assert_fails(reg_of(domains[0], 0, 5, &mr), -ENOMEM, "RLIMIT_MEMLOCK");
    inside_add_traffic(-1);
    assert_int_equal(atomic_load(&scarce.regs), 1);
}

/* ---- the library's thread ------------------------------------------------------------------ */

TEST(reg__the_librarys_thread_is_stuck__waits_for_it_once)
{
    struct hmreg_mr *mr = NULL;

    begin();
    scarce_limit_locked(16 * PAGE);
    for (unsigned i = 0; i < DOMAINS; i++)
        open_domain(i, true);
    for (unsigned i = 0; i < DOMAINS - 1; i++)
        fill(domains[i], 8 * i, 5);
    is_stuck = true;
    if (!reg_of(domains[3], 100, 12, &mr)) /* the thread was faster */
        assert_ok(hmreg_mr_close(mr));
    assert_int_equal(hurries, 1);
}

/* A region that is held ends with its last put, for which nothing waits. */
TEST(reg__another_domain_has_an_ended_region_that_is_held__does_not_wait_for_it)
{
    struct hmreg_mr *mr = NULL;

    begin();
    scarce_limit_locked(8 * PAGE);
    open_domain(0, true);
    open_domain(2, true);
    held = get_of(domains[0], memory[0], 4 * PAGE);
    assert_ok(hmreg_invalidate(lib, memory[0], PAGE));
    assert_int_equal(reg_of(domains[2], 100, 6, &mr), -ENOMEM);
    assert_true(hurries <= 1);
    hmreg_mr_put(held);
}

/* ---- forks --------------------------------------------------------------------------------- */

static pthread_barrier_t inside, over;

static void stay(void)
{
    atomic_store(&scarce.reg_hook, NULL);
    pthread_barrier_wait(&inside);
    pthread_barrier_wait(&over);
}

static void *register_slowly(void *mr)
{
    return (void *)(intptr_t)reg_of(domains[0], 0, 1, mr);
}

/* How often the child's fabric is asked for a region that has no room. */
static int tries_in_child(void)
{
    struct hmreg_config config = {.size = sizeof(config), .monitor = HMREG_MONITOR_IMPORT};
    struct hmreg_mr *mr = NULL;
    struct hmreg_domain *domain;

    assert_ok(hmreg_open(&config, &lib));
    domain = scarce_open(lib, 0, true, NULL);
    scarce.most_regions = 1;
    atomic_store(&scarce.regions[0], 1);
    atomic_store(&scarce.regs, 0);
    assert_int_equal(reg_of(domain, 0, 1, &mr), -ENOSPC);
    return (int)atomic_load(&scarce.regs);
}

TEST(fork__while_others_register__the_child_does_not_wait_for_them)
{
    struct hmreg_mr *mr = NULL;
    pthread_t thread;
    void *rc;
    int status;
    pid_t child;

    begin();
    open_domain(0, true);
    pthread_barrier_init(&inside, NULL, 2);
    pthread_barrier_init(&over, NULL, 2);
    atomic_store(&scarce.reg_hook, stay);
    assert_int_equal(pthread_create(&thread, NULL, register_slowly, &mr), 0);
    pthread_barrier_wait(&inside);
    child = fork();
    if (!child)
        _exit(tries_in_child());
    assert_int_equal(waitpid(child, &status, 0), child);
    pthread_barrier_wait(&over);
    pthread_join(thread, &rc);
    assert_null(rc);
    assert_ok(hmreg_mr_close(mr));
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 1);
}

/* ---- what did not fit before ----------------------------------------------------------------- */

/* A length that exceeds what is locked says nothing of the NIC's table. */
TEST(reg__another_thing_was_short_for_that_length__idle_ones_give_way)
{
    struct hmreg_mr *mr = NULL, *kept[3] = {NULL};

    begin();
    scarce_limit_locked(16 * PAGE);
    open_domain(0, true);
    open_domain(2, true);
    for (unsigned i = 0; i < 3; i++)
        assert_ok(reg_of(domains[0], 100 + 4 * i, 3, &kept[i]));
    fill(domains[0], 0, 1);
    assert_int_equal(reg_of(domains[0], 8, 8, &mr), -ENOMEM);
    assert_int_equal(regions_of(domains[0]), 0);
    scarce.most_locked = 64 * PAGE;
    fill(domains[0], 0, 1);
    scarce.most_regions = 4;
    assert_ok(reg_of(domains[0], 8, 8, &mr));
    assert_ok(hmreg_mr_close(mr));
    for (unsigned i = 0; i < 3; i++)
        assert_ok(hmreg_mr_close(kept[i]));
}

/* ---- work, which the library counts in debug builds only (core/base/work.h) ------------------ */

#ifndef NDEBUG

/* Two turns of the cache's hand, of which the first one takes second chances. */
TEST(get__all_regions_are_held__each_is_looked_at_twice)
{
    static struct hmreg_mr *all[PAGES - 1];
    struct hmreg_mr *mr = NULL;
    unsigned long before, after;

    begin();
    open_domain(0, true);
    open_domain(2, true);
    scarce.most_regions = PAGES - 1;
    for (unsigned i = 0; i < PAGES - 1; i++)
        all[i] = get_of(domains[0], memory[i], PAGE);
    assert_true(inside_steps(&before));
    assert_int_equal(reg_of(domains[0], PAGES - 1, 1, &mr), -ENOSPC);
    assert_true(inside_steps(&after));
    assert_true(after - before < 3 * PAGES);
    for (unsigned i = 0; i < PAGES - 1; i++)
        hmreg_mr_put(all[i]);
}
#endif

TEST_MAIN()
