/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Regions of groups: one registration on several domains. How often vendors are asked and what each
 * member is asked; what stays when a member fails; what each rail answers.
 */
#include "tests/unit/group_fixture.h"

static struct vendor *cuda = &vendors[HMREG_IFACE_CUDA];

static int reg(void *addr, struct hmreg_mr **mr)
{
    return hmreg_mr_reg(fixture.group, addr, 4096, HMREG_ACCESS_ALL, 0, 5, 0, mr, (void *)0x99);
}

/* Nothing is registered, and the key is free on every member. */
static void check_nothing_stays(int fds)
{
    assert_int_equal(script.live, 0);
    assert_int_equal(test_count_fds(), fds);
    for (size_t i = 0; i < fixture.count; i++) {
        struct hmreg_mr *mr = NULL;

        assert_ok(hmreg_mr_reg(fixture.members[i], fixture.host, 64, HMREG_ACCESS_ALL, 0, 5, 0, &mr,
                               NULL));
        assert_ok(hmreg_mr_close(mr));
    }
}

/* ---- registering ------------------------------------------------------------------------ */

TEST(reg__host_memory__a_rail_on_each_member)
{
    struct hmreg_piece_info piece = {.size = sizeof(piece)};
    struct hmreg_mr_info info = {.size = sizeof(info)};
    struct hmreg_mr *mr = NULL;

    open_fixture(3, 0);
    assert_ok(reg(fixture.host, &mr));
    assert_int_equal(script.count, 3);
    assert_int_equal(script.live, 3);
    for (unsigned i = 0; i < 3; i++) {
        struct hmreg_mr *rail = hmreg_mr_rail(mr, i);

        assert_int_equal(script.calls[i].path, HMREG_PATH_SYSTEM);
        assert_ptr_equal(script.calls[i].iov[0].iov_base, fixture.host);
        assert_int_equal(script.calls[i].first, 'h');
        assert_true(hmreg_mr_key(rail) == 5);
        assert_ptr_equal(hmreg_mr_context(rail), (void *)0x99);
        assert_ok(hmreg_mr_query(rail, &info));
        assert_int_equal(info.local_addr, (uintptr_t)fixture.host);
        assert_fails(hmreg_mr_close(rail), -EINVAL, "rail of a group's region");
        hmreg_mr_put(rail);
    }
    assert_null(hmreg_mr_desc(mr));
    assert_true(hmreg_mr_key(mr) == HMREG_KEY_NOTAVAIL);
    assert_ptr_equal(hmreg_mr_context(mr), (void *)0x99);
    assert_ok(hmreg_mr_query(mr, &info));
    assert_int_equal(info.path, HMREG_PATH_SYSTEM);
    assert_int_equal(info.len, 4096);
    assert_ok(hmreg_mr_piece(mr, 0, &piece));
    assert_true(piece.key == HMREG_KEY_NOTAVAIL);
    assert_fails(hmreg_domain_close(fixture.group), -EBUSY, "1 regions");
    assert_ok(hmreg_mr_close(mr));
}

TEST(reg__device_memory__one_question_and_one_export_for_all)
{
    static const size_t sizes[] = {1, 2, 8};

    for (size_t n = 0; n < 3; n++) {
        struct hmreg_mr *mr = NULL;
        int fds;

        open_fixture(sizes[n], 0);
        fds = test_count_fds();
        assert_ok(reg(fixture.script.memory[1] + 100, &mr));
        assert_int_equal(cuda->resolves, 1);
        assert_int_equal(cuda->exports, 1);
        assert_int_equal(script.count, sizes[n]);
        for (unsigned i = 0; i < sizes[n]; i++) {
            assert_int_equal(script.calls[i].path, HMREG_PATH_DMABUF);
            assert_int_equal(script.calls[i].dmabuf.fd, script.calls[0].dmabuf.fd);
            assert_int_equal(script.calls[i].dmabuf.offset, 100);
            assert_int_equal(script.calls[i].first, 'b');
        }
        assert_int_equal(test_count_fds(), fds);
        assert_ok(hmreg_mr_close(mr));
        test_finish();
    }
}

/* Each member's own order: dmabuf on the first, a mapping on the second, of the same export. */
TEST(reg__members_have_paths_of_their_own__each_its_path)
{
    struct hmreg_domain_config config = {.size = sizeof(config),
                                         .order = {HMREG_PATH_PEERMEM, HMREG_PATH_MAPPED}};
    struct hmreg_explanation why = {.size = sizeof(why)};
    struct hmreg_mr_info info = {.size = sizeof(info)};
    struct hmreg_mr *mr = NULL;

    open_members(1, NULL);
    add_member(NULL, &config);
    open_group(0);
    script.can[HMREG_PATH_PEERMEM][0] = -EOPNOTSUPP;
    assert_ok(reg(fixture.script.memory[0], &mr));
    assert_int_equal(cuda->exports, 1);
    assert_int_equal(script.calls[0].path, HMREG_PATH_DMABUF);
    assert_int_equal(script.calls[1].path, HMREG_PATH_MAPPED);
    assert_ok(hmreg_mr_query(hmreg_mr_rail(mr, 0), &info));
    assert_int_equal(info.local_addr, (uintptr_t)fixture.script.memory[0]);
    assert_ok(hmreg_mr_query(hmreg_mr_rail(mr, 1), &info));
    assert_int_not_equal(info.local_addr, (uintptr_t)fixture.script.memory[0]);
    assert_int_equal(info.addr, (uintptr_t)fixture.script.memory[0]);
    assert_ok(hmreg_mr_query(mr, &info)); /* of the rail that fares worst */
    assert_int_equal(info.path, HMREG_PATH_MAPPED);
    assert_ok(hmreg_mr_explain(mr, &why));
    assert_int_equal(why.path, HMREG_PATH_MAPPED);
    assert_non_null(strstr(why.reasons[0].text, "rail 1 (script): script: no peermem"));
    assert_ok(hmreg_domain_explain(fixture.group, HMREG_IFACE_CUDA, 0, &why));
    assert_int_equal(why.path, HMREG_PATH_MAPPED);
    assert_non_null(strstr(why.reasons[0].text, "rail 1 (script): "));
    assert_ok(hmreg_domain_explain(fixture.group, HMREG_IFACE_SYSTEM, -1, &why));
    assert_int_equal(why.path, HMREG_PATH_SYSTEM);
    assert_ok(hmreg_mr_close(mr));
}

TEST(reg__beyond_the_smallest_member__refused_before_any)
{
    struct script_caps caps = script_caps;
    struct iovec iov[2];
    struct hmreg_mr *mr = NULL;

    caps.max_len = 1024;
    caps.iov_limit = 1;
    open_members(1, NULL);
    add_member(&caps, NULL);
    open_group(0);
    iov[0] = (struct iovec){fixture.host, 8};
    iov[1] = (struct iovec){fixture.host + 64, 8};
    assert_fails(reg(fixture.host, &mr), -EMSGSIZE, "1024 bytes");
    assert_fails(hmreg_mr_regv(fixture.group, iov, 2, HMREG_SEND, 0, 0, 0, &mr, NULL), -EINVAL,
                 "1 to 1 ranges");
    assert_int_equal(script.count, 0);
}

/* ---- failures --------------------------------------------------------------------------- */

TEST(reg__a_member_fails__nothing_stays_and_it_is_named)
{
    for (unsigned k = 0; k < MOST; k++)
        for (int device = 0; device < 2; device++) {
            enum hmreg_path path = device ? HMREG_PATH_DMABUF : HMREG_PATH_SYSTEM;
            struct hmreg_mr *mr = NULL;
            char name[32];
            int fds;

            open_fixture(MOST, 0);
            fds = test_count_fds();
            snprintf(name, sizeof(name), "rail %u (script): script:", k);
            script.fail[path] = -EIO;
            script.fail_index = k + 1;
            assert_reg_fails(reg(device ? fixture.script.memory[0] : fixture.host, &mr), mr, -EIO,
                             name);
            assert_int_equal(hmreg_last_error()->vendor_code, 4712);
            assert_string_equal(hmreg_last_error()->vendor_text, "in its own words");
            assert_int_equal(script.count, k + 1);
            check_nothing_stays(fds);
            test_finish();
        }
}

/* The first allocation of a registration fails, then the second, ... until it succeeds. */
static void fail_each_allocation(void *addr, size_t len)
{
    struct hmreg_mr *mr = NULL;
    int fds = test_count_fds(), rc = -ENOMEM;

    for (unsigned n = 1; rc; n++) {
        script.count = 0;
        allocations = 0;
        failing = n;
        rc = hmreg_mr_reg(fixture.group, addr, len, HMREG_ACCESS_ALL, 0, 5, 0, &mr, NULL);
        failing = 0;
        assert_true(rc == 0 || rc == -ENOMEM);
        if (!rc)
            break;
        assert_null(mr);
        check_nothing_stays(fds);
    }
    assert_ok(hmreg_mr_close(mr));
}

TEST(reg__allocation_fails__each_time_nothing_stays)
{
    for (int which = 0; which < 3; which++) {
        open_fixture(3, which == 2 ? HMREG_GROUP_PARTIAL : 0);
        if (which == 2)
            script.refuse[HMREG_PATH_DMABUF][0] = script.refuse[HMREG_PATH_MAPPED][0] = -EIO;
        fail_each_allocation(which ? fixture.script.memory[0] : fixture.host, 4096);
        test_finish();
    }
}

/* ---- a subset --------------------------------------------------------------------------- */

TEST(regattr__some_rails__only_those)
{
    struct hmreg_mr_attr attr = {.size = sizeof(attr), .iov_count = 1, .access = HMREG_ACCESS_ALL};
    struct hmreg_mr *mr = NULL;
    struct iovec iov;

    open_fixture(4, 0);
    iov = (struct iovec){fixture.host, 64};
    attr.iov = &iov;
    attr.rails = 1u << 1 | 1u << 3;
    assert_ok(hmreg_mr_regattr(fixture.group, &attr, 0, &mr));
    assert_int_equal(script.live, 2);
    assert_non_null(hmreg_mr_rail(mr, 1));
    assert_non_null(hmreg_mr_rail(mr, 3));
    assert_null(hmreg_mr_rail(mr, 2));
    assert_int_equal(hmreg_last_error()->code, -ENOENT);
    assert_non_null(strstr(hmreg_last_error()->text, "was not requested"));
    assert_null(hmreg_mr_rail(mr, 4));
    assert_int_equal(hmreg_last_error()->code, -ENOENT);
    assert_null(hmreg_mr_rail(NULL, 0));
    assert_int_equal(hmreg_last_error()->code, -EINVAL);
    assert_ok(hmreg_mr_close(mr));
    attr.rails = 1u << 4;
    assert_fails(hmreg_mr_regattr(fixture.group, &attr, 0, &mr), -EINVAL, "rails 0 to 3");
    attr.rails = 1;
    assert_fails(hmreg_mr_regattr(fixture.members[0], &attr, 0, &mr), -EINVAL, "no group");
}

TEST(regattr__a_callers_dmabuf__imported_by_each_and_not_exported)
{
    struct hmreg_mr_dmabuf dmabuf = {.offset = 256, .len = 64, .base_addr = NULL};
    struct hmreg_mr_attr attr = {
        .size = sizeof(attr), .access = HMREG_ACCESS_ALL, .dmabuf = &dmabuf};
    struct hmreg_mr *mr = NULL;

    open_fixture(3, 0);
    dmabuf.fd = memfd_create("callers", MFD_CLOEXEC);
    assert_int_equal(ftruncate(dmabuf.fd, 4096), 0);
    assert_ok(hmreg_mr_regattr(fixture.group, &attr, HMREG_REG_DMABUF, &mr));
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(script.calls[i].dmabuf.fd, dmabuf.fd);
        assert_int_equal(script.calls[i].dmabuf.offset, 256);
    }
    assert_int_equal(cuda->exports, 0);
    assert_ok(hmreg_mr_close(mr));
    assert_int_equal(close(dmabuf.fd), 0); /* still the caller's */
}

/* ---- composites ------------------------------------------------------------------------- */

#define PIECES 3

/* Device memory in segments that no descriptor covers together. */
static char *claim_segments(size_t page)
{
    char *addr = mmap(NULL, PIECES * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    assert_ptr_not_equal(addr, MAP_FAILED);
    cuda->one_by_one = true;
    for (unsigned i = 0; i < PIECES; i++) {
        struct vendor_claim *claim =
            vendor_claim(HMREG_IFACE_CUDA, addr + i * page, page, HMREG_MEM_DEVICE, 0);

        claim->fd = memfd_create("segment", MFD_CLOEXEC);
        assert_int_equal(ftruncate(claim->fd, (off_t)page), 0);
        claim->goes_on = true;
    }
    return addr;
}

static void unclaim_segments(char *addr, size_t page)
{
    for (unsigned i = 0; i < PIECES; i++)
        close(cuda->claims[--cuda->count].fd);
    munmap(addr, PIECES * page);
}

/* Each rail is a composite; the vendor is asked as often as for one domain. */
TEST(reg__range_of_several_segments__divided_and_exported_once)
{
    unsigned resolves = 0, exports = 0;

    for (size_t members = 1; members <= MOST; members *= 2) {
        size_t page = (size_t)sysconf(_SC_PAGESIZE);
        struct hmreg_piece_info piece = {.size = sizeof(piece)};
        struct hmreg_mr *mr = NULL;
        char *addr;

        open_fixture(members, 0);
        script.can[HMREG_PATH_PEERMEM][0] = -EOPNOTSUPP;
        addr = claim_segments(page);
        assert_ok(
            hmreg_mr_reg(fixture.group, addr, PIECES * page, HMREG_ACCESS_ALL, 0, 5, 0, &mr, NULL));
        assert_int_equal(script.live, members * PIECES);
        if (members == 1) {
            resolves = cuda->resolves;
            exports = cuda->exports;
        }
        assert_int_equal(cuda->resolves, resolves);
        assert_int_equal(cuda->exports, exports);
        assert_ok(hmreg_mr_piece(hmreg_mr_rail(mr, members - 1), PIECES - 1, &piece));
        assert_int_equal(piece.local_addr, (uintptr_t)addr + (PIECES - 1) * page);
        assert_ok(hmreg_mr_refresh(mr, &(struct iovec){addr + page, 8}, 1, 0));
        assert_fails(hmreg_mr_refresh(mr, &(struct iovec){addr - 8, 8}, 1, 0), -EINVAL,
                     "not inside");
        assert_ok(hmreg_mr_close(mr));
        fail_each_allocation(addr, PIECES * page);
        assert_int_equal(script.live, 0);
        unclaim_segments(addr, page);
        test_finish();
    }
}

TEST(regsgl__on_a_group__the_same_pieces_on_each_rail)
{
    struct script_caps caps = script_caps;
    struct hmreg_segment segments[2];
    struct hmreg_mr *mr = NULL;

    caps.iov_limit = 1;
    open_members(1, NULL);
    add_member(&caps, NULL);
    open_group(0);
    for (int i = 0; i < 2; i++)
        segments[i] = (struct hmreg_segment){.u.memory = {fixture.host + i * 1000, 10}};
    assert_ok(hmreg_mr_regsgl(fixture.group, segments, 2, HMREG_ACCESS_ALL, 0, 5, 0, &mr, NULL));
    assert_int_equal(script.live, 4);
    for (unsigned i = 0; i < 4; i++)
        assert_int_equal(script.calls[i].count, 1);
    assert_true(hmreg_mr_key(hmreg_mr_rail(mr, 0)) == HMREG_KEY_NOTAVAIL);
    assert_true(hmreg_mr_key(hmreg_mr_rail(mr, 1)) == HMREG_KEY_NOTAVAIL);
    assert_ok(hmreg_mr_close(mr));
    script.fail[HMREG_PATH_SYSTEM] = -EIO; /* the last piece of the last rail */
    script.fail_index = script.count + 4;
    assert_reg_fails(
        hmreg_mr_regsgl(fixture.group, segments, 2, HMREG_ACCESS_ALL, 0, 5, 0, &mr, NULL), mr, -EIO,
        "rail 1 (script): ");
}

/* ---- what is for a rail ----------------------------------------------------------------- */

TEST(domain_bind__group__refused)
{
    int object;

    open_fixture(2, 0);
    assert_fails(hmreg_domain_bind(fixture.group, &object, HMREG_BIND_REG_MR), -EOPNOTSUPP,
                 "queues");
}

TEST(close__a_rail_is_busy__only_another_close)
{
    struct hmreg_mr *mr = NULL;

    open_fixture(3, 0);
    assert_ok(reg(fixture.host, &mr));
    script.dereg = -EBUSY;
    script.dereg_index = 1;
    assert_fails(hmreg_mr_close(mr), -EBUSY, "script");
    assert_non_null(hmreg_mr_rail(mr, 0)); /* nothing was closed yet */
    script.dereg_index = 2;
    assert_fails(hmreg_mr_close(mr), -EBUSY, "script");
    assert_int_equal(script.live, 2);
    assert_null(hmreg_mr_rail(mr, 1));
    assert_int_equal(hmreg_last_error()->code, -EINVAL);
    script.dereg = 0;
    assert_ok(hmreg_mr_close(mr));
    assert_int_equal(script.live, 0);
}

TEST_MAIN()
