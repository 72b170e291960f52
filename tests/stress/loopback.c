/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 * Loopback with many peers at once: regions and domains are closed while peers write to them, from
 * this process and from others; with forks meanwhile. */
#include "tests/support/test.h"

#include <hmreg/loopback.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/wait.h>

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
static void assert_still(const struct fixture *fixture, const atomic_int *refused, int writers)
{
    char *seen = malloc(BYTES);

    memcpy(seen, fixture->memory, BYTES);
    for (int i = 0; i < writers; i++) {
        int before = atomic_load(&refused[i]);

        while (atomic_load(&refused[i]) == before)
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
        assert_still(&fixture, fixture.refused, THREADS);
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
        assert_still(&fixture, fixture.refused, THREADS);
        atomic_store(&fixture.stop, 1);
        for (int i = 0; i < THREADS; i++)
            assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_fails(hmreg_loopback_write(fixture.remote, "x", 1, NULL, 0, KEY), -EHOSTUNREACH,
                     "closed");
        close_fixture(&fixture);
    }
}

/* ---- other processes -------------------------------------------------------------------- */

/* Peers are forked before this process has threads, and wait for the token. */
struct shared {
    uint8_t token[4096];
    size_t size;
    atomic_int ready;
    atomic_int written, refused;
};

static struct shared *share(void)
{
    struct shared *shared =
        mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    assert_ptr_not_equal(shared, MAP_FAILED);
    return shared;
}

static void publish(struct shared *shared, const struct fixture *fixture)
{
    memcpy(shared->token, fixture->token, fixture->size);
    shared->size = fixture->size;
    atomic_store(&shared->ready, 1);
}

static int status_of(pid_t pid)
{
    int status = -1;

    return waitpid(pid, &status, 0) == pid && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static int peer_open(struct shared *shared, struct fixture *peer)
{
    while (!atomic_load(&shared->ready))
        sched_yield();
    memset(peer, 0, sizeof(*peer));
    if (hmreg_open(NULL, &peer->lib) ||
        hmreg_domain_open_loopback(peer->lib, NULL, NULL, &peer->initiator))
        return 1;
    return hmreg_remote_open(peer->initiator, shared->token, shared->size, &peer->remote) ? 2 : 0;
}

static int peer_close(struct fixture *peer)
{
    hmreg_remote_close(peer->remote);
    return hmreg_domain_close(peer->initiator) || hmreg_close(peer->lib) ? 3 : 0;
}

/* Writes until the target ends; expects that the region is absent at times. */
static int write_from_afar(struct shared *shared)
{
    char *bytes = malloc(BYTES);
    struct fixture peer;
    int rc = peer_open(shared, &peer);

    for (int i = 1; !rc; i++) {
        memset(bytes, i, BYTES);
        rc = hmreg_loopback_write(peer.remote, bytes, BYTES, NULL, 0, KEY);
        if (!rc) {
            atomic_fetch_add(&shared->written, 1);
        } else if (rc == -EKEYREJECTED) {
            atomic_fetch_add(&shared->refused, 1);
            rc = 0;
        }
    }
    free(bytes);
    return rc == -EHOSTUNREACH ? peer_close(&peer) : 10;
}

TEST(close_region__while_a_process_writes__no_byte_changes_after)
{
    struct shared *shared = share();
    struct fixture fixture;
    pid_t child = test_fork();

    if (child == 0)
        _exit(write_from_afar(shared));
    open_fixture(&fixture);
    publish(shared, &fixture);
    for (int round = 0; round < 30; round++) {
        int until = atomic_load(&shared->written) + 1;

        while (atomic_load(&shared->written) < until)
            sched_yield();
        assert_ok(hmreg_mr_close(fixture.mr));
        assert_still(&fixture, &shared->refused, 1);
        reg(&fixture);
    }
    assert_ok(hmreg_mr_close(fixture.mr));
    assert_ok(hmreg_domain_close(fixture.target));
    assert_int_equal(status_of(child), 0);
    close_fixture(&fixture);
    munmap(shared, sizeof(*shared));
}

/* The initiator has a copy of the target's sockets, so no end of file reports that the domain is
 * closed: connections not yet accepted are refused. */
TEST(close_domain__a_forked_child_writes__it_gets_an_error)
{
    struct shared *shared = share();
    struct fixture fixture;
    pid_t child;

    test_forks_with_threads();
    open_fixture(&fixture);
    publish(shared, &fixture);
    child = test_fork();
    if (child == 0)
        _exit(write_from_afar(shared));
    while (atomic_load(&shared->written) < 2)
        sched_yield();
    assert_ok(hmreg_mr_close(fixture.mr));
    assert_ok(hmreg_domain_close(fixture.target));
    assert_int_equal(status_of(child), 0);
    close_fixture(&fixture);
    munmap(shared, sizeof(*shared));
}

#define PROCESSES 24
#define SHARE     (BYTES / PROCESSES)

/* Writes its own slice and reads it back, repeatedly, concurrently with all others. */
static int keep_share(struct shared *shared, int index)
{
    char out[SHARE], in[SHARE];
    uint64_t at = (uint64_t)index * SHARE;
    struct fixture peer;
    int rc = peer_open(shared, &peer);

    for (int i = 0; i < 40 && !rc; i++) {
        size_t len = SHARE - (size_t)(i * 37 % 1000);

        memset(out, index * 5 + i, sizeof(out));
        rc = hmreg_loopback_write(peer.remote, out, len, NULL, at, KEY);
        rc = rc ? rc : hmreg_loopback_read(peer.remote, in, len, NULL, at, KEY);
        if (!rc && memcmp(in, out, len))
            return 11;
    }
    return rc ? 12 : peer_close(&peer);
}

TEST(many_processes__each_keeps_its_share)
{
    struct shared *shared = share();
    pid_t children[PROCESSES];
    struct fixture fixture;

    for (int i = 0; i < PROCESSES; i++) {
        children[i] = test_fork();
        if (children[i] == 0)
            _exit(keep_share(shared, i));
    }
    open_fixture(&fixture);
    publish(shared, &fixture);
    for (int i = 0; i < PROCESSES; i++)
        assert_int_equal(status_of(children[i]), 0);
    assert_ok(hmreg_mr_close(fixture.mr));
    assert_ok(hmreg_domain_close(fixture.target));
    for (int i = 0; i < PROCESSES; i++)
        assert_int_equal(fixture.memory[i * SHARE], (char)(i * 5 + 39));
    close_fixture(&fixture);
    munmap(shared, sizeof(*shared));
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

TEST(fork__while_threads_write__child_continues)
{
    pthread_t threads[THREADS];
    static struct fixture fixture;

    test_forks_with_threads();
    open_fixture(&fixture);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, write_on, &fixture), 0);
    while (atomic_load(&fixture.writers) < THREADS)
        sched_yield(); /* until each has allocated: AddressSanitizer does not support concurrent
                          forks */
    for (int round = 0; round < 60; round++) {
        pid_t child = test_fork();

        if (child == 0)
            _exit(live_alone());
        assert_int_equal(status_of(child), 0);
    }
    atomic_store(&fixture.stop, 1);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_ok(hmreg_mr_close(fixture.mr));
    assert_ok(hmreg_domain_close(fixture.target));
    close_fixture(&fixture);
}

TEST_MAIN()
