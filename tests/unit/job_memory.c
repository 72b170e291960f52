/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Jobs of device memory, of dmabufs and on groups: one export for all pieces and rails.
 */
#include "tests/support/queries.h"
#include "tests/unit/job_fixture.h"

#include <sys/mman.h>
#include <sys/resource.h>

/* ---- device memory ---------------------------------------------------------------------- */

TEST(device__several_pieces__one_export)
{
    int fds = test_count_fds();
    struct hmreg_mr *mr;

    open_fixture();
    fixture.range = (struct iovec){fixture.script.memory[1] + 10, 5 * PIECE};
    fds = test_count_fds();
    mr = registered();
    assert_int_equal(test_count_fds(), fds);
    assert_int_equal(script.count, 5);
    assert_int_equal(vendors[HMREG_IFACE_CUDA].exports, 1);
    for (unsigned i = 0; i < 5; i++) {
        const struct script_call *call = &script.calls[i];

        assert_int_equal(call->path, HMREG_PATH_DMABUF);
        assert_int_equal(call->device, 1);
        assert_int_equal(call->first, 'b');
        assert_int_equal(call->dmabuf.offset, script.calls[0].dmabuf.offset + i * PIECE);
        assert_int_equal(call->dmabuf.length, PIECE);
        assert_ptr_equal(call->iov[0].iov_base, (char *)fixture.range.iov_base + i * PIECE);
    }
    assert_ok(hmreg_mr_close(mr));
}

TEST(device__mapped__one_export)
{
    struct hmreg_mr *mr;

    open_fixture();
    for (int i = 0; i < 2; i++)
        script.can[HMREG_PATH_DMABUF][i] = script.can[HMREG_PATH_PEERMEM][i] = -EOPNOTSUPP;
    fixture.range = (struct iovec){fixture.script.memory[0] + 10, 5 * PIECE};
    memset(vendor_view(fixture.script.memory[0]) + 10 + 4 * PIECE, 'z', 1);
    mr = registered();
    assert_int_equal(vendors[HMREG_IFACE_CUDA].exports, 1);
    assert_int_equal(script.calls[0].first, 'a');
    assert_int_equal(script.calls[4].first, 'z');
    assert_int_equal(script.calls[4].path, HMREG_PATH_MAPPED);
    assert_ok(hmreg_mr_close(mr));
}

TEST(device__no_path__reasons_with_the_waiting_thread)
{
    struct hmreg_job *job = NULL;

    open_fixture();
    vendors[HMREG_IFACE_CUDA].export_code = -EOPNOTSUPP;
    script.can[HMREG_PATH_PEERMEM][0] = -EOPNOTSUPP;
    fixture.range = (struct iovec){fixture.script.memory[0], 5 * PIECE};
    assert_ok(start(&job));
    assert_fails(hmreg_job_wait(job, -1, NULL), -EOPNOTSUPP, "piece 0 of 5");
    assert_int_equal(test_why_of(NULL).refused, 3);
    assert_int_equal(vendors[HMREG_IFACE_CUDA].exports, 1);
    assert_ok(hmreg_job_close(job));
    vendors[HMREG_IFACE_CUDA].export_code = 0;
}

#define SEGMENTS 5

/* Physical segments of two pages each, of which no dmabuf contains two unless `whole`. */
static char *segments_open(bool whole)
{
    char *addr = mmap(NULL, SEGMENTS * 2 * PIECE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    assert_ptr_not_equal(addr, MAP_FAILED);
    vendors[HMREG_IFACE_CUDA].one_by_one = !whole;
    for (unsigned i = 0; i < SEGMENTS; i++) {
        struct vendor_claim *claim = vendor_claim(HMREG_IFACE_CUDA, addr + (size_t)i * 2 * PIECE,
                                                  2 * PIECE, HMREG_MEM_DEVICE, 0);

        claim->fd = memfd_create("segment", MFD_CLOEXEC);
        assert_int_equal(ftruncate(claim->fd, SEGMENTS * 2 * PIECE), 0);
        claim->goes_on = true;
    }
    return addr;
}

static void segments_close(char *addr)
{
    struct vendor *cuda = &vendors[HMREG_IFACE_CUDA];

    for (unsigned i = 0; i < SEGMENTS; i++)
        close(cuda->claims[--cuda->count].fd);
    munmap(addr, SEGMENTS * 2 * PIECE);
}

TEST(device__segments__pieces_end_where_they_do)
{
    struct hmreg_job *job = NULL;
    struct hmreg_mr *mr;
    char *addr;

    open_fixture();
    addr = segments_open(false);
    fixture.range = (struct iovec){addr + 10, SEGMENTS * 2 * PIECE - 30};
    fixture.config.piece_len = PIECE + 512;
    assert_ok(start(&job));
    vendors[HMREG_IFACE_CUDA].exports = 0;
    mr = finish(job);
    assert_int_equal(vendors[HMREG_IFACE_CUDA].exports, SEGMENTS);
    check_piece(mr, 0, addr + 10, PIECE + 512);
    check_piece(mr, 1, addr + 10 + PIECE + 512, PIECE - 522);
    check_piece(mr, 2, addr + 2 * PIECE, PIECE + 512);
    check_piece(mr, 9, addr + 8 * PIECE + PIECE + 512, PIECE - 532);
    assert_int_equal(script.calls[3].dmabuf.offset, PIECE + 512);
    assert_ok(hmreg_mr_close(mr));
    segments_close(addr);
}

TEST(device__segments_in_one_dmabuf__one_export)
{
    struct hmreg_mr *mr;
    char *addr;

    open_fixture();
    addr = segments_open(true);
    fixture.range = (struct iovec){addr, SEGMENTS * 2 * PIECE};
    fixture.config.piece_len = 3 * PIECE;
    mr = registered();
    assert_int_equal(vendors[HMREG_IFACE_CUDA].exports, 1);
    assert_int_equal(script.count, 4);
    assert_int_equal(script.calls[3].dmabuf.offset, 9 * PIECE);
    assert_ok(hmreg_mr_close(mr));
    segments_close(addr);
}

TEST(dmabuf__of_the_caller__in_pieces_and_closed_at_once)
{
    struct hmreg_mr_dmabuf dmabuf = {.offset = 2 * PIECE, .len = 4 * PIECE + 1};
    struct hmreg_job *job = NULL;
    struct hmreg_mr *mr;

    open_fixture();
    dmabuf.fd = memfd_create("dmabuf", MFD_CLOEXEC);
    assert_int_equal(ftruncate(dmabuf.fd, 8 * PIECE), 0);
    fixture.attr.dmabuf = &dmabuf;
    fixture.attr.iov = NULL;
    fixture.attr.iov_count = 0;
    assert_ok(hmreg_job_start(fixture.script.domain, &fixture.attr, HMREG_REG_DMABUF,
                              &fixture.config, &job));
    close(dmabuf.fd);
    mr = finish(job);
    assert_int_equal(script.count, 5);
    for (unsigned i = 0; i < 5; i++) {
        assert_int_equal(script.calls[i].dmabuf.offset, (2 + i) * PIECE);
        assert_int_equal(script.calls[i].dmabuf.length, i < 4 ? PIECE : 1);
        assert_int_equal((uintptr_t)script.calls[i].iov[0].iov_base, (2 + i) * PIECE);
    }
    assert_ok(hmreg_mr_close(mr));
}

TEST(dmabuf__no_descriptor_left__emfile)
{
    struct rlimit before, none;
    struct hmreg_mr_dmabuf dmabuf = {.len = 4 * PIECE};
    struct hmreg_job *job = NULL;

    open_fixture();
    dmabuf.fd = memfd_create("dmabuf", MFD_CLOEXEC);
    assert_int_equal(ftruncate(dmabuf.fd, 4 * PIECE), 0);
    fixture.attr.dmabuf = &dmabuf;
    fixture.attr.iov = NULL;
    fixture.attr.iov_count = 0;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    none = before;
    none.rlim_cur = (rlim_t)dmabuf.fd + 1;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    assert_fails(hmreg_job_start(fixture.script.domain, &fixture.attr, HMREG_REG_DMABUF,
                                 &fixture.config, &job),
                 -EMFILE, "fd cannot be duplicated");
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_null(job);
    close(dmabuf.fd);
}

/* ---- groups ----------------------------------------------------------------------------- */

TEST(group__a_rail_fails_at_each_piece__nothing_is_left)
{
    struct hmreg_job *job = NULL;

    open_group(2, 0);
    script.fail[HMREG_PATH_SYSTEM] = -EIO;
    for (unsigned i = 1; i <= 16; i++) {
        script.count = 0;
        script.fail_index = i;
        assert_ok(start(&job));
        assert_fails(hmreg_job_wait(job, -1, NULL), -EIO,
                     i % 2 ? "rail 0 (script): script" : "rail 1 (script): script");
        assert_int_equal(script.count, i);
        assert_int_equal(script.live, 0);
        assert_ok(hmreg_job_close(job));
    }
}

TEST(group__partial_and_a_rail_fails_at_each_piece__the_others_stay)
{
    struct hmreg_job *job = NULL;
    struct hmreg_mr *mr;

    open_group(2, HMREG_GROUP_PARTIAL);
    script.fail[HMREG_PATH_SYSTEM] = -EIO;
    for (unsigned i = 2; i <= 16; i += 2) {
        script.count = 0;
        script.fail_index = i;
        mr = registered();
        assert_int_equal(script.live, 8);
        assert_int_equal(script.count, i + 8 - i / 2);
        check_piece(hmreg_mr_rail(mr, 0), 7, fixture.host + (size_t)7 * PIECE, PIECE);
        assert_null(hmreg_mr_rail(mr, 1));
        assert_int_equal(hmreg_last_error()->code, -EIO);
        assert_ok(hmreg_mr_close(mr));
    }
    script.count = 0;
    script.fail_index = 0;
    assert_ok(start(&job));
    assert_fails(hmreg_job_wait(job, -1, NULL), -EIO, "rail 0 (script)");
    assert_int_equal(script.live, 0);
    assert_ok(hmreg_job_close(job));
}

TEST(domain_close__of_a_group_with_a_job__ebusy)
{
    struct hmreg_job *job = NULL;

    open_group(2, 0);
    assert_ok(start(&job));
    assert_fails(hmreg_domain_close(fixture.group), -EBUSY, "1 jobs");
    assert_fails(hmreg_domain_close(fixture.members[1]), -EBUSY, "1 groups");
    assert_ok(hmreg_job_close(job));
}

TEST_MAIN()
