/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * hmreg_hibernate() and hmreg_thaw() where a region is more than a range: of a caller's dmabuf, of
 * a job, of an event queue, of device memory, or with an endpoint.
 */
#include "tests/support/cache_fixture.h"
#include "tests/support/queries.h"
#include "tests/support/script.h"
#include "tests/support/vendors.h"

#include <fcntl.h>
#include <hmreg/hibernate.h>
#include <hmreg/job.h>

#define LEN 4096

static struct script_fixture scripted;

static int descriptor(int least)
{
    return fcntl(vendors[HMREG_IFACE_CUDA].claims[0].fd, F_DUPFD_CLOEXEC, least);
}

static int give(struct hmreg_mr *mr, size_t index, struct hmreg_mr_dmabuf *dmabuf, void *number)
{
    dmabuf->fd = *(int *)number;
    return 0;
}

/* Of a dmabuf without an address no range tells. cached: by a get. */
static void dmabuf_comes_back(void *base, bool cached)
{
    struct hmreg_mr_dmabuf dmabuf = {.len = LEN, .base_addr = base};
    struct hmreg_mr_attr attr = {
        .size = sizeof(attr), .access = HMREG_ACCESS_ALL, .dmabuf = &dmabuf};
    struct hmreg_thaw_config config = {.size = sizeof(config), .dmabuf = give};
    struct hmreg_mr *mr = NULL, *other = NULL;
    int before = descriptor(0), after = descriptor(100);

    config.context = &after;
    dmabuf.fd = before;
    assert_ok(cached ? hmreg_mr_get_attr(scripted.domain, &attr, HMREG_REG_DMABUF, &mr)
                     : hmreg_mr_regattr(scripted.domain, &attr, HMREG_REG_DMABUF, &mr));
    close(before);
    assert_ok(hmreg_hibernate(scripted.lib));
    assert_int_equal(script.live, 0);
    dmabuf.fd = after;
    assert_fails(hmreg_mr_regattr(scripted.domain, &attr, HMREG_REG_DMABUF, &other), -EAGAIN,
                 "hmreg_thaw()");
    assert_fails(hmreg_thaw(scripted.lib, NULL), -EINVAL, "dmabuf");
    assert_int_equal(script.live, 0);
    assert_ok(hmreg_thaw(scripted.lib, &config));
    assert_int_equal(script.live, 1);
    assert_int_equal(script_last()->dmabuf.fd, after);
    if (cached)
        hmreg_mr_put(mr);
    else
        assert_ok(hmreg_mr_close(mr));
    close(after);
}

TEST(thaw__callers_dmabuf__asked_for)
{
    script_open(&scripted, NULL, NULL);
    dmabuf_comes_back(scripted.memory[0], false);
    dmabuf_comes_back(scripted.memory[0], true);
}

TEST(thaw__callers_dmabuf_without_an_address__asked_for)
{
    script_open(&scripted, NULL, NULL);
    dmabuf_comes_back(NULL, false);
    dmabuf_comes_back(NULL, true);
}

/* Whose range is empty. */
TEST(thaw__list_of_a_callers_dmabuf_without_an_address__asked_for)
{
    struct hmreg_segment segment = {HMREG_SEGMENT_DMABUF, .u.dmabuf = {.len = LEN}};
    struct hmreg_mr_attr attr = {
        .size = sizeof(attr), .access = HMREG_ACCESS_ALL, .segments = &segment, .segment_count = 1};
    struct hmreg_thaw_config config = {.size = sizeof(config), .dmabuf = give};
    struct hmreg_mr *mr = NULL;
    int number;

    script_open(&scripted, NULL, NULL);
    number = segment.u.dmabuf.fd = descriptor(0);
    config.context = &number;
    assert_ok(hmreg_mr_regattr(scripted.domain, &attr, 0, &mr));
    assert_ok(hmreg_hibernate(scripted.lib));
    assert_int_equal(script.live, 0);
    assert_ok(hmreg_thaw(scripted.lib, &config));
    assert_int_equal(script.live, 1);
    assert_ok(hmreg_mr_close(mr));
    close(number);
}

/* Descriptors and mappings that the library made for the registrations are closed. */
TEST(hibernate__device_memory__no_descriptor_is_left)
{
    struct hmreg_mr *mr = NULL, *held = NULL;
    int before;

    script_open(&scripted, NULL, NULL);
    before = test_count_fds();
    assert_ok(script_reg(&scripted, scripted.memory[0], LEN, &mr));
    assert_ok(hmreg_mr_get(scripted.domain, scripted.memory[1], LEN, HMREG_ACCESS_ALL, &held));
    assert_ok(hmreg_hibernate(scripted.lib));
    assert_int_equal(script.live, 0);
    assert_in_range(test_count_fds(), 0, before);
    script.can[HMREG_PATH_DMABUF][0] = -EOPNOTSUPP; /* other NICs have other paths */
    assert_ok(hmreg_thaw(scripted.lib, NULL));
    assert_int_equal(script.live, 2);
    assert_int_not_equal(test_info_of(mr).path, HMREG_PATH_DMABUF);
    hmreg_mr_put(held);
    assert_ok(hmreg_mr_close(mr));
}

TEST(hibernate__job__refused_until_closed)
{
    struct script_caps caps = script_caps;
    struct hmreg_job *job = NULL;
    struct hmreg_mr *mr = NULL;

    caps.any_thread = false; /* the waiting thread registers */
    script_open(&scripted, &caps, NULL);
    assert_ok(script_job(&scripted, LEN, &job));
    assert_fails(hmreg_hibernate(scripted.lib), -EBUSY, "jobs");
    assert_ok(hmreg_job_wait(job, -1, &mr));
    assert_ok(hmreg_job_close(job));
    assert_ok(hmreg_hibernate(scripted.lib));
    assert_int_equal(script.live, 0);
    assert_ok(hmreg_thaw(scripted.lib, NULL));
    assert_int_equal(script.live, 4);
    assert_int_equal(hmreg_mr_head_of(mr)->count, 4);
    assert_ok(hmreg_mr_close(mr));
}

/* The endpoint of a cached region is the caller's, and would be closed. An idle one just ends. */
TEST(hibernate__cached_region_with_an_endpoint__refused_while_held)
{
    static char memory[LEN];
    struct iovec iov = {memory, LEN};
    void *endpoint = memory;
    struct hmreg_mr_attr attr = {.size = sizeof(attr),
                                 .iov = &iov,
                                 .iov_count = 1,
                                 .access = HMREG_ACCESS_REMOTE,
                                 .endpoints = &endpoint,
                                 .endpoint_count = 1};
    struct hmreg_domain *domain;
    struct hmreg_mr *mr = NULL;

    fixture_open(fixture_monitor(), NULL);
    domain = counter_open_binding(fixture.lib, NULL);
    assert_ok(hmreg_mr_get_attr(domain, &attr, 0, &mr));
    assert_fails(hmreg_hibernate(fixture.lib), -EBUSY, "which a get holds");
    assert_int_equal(counter.regions, 1);
    hmreg_mr_put(mr);
    assert_ok(hmreg_hibernate(fixture.lib));
    assert_int_equal(counter.regions, 0);
    assert_ok(hmreg_thaw(fixture.lib, NULL));
    assert_int_equal(counter.regions, 0);
    assert_ok(hmreg_domain_close(domain));
}

TEST_MAIN()
