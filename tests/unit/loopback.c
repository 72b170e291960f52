/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 * The loopback provider through the public interface: what a region means. */
#include "tests/support/test.h"

#include <errno.h>
#include <hmreg/loopback.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

struct fixture {
    struct hmreg *lib;
    struct hmreg_domain *domain;
    char *memory;
    struct hmreg_mr *mr;
    struct hmreg_remote *remote;
};

#define BYTES 300000

static void open_fixture(struct fixture *fixture, uint32_t mr_mode, uint64_t access)
{
    struct hmreg_loopback_config loopback = {.size = sizeof(loopback), .mr_mode = mr_mode};
    char token[4096];
    size_t size = sizeof(token);

    assert_ok(hmreg_open(NULL, &fixture->lib));
    assert_ok(hmreg_domain_open_loopback(fixture->lib, &loopback, NULL, &fixture->domain));
    fixture->memory = calloc(1, BYTES);
    assert_ok(hmreg_mr_reg(fixture->domain, fixture->memory, BYTES, access, 0,
                           mr_mode & HMREG_MR_PROV_KEY ? 0 : 77, 0, &fixture->mr, NULL));
    assert_ok(hmreg_mr_pack(fixture->mr, token, &size));
    assert_ok(hmreg_remote_open(fixture->domain, token, size, &fixture->remote));
}

static void close_fixture(struct fixture *fixture)
{
    hmreg_remote_close(fixture->remote);
    assert_ok(hmreg_mr_close(fixture->mr));
    assert_ok(hmreg_domain_close(fixture->domain));
    assert_ok(hmreg_close(fixture->lib));
    free(fixture->memory);
}

static int put(struct fixture *fixture, uint64_t offset, const void *from, size_t len)
{
    uint64_t addr, key;
    int rc = hmreg_remote_addr(fixture->remote, offset, len, &addr, &key);

    return rc ? rc : hmreg_loopback_write(fixture->remote, from, len, NULL, addr, key);
}

static int get(struct fixture *fixture, uint64_t offset, void *to, size_t len)
{
    uint64_t addr, key;
    int rc = hmreg_remote_addr(fixture->remote, offset, len, &addr, &key);

    return rc ? rc : hmreg_loopback_read(fixture->remote, to, len, NULL, addr, key);
}

static void write_then_read(uint32_t mr_mode)
{
    char out[777], in[777] = {0};
    struct fixture fixture;

    memset(out, 'w', sizeof(out));
    open_fixture(&fixture, mr_mode, HMREG_ACCESS_REMOTE);
    assert_ok(put(&fixture, 4097, out, sizeof(out)));
    assert_memory_equal(fixture.memory + 4097, out, sizeof(out));
    assert_int_equal(fixture.memory[4096], 0);
    assert_int_equal(fixture.memory[4097 + sizeof(out)], 0);
    assert_ok(get(&fixture, 4097, in, sizeof(in)));
    assert_memory_equal(in, out, sizeof(in));
    close_fixture(&fixture);
}

static void rma__by_offset__moves_exact_bytes(void **state)
{
    write_then_read(0);
}

static void rma__by_virtual_address_and_provider_key__moves_exact_bytes(void **state)
{
    write_then_read(HMREG_MR_VIRT_ADDR | HMREG_MR_PROV_KEY | HMREG_MR_ALLOCATED);
}

static void rma__right_not_granted__acces(void **state)
{
    char byte = 'x';
    struct fixture fixture;

    open_fixture(&fixture, 0, HMREG_REMOTE_READ);
    assert_fails(put(&fixture, 0, &byte, 1), -EACCES, "no remote write");
    assert_int_equal(fixture.memory[0], 0);
    close_fixture(&fixture);
}

static void rma__outside__range(void **state)
{
    char bytes[8] = {0};
    struct fixture fixture;

    open_fixture(&fixture, 0, HMREG_ACCESS_REMOTE);
    assert_fails(put(&fixture, BYTES - 4, bytes, 8), -ERANGE, "outside the region");
    assert_fails(hmreg_loopback_write(fixture.remote, bytes, 8, NULL, BYTES - 4, 77), -ERANGE,
                 "outside the peer's region");
    assert_fails(hmreg_loopback_write(fixture.remote, bytes, 8, NULL, UINT64_MAX - 3, 77), -ERANGE,
                 "outside the peer's region");
    close_fixture(&fixture);
}

static void rma__closed_region__keyrejected(void **state)
{
    char byte = 'x';
    struct fixture fixture;

    open_fixture(&fixture, 0, HMREG_ACCESS_REMOTE);
    assert_ok(hmreg_mr_close(fixture.mr));
    fixture.mr = NULL;
    assert_fails(put(&fixture, 0, &byte, 1), -EKEYREJECTED, "no region with key");
    assert_int_equal(fixture.memory[0], 0);
    close_fixture(&fixture);
}

static void rma__freed_local_memory__efault(void **state)
{
    struct fixture fixture;

    open_fixture(&fixture, 0, HMREG_ACCESS_REMOTE);
    assert_fails(put(&fixture, 0, (void *)8, 1), -EFAULT, "nothing is mapped");
    close_fixture(&fixture);
}

static void rma__wrong_arguments__inval(void **state)
{
    char byte = 'x';
    uint64_t addr, key;
    struct fixture fixture;

    open_fixture(&fixture, 0, HMREG_ACCESS_REMOTE);
    assert_ok(hmreg_remote_addr(fixture.remote, 0, 1, &addr, &key));
    assert_fails(hmreg_loopback_write(NULL, &byte, 1, NULL, addr, key), -EINVAL, "remote is NULL");
    assert_fails(hmreg_loopback_write(fixture.remote, NULL, 1, NULL, addr, key), -EINVAL, "local");
    assert_fails(hmreg_loopback_read(fixture.remote, &byte, 0, NULL, addr, key), -EINVAL, "local");
    assert_fails(hmreg_loopback_read(fixture.remote, &byte, SIZE_MAX, NULL, addr, key), -EINVAL,
                 "local");
    close_fixture(&fixture);
}

static void rma__local_mode_without_desc__inval(void **state)
{
    struct hmreg_mr *local;
    uint64_t addr, key;
    char byte = 'x';
    struct fixture fixture;

    open_fixture(&fixture, HMREG_MR_LOCAL, HMREG_ACCESS_REMOTE);
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
    close_fixture(&fixture);
}

static void reg__key_in_use__enokey(void **state)
{
    struct hmreg_mr *second = (void *)1;
    struct fixture fixture;

    open_fixture(&fixture, 0, HMREG_ACCESS_REMOTE);
    assert_fails(
        hmreg_mr_reg(fixture.domain, fixture.memory, 1, HMREG_REMOTE_READ, 0, 77, 0, &second, NULL),
        -HMREG_ENOKEY, "0x4d");
    assert_ptr_equal(second, (void *)1);
    close_fixture(&fixture);
}

static void close__regions_open__busy(void **state)
{
    struct fixture fixture;

    open_fixture(&fixture, 0, HMREG_ACCESS_REMOTE);
    assert_fails(hmreg_domain_close(fixture.domain), -EBUSY, "1 regions");
    assert_fails(hmreg_close(fixture.lib), -EBUSY, "1 domains");
    close_fixture(&fixture);
}

/* The child has a library of its own and only the token. */
static int peer_process(const void *token, size_t size)
{
    /* No monitor, which would be a thread: ThreadSanitizer forbids those in a forked child. */
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
    if (hmreg_last_error()->code == -EPERM) /* what the parent's domain in our memory answers */
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

static void rma__from_another_process(void **state)
{
    char token[4096];
    size_t size = sizeof(token);
    struct fixture fixture;
    int status;
    pid_t child;

    open_fixture(&fixture, 0, HMREG_ACCESS_REMOTE);
    assert_ok(hmreg_mr_pack(fixture.mr, token, &size));
    child = fork();
    if (child == 0)
        _exit(peer_process(token, size));
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(WEXITSTATUS(status), 0);
    assert_true(WIFEXITED(status));
    /* Closing is what orders our look after the peer's writes for all who watch threads. */
    assert_ok(hmreg_mr_close(fixture.mr));
    fixture.mr = NULL;
    assert_int_equal(fixture.memory[2], 0);
    assert_int_equal(fixture.memory[3], 'p');
    assert_int_equal(fixture.memory[200002], 'p');
    assert_int_equal(fixture.memory[200003], 0);
    close_fixture(&fixture);
}

static void fork__childs_view_of_the_parents_objects__perm(void **state)
{
    struct fixture fixture;
    int status;
    pid_t child;

    open_fixture(&fixture, 0, HMREG_ACCESS_REMOTE);
    child = fork();
    if (child == 0) {
        struct hmreg_mr *mr;
        int rc = hmreg_mr_get(fixture.domain, fixture.memory, 1, HMREG_SEND, &mr);

        _exit(rc == -EPERM && hmreg_mr_close(fixture.mr) == -EPERM &&
                      hmreg_close(fixture.lib) == -EPERM
                  ? 0
                  : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    close_fixture(&fixture);
}

TEST_MAIN(TEST(rma__by_offset__moves_exact_bytes),
          TEST(rma__by_virtual_address_and_provider_key__moves_exact_bytes),
          TEST(rma__right_not_granted__acces), TEST(rma__outside__range),
          TEST(rma__closed_region__keyrejected), TEST(rma__freed_local_memory__efault),
          TEST(rma__wrong_arguments__inval), TEST(rma__local_mode_without_desc__inval),
          TEST(reg__key_in_use__enokey), TEST(close__regions_open__busy),
          TEST(rma__from_another_process), TEST(fork__childs_view_of_the_parents_objects__perm))
