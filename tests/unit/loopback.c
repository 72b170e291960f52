/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 * The loopback provider: the desc that local memory needs, tokens of other processes, many remotes.
 * tests/conformance has the semantics of regions. */
#include "tests/support/test.h"

#include <hmreg/group.h>
#include <hmreg/loopback.h>
#include <hmreg/table.h>
#include <malloc.h>
#include <sys/mman.h>

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

/* Local memory that is not all there: no byte of either end has moved. */
TEST(rma__local_memory_partly_unmapped__no_byte_moves)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), whole = 4 * page;
    char *local = test_map(whole);
    uint64_t addr, key;

    open_fixture(0);
    memset(local, 'l', whole);
    munmap(local + whole - page, page);
    assert_ok(hmreg_remote_addr(fixture.remote, 0, whole, &addr, &key));
    assert_fails(hmreg_loopback_write(fixture.remote, local, whole, NULL, addr, key), -EFAULT,
                 "nothing is mapped");
    assert_int_equal(fixture.memory[0], 0);
    memset(fixture.memory, 't', whole);
    assert_fails(hmreg_loopback_read(fixture.remote, local, whole, NULL, addr, key), -EFAULT,
                 "nothing is mapped");
    assert_int_equal(local[0], 'l');
    mprotect(local + page, page, PROT_READ);
    assert_fails(hmreg_loopback_read(fixture.remote, local, 2 * page, NULL, addr, key), -EFAULT,
                 "not mapped for writing");
    assert_int_equal(local[0], 'l');
    mprotect(local + page, page, PROT_NONE);
    assert_fails(hmreg_loopback_write(fixture.remote, local, 2 * page, NULL, addr, key), -EFAULT,
                 "not mapped for reading");
    assert_int_equal(fixture.memory[0], 't');
    munmap(local, whole - page);
}

/* ---- other processes -------------------------------------------------------------------- */

/* A table's second token is compared with the first. */
static int write_both(struct hmreg_domain *domain, const void *token, size_t size)
{
    static char own[4096], both[2 * 4096];
    struct hmreg_table_entry entries[2];
    struct hmreg_table *table;
    size_t mine = sizeof(both) / 2;
    struct hmreg_mr *mr;
    int rc;

    if (hmreg_table_open(domain, entries, 2, 0, &table) ||
        hmreg_mr_reg(domain, own, sizeof(own), HMREG_ACCESS_REMOTE, 0, 77, 0, &mr, NULL) ||
        hmreg_mr_pack(mr, both, &mine))
        return -1;
    memcpy(both + mine, token, size);
    rc = hmreg_table_write(table, 0, 2, both, mine + size, 0);
    hmreg_table_close(table);
    hmreg_mr_close(mr);
    return rc;
}

static int open_in_child(const void *token, size_t size)
{
    /* No monitor, which would be a thread: ThreadSanitizer does not support those in a forked
     * child. */
    struct hmreg_config config = {.size = sizeof(config), .monitor = HMREG_MONITOR_DISABLED};
    struct hmreg_domain *domain;
    struct hmreg_remote *remote;
    struct hmreg *lib;
    size_t count = 1;

    if (hmreg_open(&config, &lib) || hmreg_domain_open_loopback(lib, NULL, NULL, &domain))
        return 1;
    if (hmreg_remote_open(domain, token, size, &remote) != -EHOSTUNREACH)
        return 2;
    if (!strstr(hmreg_last_error()->text, "another process"))
        return 3;
    if (hmreg_remote_open_many(domain, token, size, &remote, &count) != -EHOSTUNREACH ||
        hmreg_remote_open_rails(domain, token, size, &remote, 1) != -EHOSTUNREACH ||
        write_both(domain, token, size) != -EHOSTUNREACH)
        return 4;
    return hmreg_domain_close(domain) || hmreg_close(lib) ? 5 : 0;
}

TEST(remote_open__token_of_another_process__hostunreach)
{
    char token[4096];
    size_t size = sizeof(token);

    test_forks_with_threads();
    open_fixture(0);
    assert_ok(hmreg_mr_pack(fixture.mr, token, &size));
    test_in_child(open_in_child(token, size));
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

/* It copies through runtimes, and the library has none of it. */
TEST(reg__iface_without_runtime_by_address__refused)
{
    struct hmreg_explanation why = {.size = sizeof(why)};
    struct iovec iov = {(void *)0x10000, 4096};
    struct hmreg_mr_attr attr = {.size = sizeof(attr),
                                 .iov = &iov,
                                 .iov_count = 1,
                                 .access = HMREG_ACCESS_REMOTE,
                                 .claim_iface = HMREG_CLAIM_TRUSTED,
                                 .iface = HMREG_IFACE_NEURON};
    struct hmreg_mr *mr = (void *)1;

    open_fixture(0);
    assert_fails(hmreg_mr_regattr(fixture.domain, &attr, 0, &mr), -EOPNOTSUPP,
                 "peermem: loopback copies through the vendor's runtime");
    assert_ptr_equal(mr, (void *)1);
    assert_ok(hmreg_domain_explain(fixture.domain, HMREG_IFACE_NEURON, 0, &why));
    assert_int_equal(why.path, HMREG_PATH_MAPPED); /* a dmabuf's */
    assert_string_equal(why.reasons[1].slug, "no-peer-memory");
}

TEST_MAIN()
