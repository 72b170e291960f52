/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Cached gets of several segments of device memory and dmabufs, what is refused, failures,
 * endpoints and groups.
 */
#include "tests/unit/cache_segments.h"

#include <hmreg/group.h>

#define PLACES (sizeof(memory) / sizeof(memory[0]))

static struct vendor *cuda = &vendors[HMREG_IFACE_CUDA];

/* ---- device memory ---------------------------------------------------------------------- */

static struct vendor_claim *claim(size_t index, enum hmreg_mem_kind kind, int device)
{
    return vendor_claim(HMREG_IFACE_CUDA, memory[index], LEN, kind, device);
}

TEST(device__hits__ask_for_each_segment)
{
    struct vendor_claim *claims[2];
    struct list list;
    unsigned asked;

    open_fixture();
    claims[0] = claim(5, HMREG_MEM_DEVICE, 1);
    claims[1] = claim(2, HMREG_MEM_DEVICE, 1);
    assert_int_equal(key_of(pair(&list, memory[5], memory[2])), 1);
    assert_int_equal(cuda->resolves, 2);
    for (int i = 0; i < 3; i++) {
        asked = cuda->identities;
        assert_int_equal(key_of(&list), 1);
        assert_int_equal(cuda->identities, asked + 2);
    }
    assert_int_equal(cuda->resolves, 2);
    vendor_renew(claims[1]);
    assert_int_equal(key_of(&list), 3);
    vendor_renew(claims[0]);
    assert_int_equal(key_of(&list), 5);
    assert_int_equal(key_of(&list), 5);
    assert_int_equal(fixture_stats().invalidations, 2);
}

TEST(device__end_reported__hits_ask_nobody)
{
    struct vendor_claim *claims[2];
    struct list list;
    unsigned asked;

    open_fixture();
    cuda->reports = true;
    claims[0] = claim(5, HMREG_MEM_DEVICE, 0);
    claims[1] = claim(2, HMREG_MEM_DEVICE, 0);
    assert_int_equal(key_of(pair(&list, memory[5], memory[2])), 1);
    assert_int_equal(cuda->watches, 2);
    asked = cuda->identities;
    for (int i = 0; i < 3; i++)
        assert_int_equal(key_of(&list), 1);
    assert_int_equal(cuda->identities, asked);
    vendor_renew(claims[1]);
    assert_int_equal(fixture_stats().regions, 0);
    assert_int_equal(key_of(&list), 3);
    vendor_renew(claims[0]);
    assert_int_equal(key_of(&list), 5);
}

static struct vendor_claim *to_renew;

static void renew_it(const struct provider_request *request)
{
    if (to_renew)
        vendor_renew(to_renew);
    to_renew = NULL;
}

TEST(device__freed_while_being_registered__that_registration_is_not_used)
{
    struct list list;

    for (int reports = 0; reports < 2; reports++) {
        open_fixture();
        cuda->reports = reports;
        claim(5, HMREG_MEM_DEVICE, 0);
        to_renew = claim(2, HMREG_MEM_DEVICE, 0);
        counter.reg_hook = renew_it;
        assert_int_equal(key_of(pair(&list, memory[5], memory[2])), 3);
        assert_int_equal(key_of(&list), 3);
        assert_int_equal(atomic_load(&counter.regions), 2);
        fixture_close();
    }
}

/* Of a list with host memory that no runtime pinned the pinned part is the system's, too. */
TEST(list__host_memory_and_pinned__watched_like_any_host_memory)
{
    size_t page = fixture_page();
    struct vendor_claim *claimed;
    struct list list;
    char *pages;

    open_watched();
    pages = fixture_map(7);
    claimed = vendor_claim(HMREG_IFACE_ROCR, pages + 5 * page, page, HMREG_MEM_HOST_PINNED, 0);
    vendor_renew(claimed);
    assert_int_equal(key_of(watched_pair(&list, pages)), 1);
    assert_int_equal(key_of(&list), 1);
    assert_int_equal(munmap(pages + 5 * page, page), 0);
    assert_int_equal(fixture_stats().invalidations, 1);
    vendor_unclaim(HMREG_IFACE_ROCR, pages + 5 * page);
    munmap(pages, 7 * page);
}

TEST(device__ended_without_a_report__swept)
{
    struct vendor_claim *claims[MOST] = {NULL};
    struct list list, other;

    open_fixture();
    clear(&list);
    for (size_t i = 0; i < 14; i++) {
        claims[i] = claim(i, HMREG_MEM_DEVICE, 0);
        add(&list, memory[i], LEN);
    }
    claim(15, HMREG_MEM_DEVICE, 0);
    key_of(&list);
    key_of(pair(&other, memory[15], memory[0]));
    fixture_key(memory[15], LEN);
    assert_true(inside_sweep(fixture.domain));
    assert_int_equal(fixture_stats().regions, 3);
    vendor_renew(claims[12]);
    assert_true(inside_sweep(fixture.domain));
    assert_int_equal(fixture_stats().regions, 2);
    vendor_renew(claims[0]);
    assert_true(inside_sweep(fixture.domain));
    assert_int_equal(fixture_stats().regions, 1);
    assert_int_equal(fixture_stats().invalidations, 2);
}

/* Each entry that ends moves the others, of which none may be passed over; nor may the part of a
 * list that is next. */
TEST(device__all_ended_without_a_report__one_sweep)
{
    struct vendor_claim *claims[PLACES] = {NULL};
    struct list list;

    open_fixture();
    for (size_t i = 0; i < PLACES; i++)
        claims[i] = claim(i, HMREG_MEM_DEVICE, 0);
    for (size_t i = 0; i < PLACES; i++)
        fixture_key(memory[i], LEN);
    for (size_t i = 0; i + 1 < PLACES; i += 3)
        key_of(pair(&list, memory[i + 1], memory[i]));
    for (size_t i = 0; i < PLACES; i++)
        vendor_renew(claims[i]);
    assert_true(inside_sweep(fixture.domain));
    assert_int_equal(fixture_stats().regions, 0);
    assert_false(inside_sweep(fixture.domain));
}

/* ---- dmabufs ---------------------------------------------------------------------------- */

TEST(dmabufs__another_descriptor_of_them__hit)
{
    int one = dmabuf_new(4), other = dmabuf_new(4);
    struct list list;

    open_fixture();
    for (int i = 0; i < 4; i++) {
        int own = fcntl(one, F_DUPFD_CLOEXEC, 100 + i);

        clear(&list);
        add_dmabuf(&list, own, memory[4], LEN, LEN);
        add_dmabuf(&list, other, memory[0], 0, LEN);
        assert_int_equal(key_of(&list), 1);
        close(own);
    }
    assert_int_equal(fixture_stats().hits, 3);
    close(one);
    close(other);
}

TEST(dmabufs__invalidated_by_a_segments_addresses__registered)
{
    int fd = dmabuf_new(4);
    struct list list;

    open_fixture();
    clear(&list);
    add_dmabuf(&list, fd, memory[0], 3 * LEN, LEN);
    add_dmabuf(&list, fd, memory[0], 0, LEN);
    assert_int_equal(key_of(&list), 1);
    assert_ok(hmreg_invalidate(fixture.lib, memory[1], 2 * LEN));
    assert_int_equal(key_of(&list), 1);
    assert_ok(hmreg_invalidate(fixture.lib, memory[3], LEN));
    assert_int_equal(key_of(&list), 3);
    assert_ok(hmreg_invalidate(fixture.lib, memory[0], LEN));
    assert_int_equal(key_of(&list), 5);
    close(fd);
}

/* The vendor is asked about its own memory only. */
TEST(dmabufs__beside_device_memory__one_region)
{
    int fd = dmabuf_new(4);
    struct vendor_claim *claimed;
    struct list list;
    unsigned asked;

    open_fixture();
    claimed = claim(5, HMREG_MEM_DEVICE, 1);
    clear(&list);
    add(&list, memory[5], LEN);
    add_dmabuf(&list, fd, NULL, LEN, LEN);
    assert_int_equal(key_of(&list), 1);
    asked = cuda->identities;
    assert_int_equal(key_of(&list), 1);
    assert_int_equal(cuda->identities, asked + 1);
    vendor_renew(claimed);
    assert_int_equal(key_of(&list), 3);
    close(fd);
}

/* ---- refusals and failures -------------------------------------------------------------- */

TEST(segments__arguments__refused_as_by_regsgl)
{
    struct list list;

    open_fixture();
    pair(&list, memory[0], memory[2])->segments[1].kind = 2;
    assert_refused(&list, -EINVAL, "segments[1].kind is 2");
    pair(&list, memory[0], memory[2])->segments[1].u.memory.iov_len = 0;
    assert_refused(&list, -EINVAL, "segments[1]: len is 0");
    pair(&list, memory[0], memory[2])->attr.segment_count = HMREG_SEGMENTS_MAX + 1;
    assert_refused(&list, -EINVAL, "count is 1025");
    pair(&list, memory[0], memory[2])->attr.segments = NULL;
    assert_refused(&list, -EINVAL, "segments is NULL");
    pair(&list, memory[0], memory[2])->segments[0].u.memory.iov_len = UINT64_C(1) << 40;
    assert_refused(&list, -EMSGSIZE, "longer");
    clear(&list);
    add_dmabuf(&list, -1, NULL, 0, LEN);
    assert_refused(&list, -EBADF, "fd -1");
    assert_int_equal(registrations(), 0);
}

TEST(segments__a_trusted_claim__nobody_is_asked)
{
    struct list list;

    open_fixture();
    pair(&list, memory[5], memory[2])->attr.claim_iface = HMREG_CLAIM_TRUSTED;
    list.attr.iface = HMREG_IFACE_CUDA;
    list.attr.device = 1;
    list.attr.claim_kind = HMREG_MEM_DEVICE;
    list.attr.claim_base = (uintptr_t)memory[0];
    list.attr.claim_len = 5 * LEN;
    list.attr.claim_identity = 77;
    assert_refused(&list, -ERANGE, "alloc");
    list.attr.claim_len = 8 * LEN;
    for (int i = 0; i < 3; i++)
        assert_int_equal(key_of(&list), 1);
    list.attr.claim_identity = 78;
    assert_int_equal(key_of(&list), 3);
    assert_int_equal(cuda->resolves + cuda->identities + cuda->watches, 0);
}

static unsigned left; /* registrations that succeed before one fails */

static void fail_later(const struct provider_request *request)
{
    if (left--)
        return;
    atomic_store(&counter.reg_code, -EIO);
    atomic_store(&counter.reg_times, 1);
}

TEST(segments__no_room__the_least_recently_used_makes_room)
{
    struct list list;

    open_fixture();
    counter.room = 3;
    for (int i = 0; i < 3; i++)
        fixture_key(memory[i], LEN);
    key_of(pair(&list, memory[5], memory[9]));
    assert_int_equal(atomic_load(&counter.regions), 3); /* one made way, then another */
    assert_int_equal(fixture_stats().regions, 2);
    assert_int_equal(fixture_stats().evictions, 2);
}

TEST(segments__deregistration_is_busy__tried_again)
{
    struct list list;

    open_fixture();
    key_of(pair(&list, memory[5], memory[9]));
    atomic_store(&counter.dereg_code, -EBUSY);
    atomic_store(&counter.dereg_times, 1);
    assert_ok(hmreg_invalidate(fixture.lib, memory[9], 1));
    key_of(&list);
    assert_ok(hmreg_domain_flush(fixture.domain));
    assert_int_equal(atomic_load(&counter.regions), 0);
}

/* ---- endpoints and groups --------------------------------------------------------------- */

TEST(segments__with_an_endpoint__each_piece_is_bound)
{
    static char end;
    struct hmreg_domain *plain;
    struct hmreg_mr *mr, *again;
    struct list list;

    open_fixture();
    plain = fixture.domain;
    fixture.domain = counter_open_binding(fixture.lib, NULL);
    pair(&list, memory[5], memory[2])->attr.endpoint = &end;
    mr = get(&list);
    assert_int_equal(atomic_load(&counter.binds), 2);
    assert_int_equal(atomic_load(&counter.enables), 2);
    again = get(&list);
    assert_ptr_equal(again, mr);
    hmreg_mr_put(again);
    hmreg_mr_put(mr);
    assert_ok(hmreg_domain_flush(fixture.domain));
    counter.enable_fails = 4;
    counter.ready_code = -EIO;
    assert_refused(&list, -EIO, "asked to fail to enable");
    assert_ok(hmreg_domain_close(fixture.domain));
    fixture.domain = plain;
}

#define RAILS 3

TEST(group__segments__one_entry_for_all_rails)
{
    struct hmreg_domain *members[RAILS], *group;
    struct hmreg_piece_info piece = {.size = sizeof(piece)};
    struct hmreg_mr *mr, *again;
    struct vendor_claim *claimed;
    struct list list;

    open_fixture();
    members[0] = fixture.domain;
    for (int i = 1; i < RAILS; i++)
        members[i] = counter_open_more(fixture.lib, NULL);
    assert_ok(hmreg_group_open(fixture.lib, members, RAILS, NULL, &group));
    fixture.domain = group;
    claimed = claim(5, HMREG_MEM_DEVICE, 1);
    claim(2, HMREG_MEM_DEVICE, 1);
    pair(&list, memory[2], memory[5]);
    mr = get(&list);
    again = get(&list);
    assert_ptr_equal(again, mr);
    assert_int_equal(registrations(), 2 * RAILS);
    assert_int_equal(cuda->resolves, 2);
    for (size_t i = 0; i < RAILS; i++) {
        assert_ok(hmreg_mr_piece(hmreg_mr_rail(mr, i), 1, &piece));
        assert_int_equal(piece.local_addr, (uintptr_t)memory[5]);
    }
    hmreg_mr_put(again);
    hmreg_mr_put(mr);
    vendor_renew(claimed);
    hmreg_mr_put(get(&list));
    assert_int_equal(registrations(), 4 * RAILS);
    assert_int_equal(fixture_stats().invalidations, 1);
    assert_ok(hmreg_domain_flush(group));
    left = RAILS + 1; /* the second piece of the second rail */
    counter.reg_hook = fail_later;
    assert_refused(&list, -EIO, "rail 1");
    counter.reg_hook = NULL;
    assert_ok(hmreg_domain_close(group));
    for (int i = 1; i < RAILS; i++)
        assert_ok(hmreg_domain_close(members[i]));
    fixture.domain = members[0];
}

/* A list permits several registrations also where one range must be one; in each round. */
TEST(group__of_single_regions__list_registered_again_after_a_change)
{
    struct hmreg_domain_config single = {.size = sizeof(single), .flags = HMREG_DOMAIN_SINGLE};
    struct hmreg_group_config config = {.size = sizeof(config), .domain = &single};
    struct hmreg_domain *group, *member;
    struct list list;

    open_fixture();
    member = fixture.domain;
    assert_ok(hmreg_group_open(fixture.lib, &member, 1, &config, &group));
    claim(5, HMREG_MEM_DEVICE, 1);
    to_renew = claim(2, HMREG_MEM_DEVICE, 1);
    counter.reg_hook = renew_it;
    fixture.domain = group;
    hmreg_mr_put(get(pair(&list, memory[5], memory[2])));
    counter.reg_hook = NULL;
    assert_int_equal(registrations(), 4);
    fixture.domain = member;
    assert_ok(hmreg_domain_close(group));
}

TEST_MAIN()
