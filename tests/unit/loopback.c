/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 * The loopback provider: the desc that local memory needs, and a peer in another process.
 * tests/conformance has the semantics of regions. */
#include "tests/support/test.h"

#include <hmreg/loopback.h>
#include <malloc.h>
#include <pthread.h>

static struct fixture {
    struct hmreg *lib;
    struct hmreg_domain *domain;
    char *memory;
    struct hmreg_mr *mr;
    struct hmreg_remote *remote;
} fixture;

#define BYTES 300000

static void close_fixture(void)
{
    hmreg_remote_close(fixture.remote);
    assert_ok(hmreg_mr_close(fixture.mr));
    assert_ok(hmreg_domain_close(fixture.domain));
    assert_ok(hmreg_close(fixture.lib));
    free(fixture.memory);
}

static void open_fixture(uint32_t mr_mode)
{
    struct hmreg_loopback_config loopback = {.size = sizeof(loopback), .mr_mode = mr_mode};
    char token[4096];
    size_t size = sizeof(token);

    test_after(close_fixture);
    assert_ok(hmreg_open(NULL, &fixture.lib));
    assert_ok(hmreg_domain_open_loopback(fixture.lib, &loopback, NULL, &fixture.domain));
    fixture.memory = calloc(1, BYTES);
    assert_ok(hmreg_mr_reg(fixture.domain, fixture.memory, BYTES, HMREG_ACCESS_REMOTE, 0, 77, 0,
                           &fixture.mr, NULL));
    assert_ok(hmreg_mr_pack(fixture.mr, token, &size));
    assert_ok(hmreg_remote_open(fixture.domain, token, size, &fixture.remote));
}

TEST(rma__wrong_arguments__inval)
{
    char byte = 'x';
    uint64_t addr, key;

    open_fixture(0);
    assert_ok(hmreg_remote_addr(fixture.remote, 0, 1, &addr, &key));
    assert_fails(hmreg_loopback_write(NULL, &byte, 1, NULL, addr, key), -EINVAL, "remote is NULL");
    assert_fails(hmreg_loopback_write(fixture.remote, NULL, 1, NULL, addr, key), -EINVAL, "local");
    assert_fails(hmreg_loopback_read(fixture.remote, &byte, 0, NULL, addr, key), -EINVAL, "local");
    assert_fails(hmreg_loopback_read(fixture.remote, &byte, SIZE_MAX, NULL, addr, key), -EINVAL,
                 "local");
}

TEST(rma__local_mode_without_desc__inval)
{
    struct hmreg_mr *local;
    uint64_t addr, key;
    char byte = 'x';

    open_fixture(HMREG_MR_LOCAL);
    assert_ok(hmreg_remote_addr(fixture.remote, 9, 1, &addr, &key));
    assert_fails(hmreg_loopback_write(fixture.remote, &byte, 1, NULL, addr, key), -EINVAL,
                 "desc is NULL");
    assert_fails(hmreg_loopback_write(fixture.remote, &byte, 1, &byte, addr, key), -EINVAL,
                 "not of an open, enabled region");
    assert_ok(hmreg_mr_reg(fixture.domain, &byte, 1, HMREG_WRITE, 0, 0, 0, &local, NULL));
    assert_ok(hmreg_loopback_write(fixture.remote, &byte, 1, hmreg_mr_desc(local), addr, key));
    assert_int_equal(fixture.memory[9], 'x');
    assert_fails(hmreg_loopback_read(fixture.remote, &byte, 1, hmreg_mr_desc(local), addr, key),
                 -EINVAL, "HMREG_READ");
    assert_ok(hmreg_mr_close(local));
}

/* The child has its own library, and of the parent only the token. */
static int peer_process(const void *token, size_t size)
{
    /* No monitor, which would be a thread: ThreadSanitizer does not support those in a forked
     * child. */
    struct hmreg_config config = {.size = sizeof(config), .monitor = HMREG_MONITOR_DISABLED};
    char big[200000], byte = 'y';
    struct hmreg_domain *domain;
    struct hmreg_remote *remote;
    struct hmreg *lib;
    uint64_t addr, key;

    memset(big, 'p', sizeof(big));
    if (hmreg_open(&config, &lib) || hmreg_domain_open_loopback(lib, NULL, NULL, &domain))
        return 1;
    if (hmreg_remote_open(domain, token, size, &remote))
        return 2;
    if (hmreg_last_error()->code ==
        -EPERM) /* the parent's domain answers so in our copy of the memory */
        return 9;
    if (hmreg_remote_addr(remote, 3, sizeof(big), &addr, &key) ||
        hmreg_loopback_write(remote, big, sizeof(big), NULL, addr, key))
        return 3;
    memset(big, 0, sizeof(big));
    if (hmreg_loopback_read(remote, big, sizeof(big), NULL, addr, key) || big[0] != 'p' ||
        big[sizeof(big) - 1] != 'p')
        return 4;
    if (hmreg_loopback_write(remote, &byte, 1, NULL, BYTES, key) != -ERANGE)
        return 5;
    if (hmreg_loopback_write(remote, &byte, 1, NULL, 0, key + 1) != -EKEYREJECTED)
        return 6;
    if (hmreg_loopback_read(remote, big, 1, NULL, addr, key))
        return 7;
    hmreg_remote_close(remote);
    return hmreg_domain_close(domain) || hmreg_close(lib) ? 8 : 0;
}

TEST(rma__from_another_process)
{
    char token[4096];
    size_t size = sizeof(token);

    open_fixture(0);
    assert_ok(hmreg_mr_pack(fixture.mr, token, &size));
    test_in_child(peer_process(token, size));
    /* For ThreadSanitizer the close orders these reads after the peer's writes. */
    assert_ok(hmreg_mr_close(fixture.mr));
    fixture.mr = NULL;
    assert_int_equal(fixture.memory[2], 0);
    assert_int_equal(fixture.memory[3], 'p');
    assert_int_equal(fixture.memory[200002], 'p');
    assert_int_equal(fixture.memory[200003], 0);
}

/* ---- many ------------------------------------------------------------------------------- */

#define MILLION 1000000
#define TOKENS  1000 /* in one call */

/* The tokens of that many parts of the region. */
static size_t pack_parts(uint8_t *tokens, size_t room)
{
    size_t used = 0;

    for (size_t i = 0; i < TOKENS; i++) {
        size_t size = room - used;

        assert_ok(hmreg_mr_pack_range(fixture.mr, fixture.memory + i, i + 1, tokens + used, &size));
        used += size;
    }
    return used;
}

/* With no descriptor and at most 96 bytes each. A sanitizer's allocator counts none. */
TEST(remotes__a_million_at_once__small)
{
    struct hmreg_remote **remotes = calloc(MILLION, sizeof(struct hmreg_remote *));
    uint8_t *tokens = malloc(TOKENS * 128);
    uint64_t addr, key;
    size_t size, before, fds;

    open_fixture(HMREG_MR_VIRT_ADDR);
    size = pack_parts(tokens, TOKENS * 128);
    before = mallinfo2().uordblks;
    fds = (size_t)test_count_fds();
    for (size_t i = 0; i < MILLION; i += TOKENS) {
        size_t count = TOKENS;

        assert_ok(hmreg_remote_open_many(fixture.domain, tokens, size, remotes + i, &count));
        assert_int_equal(count, TOKENS);
    }
    assert_true(mallinfo2().uordblks - before <= (size_t)96 * MILLION);
    assert_int_equal(test_count_fds(), fds);
    for (size_t i = 0; i < MILLION; i++) {
        if (hmreg_remote_addr(remotes[i], 0, i % TOKENS + 1, &addr, &key) || key != 77 ||
            addr != (uintptr_t)fixture.memory + i % TOKENS)
            fail_msg("remote %zu: wrong address or key", i);
        hmreg_remote_close(remotes[i]);
    }
    test_finish();
    free(tokens);
    free(remotes);
}

struct opener {
    struct hmreg_domain *domain;
    const uint8_t *token;
    size_t size;
    int rc;
};

static void *open_and_close(void *arg)
{
    struct opener *opener = arg;

    for (int i = 0; i < 5000 && !opener->rc; i++) {
        struct hmreg_remote *remote = NULL;

        opener->rc = hmreg_remote_open(opener->domain, opener->token, opener->size, &remote);
        hmreg_remote_close(remote);
    }
    return NULL;
}

/* What they share comes with the first remote and goes with the last, again and again. */
TEST(remotes__of_one_peer_by_two_threads__share_it)
{
    uint8_t token[512];
    struct hmreg_domain *domain;
    size_t size = sizeof(token);
    pthread_t threads[2];
    struct opener opener[2];

    open_fixture(0);
    assert_ok(hmreg_domain_open_loopback(fixture.lib, NULL, NULL, &domain));
    assert_ok(hmreg_mr_pack(fixture.mr, token, &size));
    for (int i = 0; i < 2; i++) {
        opener[i] = (struct opener){domain, token, size, 0};
        assert_int_equal(pthread_create(&threads[i], NULL, open_and_close, &opener[i]), 0);
    }
    for (int i = 0; i < 2; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(opener[i].rc, 0);
    }
    assert_ok(hmreg_domain_close(domain));
}

TEST_MAIN()
