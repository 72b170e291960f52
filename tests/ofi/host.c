/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 * Host memory on a real fabric, accessed by a peer in another process. */
#include "tests/ofi/fixture.h"
#include "tests/support/queries.h"

#include <sys/mman.h>

/* ---- permitted accesses ----------------------------------------------------------------- */

TEST(rma__odd_offsets_and_lengths__exact_bytes)
{
    struct fixture fixture;

    fixture_open(&fixture, NULL, HMREG_ACCESS_ALL);
    fixture_write_and_read(&fixture);
    fixture_close(&fixture);
}

TEST(rma__mr_mode_basic__the_peer_need_not_know)
{
    fixture_in_old_mode(HMREG_MR_BASIC, HMREG_MR_VIRT_ADDR | HMREG_MR_PROV_KEY);
}

TEST(rma__region_from_get__exact_bytes)
{
    struct hmreg_mr *first, *second;
    struct fixture fixture;

    fixture_open(&fixture, NULL, HMREG_ACCESS_ALL);
    assert_ok(hmreg_mr_get(fixture.fabric.domain, fixture.memory, FIXTURE_BYTES, HMREG_ACCESS_ALL,
                           &first));
    assert_ok(hmreg_mr_get(fixture.fabric.domain, fixture.memory, FIXTURE_BYTES, HMREG_ACCESS_ALL,
                           &second));
    assert_ok(peer_take_region(&fixture.fabric, first));
    fixture_write_and_read(&fixture);
    assert_ok(peer_take_region(&fixture.fabric, second));
    fixture_write_and_read(&fixture);
    hmreg_mr_put(second);
    hmreg_mr_put(first);
    fixture_close(&fixture);
}

TEST(rma__we_start_it_from_a_region__exact_bytes)
{
    struct hmreg_remote *remote;
    uint64_t addr, key;
    struct fixture fixture;

    fixture_open(&fixture, NULL, HMREG_ACCESS_ALL);
    assert_ok(peer_offer(&fixture.fabric, 10000, 3, &remote));
    assert_int_equal(test_info_of(fixture.mr).local_addr, (uintptr_t)fixture.memory);
    assert_ok(hmreg_remote_addr(remote, 0, 10000, &addr, &key));
    assert_int_equal(endpoint_read(&fixture.fabric.endpoint, fixture.memory + 5, 10000,
                                   hmreg_mr_desc(fixture.mr), addr, key),
                     0);
    fixture_assert_only(&fixture, 5, 10000, 3);
    hmreg_remote_close(remote);
    fixture_close(&fixture);
}

/* ---- denied accesses -------------------------------------------------------------------- */

TEST(rma__outside_the_region__range)
{
    struct fixture fixture;

    fixture_open(&fixture, NULL, HMREG_ACCESS_ALL);
    assert_fails(peer_write(&fixture.fabric, FIXTURE_BYTES - 4, 5, 1), -ERANGE,
                 "outside the region");
    fixture_assert_only(&fixture, 0, 0, 0);
    fixture_close(&fixture);
}

static uint64_t first_addr(const struct fixture *fixture)
{
    struct hmreg_domain_info info = {.size = sizeof(info)};

    assert_ok(hmreg_domain_query(fixture->fabric.domain, &info));
    return info.mr_mode & HMREG_MR_VIRT_ADDR ? (uintptr_t)fixture->memory : 0;
}

static void assert_denied(struct fixture *fixture, uint64_t offset, uint64_t key, size_t len)
{
    int rc = peer_intrude(&fixture->fabric, first_addr(fixture) + offset, key, len, 1);

    if (fabric_reports_denials())
        assert_int_not_equal(rc, 0);
    fixture_assert_only(fixture, 0, 0, 0);
    fixture_close(fixture);
}

TEST(rma__wrong_key__no_byte_changes)
{
    struct fixture fixture;

    fixture_open(&fixture, NULL, HMREG_ACCESS_ALL);
    assert_denied(&fixture, 0, hmreg_mr_key(fixture.mr) + 1, 100);
}

TEST(rma__key_of_a_closed_region__no_byte_changes)
{
    struct fixture fixture;
    uint64_t key;

    fixture_open(&fixture, NULL, HMREG_ACCESS_ALL);
    key = hmreg_mr_key(fixture.mr);
    assert_ok(hmreg_mr_close(fixture.mr));
    fixture.mr = NULL;
    assert_denied(&fixture, 0, key, 100);
}

TEST(rma__right_not_granted__no_byte_changes)
{
    struct fixture fixture;

    fixture_open(&fixture, NULL, HMREG_REMOTE_READ);
    assert_fails(peer_read(&fixture.fabric, 0, 1, 0), -EBADMSG, "is 0, not 0x1");
    assert_denied(&fixture, 0, hmreg_mr_key(fixture.mr), 100);
}

TEST(rma__over_the_end__no_byte_changes)
{
    struct hmreg_mr *part;
    struct fixture fixture;
    uint64_t begins;

    fixture_open(&fixture, NULL, HMREG_ACCESS_ALL);
    assert_ok(hmreg_mr_close(fixture.mr));
    assert_ok(hmreg_mr_reg(fixture.fabric.domain, fixture.memory + 3, 1000, HMREG_ACCESS_ALL, 0,
                           fixture_key(&fixture, FIXTURE_KEY), 0, &part, NULL));
    fixture.mr = part;
    begins = first_addr(&fixture) ? 3 : 0;
    assert_denied(&fixture, begins + 995, hmreg_mr_key(part), 20);
}

/* ---- registering ------------------------------------------------------------------------ */

/* libfabric 1.17 requires unique keys for these too. */
TEST(reg__regions_without_remote_access__share_no_key)
{
    struct hmreg_mr *mrs[20];
    struct fixture fixture;

    fixture_open_lonely(&fixture);
    for (int i = 0; i < 20; i++) {
        assert_ok(hmreg_mr_reg(fixture.fabric.domain, fixture.memory, 10, HMREG_ACCESS_LOCAL, 0, 0,
                               0, &mrs[i], NULL));
        assert_int_equal(hmreg_mr_key(mrs[i]), HMREG_KEY_NOTAVAIL);
    }
    assert_ok(hmreg_mr_reg(fixture.fabric.domain, fixture.memory, 10, HMREG_ACCESS_ALL, 0, 0, 0,
                           &fixture.mr, NULL));
    assert_int_equal(
        hmreg_mr_key(fixture.mr),
        fixture_key(&fixture, 1) ? 0 : fi_mr_key(hmreg_mr_head_of(fixture.mr)->keys->native));
    for (int i = 0; i < 20; i++)
        assert_ok(hmreg_mr_close(mrs[i]));
    fixture_close(&fixture);
}

/* A fabric that pins the memory refuses it; others may. */
TEST(reg__file_shorter_than_its_mapping__as_the_fabric_pins)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    int fd = memfd_create("hmreg", MFD_CLOEXEC), rc;
    struct hmreg_mr *mr = NULL;
    struct fixture fixture;
    char *file;

    assert_int_equal(ftruncate(fd, (off_t)page), 0);
    file = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    fixture_open(&fixture, NULL, HMREG_ACCESS_ALL);
    rc = hmreg_mr_get(fixture.fabric.domain, file, 2 * page, HMREG_ACCESS_ALL, &mr);
    if (rc) {
        print_message("%s\n", hmreg_last_error()->text);
        assert_int_equal(rc, -EFAULT);
        assert_non_null(strstr(hmreg_last_error()->text, "beyond the end of the mapped file"));
    }
    hmreg_mr_put(mr);
    fixture_close(&fixture);
    munmap(file, 2 * page);
    close(fd);
}

TEST(reg__native_and_desc__libfabrics)
{
    struct fid_mr *native;
    struct fixture fixture;

    fixture_open_lonely(&fixture);
    assert_ok(hmreg_mr_reg(fixture.fabric.domain, fixture.memory, 10, HMREG_ACCESS_ALL, 0,
                           fixture_key(&fixture, FIXTURE_KEY), 0, &fixture.mr, &fixture));
    native = hmreg_mr_head_of(fixture.mr)->keys->native;
    assert_non_null(native);
    assert_int_equal(native->fid.fclass, FI_CLASS_MR);
    assert_ptr_equal(native->fid.context, &fixture);
    assert_ptr_equal(hmreg_mr_desc(fixture.mr), fi_mr_desc(native));
    assert_int_equal(hmreg_mr_key(fixture.mr), fi_mr_key(native));
    fixture_close(&fixture);
}

TEST(explain__host_memory__path_system)
{
    struct fixture fixture;

    fixture_open_lonely(&fixture);
    assert_ok(hmreg_mr_reg(fixture.fabric.domain, fixture.memory, 10, HMREG_ACCESS_ALL, 0,
                           fixture_key(&fixture, FIXTURE_KEY), 0, &fixture.mr, NULL));
    assert_int_equal(test_why_of(fixture.mr).path, HMREG_PATH_SYSTEM);
    assert_int_equal(test_why_of(fixture.mr).refused, 0);
    fixture_close(&fixture);
}

/* ---- the domain ------------------------------------------------------------------------- */

TEST(query__domain__as_fi_info_says)
{
    struct hmreg_domain_info info = {.size = sizeof(info)};
    const struct fi_info *theirs;
    struct fixture fixture;

    fixture_open_lonely(&fixture);
    theirs = fixture.fabric.endpoint.info;
    assert_ok(hmreg_domain_query(fixture.fabric.domain, &info));
    assert_string_equal(info.provider, "ofi");
    assert_string_equal(info.fabric, theirs->fabric_attr->prov_name);
    assert_int_equal(info.mr_mode, theirs->domain_attr->mr_mode);
    assert_int_equal(info.key_size, theirs->domain_attr->mr_key_size);
    assert_int_equal(info.iov_limit, 1); /* shm and sockets state more, and check the first only */
    assert_int_equal(info.max_len, HMREG_LIMIT_NONE);
    fixture_close(&fixture);
}

TEST(close__regions_open__busy)
{
    struct fixture fixture;

    fixture_open(&fixture, NULL, HMREG_ACCESS_ALL);
    assert_fails(hmreg_domain_close(fixture.fabric.domain), -EBUSY, "1 regions");
    assert_fails(hmreg_close(fixture.fabric.lib), -EBUSY, "1 domains");
    fixture_close(&fixture);
}

FABRIC_TEST_MAIN()
