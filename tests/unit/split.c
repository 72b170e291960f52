/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Gets of ranges that are longer than the fabric registers at once: one entry of the cache, of the
 * longest pieces.
 */
#define FAILING_MALLOC
#include "tests/support/failing_allocation.h"
#include "tests/support/world.h"

#include <hmreg/job.h>
#include <sys/mman.h>

#define PAGE  4096u
#define PAGES 5 /* of a range: two pieces of two pages, and one */

#define MAX_LEN (2 * PAGE + 100) /* pieces end with pages */

static void open_split(void)
{
    world_open(.mr_mode = HMREG_MR_VIRT_ADDR, .max_len = MAX_LEN);
}

/* With another member that takes all at once. */
static void open_group(void)
{
    open_split();
    world_add(.mr_mode = HMREG_MR_VIRT_ADDR);
    assert_ok(hmreg_group_open(world.lib, world.nic, 2, NULL, &world.domain));
}

static int get(void *addr, size_t len, struct hmreg_mr **mr)
{
    return hmreg_mr_get(world.domain, addr, len, HMREG_ACCESS_ALL, mr);
}

static void flush(void)
{
    assert_ok(hmreg_domain_flush(world.domain));
    assert_int_equal(world_live(WORLD_EACH), 0);
}

static void check_pieces(const struct hmreg_mr *mr, const char *addr)
{
    struct hmreg_piece_info piece = {.size = sizeof(piece)};

    for (size_t i = 0; i < 3; i++) {
        assert_ok(hmreg_mr_piece(mr, i, &piece));
        assert_int_equal(piece.local_addr, (uintptr_t)addr + i * 2 * PAGE);
        assert_int_equal(piece.len, i < 2 ? 2 * PAGE : PAGE);
    }
    assert_fails(hmreg_mr_piece(mr, 3, &piece), -ENOENT, "3 pieces");
    assert_null(hmreg_mr_desc(mr));
    assert_true(hmreg_mr_key(mr) == HMREG_KEY_NOTAVAIL);
}

/* A peer finds each byte, and no operation crosses two pieces. */
static void check_peer(const struct hmreg_mr *mr, const char *host)
{
    struct hmreg_remote *remote;
    uint64_t addr, key;
    uint8_t token[512];
    size_t size = sizeof(token);

    assert_ok(hmreg_mr_pack(mr, token, &size));
    assert_ok(hmreg_remote_open(world.nic[0], token, size, &remote));
    assert_ok(hmreg_remote_addr(remote, 4 * PAGE + 1, 9, &addr, &key));
    assert_int_equal(addr, (uintptr_t)host + 4 * PAGE + 1);
    assert_fails(hmreg_remote_addr(remote, 2 * PAGE - 1, 2, &addr, &key), -EXDEV, "at offset 8192");
    hmreg_remote_close(remote);
    size = sizeof(token);
    assert_ok(hmreg_mr_pack_range(mr, host + 2 * PAGE - 1, 2, token, &size));
}

TEST(get__longer_than_max_len__one_entry_of_pieces)
{
    struct hmreg_mr *mr = NULL, *again = NULL, *inside = NULL;

    open_split();
    assert_ok(get(world.host, PAGES * PAGE, &mr));
    assert_int_equal(world_calls("reg"), 3);
    check_pieces(mr, world.host);
    check_peer(mr, world.host);
    assert_int_equal(test_info_of(mr).len, PAGES * PAGE);
    assert_true(test_info_of(mr).cached);
    for (int i = 0; i < 3; i++) { /* by the caches, then by the thread's table */
        assert_ok(get(world.host, PAGES * PAGE, &again));
        assert_ptr_equal(again, mr);
        hmreg_mr_put(again);
    }
    assert_ok(get(world.host + PAGE, 10, &inside));
    assert_ptr_equal(inside, mr);
    hmreg_mr_put(inside);
    assert_int_equal(world_calls("reg"), 3);
    hmreg_mr_put(mr);
    flush();
}

TEST(get__any_piece_changes__all_of_it_ends)
{
    open_split();
    for (unsigned i = 0; i < PAGES; i++) {
        struct hmreg_mr *mr = NULL, *fresh = NULL;

        world_clear();
        assert_ok(get(world.host, PAGES * PAGE, &mr));
        world_change(world.host + i * PAGE, 1);
        assert_ok(get(world.host, PAGES * PAGE, &fresh));
        assert_ptr_not_equal(fresh, mr);
        assert_int_equal(world_calls("reg"), 6);
        hmreg_mr_put(mr);
        hmreg_mr_put(fresh);
        flush();
    }
}

TEST(get__device_memory__exported_once_and_found_by_identity)
{
    struct hmreg_mr *mr = NULL, *again = NULL;
    char *addr;

    open_split();
    addr = world.gpu[0];
    assert_ok(get(addr, PAGES * PAGE, &mr));
    check_pieces(mr, addr);
    assert_int_equal(world_calls("cuda.export"), 1);
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(world_call("reg", i)->path, HMREG_PATH_DMABUF);
        assert_int_equal(world_call("reg", i)->dmabuf.offset, (uint64_t)i * 2 * PAGE);
    }
    assert_ok(get(addr, PAGES * PAGE, &again));
    assert_ptr_equal(again, mr);
    hmreg_mr_put(again);
    world_renew(addr);
    assert_ok(get(addr, PAGES * PAGE, &again));
    assert_ptr_not_equal(again, mr);
    hmreg_mr_put(mr);
    hmreg_mr_put(again);
    flush();
}

TEST(job__one_registration_asked_for__badflags)
{
    struct hmreg_mr_attr attr = {.size = sizeof(attr), .iov_count = 1, .access = HMREG_ACCESS_ALL};
    struct hmreg_job *job = NULL;

    open_split();
    attr.iov = &(struct iovec){world.host, PAGES * PAGE};
    assert_fails(hmreg_job_start(world.nic[0], &attr, HMREG_REG_SINGLE, NULL, &job),
                 -HMREG_EBADFLAGS, "in pieces");
}

/* A peer picks a rail, so all have the pieces of the smallest max_len. */
TEST(get__on_a_group__the_same_pieces_on_each_rail)
{
    struct hmreg_mr *mr = NULL, *again = NULL;

    open_group();
    assert_ok(get(world.gpu[0], PAGES * PAGE, &mr));
    check_pieces(hmreg_mr_rail(mr, 0), world.gpu[0]);
    check_pieces(hmreg_mr_rail(mr, 1), world.gpu[0]);
    assert_int_equal(world_calls("cuda.export"), 1);
    assert_ok(get(world.gpu[0], PAGES * PAGE, &again));
    assert_ptr_equal(again, mr);
    hmreg_mr_put(again);
    hmreg_mr_put(mr);
    flush();
    assert_int_equal(world_calls("reg"), 6);
}

TEST(get_attr__longer_than_max_len__each_piece_has_its_attributes)
{
    struct iovec range;
    struct hmreg_mr_attr attr = {.size = sizeof(attr),
                                 .iov = &range,
                                 .iov_count = 1,
                                 .access = HMREG_ACCESS_ALL,
                                 .context = (void *)0x99,
                                 .ordering = HMREG_ORDERING_STRICT,
                                 .set_iova = 1,
                                 .iova = 1 << 20};
    struct hmreg_mr *mr = NULL, *again = NULL, *plain = NULL;

    open_split();
    range = (struct iovec){world.host, PAGES * PAGE};
    assert_ok(hmreg_mr_get_attr(world.nic[0], &attr, 0, &mr));
    assert_int_equal(world_calls("reg"), 3);
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(world_call("reg", i)->ordering, HMREG_ORDERING_STRICT);
        assert_int_equal(world_call("reg", i)->iova, (1 << 20) + i * 2 * PAGE);
    }
    assert_ptr_equal(hmreg_mr_context(mr), (void *)0x99);
    assert_ok(hmreg_mr_get_attr(world.nic[0], &attr, 0, &again));
    assert_ptr_equal(again, mr);
    assert_ok(get(world.host, PAGES * PAGE, &plain));
    assert_ptr_not_equal(plain, mr);
    hmreg_mr_put(mr);
    hmreg_mr_put(again);
    hmreg_mr_put(plain);
    flush();
}

TEST(get_attr__a_callers_dmabuf__its_parts)
{
    struct hmreg_mr_dmabuf dmabuf = {.len = PAGES * PAGE, .offset = PAGE};
    struct hmreg_mr_attr attr = {
        .size = sizeof(attr), .access = HMREG_ACCESS_ALL, .dmabuf = &dmabuf};
    struct hmreg_mr *mr = NULL, *again = NULL;

    open_split();
    dmabuf.fd = memfd_create("memory", MFD_CLOEXEC);
    assert_int_equal(ftruncate(dmabuf.fd, (PAGES + 1) * PAGE), 0);
    assert_ok(hmreg_mr_get_attr(world.nic[0], &attr, HMREG_REG_DMABUF, &mr));
    assert_int_equal(world_calls("reg"), 3);
    assert_int_equal(world_call("reg", 2)->dmabuf.offset, 5 * PAGE);
    assert_int_equal(world_call("reg", 2)->dmabuf.length, PAGE);
    assert_ok(hmreg_mr_get_attr(world.nic[0], &attr, HMREG_REG_DMABUF, &again));
    assert_ptr_equal(again, mr);
    close(dmabuf.fd);
    hmreg_mr_put(mr);
    assert_int_equal(world_live(0), 3);
    hmreg_mr_put(again);
    assert_int_equal(world_live(0), 0); /* its policy is last put */
    flush();
}

static void check_refreshed(const struct iovec *parts, unsigned count)
{
    assert_int_equal(world_calls("refresh"), count);
    for (unsigned i = 0; i < count; i++) {
        assert_ptr_equal(world_call("refresh", i)->addr, parts[i].iov_base);
        assert_int_equal(world_call("refresh", i)->len, parts[i].iov_len);
    }
    world_clear();
}

/* Each piece is refreshed by what it has of the part; nothing is if the part leaves the region. */
TEST(refresh__a_part_that_crosses_pieces__of_each_piece)
{
    struct hmreg_mr *mr = NULL;
    char *host;

    open_split();
    host = world.host;
    assert_ok(get(host, PAGES * PAGE, &mr));
    assert_ok(hmreg_mr_refresh(mr, &(struct iovec){host + 10, PAGES * PAGE - 20}, 1, 0));
    check_refreshed((struct iovec[]){{host + 10, 2 * PAGE - 10},
                                     {host + 2 * PAGE, 2 * PAGE},
                                     {host + 4 * PAGE, PAGE - 10}},
                    3);
    assert_ok(hmreg_mr_refresh(mr, &(struct iovec){host + 2 * PAGE - 1, 2}, 1, 0));
    check_refreshed((struct iovec[]){{host + 2 * PAGE - 1, 1}, {host + 2 * PAGE, 1}}, 2);
    assert_fails(hmreg_mr_refresh(mr, &(struct iovec){host + 10, PAGES * PAGE}, 1, 0), -EINVAL,
                 "iov[0] is not inside the region");
    check_refreshed(NULL, 0);
    hmreg_mr_put(mr);
    flush();
}

TEST(refresh__a_part_that_crosses_ranges__of_each_range)
{
    struct hmreg_mr *mr = NULL;
    struct iovec iov[2];

    open_split();
    iov[0] = (struct iovec){world.host + 100, 50};
    iov[1] = (struct iovec){world.host, 100};
    assert_ok(hmreg_mr_regv(world.nic[0], iov, 2, HMREG_ACCESS_ALL, 0, 5, 0, &mr, NULL));
    assert_ok(hmreg_mr_refresh(mr, &(struct iovec){world.host + 90, 20}, 1, 0));
    check_refreshed((struct iovec[]){{world.host + 90, 10}, {world.host + 100, 10}}, 2);
    assert_ok(hmreg_mr_close(mr));
}

/* ---- failures --------------------------------------------------------------------------- */

TEST(get__each_allocation_fails__nothing_stays)
{
    unsigned failed = 0;

    for (unsigned nth = 1; nth < 60; nth++) {
        struct hmreg_mr *mr = NULL;
        int fds, rc;

        open_group();
        fds = test_count_fds();
        allocations = 0;
        failing = nth;
        rc = get(world.gpu[0], PAGES * PAGE, &mr);
        failing = 0;
        assert_true(!rc || rc == -ENOMEM);
        failed += rc != 0;
        assert_int_equal(test_count_fds(), fds);
        hmreg_mr_put(mr);
        flush();
        test_finish();
    }
    assert_true(failed > 3);
}

TEST(get__more_pieces_than_a_region_has__msgsize_before_any_question)
{
    uint64_t most = (uint64_t)HMREG_SEGMENTS_MAX * 2 * PAGE;
    struct hmreg_mr *mr = (void *)1;
    char *far = (char *)(UINT64_C(1) << 40);

    open_split();
    assert_fails(get(far, most + 1, &mr), -EMSGSIZE, "max_len is 8292");
    assert_non_null(strstr(hmreg_last_error()->text, "1024 pieces of 8192 bytes"));
    assert_non_null(strstr(hmreg_last_error()->text, "hmreg_mr_reg_large()"));
    assert_ptr_equal(mr, (void *)1);
    assert_string_equal(world_log(), "");
    assert_ok(get(far, most, &mr));
    assert_int_equal(world_calls("reg"), HMREG_SEGMENTS_MAX);
    hmreg_mr_put(mr);
}

TEST_MAIN()
