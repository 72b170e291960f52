/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 * Loopback with many peers at once: regions and domains are closed while peers write to them; with
 * forks meanwhile. */
#include "tests/support/test.h"

#include <hmreg/loopback.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#define BYTES   100000
#define KEY     7
#define THREADS 3
#define SLICE   (BYTES / THREADS)

/* Static in cases with threads, which use it still when the case has failed. */
struct fixture {
    struct hmreg *lib;
    struct hmreg_domain *target, *initiator;
    char *memory;
    struct hmreg_mr *mr;
    uint8_t token[4096];
    size_t size;
    struct hmreg_remote *remote;
    atomic_int stop;
    atomic_int writers;
    atomic_int written; /* writes that arrived */
    atomic_int odd;     /* unexpected results */
    atomic_int refused[THREADS];
};

static void reg(struct fixture *fixture)
{
    assert_ok(hmreg_mr_reg(fixture->target, fixture->memory, BYTES, HMREG_ACCESS_REMOTE, 0, KEY, 0,
                           &fixture->mr, NULL));
}

static void open_fixture(struct fixture *fixture)
{
    memset(fixture, 0, sizeof(*fixture));
    fixture->size = sizeof(fixture->token);
    fixture->memory = calloc(1, BYTES);
    assert_ok(hmreg_open(NULL, &fixture->lib));
    assert_ok(hmreg_domain_open_loopback(fixture->lib, NULL, NULL, &fixture->target));
    assert_ok(hmreg_domain_open_loopback(fixture->lib, NULL, NULL, &fixture->initiator));
    reg(fixture);
    assert_ok(hmreg_mr_pack(fixture->mr, fixture->token, &fixture->size));
    assert_ok(
        hmreg_remote_open(fixture->initiator, fixture->token, fixture->size, &fixture->remote));
}

static void close_fixture(struct fixture *fixture)
{
    hmreg_remote_close(fixture->remote);
    assert_ok(hmreg_domain_close(fixture->initiator));
    assert_ok(hmreg_close(fixture->lib));
    assert_int_equal(atomic_load(&fixture->odd), 0);
    free(fixture->memory);
}

/* Fills a slice of the region with one byte value after the other, until stopped. */
static void *write_on(void *arg)
{
    struct fixture *fixture = arg;
    char *bytes = malloc(SLICE);
    int self = atomic_fetch_add(&fixture->writers, 1), rc;

    for (int i = 1; !atomic_load(&fixture->stop); i++) {
        memset(bytes, i, SLICE);
        rc = hmreg_loopback_write(fixture->remote, bytes, SLICE, NULL, (uint64_t)self * SLICE, KEY);
        if (!rc)
            atomic_fetch_add(&fixture->written, 1);
        else if (rc == -EKEYREJECTED || rc == -EHOSTUNREACH)
            atomic_fetch_add(&fixture->refused[self], 1);
        else
            atomic_store(&fixture->odd, rc);
    }
    free(bytes);
    return NULL;
}

/* Waits until so many more writes have arrived. */
static void await_writes(struct fixture *fixture, int more)
{
    int until = atomic_load(&fixture->written) + more;

    while (atomic_load(&fixture->written) < until)
        sched_yield();
}

/* The region or its domain is closed. A writer that is refused has no earlier write in progress. */
static void assert_still(const struct fixture *fixture)
{
    char *seen = malloc(BYTES);

    memcpy(seen, fixture->memory, BYTES);
    for (int i = 0; i < THREADS; i++) {
        int before = atomic_load(&fixture->refused[i]);

        while (atomic_load(&fixture->refused[i]) == before)
            sched_yield();
    }
    assert_memory_equal(fixture->memory, seen, BYTES);
    free(seen);
}

TEST(close_region__while_threads_write__no_byte_changes_after)
{
    pthread_t threads[THREADS];
    static struct fixture fixture;

    open_fixture(&fixture);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, write_on, &fixture), 0);
    for (int round = 0; round < 60; round++) {
        await_writes(&fixture, 2);
        assert_ok(hmreg_mr_close(fixture.mr));
        assert_still(&fixture);
        reg(&fixture);
    }
    atomic_store(&fixture.stop, 1);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_ok(hmreg_mr_close(fixture.mr));
    assert_ok(hmreg_domain_close(fixture.target));
    close_fixture(&fixture);
}

TEST(close_domain__while_threads_write__they_get_errors)
{
    pthread_t threads[THREADS];
    static struct fixture fixture;

    for (int round = 0; round < 10; round++) {
        open_fixture(&fixture);
        for (int i = 0; i < THREADS; i++)
            assert_int_equal(pthread_create(&threads[i], NULL, write_on, &fixture), 0);
        await_writes(&fixture, 2);
        assert_ok(hmreg_mr_close(fixture.mr));
        assert_ok(hmreg_domain_close(fixture.target));
        assert_still(&fixture);
        atomic_store(&fixture.stop, 1);
        for (int i = 0; i < THREADS; i++)
            assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_fails(hmreg_loopback_write(fixture.remote, "x", 1, NULL, 0, KEY), -EHOSTUNREACH,
                     "closed");
        close_fixture(&fixture);
    }
}

/* ---- forks ------------------------------------------------------------------------------ */

/* The child opens a library, domain and region of its own, and accesses it itself. */
static int live_alone(void)
{
    static struct fixture fixture;

    open_fixture(&fixture);
    if (hmreg_loopback_write(fixture.remote, "x", 1, NULL, 0, KEY) || fixture.memory[0] != 'x')
        return 1;
    if (hmreg_mr_close(fixture.mr) || hmreg_domain_close(fixture.target))
        return 2;
    close_fixture(&fixture);
    return 0;
}

/* Of no region: nearly all of its time it looks for the peer's domain and the region. */
static void *knock_on(void *arg)
{
    struct fixture *fixture = arg;

    atomic_fetch_add(&fixture->writers, 1);
    while (!atomic_load(&fixture->stop))
        if (hmreg_loopback_write(fixture->remote, "x", 1, NULL, 0, KEY + 1) != -EKEYREJECTED)
            atomic_store(&fixture->odd, 1);
    return NULL;
}

TEST(fork__while_threads_write__child_continues)
{
    pthread_t threads[THREADS];
    static struct fixture fixture;

    test_forks_with_threads();
    open_fixture(&fixture);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, i ? knock_on : write_on, &fixture), 0);
    while (atomic_load(&fixture.writers) < THREADS)
        sched_yield(); /* until each has allocated: AddressSanitizer does not support concurrent
                          forks */
    for (int round = 0; round < 60; round++) {
        pid_t child = test_fork();

        if (child == 0)
            _exit(live_alone());
        test_await(child);
    }
    atomic_store(&fixture.stop, 1);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_ok(hmreg_mr_close(fixture.mr));
    assert_ok(hmreg_domain_close(fixture.target));
    close_fixture(&fixture);
}

TEST_MAIN()
