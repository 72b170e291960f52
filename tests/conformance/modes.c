/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 * The requirements of each mr_mode for the application, and the failures if they are not met. */
#include "tests/conformance/suite.h"

#define KEY 5

static int reg(struct suite_fixture *fixture, uint64_t flags, struct hmreg_mr **mr)
{
    return hmreg_mr_reg(fixture->domain, fixture->memory, SUITE_BYTES, HMREG_ACCESS_ALL, 0,
                        suite_key(fixture, KEY), flags, mr, NULL);
}

/* Of a region of memory that the process cannot read. */
static void check_explained(struct hmreg_mr *mr)
{
    struct hmreg_explanation why = {.size = sizeof(why)};

    assert_ok(hmreg_mr_explain(mr, &why));
    assert_non_null(strstr(why.uncached_why, "no runtime knows the memory"));
}

/* Peers count from the buffer's address or from 0; a token hides which. */
CASE(virt_addr__peers_address_bytes_as_the_mode_says)
{
    uint64_t start = suite_has(fixture, HMREG_MR_VIRT_ADDR) ? (uintptr_t)fixture->memory + 11 : 0;
    struct hmreg_mr *mr = suite_reg(fixture, fixture->memory + 11, 100, HMREG_ACCESS_REMOTE, KEY);
    struct hmreg_remote *remote = suite_peer(fixture, mr);
    uint64_t addr, key;

    assert_ok(hmreg_remote_addr(remote, 30, 4, &addr, &key));
    assert_true(addr == start + 30);
    suite_put(fixture, remote, 30, 4, fixture->memory + 41);
    suite_end(fixture, remote, mr);
}

CASE(local__operation_without_desc__as_the_mode_says)
{
    struct hmreg_mr *mr = suite_reg(fixture, fixture->memory, 64, HMREG_ACCESS_REMOTE, KEY);
    struct hmreg_remote *remote = suite_peer(fixture, mr);
    uint64_t addr, key;
    int rc;

    assert_ok(hmreg_remote_addr(remote, 0, 8, &addr, &key));
    memset(fixture->local, 'l', 8);
    rc = fixture->fabric->rma(fixture, remote, true, fixture->local, 8, NULL, addr, key);
    if (!suite_has(fixture, HMREG_MR_LOCAL)) {
        assert_int_equal(rc, 0);
    } else {
        assert_true(fixture->fabric->exact_errors ? rc == -EINVAL : rc != 0);
        fixture->fabric->recover(fixture);
        assert_int_equal(fixture->memory[0], 0);
    }
    suite_end(fixture, remote, mr);
}

/* By default a range need not be mapped when it is registered, only when it is accessed. */
CASE(allocated__memory_that_comes_later__as_the_mode_says)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    unsigned char *later = fixture->memory + 2 * page;
    struct hmreg_remote *remote = NULL;
    struct hmreg_mr *mr = NULL;

    munmap(later, page);
    if (suite_has(fixture, HMREG_MR_ALLOCATED)) {
        assert_fails(reg(fixture, 0, &mr), -EFAULT, "nothing is mapped");
        assert_null(mr);
        suite_refused(fixture, "a missing page", fixture->memory, SUITE_BYTES, HMREG_REMOTE_WRITE,
                      0, 1, 0);
    } else {
        assert_ok(reg(fixture, 0, &mr));
        suite_ready(fixture, fixture->domain, mr);
        check_explained(mr);
        remote = suite_peer(fixture, mr);
        if (fixture->fabric->exact_errors)
            assert_int_equal(suite_move(fixture, remote, true, 2 * page + 1, 10), -EFAULT);
    }
    assert_ptr_equal(
        mmap(later, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
        later);
    if (mr) {
        assert_ok(hmreg_mr_refresh(mr, NULL, 0, 0));
        suite_put(fixture, remote, 2 * page + 1, 10, later + 1);
        suite_end(fixture, remote, mr);
    }
}

/* A fabric that pins pages at registration needs them to permit the access, as ibv_reg_mr() does
 * (rdma_host compares its results); elsewhere the later access fails. */
CASE(allocated__memory_without_the_right__as_the_mode_says)
{
    static const uint64_t writes[] = {HMREG_RECV, HMREG_READ, HMREG_REMOTE_WRITE};
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    unsigned char *part = fixture->memory + 2 * page;
    struct hmreg_mr *mr = NULL;

    assert_int_equal(mprotect(part, page, PROT_NONE), 0);
    if (!suite_has(fixture, HMREG_MR_ALLOCATED)) {
        assert_ok(reg(fixture, 0, &mr));
        suite_ready(fixture, fixture->domain, mr);
        check_explained(mr);
        suite_close(fixture, mr);
        assert_int_equal(mprotect(part, page, PROT_READ | PROT_WRITE), 0);
        return;
    }
    assert_fails(
        hmreg_mr_reg(fixture->domain, fixture->memory, SUITE_BYTES, HMREG_SEND, 0, 0, 0, &mr, NULL),
        -EFAULT, "not mapped for reading");
    assert_int_equal(mprotect(part, page, PROT_READ), 0);
    for (size_t i = 0; i < sizeof(writes) / sizeof(writes[0]); i++)
        assert_fails(hmreg_mr_reg(fixture->domain, fixture->memory, SUITE_BYTES, writes[i], 0,
                                  suite_key(fixture, KEY), 0, &mr, NULL),
                     -EFAULT, "read-only");
    assert_null(mr);
    suite_refused(fixture, "a read-only page", fixture->memory, SUITE_BYTES, HMREG_REMOTE_WRITE, 0,
                  1, 0);
    mr = suite_reg(fixture, fixture->memory, SUITE_BYTES,
                   HMREG_SEND | HMREG_WRITE | HMREG_REMOTE_READ, KEY);
    suite_close(fixture, mr);
    assert_int_equal(mprotect(part, page, PROT_READ | PROT_WRITE), 0);
}

/* A region is bound to an endpoint once, before it is enabled, and only where the mode requires it.
 */
static void check_binding(struct suite_fixture *fixture, struct hmreg_mr *mr)
{
    void *ep = fixture->fabric->ep_open(fixture->domain);

    if (!suite_has(fixture, HMREG_MR_ENDPOINT)) {
        assert_fails(hmreg_mr_bind(mr, ep, 0), -EINVAL, "HMREG_MR_ENDPOINT");
        fixture->fabric->ep_close(ep);
        return;
    }
    assert_fails(hmreg_mr_bind(mr, ep, HMREG_REMOTE_WRITE), -HMREG_EBADFLAGS, "endpoint");
    assert_ok(hmreg_mr_bind(mr, ep, 0));
    assert_fails(hmreg_mr_bind(mr, ep, 0), -EBUSY, "already");
    fixture->fabric->ep_close(ep); /* this unbinds it */
    suite_ready(fixture, fixture->domain, mr);
    assert_fails(hmreg_mr_bind(mr, fixture->bound[0].ep, 0), -HMREG_EOPBADSTATE, "enabled");
    assert_fails(hmreg_mr_enable(mr), -HMREG_EOPBADSTATE, "enabled already");
}

CASE(endpoint__region_unusable_until_bound_and_enabled)
{
    struct hmreg_remote *remote;
    struct hmreg_mr *mr = NULL;

    assert_ok(reg(fixture, 0, &mr));
    remote = suite_peer(fixture, mr);
    if (suite_has(fixture, HMREG_MR_ENDPOINT)) {
        suite_denied_at(fixture, remote, true, -EKEYREJECTED);
        assert_fails(hmreg_mr_enable(mr), -HMREG_EOPBADSTATE, "endpoint");
    } else {
        assert_ok(hmreg_mr_enable(mr));
        assert_ok(hmreg_mr_enable(mr));
        suite_not_applicable();
    }
    if (fixture->fabric->ep_open)
        check_binding(fixture, mr);
    suite_put(fixture, remote, 1, 10, fixture->memory + 1);
    suite_end(fixture, remote, mr);
}

/* Opens a counter and binds it. 0: the fabric counts. */
static int bind_counter(struct suite_fixture *fixture, struct hmreg_mr *mr, void **counter)
{
    int rc;

    *counter = fixture->fabric->counter_open ? fixture->fabric->counter_open(fixture) : NULL;
    if (!*counter)
        return -EOPNOTSUPP;
    assert_true(hmreg_mr_bind(mr, *counter, 0) != 0);
    rc = hmreg_mr_bind(mr, *counter, HMREG_REMOTE_WRITE);
    if (rc) {
        fixture->fabric->counter_close(*counter);
        *counter = NULL;
    }
    return rc;
}

static void check_counting(struct suite_fixture *fixture, struct hmreg_mr *mr, void *counter)
{
    struct hmreg_remote *remote = suite_peer(fixture, mr);

    assert_int_equal(fixture->fabric->counter_read(counter), 0);
    suite_put(fixture, remote, 1, 10, fixture->memory + 1);
    suite_put(fixture, remote, 1, 10, fixture->memory + 1);
    suite_get(fixture, remote, 1, 10, fixture->memory + 1);
    while (fixture->fabric->counter_read(counter) < 2)
        fixture->fabric->progress(fixture);
    assert_int_equal(fixture->fabric->counter_read(counter), 2);
    hmreg_remote_close(remote);
}

CASE(rma_event__counter_counts_remote_writes)
{
    uint64_t flags = suite_has(fixture, HMREG_MR_RMA_EVENT) ? HMREG_RMA_EVENT : 0;
    struct hmreg_mr *mr = NULL;
    void *counter = NULL;
    int rc;

    assert_ok(reg(fixture, flags, &mr));
    rc = bind_counter(fixture, mr, &counter);
    if (rc) {
        assert_true(rc == -ENOSYS || rc == -EOPNOTSUPP);
        suite_impossible("the fabric counts no accesses to regions: %s",
                         rc == -ENOSYS ? "ENOSYS" : "EOPNOTSUPP");
        assert_ok(hmreg_mr_close(mr));
        return;
    }
    suite_ready(fixture, fixture->domain, mr);
    check_counting(fixture, mr, counter);
    if (fixture->fabric->exact_errors) {
        assert_fails(hmreg_mr_close(mr), -EBUSY, "bound");
        fixture->fabric->counter_close(counter);
        suite_close(fixture, mr);
    } else { /* libfabric does not report when a counter is closed */
        suite_close(fixture, mr);
        fixture->fabric->counter_close(counter);
    }
}

CASE(rma_event__region_unusable_until_enabled)
{
    struct hmreg_remote *remote;
    struct hmreg_mr *mr = NULL;
    void *counter = NULL;

    if (!suite_has(fixture, HMREG_MR_RMA_EVENT)) {
        suite_not_applicable();
        return;
    }
    assert_ok(reg(fixture, 0, &mr));
    assert_int_equal(bind_counter(fixture, mr, &counter), -EINVAL);
    assert_ok(hmreg_mr_close(mr));
    assert_ok(reg(fixture, HMREG_RMA_EVENT, &mr));
    remote = suite_peer(fixture, mr);
    suite_denied_at(fixture, remote, true, -EKEYREJECTED);
    suite_ready(fixture, fixture->domain, mr);
    assert_int_equal(bind_counter(fixture, mr, &counter), -HMREG_EOPBADSTATE);
    suite_put(fixture, remote, 1, 10, fixture->memory + 1);
    suite_end(fixture, remote, mr);
}

/* Only fabrics that support the flags accept them. */
static void check_flag(struct suite_fixture *fixture, uint64_t flag, const char *name)
{
    struct hmreg_mr *mr = NULL;
    int rc = reg(fixture, flag, &mr);

    if (rc) {
        assert_int_equal(rc, -HMREG_EBADFLAGS);
        assert_null(mr);
        suite_impossible("the fabric has no %s: EBADFLAGS", name);
        return;
    }
    suite_ready(fixture, fixture->domain, mr);
    suite_reach(fixture, mr, 1, 10, fixture->memory + 1);
}

CASE(rma_event__flag__taken_or_refused)
{
    check_flag(fixture, HMREG_RMA_EVENT, "FI_RMA_EVENT");
}

CASE(pmem__flag__taken_or_refused)
{
    check_flag(fixture, HMREG_RMA_PMEM, "FI_RMA_PMEM");
}

/* Pages 3 and 4 are mapped after the registration, page 2 is unmapped. */
static void check_refreshing(struct suite_fixture *fixture, struct hmreg_remote *remote,
                             struct hmreg_mr *mr, size_t page)
{
    struct iovec part = {fixture->memory + 3 * page, 1};

    assert_int_equal(suite_move(fixture, remote, true, 3 * page, 8), -EFAULT);
    assert_ok(hmreg_mr_refresh(mr, &part, 1, 0));
    assert_int_equal(suite_move(fixture, remote, true, 4 * page, 8), -EFAULT);
    assert_ok(hmreg_mr_refresh(mr, NULL, 0, 0));
    suite_put(fixture, remote, 4 * page + 1, 8, fixture->memory + 4 * page + 1);
    munmap(fixture->memory + 2 * page, page);
    assert_fails(hmreg_mr_refresh(mr, NULL, 0, 0), -EFAULT, "no page");
    assert_int_equal(suite_move(fixture, remote, true, 2 * page, 8), -EFAULT);
    assert_ptr_equal(mmap(fixture->memory + 2 * page, page, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
                     fixture->memory + 2 * page);
    assert_int_equal(suite_move(fixture, remote, true, 2 * page, 8), -EFAULT);
}

CASE(mmu_notify__page_that_came_later__denied_until_refreshed)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    unsigned char *later = fixture->memory + 3 * page;
    struct hmreg_remote *remote;
    struct hmreg_mr *mr = NULL;

    madvise(fixture->memory, SUITE_BYTES, MADV_NOHUGEPAGE);
    madvise(later, 2 * page, MADV_DONTNEED);
    assert_ok(reg(fixture, 0, &mr));
    suite_ready(fixture, fixture->domain, mr);
    remote = suite_peer(fixture, mr);
    if (suite_has(fixture, HMREG_MR_MMU_NOTIFY))
        check_refreshing(fixture, remote, mr, page);
    else
        suite_not_applicable();
    suite_put(fixture, remote, 3 * page + 1, 8, later + 1);
    suite_end(fixture, remote, mr);
}

/* hmreg_domain_query() reports the bits of the two old modes. */
CASE(old_modes__mean_their_bits)
{
    assert_int_equal(fixture->info.mr_mode & (HMREG_MR_BASIC | HMREG_MR_SCALABLE), 0);
    if (fixture->fabric->exact_errors && fixture->asked_mode == HMREG_MR_BASIC)
        assert_int_equal(fixture->info.mr_mode,
                         HMREG_MR_VIRT_ADDR | HMREG_MR_ALLOCATED | HMREG_MR_PROV_KEY);
    if (fixture->fabric->exact_errors && fixture->asked_mode == HMREG_MR_SCALABLE)
        assert_int_equal(fixture->info.mr_mode, 0);
    assert_true(fixture->info.key_size > 0);
    assert_true(fixture->info.iov_limit > 0);
    if (suite_has(fixture, HMREG_MR_RAW))
        return;
    assert_true(fixture->info.key_size <= 8);
}
