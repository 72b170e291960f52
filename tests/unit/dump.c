/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The contents of a dump of a domain's caches, which calls the visitor without a lock.
 */
#include "tests/support/cache_fixture.h"
#include "tests/support/vendors.h"

#include <pthread.h>
#include <semaphore.h>
#include <sys/mman.h>

#define LEN 4096

static char memory[128][LEN];

static void open_fixture(uint64_t max_regions)
{
    struct hmreg_domain_config config = {.size = sizeof(config), .max_regions = max_regions};

    vendors_reset();
    fixture_open(HMREG_MONITOR_IMPORT, &config);
}

/* ---- checks of a dump ------------------------------------------------------------------- */

#define MOST 256

struct shown {
    unsigned count;
    struct hmreg_entry_info entries[MOST];
};

static int keep(const struct hmreg_entry_info *entry, void *context)
{
    struct shown *shown = context;

    assert_int_equal(entry->size, sizeof(*entry));
    assert_true(shown->count < MOST);
    shown->entries[shown->count++] = *entry;
    return 0;
}

static struct shown *dump(void)
{
    static struct shown shown;

    shown.count = 0;
    assert_ok(hmreg_domain_dump(fixture.domain, keep, &shown));
    return &shown;
}

/* The only entry that begins there. */
static const struct hmreg_entry_info *entry_at(const struct shown *shown, const void *addr)
{
    const struct hmreg_entry_info *found = NULL;

    for (unsigned i = 0; i < shown->count; i++) {
        if (shown->entries[i].addr != (uintptr_t)addr)
            continue;
        assert_null(found);
        found = &shown->entries[i];
    }
    assert_non_null(found);
    return found;
}

/* ---- entries ---------------------------------------------------------------------------- */

TEST(dump__nothing_cached__nothing_shown)
{
    open_fixture(0);
    assert_int_equal(dump()->count, 0);
    fixture_key(memory[0], LEN);
    assert_ok(hmreg_domain_flush(fixture.domain));
    assert_int_equal(dump()->count, 0);
}

/* No get has seen the change yet. */
TEST(dump__memory_unmapped_since_the_last_get__not_live)
{
    char *mapped = fixture_map(1);
    const struct shown *shown;

    fixture_open_hooked();
    fixture_key(mapped, LEN);
    assert_int_equal(entry_at(dump(), mapped)->state, HMREG_ENTRY_LIVE);
    munmap(mapped, fixture_page());
    shown = dump();
    assert_true(!shown->count || shown->entries[0].state != HMREG_ENTRY_LIVE);
}

static void *use_first(void *unused)
{
    fixture_key(memory[0], LEN);
    return NULL;
}

TEST(dump__unused__until_a_hit_and_after_eviction_passed_it)
{
    open_fixture(4);
    for (unsigned i = 0; i < 4; i++)
        fixture_key(memory[i], LEN);
    assert_int_equal(entry_at(dump(), memory[0])->unused, 1);
    fixture_key(memory[0], LEN); /* a hit */
    assert_int_equal(entry_at(dump(), memory[0])->unused, 0);
    fixture_key(memory[4], LEN); /* spares the first, evicts the second */
    assert_int_equal(entry_at(dump(), memory[0])->unused, 1);
    assert_int_equal(dump()->count, 4);
    test_on_a_thread(use_first, NULL); /* it found the region in the tree */
    assert_int_equal(entry_at(dump(), memory[0])->unused, 0);
    assert_int_equal(fixture_key(memory[0], LEN), 1);
}

TEST(dump__invalidated_and_uncached_in_use__ended)
{
    struct hmreg_mr *retired, *first, *second, *uncached;

    open_fixture(2);
    retired = fixture_get(memory[0], LEN);
    assert_ok(hmreg_invalidate(fixture.lib, memory[0], 1));
    first = fixture_get(memory[1], LEN);
    second = fixture_get(memory[2], LEN);
    uncached = fixture_get(memory[3], LEN); /* all that the limit allows is in use */
    assert_int_equal(dump()->count, 4);
    assert_int_equal(entry_at(dump(), memory[0])->state, HMREG_ENTRY_UNCACHED);
    assert_int_equal(entry_at(dump(), memory[0])->pins, 1);
    assert_int_equal(entry_at(dump(), memory[0])->key, 1);
    assert_int_equal(entry_at(dump(), memory[1])->state, HMREG_ENTRY_LIVE);
    assert_int_equal(entry_at(dump(), memory[3])->state, HMREG_ENTRY_UNCACHED);
    assert_int_equal(entry_at(dump(), memory[3])->pins, 1);
    hmreg_mr_put(retired);
    hmreg_mr_put(uncached);
    assert_int_equal(dump()->count, 2);
    hmreg_mr_put(first);
    hmreg_mr_put(second);
}

TEST(dump__more_than_a_batch__each_once)
{
    struct shown *shown;

    open_fixture(0);
    for (unsigned i = 0; i < 128; i++)
        fixture_key(memory[i], LEN);
    for (unsigned i = 0; i < 128; i += 2) /* and holes */
        assert_ok(hmreg_invalidate(fixture.lib, memory[i], 1));
    assert_ok(hmreg_domain_progress(fixture.domain)); /* which deregisters them */
    shown = dump();
    assert_int_equal(shown->count, 64);
    for (unsigned i = 1; i < 128; i += 2)
        assert_int_equal(entry_at(shown, memory[i])->state, HMREG_ENTRY_LIVE);
}

/* ---- the visitor ------------------------------------------------------------------------ */

/* Calls every function on the caches that are being dumped. */
static int use_the_library(const struct hmreg_entry_info *entry, void *context)
{
    struct hmreg_stats stats = {.size = sizeof(stats)};
    unsigned *count = context;

    fixture_key(memory[100 + *count % 20], LEN);
    assert_ok(hmreg_domain_stats(fixture.domain, &stats));
    assert_ok(hmreg_invalidate(fixture.lib, (void *)(uintptr_t)entry->addr, 1));
    if (++*count % 10 == 0)
        assert_ok(hmreg_domain_flush(fixture.domain));
    return *count == 60; /* the entries that it gets may come after the last one, again and again */
}

TEST(visit__calls_the_library__no_deadlock)
{
    unsigned count = 0;

    open_fixture(0);
    for (unsigned i = 0; i < 90; i++)
        fixture_key(memory[i], LEN);
    assert_in_range(hmreg_domain_dump(fixture.domain, use_the_library, &count), 0, 1);
    assert_true(count >= 32);
}

TEST(visit__null__lines_on_stderr)
{
    char text[4096] = "";
    int file = memfd_create("stderr", MFD_CLOEXEC), before = dup(STDERR_FILENO);

    open_fixture(0);
    fixture_key(memory[0], LEN);
    dup2(file, STDERR_FILENO);
    assert_int_equal(hmreg_domain_dump(fixture.domain, NULL, NULL), 0);
    dup2(before, STDERR_FILENO);
    close(before);
    assert_true(pread(file, text, sizeof(text) - 1, 0) > 0);
    close(file);
    assert_non_null(strstr(text, "system -1 system 0x"));
    assert_non_null(strstr(text, "+4096 access 0x3000 live pins 0 unused 1 identity 0 key 0x1\n"));
}

/* ---- during a registration -------------------------------------------------------------- */

static sem_t reached, go_on;

static void stop_here(const struct provider_request *request)
{
    sem_post(&reached);
    sem_wait(&go_on);
}

static void *get_it(void *arg)
{
    fixture_key_in(arg, memory[0], LEN);
    return NULL;
}

TEST(dump__during_a_registration__pending)
{
    const struct hmreg_entry_info *entry;
    pthread_t thread;

    open_fixture(0);
    sem_init(&reached, 0, 0);
    sem_init(&go_on, 0, 0);
    counter.reg_hook = stop_here;
    assert_int_equal(pthread_create(&thread, NULL, get_it, &fixture), 0);
    sem_wait(&reached);
    entry = entry_at(dump(), memory[0]);
    assert_int_equal(entry->state, HMREG_ENTRY_PENDING);
    assert_int_equal(entry->path, HMREG_PATH_NONE);
    assert_true(entry->key == HMREG_KEY_NOTAVAIL);
    assert_int_equal(entry->pins, 1);
    sem_post(&go_on);
    pthread_join(thread, NULL);
    assert_int_equal(entry_at(dump(), memory[0])->state, HMREG_ENTRY_LIVE);
}

/* ---- during changes --------------------------------------------------------------------- */

static atomic_bool stop;

static void *churn(void *arg)
{
    for (unsigned i = 0; !atomic_load(&stop); i = (i * 5 + 1) % 128) {
        fixture_key_in(arg, memory[i], LEN);
        if (i % 16 == 0)
            assert_ok(hmreg_invalidate(((struct fixture *)arg)->lib, memory[i], LEN));
    }
    return NULL;
}

static int check(const struct hmreg_entry_info *entry, void *context)
{
    assert_in_range(entry->addr, (uintptr_t)memory, (uintptr_t)memory + sizeof(memory) - LEN);
    assert_int_equal(entry->len, LEN);
    assert_int_equal(entry->access, HMREG_ACCESS_REMOTE);
    assert_in_range(entry->state, HMREG_ENTRY_PENDING, HMREG_ENTRY_UNCACHED);
    if (entry->state == HMREG_ENTRY_LIVE)
        assert_int_equal(entry->path, HMREG_PATH_SYSTEM);
    return 0;
}

TEST(dump__while_threads_get_and_invalidate__sane)
{
    pthread_t threads[2];

    open_fixture(40);
    atomic_store(&stop, false);
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, churn, &fixture), 0);
    for (int i = 0; i < 300; i++)
        assert_ok(hmreg_domain_dump(fixture.domain, check, NULL));
    atomic_store(&stop, true);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
}

TEST_MAIN()
