/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 * Regions of several ranges: hmreg_mr_regv() up to the fabric's limit, hmreg_mr_regsgl() beyond. */
#include "tests/conformance/suite.h"

#include <fcntl.h>

#define KEY 5

static struct hmreg_segment of_memory(void *addr, size_t len)
{
    return (struct hmreg_segment){.kind = HMREG_SEGMENT_MEMORY, .u.memory = {addr, len}};
}

static struct hmreg_segment of_dmabuf(int fd, uint64_t offset, size_t len)
{
    return (struct hmreg_segment){.kind = HMREG_SEGMENT_DMABUF,
                                  .u.dmabuf = {.fd = fd, .offset = offset, .len = len}};
}

/* Bytes 98 to 102: two at the end of the first range, three at the start of the second. */
static void check_over_the_border(struct suite_fixture *fixture, struct hmreg_remote *remote)
{
    memcpy(fixture->local, "abcde", 5);
    assert_int_equal(suite_move(fixture, remote, true, 98, 5), 0);
    suite_check_arrived(fixture, fixture->memory + 100, "cde", 3);
    assert_memory_equal(fixture->memory + 5098, "ab", 3); /* and nothing after it */
    memset(fixture->local, 0, 5);
    assert_int_equal(suite_move(fixture, remote, false, 98, 5), 0);
    assert_memory_equal(fixture->local, "abcde", 5);
}

/* Offsets run through two ranges, in their order. */
static void check_bytes(struct suite_fixture *fixture, struct hmreg_mr *mr)
{
    struct hmreg_remote_info info = {.size = sizeof(info)};
    struct hmreg_piece_info piece = {.size = sizeof(piece)};
    struct hmreg_remote *remote;
    uint64_t addr, key;

    suite_ready(fixture, fixture->domain, mr);
    assert_ok(hmreg_mr_piece(mr, 1, &piece));
    assert_int_equal(piece.local_addr, (uintptr_t)fixture->memory + 100);
    assert_int_equal(piece.len, 50);
    assert_fails(hmreg_mr_piece(mr, 2, &piece), -ENOENT, "2 pieces");
    remote = suite_peer(fixture, mr);
    assert_ok(hmreg_remote_query(remote, &info));
    assert_int_equal(info.len, 150);
    suite_put(fixture, remote, 90, 10, fixture->memory + 5090);
    suite_put(fixture, remote, 100, 10, fixture->memory + 100);
    suite_put(fixture, remote, 149, 1, fixture->memory + 149);
    suite_get(fixture, remote, 90, 10, fixture->memory + 5090);
    assert_int_equal(suite_move(fixture, remote, true, 149, 2), -ERANGE);
    if (info.segments == 2) /* each piece has its own address or key */
        assert_fails(hmreg_remote_addr(remote, 98, 5, &addr, &key), -EXDEV,
                     "split it at offset 100");
    else
        check_over_the_border(fixture, remote);
    hmreg_remote_close(remote);
}

static void check_offsets(struct suite_fixture *fixture, struct hmreg_mr *mr)
{
    check_bytes(fixture, mr);
    suite_close(fixture, mr);
}

CASE(regv__ranges_form_one_region)
{
    struct iovec iov[2] = {{fixture->memory + 5000, 100}, {fixture->memory + 100, 50}};
    struct hmreg_mr *mr = NULL;

    if (fixture->info.iov_limit < 2) {
        assert_fails(
            hmreg_mr_regv(fixture->domain, iov, 2, HMREG_ACCESS_REMOTE, 0, 0, 0, &mr, NULL),
            -EINVAL, "takes 1 to 1 ranges");
        suite_impossible("the fabric takes one range a region: EINVAL; hmreg_mr_regsgl() takes "
                         "more");
        return;
    }
    assert_ok(hmreg_mr_regv(fixture->domain, iov, 2, HMREG_ACCESS_REMOTE, 0,
                            suite_key(fixture, KEY), 0, &mr, NULL));
    check_offsets(fixture, mr);
}

/* The second covers bytes that the first, at the same address, does not. */
CASE(regv__ranges_that_overlap__each_is_reached_whole)
{
    struct iovec iov[2] = {{fixture->memory + 8, 10}, {fixture->memory + 8, 100}};
    struct hmreg_mr *mr = NULL;

    if (fixture->info.iov_limit < 2) {
        suite_not_applicable();
        return;
    }
    assert_ok(hmreg_mr_regv(fixture->domain, iov, 2, HMREG_ACCESS_REMOTE, 0,
                            suite_key(fixture, KEY), 0, &mr, NULL));
    suite_ready(fixture, fixture->domain, mr);
    suite_reach(fixture, mr, 10, 100, fixture->memory + 8);
}

/* One region for all segments if the fabric takes that many ranges. */
static void check_registrations(const struct suite_fixture *fixture, const struct hmreg_mr *mr)
{
    bool composite = fixture->info.iov_limit < 2;

    if (composite)
        suite_supplied("a registration for each segment");
    if (!suite_has(fixture, HMREG_MR_RAW))
        assert_int_equal(hmreg_mr_key(mr) == HMREG_KEY_NOTAVAIL, composite);
}

CASE(regsgl__host_segments_form_one_region)
{
    struct hmreg_segment segments[2] = {of_memory(fixture->memory + 5000, 100),
                                        of_memory(fixture->memory + 100, 50)};
    struct hmreg_mr *mr = NULL;

    assert_ok(hmreg_mr_regsgl(fixture->domain, segments, 2, HMREG_ACCESS_REMOTE, 0,
                              suite_key(fixture, KEY), 0, &mr, NULL));
    check_registrations(fixture, mr);
    check_offsets(fixture, mr);
}

/* The same by attributes; a region of segments supports all of them. */
CASE(regattr__segments_form_one_region)
{
    struct hmreg_segment segments[2] = {of_memory(fixture->memory + 5000, 100),
                                        of_memory(fixture->memory + 100, 50)};
    struct hmreg_mr_attr attr = {.size = sizeof(attr),
                                 .segments = segments,
                                 .segment_count = 2,
                                 .access = HMREG_ACCESS_REMOTE,
                                 .requested_key = suite_key(fixture, KEY),
                                 .context = segments,
                                 .claim_iface = 1,
                                 .iface = HMREG_IFACE_CUDA};
    struct hmreg_mr *mr = NULL;

    assert_fails(hmreg_mr_regattr(fixture->domain, &attr, 0, &mr), -EINVAL, "iface cuda");
    attr.iface = HMREG_IFACE_SYSTEM;
    attr.device = HMREG_DEVICE_ANY;
    assert_ok(hmreg_mr_regattr(fixture->domain, &attr, 0, &mr));
    assert_ptr_equal(hmreg_mr_context(mr), segments);
    check_registrations(fixture, mr);
    check_offsets(fixture, mr);
}

/* A cached get; where regions are bound, each get has its own. */
CASE(get_attr__segments__one_region_for_the_same_list)
{
    struct hmreg_segment segments[2] = {of_memory(fixture->memory + 5000, 100),
                                        of_memory(fixture->memory + 100, 50)};
    const struct hmreg_segment other[2] = {segments[1], segments[0]};
    struct hmreg_mr_attr attr = {.size = sizeof(attr),
                                 .segments = segments,
                                 .segment_count = 2,
                                 .access = HMREG_ACCESS_REMOTE};
    struct hmreg_mr_info info = {.size = sizeof(info)};
    struct hmreg_mr *mr = NULL, *again = NULL, *third = NULL;

    assert_ok(hmreg_mr_get_attr(fixture->domain, &attr, 0, &mr));
    assert_ok(hmreg_mr_get_attr(fixture->domain, &attr, 0, &again));
    assert_ok(hmreg_mr_query(mr, &info));
    assert_int_equal(info.addr, (uintptr_t)fixture->memory + 5000);
    assert_int_equal(info.len, 150);
    assert_int_equal(again == mr, info.cached);
    attr.segments = other;
    assert_ok(hmreg_mr_get_attr(fixture->domain, &attr, 0, &third));
    assert_ptr_not_equal(third, mr);
    hmreg_mr_put(third);
    hmreg_mr_put(again);
    if (suite_has(fixture, HMREG_MR_ENDPOINT)) {
        assert_false(info.cached);
    } else {
        check_registrations(fixture, mr);
        check_bytes(fixture, mr);
    }
    hmreg_mr_put(mr);
}

CASE(regsgl__dmabuf_segments_form_one_region)
{
    struct hmreg_explanation why = {.size = sizeof(why)};
    struct hmreg_segment segments[2];
    struct hmreg_remote *remote;
    struct hmreg_mr *mr;
    unsigned char *view;
    int fd = suite_dmabuf(fixture, 20480, &view);

    segments[0] = of_dmabuf(fd, 4100, 10);
    segments[1] = of_dmabuf(fd, 9, 10);
    mr = suite_reg_dmabufs(fixture, segments, KEY, fd, view, 20480);
    if (!mr)
        return;
    suite_supplied("a registration for each segment");
    assert_true(hmreg_mr_key(mr) == HMREG_KEY_NOTAVAIL);
    assert_ok(hmreg_mr_explain(mr, &why)); /* of the first piece */
    assert_int_equal(why.path, why.refused ? HMREG_PATH_MAPPED : HMREG_PATH_DMABUF);
    suite_ready(fixture, fixture->domain, mr);
    remote = suite_peer(fixture, mr);
    suite_put(fixture, remote, 0, 10, view + 4100);
    suite_put(fixture, remote, 10, 10, view + 9);
    assert_int_equal(suite_move(fixture, remote, true, 5, 10), -EXDEV);
    suite_end(fixture, remote, mr);
    munmap(view, 20480);
}

CASE(regsgl__unlike_segments__inval_with_the_reason)
{
    int fd = memfd_create("hmreg-test", MFD_CLOEXEC);
    struct hmreg_segment segments[2] = {of_memory(fixture->memory, 10)};
    struct hmreg_mr *mr = NULL;

    assert_int_equal(ftruncate(fd, 4096), 0);
    segments[1] = of_dmabuf(fd, 0, 10);
    assert_fails(hmreg_mr_regsgl(fixture->domain, segments, 2, HMREG_SEND, 0, 0, 0, &mr, NULL),
                 -EINVAL, "one region has one iface and kind");
    assert_null(mr);
    close(fd);
}

/* The second fails before any is registered or, because it cannot be mapped for writing, after the
 * first. */
CASE(regsgl__a_segment_fails__nothing_stays)
{
    int fd = memfd_create("hmreg-test", MFD_CLOEXEC), read_only;
    struct hmreg_segment segments[2];
    struct hmreg_mr *mr = NULL;
    char path[64];

    assert_int_equal(ftruncate(fd, 4096), 0);
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    read_only = open(path, O_RDONLY | O_CLOEXEC);
    segments[0] = of_dmabuf(fd, 0, 10);
    segments[1] = of_dmabuf(fd, 4090, 10);
    assert_fails(hmreg_mr_regsgl(fixture->domain, segments, 2, HMREG_ACCESS_REMOTE, 0,
                                 suite_key(fixture, KEY), 0, &mr, NULL),
                 -EINVAL, "beyond its 4096 bytes");
    segments[1] = of_dmabuf(read_only, 0, 10);
    assert_int_equal(hmreg_mr_regsgl(fixture->domain, segments, 2, HMREG_ACCESS_REMOTE, 0,
                                     suite_key(fixture, KEY), 0, &mr, NULL),
                     -EOPNOTSUPP);
    assert_null(mr);
    mr = suite_reg(fixture, fixture->memory, 64, HMREG_ACCESS_REMOTE, KEY);
    suite_close(fixture, mr);
    close(read_only);
    close(fd);
}
