/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 * What is refused before any fabric is asked, with the same error and words on all of them. */
#include "tests/conformance/suite.h"

#define ACCESS HMREG_REMOTE_READ

static struct hmreg_mr *const untouched = (struct hmreg_mr *)1;

CASE(reg__length_zero__inval)
{
    struct hmreg_mr *mr = untouched;

    assert_fails(hmreg_mr_reg(fixture->domain, fixture->memory, 0, ACCESS, 0, 0, 0, &mr, NULL),
                 -EINVAL, "len is 0");
    assert_ptr_equal(mr, untouched);
    suite_refused(fixture, fixture->memory, 0, ACCESS, 0, 1, 0);
}

CASE(reg__null_arguments__inval)
{
    struct hmreg_mr *mr = untouched;

    assert_fails(hmreg_mr_reg(NULL, fixture->memory, 8, ACCESS, 0, 0, 0, &mr, NULL), -EINVAL,
                 "domain is NULL");
    assert_fails(hmreg_mr_reg(fixture->domain, NULL, 8, ACCESS, 0, 0, 0, &mr, NULL), -EINVAL,
                 "addr is NULL");
    assert_fails(hmreg_mr_reg(fixture->domain, fixture->memory, 8, ACCESS, 0, 0, 0, NULL, NULL),
                 -EINVAL, "mr is NULL");
    assert_fails(hmreg_mr_regv(fixture->domain, NULL, 1, ACCESS, 0, 0, 0, &mr, NULL), -EINVAL,
                 "iov is NULL");
    assert_fails(hmreg_mr_regattr(fixture->domain, NULL, 0, &mr), -EINVAL, "attr is NULL");
    assert_fails(hmreg_mr_regsgl(fixture->domain, NULL, 1, ACCESS, 0, 0, 0, &mr, NULL), -EINVAL,
                 "segments is NULL");
    assert_ptr_equal(mr, untouched);
}

CASE(reg__range_that_wraps__inval)
{
    struct hmreg_mr *mr = untouched;

    assert_fails(
        hmreg_mr_reg(fixture->domain, fixture->memory, SIZE_MAX, ACCESS, 0, 0, 0, &mr, NULL),
        -EINVAL, "wraps");
    assert_ptr_equal(mr, untouched);
    suite_refused(fixture, fixture->memory, SIZE_MAX, ACCESS, 0, 1, 0);
}

CASE(reg__offset__inval)
{
    struct hmreg_mr *mr = untouched;

    assert_fails(hmreg_mr_reg(fixture->domain, fixture->memory, 8, ACCESS, 1, 0, 0, &mr, NULL),
                 -EINVAL, "offset is 1");
    assert_ptr_equal(mr, untouched);
    suite_refused(fixture, fixture->memory, 8, ACCESS, 1, 1, 0);
}

CASE(regv__no_range_or_too_many__inval)
{
    struct iovec *iov = calloc((size_t)fixture->info.iov_limit + 1, sizeof(*iov));
    struct hmreg_mr *mr = untouched;

    for (uint32_t i = 0; i <= fixture->info.iov_limit; i++)
        iov[i] = (struct iovec){fixture->memory + 16 * i, 16};
    assert_fails(hmreg_mr_regv(fixture->domain, iov, 0, ACCESS, 0, 0, 0, &mr, NULL), -EINVAL,
                 "count is 0");
    assert_fails(hmreg_mr_regv(fixture->domain, iov, (size_t)fixture->info.iov_limit + 1, ACCESS, 0,
                               0, 0, &mr, NULL),
                 -EINVAL, "takes 1 to");
    if (fixture->info.iov_limit > 1) {
        iov[1].iov_len = 0;
        assert_fails(hmreg_mr_regv(fixture->domain, iov, 2, ACCESS, 0, 0, 0, &mr, NULL), -EINVAL,
                     "iov[1]: len is 0");
    }
    assert_ptr_equal(mr, untouched);
    free(iov);
}

/* The flags that some domain takes, and that this one may not. */
static bool known_flag(uint64_t flag)
{
    return flag &
           (HMREG_HMEM_DEVICE_ONLY | HMREG_HMEM_HOST_ALLOC | HMREG_RMA_EVENT | HMREG_RMA_PMEM);
}

CASE(flags__unknown__ebadflags)
{
    struct hmreg_mr *mr = untouched;

    for (int bit = 0; bit < 64; bit++) {
        uint64_t flag = UINT64_C(1) << bit;

        if (known_flag(flag))
            continue;
        assert_fails(
            hmreg_mr_reg(fixture->domain, fixture->memory, 8, ACCESS, 0, 0, flag, &mr, NULL),
            -HMREG_EBADFLAGS, "flags has unknown bits");
    }
    assert_ptr_equal(mr, untouched);
    suite_refused(fixture, fixture->memory, 8, ACCESS, 0, 1, 1u << 3);
}

CASE(flags__claims_that_host_memory_does_not_keep__inval)
{
    struct hmreg_mr *mr = untouched;

    assert_fails(hmreg_mr_reg(fixture->domain, fixture->memory, 8, ACCESS, 0, 0,
                              HMREG_HMEM_DEVICE_ONLY, &mr, NULL),
                 -EINVAL, "HMREG_HMEM_DEVICE_ONLY: the memory's kind is");
    assert_fails(hmreg_mr_reg(fixture->domain, fixture->memory, 8, ACCESS, 0, 0,
                              HMREG_HMEM_HOST_ALLOC, &mr, NULL),
                 -EINVAL, "HMREG_HMEM_HOST_ALLOC: the memory's kind is");
    assert_ptr_equal(mr, untouched);
    suite_refused(fixture, fixture->memory, 8, ACCESS, 0, 1, HMREG_HMEM_DEVICE_ONLY);
}

/* What failed is as if it had not been tried. */
CASE(error__leaves_key_and_domain_as_they_were)
{
    uint64_t key = suite_key(fixture, 7);
    struct hmreg_mr *mr = untouched;

    assert_fails(hmreg_mr_reg(fixture->domain, fixture->memory, 8, ACCESS, 0, key, 1, &mr, NULL),
                 -HMREG_EBADFLAGS, "flags");
    assert_fails(hmreg_mr_reg(fixture->domain, fixture->memory, 8, ACCESS, 0, key,
                              HMREG_HMEM_DEVICE_ONLY, &mr, NULL),
                 -EINVAL, "kind");
    mr = suite_reg(fixture, fixture->memory, 8, ACCESS, 7);
    suite_close(fixture, mr);
}

SUITE_CASES(suite_door, TEST(reg__length_zero__inval), TEST(reg__null_arguments__inval),
            TEST(reg__range_that_wraps__inval), TEST(reg__offset__inval),
            TEST(regv__no_range_or_too_many__inval), TEST(flags__unknown__ebadflags),
            TEST(flags__claims_that_host_memory_does_not_keep__inval),
            TEST(error__leaves_key_and_domain_as_they_were));
