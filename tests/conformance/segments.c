/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 * Regions of several ranges: hmreg_mr_regv() up to the fabric's limit, hmreg_mr_regsgl() beyond. */
#include "tests/conformance/suite.h"

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

/* Offsets run through two ranges, in their order. */
static void check_offsets(struct suite_fixture *fixture, struct hmreg_mr *mr)
{
    struct hmreg_remote_info info = {.size = sizeof(info)};
    struct hmreg_segment_info piece = {.size = sizeof(piece)};
    struct hmreg_remote *remote;

    suite_ready(fixture, fixture->domain, mr);
    assert_ok(hmreg_mr_segment(mr, 1, &piece));
    assert_int_equal(piece.local_addr, (uintptr_t)fixture->memory + 100);
    assert_int_equal(piece.len, 50);
    assert_fails(hmreg_mr_segment(mr, 2, &piece), -ENOENT, "2 pieces");
    remote = suite_peer(fixture, mr);
    assert_ok(hmreg_remote_query(remote, &info));
    assert_int_equal(info.len, 150);
    suite_put(fixture, remote, 90, 10, fixture->memory + 5090);
    suite_put(fixture, remote, 100, 10, fixture->memory + 100);
    suite_put(fixture, remote, 149, 1, fixture->memory + 149);
    suite_get(fixture, remote, 90, 10, fixture->memory + 5090);
    assert_int_equal(suite_move(fixture, remote, true, 149, 2), -ERANGE);
    hmreg_remote_close(remote);
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

/* ---- every place of many ranges ---------------------------------------------------------- */

static const size_t lengths[] = {1, 7, 64, 3, 129, 1, 50};
#define RANGES (sizeof(lengths) / sizeof(lengths[0]))
#define TOTAL  (1 + 7 + 64 + 3 + 129 + 1 + 50)

/* Where the byte at an offset of the region is in memory, and where its range ends, as an offset.
 */
static size_t locate(const struct iovec *iov, const unsigned char *memory, size_t offset,
                     size_t *end)
{
    size_t i = 0, begins = 0;

    while (offset - begins >= iov[i].iov_len)
        begins += iov[i++].iov_len;
    *end = begins + iov[i].iov_len;
    return (size_t)((unsigned char *)iov[i].iov_base - memory) + offset - begins;
}

/* Writes at an offset, reads back, and compares all memory with a copy. */
static void check_place(struct suite_fixture *fixture, const struct iovec *iov,
                        struct hmreg_remote *remote, unsigned char *copy, size_t offset, size_t len)
{
    size_t end;

    for (size_t i = 0; i < len; i++) {
        fixture->local[i] = (unsigned char)(31 * offset + 7 * len + i);
        copy[locate(iov, fixture->memory, offset + i, &end)] = fixture->local[i];
    }
    assert_int_equal(suite_move(fixture, remote, true, offset, len), 0);
    assert_memory_equal(fixture->memory, copy, 4096);
    memset(fixture->local, 0, len);
    assert_int_equal(suite_move(fixture, remote, false, offset, len), 0);
    for (size_t i = 0; i < len; i++)
        assert_int_equal(fixture->local[i], (unsigned char)(31 * offset + 7 * len + i));
}

/* By offset the region is one space. By address each range has its own: an access over a border is
 * two, and the error says where to split it. */
static void check_places(struct suite_fixture *fixture, const struct iovec *iov,
                         struct hmreg_remote *remote)
{
    bool by_address = suite_has(fixture, HMREG_MR_VIRT_ADDR);
    unsigned char copy[4096] = {0};
    uint64_t addr, key;
    char words[64];
    size_t end;

    for (size_t offset = 0; offset < TOTAL; offset++) {
        locate(iov, fixture->memory, offset, &end);
        check_place(fixture, iov, remote, copy, offset, 1);
        check_place(fixture, iov, remote, copy, offset, end - offset);
        if (end == TOTAL)
            continue;
        if (!by_address) {
            check_place(fixture, iov, remote, copy, offset, end + 1 - offset);
            check_place(fixture, iov, remote, copy, offset, TOTAL - offset);
            continue;
        }
        snprintf(words, sizeof(words), "split it at offset %zu", end);
        assert_fails(hmreg_remote_addr(remote, offset, end + 1 - offset, &addr, &key), -EXDEV,
                     words);
        assert_ok(hmreg_remote_addr(remote, offset, 1, &addr, &key));
        suite_denied(fixture, remote, true, addr, key, end + 1 - offset, -ERANGE);
    }
}

CASE(regv__many_ranges__every_place_is_reached)
{
    struct hmreg_remote *remote;
    struct iovec iov[RANGES];
    struct hmreg_mr *mr = NULL;

    if (fixture->info.iov_limit < RANGES || (fixture->info.mr_mode & ~HMREG_MR_VIRT_ADDR)) {
        suite_not_asked();
        return;
    }
    for (size_t i = 0; i < RANGES; i++) /* apart, and not in their order */
        iov[i] = (struct iovec){fixture->memory + (RANGES - i) * 500 + 3 * i, lengths[i]};
    assert_ok(
        hmreg_mr_regv(fixture->domain, iov, RANGES, HMREG_ACCESS_REMOTE, 0, KEY, 0, &mr, NULL));
    remote = suite_peer(fixture, mr);
    check_places(fixture, iov, remote);
    hmreg_remote_close(remote);
    suite_close(fixture, mr);
}

/* The second covers what the first, at the same address, does not. */
CASE(regv__ranges_that_overlap__each_is_reached_whole)
{
    struct iovec iov[2] = {{fixture->memory + 8, 10}, {fixture->memory + 8, 100}};
    struct hmreg_remote *remote;
    struct hmreg_mr *mr = NULL;

    if (fixture->info.iov_limit < 2) {
        suite_not_asked();
        return;
    }
    assert_ok(hmreg_mr_regv(fixture->domain, iov, 2, HMREG_ACCESS_REMOTE, 0,
                            suite_key(fixture, KEY), 0, &mr, NULL));
    suite_ready(fixture, fixture->domain, mr);
    remote = suite_peer(fixture, mr);
    suite_put(fixture, remote, 10, 100, fixture->memory + 8);
    hmreg_remote_close(remote);
    suite_close(fixture, mr);
}

/* ---- segments --------------------------------------------------------------------------- */

CASE(regsgl__host_segments_form_one_region)
{
    struct hmreg_segment segments[2] = {of_memory(fixture->memory + 5000, 100),
                                        of_memory(fixture->memory + 100, 50)};
    struct hmreg_mr *mr = NULL;

    assert_ok(hmreg_mr_regsgl(fixture->domain, segments, 2, HMREG_ACCESS_REMOTE, 0,
                              suite_key(fixture, KEY), 0, &mr, NULL));
    if (fixture->info.iov_limit < 2)
        suite_supplied("a registration for each segment");
    check_offsets(fixture, mr);
}

/* The same by attributes, which a region of segments may have all of. */
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
    if (fixture->info.iov_limit < 2)
        suite_supplied("a registration for each segment");
    check_offsets(fixture, mr);
}

CASE(regsgl__dmabuf_segments_form_one_region)
{
    struct hmreg_segment segments[2];
    struct hmreg_remote *remote;
    struct hmreg_mr *mr = NULL;
    unsigned char *view;
    int fd = suite_dmabuf(fixture, 20480, &view), rc;

    segments[0] = of_dmabuf(fd, 4100, 10);
    segments[1] = of_dmabuf(fd, 9, 10);
    rc = hmreg_mr_regsgl(fixture->domain, segments, 2, HMREG_ACCESS_REMOTE, 0,
                         suite_key(fixture, KEY), 0, &mr, NULL);
    close(fd);
    if (rc) {
        assert_int_equal(rc, -EOPNOTSUPP);
        suite_impossible("no path to them: EOPNOTSUPP");
        munmap(view, 20480);
        return;
    }
    suite_supplied("a registration for each segment");
    assert_true(hmreg_mr_key(mr) == HMREG_KEY_NOTAVAIL);
    assert_null(hmreg_mr_native(mr));
    suite_ready(fixture, fixture->domain, mr);
    remote = suite_peer(fixture, mr);
    suite_put(fixture, remote, 0, 10, view + 4100);
    suite_put(fixture, remote, 10, 10, view + 9);
    assert_int_equal(suite_move(fixture, remote, true, 5, 10), -EXDEV);
    hmreg_remote_close(remote);
    suite_close(fixture, mr);
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

CASE(regsgl__a_segment_fails__nothing_stays)
{
    int fd = memfd_create("hmreg-test", MFD_CLOEXEC);
    struct hmreg_segment segments[2];
    struct hmreg_mr *mr = NULL;

    assert_int_equal(ftruncate(fd, 4096), 0);
    segments[0] = of_dmabuf(fd, 0, 10);
    segments[1] = of_dmabuf(fd, 4090, 10);
    assert_fails(hmreg_mr_regsgl(fixture->domain, segments, 2, HMREG_ACCESS_REMOTE, 0,
                                 suite_key(fixture, KEY), 0, &mr, NULL),
                 -EINVAL, "beyond its 4096 bytes");
    assert_null(mr);
    mr = suite_reg(fixture, fixture->memory, 64, HMREG_ACCESS_REMOTE, KEY);
    suite_close(fixture, mr);
    close(fd);
}

SUITE_CASES(segments, TEST(regv__ranges_form_one_region),
            TEST(regv__many_ranges__every_place_is_reached),
            TEST(regv__ranges_that_overlap__each_is_reached_whole),
            TEST(regsgl__host_segments_form_one_region), TEST(regattr__segments_form_one_region),
            TEST(regsgl__dmabuf_segments_form_one_region),
            TEST(regsgl__unlike_segments__inval_with_the_reason),
            TEST(regsgl__a_segment_fails__nothing_stays));
