/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Cached gets of several segments of device memory and dmabufs, what is refused, failures,
 * endpoints and groups.
 */
#include "tests/unit/cache_segments.h"

#include <errno.h>
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
    struct fixture fixture;
    struct list list;
    unsigned asked;

    open_fixture(&fixture);
    claims[0] = claim(5, HMREG_MEM_DEVICE, 1);
    claims[1] = claim(2, HMREG_MEM_DEVICE, 1);
    assert_int_equal(key_of(&fixture, pair(&list, memory[5], memory[2])), 1);
    assert_int_equal(cuda->resolves, 2);
    for (int i = 0; i < 3; i++) {
        asked = cuda->identities;
        assert_int_equal(key_of(&fixture, &list), 1);
        assert_int_equal(cuda->identities, asked + 2);
    }
    assert_int_equal(cuda->resolves, 2);
    vendor_renew(claims[1]);
    assert_int_equal(key_of(&fixture, &list), 3);
    vendor_renew(claims[0]);
    assert_int_equal(key_of(&fixture, &list), 5);
    assert_int_equal(key_of(&fixture, &list), 5);
    assert_int_equal(fixture_stats(&fixture).invalidations, 2);
    fixture_close(&fixture);
}

TEST(device__end_reported__hits_ask_nobody)
{
    struct vendor_claim *claims[2];
    struct fixture fixture;
    struct list list;
    unsigned asked;

    open_fixture(&fixture);
    cuda->reports = true;
    claims[0] = claim(5, HMREG_MEM_DEVICE, 0);
    claims[1] = claim(2, HMREG_MEM_DEVICE, 0);
    assert_int_equal(key_of(&fixture, pair(&list, memory[5], memory[2])), 1);
    assert_int_equal(cuda->watches, 2);
    asked = cuda->identities;
    for (int i = 0; i < 3; i++)
        assert_int_equal(key_of(&fixture, &list), 1);
    assert_int_equal(cuda->identities, asked);
    vendor_renew(claims[1]);
    assert_int_equal(fixture_stats(&fixture).regions, 0);
    assert_int_equal(key_of(&fixture, &list), 3);
    vendor_renew(claims[0]);
    assert_int_equal(key_of(&fixture, &list), 5);
    fixture_close(&fixture);
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
    struct fixture fixture;
    struct list list;

    for (int reports = 0; reports < 2; reports++) {
        open_fixture(&fixture);
        cuda->reports = reports;
        claim(5, HMREG_MEM_DEVICE, 0);
        to_renew = claim(2, HMREG_MEM_DEVICE, 0);
        counter.reg_hook = renew_it;
        assert_int_equal(key_of(&fixture, pair(&list, memory[5], memory[2])), 3);
        assert_int_equal(key_of(&fixture, &list), 3);
        assert_int_equal(atomic_load(&counter.regions), 2);
        fixture_close(&fixture);
    }
}

/* Its runtime pinned the memory; the kernel knows what becomes of the addresses. */
TEST(device__pinned_host_memory__watched_and_asked)
{
    size_t page = fixture_page();
    struct vendor_claim *claimed[2];
    struct fixture fixture;
    struct list list;
    char *pages;

    open_watched(&fixture);
    pages = fixture_map(7);
    claimed[0] = vendor_claim(HMREG_IFACE_CUDA, pages + 5 * page, page, HMREG_MEM_HOST_PINNED, 0);
    claimed[1] = vendor_claim(HMREG_IFACE_CUDA, pages + page, page, HMREG_MEM_HOST_PINNED, 0);
    vendor_renew(claimed[0]); /* gives it an identity */
    vendor_renew(claimed[1]);
    assert_int_equal(key_of(&fixture, watched_pair(&list, pages)), 1);
    assert_int_equal(key_of(&fixture, &list), 1);
    vendor_renew(claimed[1]);
    assert_int_equal(key_of(&fixture, &list), 3);
    assert_int_equal(munmap(pages + page, page), 0);
    assert_int_equal(fixture_stats(&fixture).invalidations, 2);
    vendor_unclaim(HMREG_IFACE_CUDA, pages + page);
    munmap(pages, 7 * page);
    fixture_close(&fixture);
}

/* Of a list with host memory that no runtime pinned the pinned part is the system's, too. */
TEST(list__host_memory_and_pinned__watched_like_any_host_memory)
{
    size_t page = fixture_page();
    struct vendor_claim *claimed;
    struct fixture fixture;
    struct list list;
    char *pages;

    open_watched(&fixture);
    pages = fixture_map(7);
    claimed = vendor_claim(HMREG_IFACE_ROCR, pages + 5 * page, page, HMREG_MEM_HOST_PINNED, 0);
    vendor_renew(claimed);
    assert_int_equal(key_of(&fixture, watched_pair(&list, pages)), 1);
    assert_int_equal(key_of(&fixture, &list), 1);
    assert_int_equal(munmap(pages + 5 * page, page), 0);
    assert_int_equal(fixture_stats(&fixture).invalidations, 1);
    vendor_unclaim(HMREG_IFACE_ROCR, pages + 5 * page);
    munmap(pages, 7 * page);
    fixture_close(&fixture);
}

/* What the reaper does now and then. True: it is to be done again, since it asked about some. */
static bool sweep(struct cache_set *set)
{
    bool again;

    reaper_pause(&set->reaper);
    while (set->sweep.number)
        sweep_some(&set->sweep, &set->pool);
    sweep_expect(&set->sweep);
    while (sweep_some(&set->sweep, &set->pool))
        ;
    again = sweep_is_expected(&set->sweep);
    reaper_resume(&set->reaper);
    return again;
}

TEST(device__ended_without_a_report__swept)
{
    struct vendor_claim *claims[MOST] = {NULL};
    struct fixture fixture;
    struct list list, other;

    open_fixture(&fixture);
    clear(&list);
    for (size_t i = 0; i < 14; i++) {
        claims[i] = claim(i, HMREG_MEM_DEVICE, 0);
        add(&list, memory[i], LEN);
    }
    claim(15, HMREG_MEM_DEVICE, 0);
    key_of(&fixture, &list);
    key_of(&fixture, pair(&other, memory[15], memory[0]));
    fixture_key(&fixture, memory[15], LEN);
    assert_true(sweep(fixture.domain->caches));
    assert_int_equal(fixture_stats(&fixture).regions, 3);
    vendor_renew(claims[12]);
    assert_true(sweep(fixture.domain->caches));
    assert_int_equal(fixture_stats(&fixture).regions, 2);
    vendor_renew(claims[0]);
    assert_true(sweep(fixture.domain->caches));
    assert_int_equal(fixture_stats(&fixture).regions, 1);
    assert_int_equal(fixture_stats(&fixture).invalidations, 2);
    fixture_close(&fixture);
}

/* Each entry that ends moves the others, of which none may be passed over; nor may the part of a
 * list that is next. */
TEST(device__all_ended_without_a_report__one_sweep)
{
    struct vendor_claim *claims[PLACES] = {NULL};
    struct fixture fixture;
    struct list list;

    open_fixture(&fixture);
    for (size_t i = 0; i < PLACES; i++)
        claims[i] = claim(i, HMREG_MEM_DEVICE, 0);
    for (size_t i = 0; i < PLACES; i++)
        fixture_key(&fixture, memory[i], LEN);
    for (size_t i = 0; i + 1 < PLACES; i += 3)
        key_of(&fixture, pair(&list, memory[i + 1], memory[i]));
    for (size_t i = 0; i < PLACES; i++)
        vendor_renew(claims[i]);
    assert_true(sweep(fixture.domain->caches));
    assert_int_equal(fixture_stats(&fixture).regions, 0);
    assert_false(sweep(fixture.domain->caches));
    fixture_close(&fixture);
}

/* ---- dmabufs ---------------------------------------------------------------------------- */

TEST(dmabufs__another_descriptor_of_them__hit)
{
    int one = dmabuf_new(4), other = dmabuf_new(4);
    struct fixture fixture;
    struct list list;

    open_fixture(&fixture);
    for (int i = 0; i < 4; i++) {
        int own = fcntl(one, F_DUPFD_CLOEXEC, 100 + i);

        clear(&list);
        add_dmabuf(&list, own, memory[4], LEN, LEN);
        add_dmabuf(&list, other, memory[0], 0, LEN);
        assert_int_equal(key_of(&fixture, &list), 1);
        close(own);
    }
    assert_int_equal(fixture_stats(&fixture).hits, 3);
    close(one);
    close(other);
    fixture_close(&fixture);
}

TEST(dmabufs__another_part_base_or_dmabuf__another_region)
{
    int one = dmabuf_new(4), other = dmabuf_new(4);
    struct fixture fixture;
    struct list list;

    open_fixture(&fixture);
    clear(&list);
    add_dmabuf(&list, one, memory[4], LEN, LEN);
    add_dmabuf(&list, other, memory[0], 0, LEN);
    assert_int_equal(key_of(&fixture, &list), 1);
    list.segments[1].u.dmabuf.fd = one;
    assert_int_equal(key_of(&fixture, &list), 3);
    list.segments[1].u.dmabuf.len = 2 * LEN;
    assert_int_equal(key_of(&fixture, &list), 5);
    list.segments[0].u.dmabuf.base_addr = memory[5]; /* the same addresses */
    list.segments[0].u.dmabuf.offset = 0;
    assert_int_equal(key_of(&fixture, &list), 7);
    list.segments[0].kind = HMREG_SEGMENT_MEMORY; /* the same address, by memory */
    list.segments[0].u.memory = (struct iovec){memory[5], LEN};
    assert_ok(hmreg_domain_flush(fixture.domain));
    assert_refused(&fixture, &list, -EINVAL, "segments[1]");
    close(one);
    close(other);
    fixture_close(&fixture);
}

TEST(dmabufs__invalidated_by_a_segments_addresses__registered)
{
    int fd = dmabuf_new(4);
    struct fixture fixture;
    struct list list;

    open_fixture(&fixture);
    clear(&list);
    add_dmabuf(&list, fd, memory[0], 3 * LEN, LEN);
    add_dmabuf(&list, fd, memory[0], 0, LEN);
    assert_int_equal(key_of(&fixture, &list), 1);
    assert_ok(hmreg_invalidate(fixture.lib, memory[1], 2 * LEN));
    assert_int_equal(key_of(&fixture, &list), 1);
    assert_ok(hmreg_invalidate(fixture.lib, memory[3], LEN));
    assert_int_equal(key_of(&fixture, &list), 3);
    assert_ok(hmreg_invalidate(fixture.lib, memory[0], LEN));
    assert_int_equal(key_of(&fixture, &list), 5);
    close(fd);
    fixture_close(&fixture);
}

/* The vendor is asked about its own memory only. */
TEST(dmabufs__beside_device_memory__one_region)
{
    int fd = dmabuf_new(4);
    struct vendor_claim *claimed;
    struct fixture fixture;
    struct list list;
    unsigned asked;

    open_fixture(&fixture);
    claimed = claim(5, HMREG_MEM_DEVICE, 1);
    clear(&list);
    add(&list, memory[5], LEN);
    add_dmabuf(&list, fd, NULL, LEN, LEN);
    assert_int_equal(key_of(&fixture, &list), 1);
    asked = cuda->identities;
    assert_int_equal(key_of(&fixture, &list), 1);
    assert_int_equal(cuda->identities, asked + 1);
    vendor_renew(claimed);
    assert_int_equal(key_of(&fixture, &list), 3);
    close(fd);
    fixture_close(&fixture);
}

/* ---- refusals and failures -------------------------------------------------------------- */

TEST(segments__unlike__inval_as_by_regsgl)
{
    struct fixture fixture;
    struct list list;

    open_fixture(&fixture);
    claim(5, HMREG_MEM_DEVICE, 1);
    claim(6, HMREG_MEM_MANAGED, 1);
    assert_refused(&fixture, pair(&list, memory[5], memory[2]), -EINVAL, "segments[1] is host");
    assert_refused(&fixture, pair(&list, memory[2], memory[5]), -EINVAL, "one iface and kind");
    assert_refused(&fixture, pair(&list, memory[5], memory[6]), -EINVAL, "managed");
    assert_int_equal(registrations(), 0);
    fixture_close(&fixture);
}

TEST(segments__arguments__refused_as_by_regsgl)
{
    struct fixture fixture;
    struct list list;

    open_fixture(&fixture);
    pair(&list, memory[0], memory[2])->segments[1].kind = 2;
    assert_refused(&fixture, &list, -EINVAL, "segments[1].kind is 2");
    pair(&list, memory[0], memory[2])->segments[1].u.memory.iov_len = 0;
    assert_refused(&fixture, &list, -EINVAL, "segments[1]: len is 0");
    pair(&list, memory[0], memory[2])->attr.segment_count = HMREG_SEGMENTS_MAX + 1;
    assert_refused(&fixture, &list, -EINVAL, "count is 1025");
    pair(&list, memory[0], memory[2])->attr.segments = NULL;
    assert_refused(&fixture, &list, -EINVAL, "segments is NULL");
    pair(&list, memory[0], memory[2])->segments[0].u.memory.iov_len = UINT64_C(1) << 40;
    assert_refused(&fixture, &list, -EMSGSIZE, "longer");
    clear(&list);
    add_dmabuf(&list, -1, NULL, 0, LEN);
    assert_refused(&fixture, &list, -EBADF, "fd -1");
    assert_int_equal(registrations(), 0);
    fixture_close(&fixture);
}

TEST(segments__a_claim__of_each_and_part_of_the_key)
{
    struct fixture fixture;
    struct list list;

    open_fixture(&fixture);
    claim(5, HMREG_MEM_DEVICE, 1);
    claim(6, HMREG_MEM_DEVICE, 0);
    claim(7, HMREG_MEM_DEVICE, 1);
    pair(&list, memory[5], memory[6])->attr.claim_iface = HMREG_CLAIM_CHECKED;
    list.attr.iface = HMREG_IFACE_CUDA;
    list.attr.device = 1;
    assert_refused(&fixture, &list, -EINVAL, "device: the caller says 1, the memory is on 0");
    list.segments[1].u.memory.iov_base = memory[7];
    for (int i = 0; i < 3; i++) {
        list.attr.claim_iface = HMREG_CLAIM_CHECKED;
        assert_int_equal(key_of(&fixture, &list), 1);
        list.attr.claim_iface = HMREG_CLAIM_NONE;
        assert_int_equal(key_of(&fixture, &list), 3);
    }
    fixture_close(&fixture);
}

TEST(segments__a_trusted_claim__nobody_is_asked)
{
    struct fixture fixture;
    struct list list;

    open_fixture(&fixture);
    pair(&list, memory[5], memory[2])->attr.claim_iface = HMREG_CLAIM_TRUSTED;
    list.attr.iface = HMREG_IFACE_CUDA;
    list.attr.device = 1;
    list.attr.claim_kind = HMREG_MEM_DEVICE;
    list.attr.claim_base = (uintptr_t)memory[0];
    list.attr.claim_len = 5 * LEN;
    list.attr.claim_identity = 77;
    assert_refused(&fixture, &list, -ERANGE, "alloc");
    list.attr.claim_len = 8 * LEN;
    for (int i = 0; i < 3; i++)
        assert_int_equal(key_of(&fixture, &list), 1);
    list.attr.claim_identity = 78;
    assert_int_equal(key_of(&fixture, &list), 3);
    assert_int_equal(cuda->resolves + cuda->identities + cuda->watches, 0);
    fixture_close(&fixture);
}

static unsigned left; /* registrations that succeed before one fails */

static void fail_later(const struct provider_request *request)
{
    if (left--)
        return;
    atomic_store(&counter.reg_code, -EIO);
    atomic_store(&counter.reg_times, 1);
}

TEST(segments__second_fails__nothing_stays)
{
    struct fixture fixture;
    struct list list;

    open_fixture(&fixture);
    pair(&list, memory[5], memory[2]);
    left = 1;
    counter.reg_hook = fail_later;
    assert_refused(&fixture, &list, -EIO, "asked to fail");
    counter.reg_hook = NULL;
    assert_int_equal(registrations(), 2);
    assert_int_equal(key_of(&fixture, &list), 3);
    fixture_close(&fixture);
}

TEST(segments__no_room__the_least_recently_used_makes_room)
{
    struct fixture fixture;
    struct list list;

    open_fixture(&fixture);
    counter.room = 3;
    for (int i = 0; i < 3; i++)
        fixture_key(&fixture, memory[i], LEN);
    key_of(&fixture, pair(&list, memory[5], memory[9]));
    assert_int_equal(atomic_load(&counter.regions), 2); /* one made way, then two */
    assert_int_equal(fixture_stats(&fixture).regions, 1);
    assert_int_equal(fixture_stats(&fixture).evictions, 3);
    fixture_close(&fixture);
}

TEST(segments__deregistration_is_busy__tried_again)
{
    struct fixture fixture;
    struct list list;

    open_fixture(&fixture);
    key_of(&fixture, pair(&list, memory[5], memory[9]));
    atomic_store(&counter.dereg_code, -EBUSY);
    atomic_store(&counter.dereg_times, 1);
    assert_ok(hmreg_invalidate(fixture.lib, memory[9], 1));
    key_of(&fixture, &list);
    assert_ok(hmreg_domain_flush(fixture.domain));
    assert_int_equal(atomic_load(&counter.regions), 0);
    fixture_close(&fixture);
}

/* ---- endpoints and groups --------------------------------------------------------------- */

TEST(segments__with_an_endpoint__each_piece_is_bound)
{
    static char end;
    struct hmreg_domain *plain;
    struct hmreg_mr *mr, *again;
    struct fixture fixture;
    struct list list;

    open_fixture(&fixture);
    plain = fixture.domain;
    fixture.domain = counter_open_binding(fixture.lib, NULL);
    pair(&list, memory[5], memory[2])->attr.endpoint = &end;
    mr = get(&fixture, &list);
    assert_int_equal(atomic_load(&counter.binds), 2);
    assert_int_equal(atomic_load(&counter.enables), 2);
    again = get(&fixture, &list);
    assert_ptr_equal(again, mr);
    hmreg_mr_put(again);
    hmreg_mr_put(mr);
    assert_ok(hmreg_domain_flush(fixture.domain));
    counter.enable_fails = 4;
    counter.ready_code = -EIO;
    assert_refused(&fixture, &list, -EIO, "asked to fail to enable");
    assert_ok(hmreg_domain_close(fixture.domain));
    fixture.domain = plain;
    fixture_close(&fixture);
}

#define RAILS 3

TEST(group__segments__one_entry_for_all_rails)
{
    struct hmreg_domain *members[RAILS], *group;
    struct hmreg_segment_info piece = {.size = sizeof(piece)};
    struct hmreg_mr *mr, *again;
    struct fixture fixture;
    struct vendor_claim *claimed;
    struct list list;

    open_fixture(&fixture);
    members[0] = fixture.domain;
    for (int i = 1; i < RAILS; i++)
        members[i] = counter_open_more(fixture.lib, NULL);
    assert_ok(hmreg_group_open(fixture.lib, members, RAILS, NULL, &group));
    fixture.domain = group;
    claimed = claim(5, HMREG_MEM_DEVICE, 1);
    claim(2, HMREG_MEM_DEVICE, 1);
    pair(&list, memory[2], memory[5]);
    mr = get(&fixture, &list);
    again = get(&fixture, &list);
    assert_ptr_equal(again, mr);
    assert_int_equal(registrations(), 2 * RAILS);
    assert_int_equal(cuda->resolves, 2);
    for (size_t i = 0; i < RAILS; i++) {
        assert_ok(hmreg_mr_segment(hmreg_mr_rail(mr, i), 1, &piece));
        assert_int_equal(piece.local_addr, (uintptr_t)memory[5]);
    }
    hmreg_mr_put(again);
    hmreg_mr_put(mr);
    vendor_renew(claimed);
    hmreg_mr_put(get(&fixture, &list));
    assert_int_equal(registrations(), 4 * RAILS);
    assert_int_equal(fixture_stats(&fixture).invalidations, 1);
    assert_ok(hmreg_domain_flush(group));
    left = RAILS + 1; /* the second piece of the second rail */
    counter.reg_hook = fail_later;
    assert_refused(&fixture, &list, -EIO, "rail 1");
    counter.reg_hook = NULL;
    assert_ok(hmreg_domain_close(group));
    for (int i = 1; i < RAILS; i++)
        assert_ok(hmreg_domain_close(members[i]));
    fixture.domain = members[0];
    fixture_close(&fixture);
}

/* A list permits several registrations also where one range must be one; in each round. */
TEST(group__of_single_regions__list_registered_again_after_a_change)
{
    struct hmreg_domain_config single = {.size = sizeof(single), .flags = HMREG_DOMAIN_SINGLE};
    struct hmreg_group_config config = {.size = sizeof(config), .domain = &single};
    struct hmreg_domain *group;
    struct fixture fixture;
    struct list list;

    open_fixture(&fixture);
    assert_ok(hmreg_group_open(fixture.lib, &fixture.domain, 1, &config, &group));
    claim(5, HMREG_MEM_DEVICE, 1);
    to_renew = claim(2, HMREG_MEM_DEVICE, 1);
    counter.reg_hook = renew_it;
    fixture.domain = group;
    hmreg_mr_put(get(&fixture, pair(&list, memory[5], memory[2])));
    counter.reg_hook = NULL;
    assert_int_equal(registrations(), 4);
    fixture.domain = hmreg_group_member(group, 0);
    assert_ok(hmreg_domain_close(group));
    fixture_close(&fixture);
}

TEST_MAIN()
