/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 * hmreg_suspend() and hmreg_resume(): no access in between, and a renewed remote afterwards. */
#include "tests/conformance/suite.h"

#include <hmreg/group.h>
#include <hmreg/suspend.h>

#define KEY 9

static void renew(struct hmreg_remote *remote, const struct hmreg_mr *mr)
{
    uint8_t token[2048];
    size_t size = sizeof(token);

    assert_ok(hmreg_mr_pack(mr, token, &size));
    assert_ok(hmreg_remote_renew(remote, token, size));
}

/* Other pages come to the same addresses. */
static void replace_pages(const struct suite_fixture *fixture)
{
    assert_int_equal(munmap(fixture->memory, SUITE_BYTES), 0);
    assert_ptr_equal(mmap(fixture->memory, SUITE_BYTES, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE | MAP_POPULATE, -1, 0),
                     fixture->memory);
}

static void count(struct hmreg_mr *mr, void *number)
{
    ++*(unsigned *)number;
}

/* Every call that uses a region, and that registers the memory. */
static void expect_asleep(struct suite_fixture *fixture, struct hmreg_mr *mr)
{
    struct hmreg_segment one = {.u.memory = {fixture->memory, 16}};
    struct hmreg_explanation why = {.size = sizeof(why)};
    struct hmreg_mr_info info = {.size = sizeof(info)};
    struct hmreg_mr *other = NULL;
    uint8_t token[2048];
    size_t size = sizeof(token);

    assert_ok(hmreg_mr_query(mr, &info));
    assert_null(hmreg_mr_head_of(mr)->keys->native);
    assert_null(hmreg_mr_desc(mr));
    assert_int_equal(hmreg_mr_key(mr), HMREG_KEY_NOTAVAIL);
    assert_int_equal(hmreg_last_error()->code, -EAGAIN);
    assert_null(hmreg_mr_rail(mr, 0));
    assert_fails(hmreg_mr_bind(mr, fixture, 0), -EAGAIN, "hmreg_resume()");
    assert_fails(hmreg_mr_refresh(mr, NULL, 0, 0), -EAGAIN, "hmreg_resume()");
    assert_fails(hmreg_mr_enable(mr), -EAGAIN, "hmreg_resume()");
    assert_fails(hmreg_mr_explain(mr, &why), -EAGAIN, "hmreg_resume()");
    assert_fails(hmreg_mr_raw_attr(mr, NULL, token, &size, 0), -EAGAIN, "hmreg_resume()");
    assert_fails(hmreg_mr_pack(mr, token, &size), -EAGAIN, "hmreg_resume()");
    assert_fails(hmreg_mr_pack_range(mr, (void *)(uintptr_t)info.addr, 1, token, &size), -EAGAIN,
                 "hmreg_resume()");
    assert_fails(hmreg_mr_pack_many(&mr, 1, token, &size), -EAGAIN, "hmreg_resume()");
    assert_fails(
        hmreg_mr_reg(fixture->domain, fixture->memory, 8, HMREG_SEND, 0, 0, 0, &other, NULL),
        -EAGAIN, "suspended");
    assert_fails(hmreg_mr_regsgl(fixture->domain, &one, 1, HMREG_SEND, 0, 0, 0, &other, NULL),
                 -EAGAIN, "suspended");
    assert_fails(hmreg_mr_get(fixture->domain, fixture->memory, 8, HMREG_SEND, &other), -EAGAIN,
                 "suspended");
    assert_null(other);
}

CASE(suspend__explicit_region__denied_until_renewed)
{
    struct hmreg_mr *mr = suite_reg(fixture, fixture->memory + 100, 64, HMREG_ACCESS_REMOTE, KEY);
    struct hmreg_remote *remote = suite_peer(fixture, mr);
    struct hmreg_resume_config config = {.size = sizeof(config), .resumed = count};
    unsigned resumed = 0;

    config.context = &resumed;
    if (suite_has(fixture, HMREG_MR_ENDPOINT)) {
        assert_fails(hmreg_suspend(fixture->lib, fixture->memory, SUITE_BYTES), -EBUSY, "bound");
        assert_fails(hmreg_resume(fixture->lib, fixture->memory, SUITE_BYTES, NULL), -ENOENT, "");
        suite_put(fixture, remote, 0, 8, fixture->memory + 100);
    } else {
        assert_fails(hmreg_suspend(fixture->lib, fixture->memory, 0), -EINVAL, "len");
        assert_ok(hmreg_suspend(fixture->lib, fixture->memory, SUITE_BYTES));
        expect_asleep(fixture, mr);
        replace_pages(fixture);
        suite_denied_at(fixture, remote, true, -EKEYREJECTED);
        assert_ok(hmreg_resume(fixture->lib, fixture->memory, SUITE_BYTES, &config));
        assert_int_equal(resumed, 1);
        renew(remote, mr);
        suite_put(fixture, remote, 0, 64, fixture->memory + 100);
        suite_get(fixture, remote, 0, 64, fixture->memory + 100);
    }
    suite_end(fixture, remote, mr);
}

CASE(suspend__held_region__denied_until_renewed)
{
    struct hmreg_mr *mr = NULL, *other = NULL;
    struct hmreg_remote *remote;

    if (suite_has(fixture, HMREG_MR_ENDPOINT)) {
        suite_not_applicable();
        return;
    }
    assert_ok(hmreg_mr_get(fixture->domain, fixture->memory + 32, 64, HMREG_ACCESS_REMOTE, &mr));
    remote = suite_peer(fixture, mr);
    suite_put(fixture, remote, 0, 8, fixture->memory + 32);
    assert_ok(hmreg_suspend(fixture->lib, fixture->memory, SUITE_BYTES));
    expect_asleep(fixture, mr);
    replace_pages(fixture);
    suite_denied_at(fixture, remote, true, -EKEYREJECTED);
    assert_ok(hmreg_resume(fixture->lib, fixture->memory, SUITE_BYTES, NULL));
    renew(remote, mr);
    suite_put(fixture, remote, 0, 64, fixture->memory + 32);
    hmreg_remote_close(remote);
    hmreg_mr_put(mr);
    assert_ok(hmreg_mr_get(fixture->domain, fixture->memory + 32, 64, HMREG_ACCESS_REMOTE, &other));
    hmreg_mr_put(other);
}

/* A composite where the fabric takes no list. */
CASE(suspend__segments__each_renewed)
{
    struct hmreg_segment segments[2] = {{.u.memory = {fixture->memory + 200, 40}},
                                        {.u.memory = {fixture->memory + 8200, 24}}};
    struct hmreg_mr *mr = NULL;
    struct hmreg_remote *remote;

    if (suite_has(fixture, HMREG_MR_ENDPOINT)) {
        suite_not_applicable();
        return;
    }
    assert_ok(hmreg_mr_regsgl(fixture->domain, segments, 2, HMREG_ACCESS_REMOTE, 0,
                              suite_key(fixture, KEY), HMREG_REG_PARTS, &mr, NULL));
    remote = suite_peer(fixture, mr);
    assert_ok(hmreg_suspend(fixture->lib, fixture->memory + 8192, 4096));
    assert_ok(hmreg_resume(fixture->lib, fixture->memory + 8192, 4096, NULL));
    renew(remote, mr);
    suite_put(fixture, remote, 8, 8, fixture->memory + 208);
    suite_put(fixture, remote, 48, 8, fixture->memory + 8208);
    suite_end(fixture, remote, mr);
}
