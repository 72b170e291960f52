/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 * What each mr_mode of fi_mr(3) demands, and what happens to who does not do it. */
#include "tests/conformance/fixture.h"

/* ---- HMREG_MR_ENDPOINT ------------------------------------------------------------------ */

static void endpoint__region_starts_disabled_and_works_once_bound_and_enabled(void **state)
{
    struct hmreg_loopback_ep *ep = NULL;
    struct hmreg_remote *remote;
    struct hmreg_mr *mr;
    struct fixture fixture;

    fixture_open(&fixture, HMREG_MR_ENDPOINT);
    mr = fixture_reg(&fixture, 5, 0);
    remote = fixture_peer(&fixture, mr);
    assert_fails(peer_put(remote, 0, 'x'), -EKEYREJECTED, "enabled");
    assert_fails(hmreg_mr_enable(mr), -HMREG_EOPBADSTATE, "no endpoint");
    assert_ok(hmreg_loopback_ep_open(fixture.domain, &ep));
    assert_fails(hmreg_mr_bind(mr, ep, HMREG_REMOTE_WRITE), -HMREG_EBADFLAGS, "endpoint");
    assert_ok(hmreg_mr_bind(mr, ep, 0));
    assert_fails(hmreg_mr_bind(mr, ep, 0), -EBUSY, "already");
    assert_fails(peer_put(remote, 0, 'x'), -EKEYREJECTED, "enabled");
    assert_ok(hmreg_mr_enable(mr));
    assert_fails(hmreg_mr_enable(mr), -HMREG_EOPBADSTATE, "already");
    assert_fails(hmreg_mr_bind(mr, ep, 0), -HMREG_EOPBADSTATE, "enabled");
    assert_ok(peer_put(remote, 0, 'x'));
    assert_int_equal(fixture.memory[0], 'x');
    hmreg_remote_close(remote);
    assert_fails(hmreg_mr_close(mr), -EBUSY, "bound");
    assert_fails(hmreg_domain_close(fixture.domain), -EBUSY, "regions");
    assert_ok(hmreg_loopback_ep_close(ep));
    assert_ok(hmreg_mr_close(mr));
    fixture_close(&fixture);
}

static void endpoint__bound_without_the_mode__inval(void **state)
{
    struct hmreg_loopback_ep *ep = NULL;
    struct hmreg_mr *mr;
    struct fixture fixture;

    fixture_open(&fixture, 0);
    mr = fixture_reg(&fixture, 5, 0);
    assert_ok(hmreg_loopback_ep_open(fixture.domain, &ep));
    assert_fails(hmreg_mr_bind(mr, ep, 0), -EINVAL, "HMREG_MR_ENDPOINT");
    assert_ok(hmreg_mr_enable(mr));
    assert_ok(hmreg_mr_close(mr));
    assert_fails(hmreg_domain_close(fixture.domain), -EBUSY, "endpoints");
    assert_ok(hmreg_loopback_ep_close(ep));
    fixture_close(&fixture);
}

/* ---- HMREG_MR_RMA_EVENT ----------------------------------------------------------------- */

static void rma_event__counter_counts_each_remote_write_once(void **state)
{
    struct hmreg_loopback_counter *counter = NULL;
    struct hmreg_remote *remote;
    struct hmreg_mr *mr;
    struct fixture fixture;
    uint64_t addr, key;
    char byte;

    fixture_open(&fixture, HMREG_MR_RMA_EVENT);
    mr = fixture_reg(&fixture, 5, HMREG_RMA_EVENT);
    remote = fixture_peer(&fixture, mr);
    assert_ok(hmreg_loopback_counter_open(fixture.domain, &counter));
    assert_fails(hmreg_mr_bind(mr, counter, 0), -HMREG_EBADFLAGS, "counter");
    assert_ok(hmreg_mr_bind(mr, counter, HMREG_REMOTE_WRITE));
    assert_fails(peer_put(remote, 0, 'x'), -EKEYREJECTED, "enabled");
    assert_ok(hmreg_mr_enable(mr));
    assert_fails(hmreg_mr_bind(mr, counter, HMREG_REMOTE_WRITE), -HMREG_EOPBADSTATE, "enabled");
    assert_int_equal(hmreg_loopback_counter_read(counter), 0);
    assert_ok(peer_put(remote, 0, 'x'));
    assert_ok(peer_put(remote, 1, 'y'));
    assert_ok(hmreg_remote_addr(remote, 0, 1, &addr, &key));
    assert_ok(hmreg_loopback_read(remote, &byte, 1, NULL, addr, key));
    assert_int_equal(hmreg_loopback_counter_read(counter), 2);
    hmreg_remote_close(remote);
    assert_fails(hmreg_mr_close(mr), -EBUSY, "bound");
    assert_ok(hmreg_loopback_counter_close(counter));
    assert_ok(hmreg_mr_close(mr));
    fixture_close(&fixture);
}

static void rma_event__region_not_registered_for_it__inval(void **state)
{
    struct hmreg_loopback_counter *counter = NULL;
    struct hmreg_mr *mr;
    struct fixture fixture;

    fixture_open(&fixture, HMREG_MR_RMA_EVENT);
    mr = fixture_reg(&fixture, 5, 0);
    assert_ok(hmreg_loopback_counter_open(fixture.domain, &counter));
    assert_fails(hmreg_mr_bind(mr, counter, HMREG_REMOTE_WRITE), -EINVAL, "HMREG_RMA_EVENT");
    assert_ok(hmreg_loopback_counter_close(counter));
    assert_ok(hmreg_mr_close(mr));
    fixture_close(&fixture);
}

static void counter__without_the_mode__binds_any_time(void **state)
{
    struct hmreg_loopback_counter *counter = NULL;
    struct hmreg_remote *remote;
    struct hmreg_mr *mr;
    struct fixture fixture;

    fixture_open(&fixture, 0);
    mr = fixture_reg(&fixture, 5, 0);
    remote = fixture_peer(&fixture, mr);
    assert_ok(peer_put(remote, 0, 'x'));
    assert_ok(hmreg_loopback_counter_open(fixture.domain, &counter));
    assert_ok(hmreg_mr_bind(mr, counter, HMREG_REMOTE_WRITE));
    assert_ok(peer_put(remote, 0, 'x'));
    assert_int_equal(hmreg_loopback_counter_read(counter), 1);
    hmreg_remote_close(remote);
    assert_ok(hmreg_loopback_counter_close(counter));
    assert_ok(hmreg_mr_close(mr));
    fixture_close(&fixture);
}

/* ---- HMREG_MR_MMU_NOTIFY ---------------------------------------------------------------- */

static void mmu_notify__page_that_came_later__efault_until_refreshed(void **state)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    struct hmreg_remote *remote;
    struct hmreg_mr *mr;
    struct iovec part;
    struct fixture fixture;

    fixture_open(&fixture, HMREG_MR_MMU_NOTIFY);
    fixture.memory[0] = 'a'; /* this page is there when it is registered */
    mr = fixture_reg(&fixture, 5, 0);
    remote = fixture_peer(&fixture, mr);
    assert_ok(peer_put(remote, 1, 'x'));
    fixture.memory[3 * page] = 'b';
    assert_fails(peer_put(remote, 3 * page, 'x'), -EFAULT, "refreshed");
    part = (struct iovec){fixture.memory + 3 * page, 1};
    assert_ok(hmreg_mr_refresh(mr, &part, 1, 0));
    assert_ok(peer_put(remote, 3 * page, 'x'));
    assert_fails(peer_put(remote, 4 * page, 'x'), -EFAULT, "refreshed");
    assert_ok(hmreg_mr_refresh(mr, NULL, 0, 0));
    assert_ok(peer_put(remote, 4 * page, 'x'));
    part.iov_base = fixture.memory + fixture.bytes;
    assert_fails(hmreg_mr_refresh(mr, &part, 1, 0), -EINVAL, "not inside");
    assert_fails(hmreg_mr_refresh(mr, NULL, 0, 1), -HMREG_EBADFLAGS, "flags");
    munmap(fixture.memory + 2 * page, page);
    assert_fails(hmreg_mr_refresh(mr, NULL, 0, 0), -EFAULT, "no page");
    assert_fails(peer_put(remote, 2 * page, 'x'), -EFAULT, "refreshed");
    hmreg_remote_close(remote);
    assert_ok(hmreg_mr_close(mr));
    fixture_close(&fixture);
}

/* Nearly all of it is a hole: that must not take a look at each page of it. */
static void mmu_notify__terabytes_with_a_page_in_them__that_page_is_known(void **state)
{
    const size_t bytes = (size_t)1 << 42;
    struct hmreg_remote *remote;
    struct hmreg_mr *mr = NULL;
    char *around, *memory;
    struct fixture fixture;

    fixture_open(&fixture, HMREG_MR_MMU_NOTIFY);
    around = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (around == MAP_FAILED) {
        fixture_close(&fixture);
        test_skip("no address space for terabytes, as under ThreadSanitizer: %s", strerror(errno));
    }
    munmap(around, bytes);
    memory = mmap(around + bytes / 2, 4096, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    assert_ptr_equal(memory, around + bytes / 2);
    *memory = 'a';
    if (hmreg_mr_reg(fixture.domain, around, bytes, HMREG_ACCESS_ALL, 0, 5, 0, &mr, NULL)) {
        munmap(memory, 4096);
        fixture_close(&fixture);
        test_skip("no memory to note the pages of terabytes: %s", hmreg_last_error()->text);
    }
    remote = fixture_peer(&fixture, mr);
    assert_ok(peer_put(remote, bytes / 2, 'x'));
    assert_int_equal(*memory, 'x');
    assert_fails(peer_put(remote, 0, 'x'), -EFAULT, "refreshed");
    hmreg_remote_close(remote);
    assert_ok(hmreg_mr_close(mr));
    munmap(memory, 4096);
    fixture_close(&fixture);
}

static void default__memory_that_is_mapped_later__is_reached(void **state)
{
    struct hmreg_remote *remote;
    struct hmreg_mr *mr;
    struct fixture fixture;

    fixture_open(&fixture, 0);
    munmap(fixture.memory, fixture.bytes);
    mr = fixture_reg(&fixture, 5, 0);
    remote = fixture_peer(&fixture, mr);
    assert_fails(peer_put(remote, 0, 'x'), -EFAULT, "nothing is mapped");
    assert_ptr_equal(mmap(fixture.memory, fixture.bytes, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
                     fixture.memory);
    assert_ok(peer_put(remote, 0, 'x'));
    assert_int_equal(fixture.memory[0], 'x');
    hmreg_remote_close(remote);
    assert_ok(hmreg_mr_close(mr));
    fixture_close(&fixture);
}

static void allocated__memory_that_is_not_mapped__efault(void **state)
{
    struct hmreg_mr *mr = NULL;
    struct fixture fixture;

    fixture_open(&fixture, HMREG_MR_ALLOCATED);
    munmap(fixture.memory, fixture.bytes);
    assert_fails(hmreg_mr_reg(fixture.domain, fixture.memory, 1, HMREG_SEND, 0, 0, 0, &mr, NULL),
                 -EFAULT, "nothing is mapped");
    assert_null(mr);
    fixture_close(&fixture);
}

/* ---- HMREG_MR_RAW ----------------------------------------------------------------------- */

static void raw__key_used_unmapped__keyrejected(void **state)
{
    struct hmreg_remote *remote;
    uint64_t base, addr, key, mapped;
    uint8_t raw[64];
    size_t size = 0;
    struct hmreg_mr *mr;
    struct fixture fixture;
    char byte = 'x';

    fixture_open(&fixture, HMREG_MR_RAW);
    mr = fixture_reg(&fixture, 5, 0);
    assert_true(hmreg_mr_key(mr) == HMREG_KEY_NOTAVAIL);
    assert_fails(hmreg_mr_raw_attr(mr, &base, NULL, &size, 0), -HMREG_ETOOSMALL, "16 bytes");
    assert_int_equal(size, 16);
    assert_ok(hmreg_mr_raw_attr(mr, &base, raw, &size, 0));
    assert_int_equal(base, 0);
    remote = fixture_peer(&fixture, mr);
    assert_ok(hmreg_remote_addr(remote, 0, 1, &addr, &key));
    assert_ok(hmreg_loopback_write(remote, &byte, 1, NULL, addr, key));
    assert_fails(hmreg_loopback_write(remote, &byte, 1, NULL, addr, 5), -EKEYREJECTED, "mapped");
    assert_fails(hmreg_mr_map_raw(fixture.domain, base, raw, 8, &mapped, 0), -EINVAL, "16 bytes");
    assert_ok(hmreg_mr_map_raw(fixture.domain, base, raw, size, &mapped, 0));
    assert_ok(hmreg_loopback_write(remote, &byte, 1, NULL, 7, mapped));
    assert_int_equal(fixture.memory[7], 'x');
    hmreg_remote_close(remote);
    assert_ok(hmreg_mr_close(mr));
    assert_fails(hmreg_domain_close(fixture.domain), -EBUSY, "mapped keys");
    assert_ok(hmreg_mr_unmap_key(fixture.domain, mapped));
    assert_fails(hmreg_mr_unmap_key(fixture.domain, mapped), -EINVAL, "not mapped");
    fixture_close(&fixture);
}

static void raw__guessed_secret__keyrejected(void **state)
{
    struct hmreg_remote *remote;
    uint64_t base, mapped;
    uint8_t raw[16];
    size_t size = sizeof(raw);
    struct hmreg_mr *mr;
    struct fixture fixture;
    char byte = 'x';

    fixture_open(&fixture, HMREG_MR_RAW);
    mr = fixture_reg(&fixture, 5, 0);
    remote = fixture_peer(&fixture, mr);
    assert_ok(hmreg_mr_raw_attr(mr, &base, raw, &size, 0));
    raw[15] ^= 1;
    assert_ok(hmreg_mr_map_raw(fixture.domain, base, raw, size, &mapped, 0));
    assert_fails(hmreg_loopback_write(remote, &byte, 1, NULL, 0, mapped), -EKEYREJECTED,
                 "no region");
    assert_int_equal(fixture.memory[0], 0);
    assert_ok(hmreg_mr_unmap_key(fixture.domain, mapped));
    hmreg_remote_close(remote);
    assert_ok(hmreg_mr_close(mr));
    fixture_close(&fixture);
}

static void raw__token_opened_on_a_domain_without_the_mode__exdev(void **state)
{
    struct hmreg_remote *remote = NULL;
    struct hmreg_domain *plain;
    uint8_t token[512];
    size_t size = sizeof(token);
    struct hmreg_mr *mr;
    struct fixture fixture;

    fixture_open(&fixture, HMREG_MR_RAW);
    mr = fixture_reg(&fixture, 5, 0);
    assert_ok(hmreg_mr_pack(mr, token, &size));
    assert_ok(hmreg_domain_open_loopback(fixture.lib, NULL, NULL, &plain));
    assert_fails(hmreg_remote_open(plain, token, size, &remote), -EXDEV, "HMREG_MR_RAW");
    assert_null(remote);
    assert_ok(hmreg_domain_close(plain));
    assert_ok(hmreg_mr_close(mr));
    fixture_close(&fixture);
}

static void raw_calls__without_the_mode__carry_the_key_itself(void **state)
{
    uint64_t base, mapped;
    uint8_t raw[8];
    size_t size = sizeof(raw);
    struct hmreg_mr *mr;
    struct fixture fixture;

    fixture_open(&fixture, HMREG_MR_VIRT_ADDR);
    mr = fixture_reg(&fixture, 0x0102030405060708, 0);
    assert_ok(hmreg_mr_raw_attr(mr, &base, raw, &size, 0));
    assert_int_equal(raw[0], 8);
    assert_int_equal(raw[7], 1);
    assert_true(base == (uint64_t)(uintptr_t)fixture.memory);
    assert_ok(hmreg_mr_map_raw(fixture.domain, base, raw, size, &mapped, 0));
    assert_true(mapped == 0x0102030405060708);
    assert_ok(hmreg_mr_unmap_key(fixture.domain, mapped));
    assert_ok(hmreg_mr_close(mr));
    fixture_close(&fixture);
}

/* ---- the old names ---------------------------------------------------------------------- */

static uint32_t effective(uint32_t mr_mode)
{
    struct hmreg_domain_info info = {.size = sizeof(info)};
    struct fixture fixture;

    fixture_open(&fixture, mr_mode);
    assert_ok(hmreg_domain_query(fixture.domain, &info));
    fixture_close(&fixture);
    return info.mr_mode;
}

static void basic_and_scalable__mean_what_the_manual_says(void **state)
{
    assert_int_equal(effective(HMREG_MR_BASIC),
                     HMREG_MR_VIRT_ADDR | HMREG_MR_ALLOCATED | HMREG_MR_PROV_KEY);
    assert_int_equal(effective(HMREG_MR_SCALABLE), 0);
}

static void basic__with_another_bit__inval(void **state)
{
    struct hmreg_loopback_config config = {.size = sizeof(config),
                                           .mr_mode = HMREG_MR_BASIC | HMREG_MR_LOCAL};
    struct hmreg_domain *domain = NULL;
    struct hmreg *lib;

    assert_ok(hmreg_open(NULL, &lib));
    assert_fails(hmreg_domain_open_loopback(lib, &config, NULL, &domain), -EINVAL, "alone");
    config.mr_mode = 1u << 30;
    assert_fails(hmreg_domain_open_loopback(lib, &config, NULL, &domain), -EINVAL, "unknown bits");
    assert_null(domain);
    assert_ok(hmreg_close(lib));
}

/* ---- authorization keys ----------------------------------------------------------------- */

static void auth_key__of_another__acces(void **state)
{
    struct iovec iov;
    struct hmreg_mr_attr attr = {.size = sizeof(attr),
                                 .iov = &iov,
                                 .iov_count = 1,
                                 .access = HMREG_ACCESS_REMOTE,
                                 .requested_key = 5,
                                 .auth_key_size = 4,
                                 .auth_key = (const uint8_t *)"ours"};
    struct hmreg_remote *remote;
    struct hmreg_mr *mr;
    struct fixture fixture;

    fixture_open(&fixture, 0);
    iov = (struct iovec){fixture.memory, fixture.bytes};
    assert_ok(hmreg_mr_regattr(fixture.domain, &attr, 0, &mr));
    remote = fixture_peer(&fixture, mr);
    assert_fails(peer_put(remote, 0, 'x'), -EACCES, "to us");
    hmreg_remote_close(remote);
    assert_ok(hmreg_mr_close(mr));
    attr.auth_key_size = 65;
    assert_fails(hmreg_mr_regattr(fixture.domain, &attr, 0, &mr), -EINVAL, "auth_key_size");
    fixture_close(&fixture);
}

/* ---- asynchronous registration ---------------------------------------------------------- */

static void event_queue__region_is_complete_when_its_event_is_read(void **state)
{
    struct hmreg_loopback_event event = {.size = sizeof(event)};
    struct hmreg_loopback_eq *eq = NULL;
    struct hmreg_mr *mr = NULL;
    uint8_t token[512];
    size_t size = sizeof(token);
    struct fixture fixture;
    int context;

    fixture_open(&fixture, 0);
    assert_ok(hmreg_loopback_eq_open(fixture.domain, &eq));
    assert_fails(hmreg_domain_bind(fixture.domain, eq, 0), -HMREG_EBADFLAGS, "HMREG_REG_MR");
    assert_ok(hmreg_domain_bind(fixture.domain, eq, HMREG_REG_MR));
    assert_fails(hmreg_domain_bind(fixture.domain, eq, HMREG_REG_MR), -EBUSY, "already");
    assert_fails(hmreg_loopback_eq_read(eq, &event, 0), -EAGAIN, "no registration");
    assert_ok(
        hmreg_mr_reg(fixture.domain, fixture.memory, 1, HMREG_REMOTE_READ, 0, 5, 0, &mr, &context));
    assert_true(hmreg_mr_key(mr) == HMREG_KEY_NOTAVAIL);
    assert_fails(hmreg_mr_pack(mr, token, &size), -EAGAIN, "not complete");
    assert_fails(hmreg_loopback_eq_close(eq), -EBUSY, "regions");
    assert_ok(hmreg_loopback_eq_read(eq, &event, -1));
    assert_ptr_equal(event.mr, mr);
    assert_ptr_equal(event.context, &context);
    assert_int_equal(hmreg_mr_key(mr), 5);
    assert_ok(hmreg_mr_close(mr));
    assert_ok(hmreg_loopback_eq_close(eq));
    fixture_close(&fixture);
}

static void event_queue__no_event_after_an_error_or_a_close(void **state)
{
    struct hmreg_loopback_event event = {.size = sizeof(event)};
    struct hmreg_loopback_eq *eq = NULL;
    struct hmreg_mr *first, *second, *none = NULL;
    struct fixture fixture;

    fixture_open(&fixture, 0);
    assert_ok(hmreg_loopback_eq_open(fixture.domain, &eq));
    assert_ok(hmreg_domain_bind(fixture.domain, eq, HMREG_REG_MR));
    first = fixture_reg(&fixture, 5, 0);
    second = fixture_reg(&fixture, 6, 0);
    assert_fails(
        hmreg_mr_reg(fixture.domain, fixture.memory, 1, HMREG_REMOTE_READ, 0, 5, 0, &none, NULL),
        -HMREG_ENOKEY, "in use");
    assert_null(none);
    assert_ok(hmreg_mr_close(first));
    assert_ok(hmreg_loopback_eq_read(eq, &event, 0));
    assert_ptr_equal(event.mr, second);
    assert_fails(hmreg_loopback_eq_read(eq, &event, 1), -EAGAIN, "no registration");
    assert_ok(hmreg_mr_close(second));
    assert_ok(hmreg_loopback_eq_close(eq));
    fixture_close(&fixture);
}

TEST_MAIN(TEST(endpoint__region_starts_disabled_and_works_once_bound_and_enabled),
          TEST(endpoint__bound_without_the_mode__inval),
          TEST(rma_event__counter_counts_each_remote_write_once),
          TEST(rma_event__region_not_registered_for_it__inval),
          TEST(counter__without_the_mode__binds_any_time),
          TEST(mmu_notify__page_that_came_later__efault_until_refreshed),
          TEST(mmu_notify__terabytes_with_a_page_in_them__that_page_is_known),
          TEST(default__memory_that_is_mapped_later__is_reached),
          TEST(allocated__memory_that_is_not_mapped__efault),
          TEST(raw__key_used_unmapped__keyrejected), TEST(raw__guessed_secret__keyrejected),
          TEST(raw__token_opened_on_a_domain_without_the_mode__exdev),
          TEST(raw_calls__without_the_mode__carry_the_key_itself),
          TEST(basic_and_scalable__mean_what_the_manual_says), TEST(basic__with_another_bit__inval),
          TEST(auth_key__of_another__acces),
          TEST(event_queue__region_is_complete_when_its_event_is_read),
          TEST(event_queue__no_event_after_an_error_or_a_close))
