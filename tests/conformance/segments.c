/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 * Scatter-gather regions and callers' dmabufs: one region of several pieces, on a domain that
 * takes them as one and on one that does not. */
#include "tests/conformance/fixture.h"

#include <fcntl.h>

static int make_memfd(size_t bytes)
{
    int fd = memfd_create("hmreg-test", MFD_CLOEXEC);

    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, (off_t)bytes), 0);
    return fd;
}

static struct hmreg_segment of_memory(void *addr, size_t len)
{
    return (struct hmreg_segment){.kind = HMREG_SEGMENT_MEMORY, .u.memory = {addr, len}};
}

static struct hmreg_segment of_dmabuf(int fd, uint64_t offset, size_t len)
{
    return (struct hmreg_segment){.kind = HMREG_SEGMENT_DMABUF,
                                  .u.dmabuf = {.fd = fd, .offset = offset, .len = len}};
}

/* Offsets of a peer count through the segments, in their order. */
static void check_host_segments(uint32_t mr_mode, uint32_t iov_limit, int composite)
{
    struct hmreg_loopback_config config = {
        .size = sizeof(config), .mr_mode = mr_mode, .iov_limit = iov_limit};
    struct hmreg_segment_info info = {.size = sizeof(info)};
    struct hmreg_segment segments[2];
    struct hmreg_domain *domain;
    struct hmreg_remote *remote;
    struct hmreg_mr *mr = NULL;
    struct fixture fixture;

    fixture_open(&fixture, 0);
    assert_ok(hmreg_domain_open_loopback(fixture.lib, &config, NULL, &domain));
    segments[0] = of_memory(fixture.memory + 5000, 100);
    segments[1] = of_memory(fixture.memory + 100, 50);
    assert_ok(hmreg_mr_regsgl(domain, segments, 2, HMREG_ACCESS_REMOTE, 0, 9, 0, &mr, NULL));
    assert_int_equal(hmreg_mr_key(mr) == HMREG_KEY_NOTAVAIL, composite);
    assert_ok(hmreg_mr_segment(mr, 1, &info));
    assert_true(info.local_addr == (uint64_t)(uintptr_t)fixture.memory + 100);
    assert_int_equal(info.len, 50);
    assert_fails(hmreg_mr_segment(mr, 2, &info), -ENOENT, "2 pieces");
    remote = fixture_peer_on(domain, mr);
    assert_ok(peer_put(remote, 99, 'a'));
    assert_ok(peer_put(remote, 100, 'b'));
    assert_int_equal(fixture.memory[5099], 'a');
    assert_int_equal(fixture.memory[100], 'b');
    assert_fails(peer_put(remote, 150, 'c'), -ERANGE, "outside");
    hmreg_remote_close(remote);
    assert_ok(hmreg_mr_close(mr));
    assert_ok(hmreg_domain_close(domain));
    fixture_close(&fixture);
}

static void regsgl__host_segments__as_one_registration(void **state)
{
    check_host_segments(0, 2, 0);
    check_host_segments(HMREG_MR_VIRT_ADDR, 2, 0);
}

static void regsgl__host_segments__as_a_composite(void **state)
{
    check_host_segments(0, 1, 1);
    check_host_segments(HMREG_MR_VIRT_ADDR, 1, 1);
    check_host_segments(HMREG_MR_RAW, 1, 1);
}

static void regsgl__dmabufs__are_pieces_with_neighbours_untouched(void **state)
{
    struct hmreg_explanation why = {.size = sizeof(why)};
    struct hmreg_segment segments[2];
    struct hmreg_remote *remote;
    struct hmreg_mr *mr = NULL;
    struct fixture fixture;
    int fd = make_memfd(20000);
    char *view = mmap(NULL, 20000, PROT_READ, MAP_SHARED, fd, 0);

    fixture_open(&fixture, HMREG_MR_VIRT_ADDR);
    segments[0] = of_dmabuf(fd, 4100, 10);
    segments[1] = of_dmabuf(fd, 9, 10);
    assert_ok(
        hmreg_mr_regsgl(fixture.domain, segments, 2, HMREG_ACCESS_REMOTE, 0, 9, 0, &mr, NULL));
    close(fd);
    assert_ok(hmreg_explain(mr, &why));
    assert_int_equal(why.path, HMREG_PATH_MAPPED);
    assert_string_equal(why.reasons[0].slug, "fabric-imports-no-dmabuf");
    remote = fixture_peer(&fixture, mr);
    assert_ok(peer_put(remote, 0, 'a'));
    assert_ok(peer_put(remote, 19, 'b'));
    assert_int_equal(view[4100], 'a');
    assert_int_equal(view[18], 'b');
    assert_int_equal(view[4099] + view[4101] + view[17] + view[19], 0);
    hmreg_remote_close(remote);
    assert_ok(hmreg_mr_close(mr));
    munmap(view, 20000);
    fixture_close(&fixture);
}

static void regsgl__composite_on_a_domain_with_a_queue__one_event(void **state)
{
    struct hmreg_loopback_config config = {.size = sizeof(config), .iov_limit = 1};
    struct hmreg_loopback_event event = {.size = sizeof(event)};
    struct hmreg_segment_info info = {.size = sizeof(info)};
    struct hmreg_loopback_eq *eq = NULL;
    struct hmreg_segment segments[3];
    struct hmreg_domain *domain;
    struct hmreg_mr *mr = NULL;
    uint8_t token[512];
    size_t size = sizeof(token);
    struct fixture fixture;

    fixture_open(&fixture, 0);
    assert_ok(hmreg_domain_open_loopback(fixture.lib, &config, NULL, &domain));
    assert_ok(hmreg_loopback_eq_open(domain, &eq));
    assert_ok(hmreg_domain_bind(domain, eq, HMREG_REG_MR));
    for (int i = 0; i < 3; i++)
        segments[i] = of_memory(fixture.memory + 100 * i, 50);
    assert_ok(hmreg_mr_regsgl(domain, segments, 3, HMREG_ACCESS_REMOTE, 0, 9, 0, &mr, &fixture));
    assert_fails(hmreg_mr_pack(mr, token, &size), -EAGAIN, "event");
    assert_ok(hmreg_mr_segment(mr, 0, &info));
    assert_true(info.key == HMREG_KEY_NOTAVAIL);
    assert_ok(hmreg_loopback_eq_read(eq, &event, 0));
    assert_ptr_equal(event.mr, mr);
    assert_ptr_equal(event.context, &fixture);
    assert_fails(hmreg_loopback_eq_read(eq, &event, 0), -EAGAIN, "no registration");
    assert_ok(hmreg_mr_pack(mr, token, &size));
    assert_ok(hmreg_mr_segment(mr, 0, &info));
    assert_int_equal(info.key, 9);
    assert_ok(hmreg_mr_close(mr));
    assert_ok(hmreg_mr_regsgl(domain, segments, 3, HMREG_ACCESS_REMOTE, 0, 9, 0, &mr, &fixture));
    assert_ok(hmreg_mr_close(mr)); /* and its event is gone */
    assert_fails(hmreg_loopback_eq_read(eq, &event, 0), -EAGAIN, "no registration");
    assert_ok(hmreg_loopback_eq_close(eq));
    assert_ok(hmreg_domain_close(domain));
    fixture_close(&fixture);
}

static void regsgl__host_and_dmabuf_mixed__inval(void **state)
{
    struct hmreg_segment segments[2];
    struct hmreg_mr *mr = NULL;
    struct fixture fixture;
    int fd = make_memfd(4096);

    fixture_open(&fixture, 0);
    segments[0] = of_memory(fixture.memory, 10);
    segments[1] = of_dmabuf(fd, 0, 10);
    assert_fails(hmreg_mr_regsgl(fixture.domain, segments, 2, HMREG_SEND, 0, 0, 0, &mr, NULL),
                 -EINVAL, "one region has one iface and kind");
    segments[1].kind = 7;
    assert_fails(hmreg_mr_regsgl(fixture.domain, segments, 2, HMREG_SEND, 0, 0, 0, &mr, NULL),
                 -EINVAL, "segments[1].kind is 7");
    assert_null(mr);
    close(fd);
    fixture_close(&fixture);
}

/* A descriptor that can be read only cannot be mapped for writing. */
static int reopen_read_only(int fd)
{
    char path[64];

    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    return open(path, O_RDONLY | O_CLOEXEC);
}

static void regsgl__a_piece_fails__nothing_stays(void **state)
{
    struct hmreg_segment segments[2];
    struct hmreg_mr *mr = NULL, *again;
    struct fixture fixture;
    int fd = make_memfd(4096), read_only = reopen_read_only(fd);

    fixture_open(&fixture, 0);
    segments[0] = of_dmabuf(fd, 0, 10);
    segments[1] = of_dmabuf(read_only, 0, 10);
    assert_fails(
        hmreg_mr_regsgl(fixture.domain, segments, 2, HMREG_ACCESS_REMOTE, 0, 9, 0, &mr, NULL),
        -EOPNOTSUPP, "cannot be mapped");
    assert_null(mr);
    assert_ok(
        hmreg_mr_regsgl(fixture.domain, segments, 1, HMREG_ACCESS_REMOTE, 0, 9, 0, &again, NULL));
    assert_ok(hmreg_mr_close(again));
    close(read_only);
    close(fd);
    fixture_close(&fixture);
}

static void regattr__callers_dmabuf__is_mapped_where_the_fabric_imports_none(void **state)
{
    struct hmreg_mr_dmabuf dmabuf = {.offset = 5000, .len = 64, .base_addr = NULL};
    struct hmreg_mr_attr attr = {
        .size = sizeof(attr), .access = HMREG_ACCESS_REMOTE, .requested_key = 3, .dmabuf = &dmabuf};
    struct hmreg_mr_info info = {.size = sizeof(info)};
    struct hmreg_explanation why = {.size = sizeof(why)};
    struct hmreg_remote *remote;
    struct hmreg_mr *mr = NULL;
    struct fixture fixture;
    char byte = 0;

    fixture_open(&fixture, 0);
    dmabuf.fd = make_memfd(20000);
    assert_fails(hmreg_mr_regattr(fixture.domain, &attr, 0, &mr), -EINVAL, "HMREG_MR_DMABUF");
    dmabuf.len = 15001;
    assert_fails(hmreg_mr_regattr(fixture.domain, &attr, HMREG_MR_DMABUF, &mr), -EINVAL,
                 "beyond its 20000 bytes");
    dmabuf.len = 64;
    assert_ok(hmreg_mr_regattr(fixture.domain, &attr, HMREG_MR_DMABUF, &mr));
    assert_ok(hmreg_mr_query(mr, &info));
    assert_int_equal(info.path, HMREG_PATH_MAPPED);
    assert_ok(hmreg_explain(mr, &why));
    assert_int_equal(why.refused, 1);
    assert_string_equal(why.reasons[0].slug, "fabric-imports-no-dmabuf");
    remote = fixture_peer(&fixture, mr);
    assert_ok(peer_put(remote, 3, 'z'));
    assert_int_equal(pread(dmabuf.fd, &byte, 1, 5003), 1);
    assert_int_equal(byte, 'z');
    hmreg_remote_close(remote);
    assert_ok(hmreg_mr_close(mr));
    close(dmabuf.fd);
    assert_fails(hmreg_mr_regattr(fixture.domain, &attr, HMREG_MR_DMABUF, &mr), -EBADF,
                 "descriptor");
    fixture_close(&fixture);
}

static void regattr__attributes_of_an_older_caller__are_taken(void **state)
{
    struct iovec iov;
    struct hmreg_mr_attr attr = {.size = offsetof(struct hmreg_mr_attr, dmabuf),
                                 .iov = &iov,
                                 .iov_count = 1,
                                 .access = HMREG_SEND,
                                 .dmabuf = (void *)1,
                                 .page_size = 3};
    struct hmreg_mr *mr = NULL;
    struct fixture fixture;

    fixture_open(&fixture, 0);
    iov = (struct iovec){fixture.memory, 10};
    assert_ok(hmreg_mr_regattr(fixture.domain, &attr, 0, &mr));
    assert_ok(hmreg_mr_close(mr));
    attr.size = sizeof(attr);
    attr.dmabuf = NULL;
    assert_fails(hmreg_mr_regattr(fixture.domain, &attr, 0, &mr), -EINVAL, "page_size");
    fixture_close(&fixture);
}

TEST_MAIN(TEST(regsgl__host_segments__as_one_registration),
          TEST(regsgl__host_segments__as_a_composite),
          TEST(regsgl__dmabufs__are_pieces_with_neighbours_untouched),
          TEST(regsgl__composite_on_a_domain_with_a_queue__one_event),
          TEST(regsgl__host_and_dmabuf_mixed__inval), TEST(regsgl__a_piece_fails__nothing_stays),
          TEST(regattr__callers_dmabuf__is_mapped_where_the_fabric_imports_none),
          TEST(regattr__attributes_of_an_older_caller__are_taken))
