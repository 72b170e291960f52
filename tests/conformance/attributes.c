/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 * hmreg_mr_regattr(): each attribute, structs of older and newer callers, the caller's dmabuf. */
#include "tests/conformance/suite.h"
#include "tests/support/queries.h"

#include <fcntl.h>

#define KEY 5

struct attributes {
    struct iovec iov;
    struct hmreg_mr_attr attr;
};

static void fill(struct suite_fixture *fixture, struct attributes *out)
{
    out->iov = (struct iovec){fixture->memory + 8, 64};
    out->attr = (struct hmreg_mr_attr){.size = sizeof(out->attr),
                                       .iov = &out->iov,
                                       .iov_count = 1,
                                       .access = HMREG_ACCESS_REMOTE,
                                       .requested_key = suite_key(fixture, KEY),
                                       .device = HMREG_DEVICE_ANY};
}

static void assert_works(struct suite_fixture *fixture, struct hmreg_mr *mr)
{
    suite_ready(fixture, fixture->domain, mr);
    suite_reach(fixture, mr, 5, 7, fixture->memory + 13);
}

CASE(attr__means_what_reg_means)
{
    struct attributes a;
    struct hmreg_mr *mr = NULL;

    fill(fixture, &a);
    a.attr.context = &a;
    a.attr.claim_iface = 1;
    a.attr.iface = HMREG_IFACE_SYSTEM;
    a.attr.page_size = 4096;
    assert_ok(hmreg_mr_regattr(fixture->domain, &a.attr, 0, &mr));
    assert_ptr_equal(hmreg_mr_context(mr), &a);
    assert_works(fixture, mr);
}

CASE(attr__of_a_newer_caller__unknown_fields_must_be_zero)
{
    struct {
        struct attributes a;
        uint64_t later[4];
    } newer = {.later = {0}};
    struct hmreg_mr *mr = NULL, *none = NULL;

    fill(fixture, &newer.a);
    newer.a.attr.size = sizeof(newer.a.attr) + sizeof(newer.later);
    assert_ok(hmreg_mr_regattr(fixture->domain, &newer.a.attr, 0, &mr));
    for (int i = 0; i < 4; i += 3) {
        newer.later[i] = 1;
        assert_fails(hmreg_mr_regattr(fixture->domain, &newer.a.attr, 0, &none), -EINVAL,
                     "does not know");
        newer.later[i] = 0;
    }
    assert_null(none);
    assert_works(fixture, mr);
}

/* Each piece of a region of segments has the region's key. */
CASE(auth_key__of_another__denied)
{
    const struct hmreg_segment segments[2] = {{.u.memory = {fixture->memory + 8, 64}},
                                              {.u.memory = {fixture->memory + 100, 64}}};
    static const uint8_t secret[65] = "secret";
    struct hmreg_remote *remote;
    struct hmreg_mr *mr = NULL;
    struct attributes a;
    uint64_t addr, key;
    int rc;

    fill(fixture, &a);
    a.attr.auth_key = secret;
    a.attr.auth_key_size = SIZE_MAX;
    assert_fails(hmreg_mr_regattr(fixture->domain, &a.attr, 0, &mr), -EINVAL,
                 "accepted are 0 to 4096");
    a.attr.auth_key_size = sizeof(secret);
    assert_true(hmreg_mr_regattr(fixture->domain, &a.attr, 0, &mr) != 0);
    a.attr.auth_key_size = 8;
    for (size_t count = 0; count <= 2; count += 2) {
        a.attr.iov = count ? NULL : &a.iov;
        a.attr.iov_count = count ? 0 : 1;
        a.attr.segments = count ? segments : NULL;
        a.attr.segment_count = count;
        rc = hmreg_mr_regattr(fixture->domain, &a.attr, 0, &mr);
        if (rc) {
            assert_int_equal(rc, -EOPNOTSUPP);
            assert_null(mr);
            suite_impossible("the fabric has no authorization keys: EOPNOTSUPP");
            return;
        }
        suite_ready(fixture, fixture->domain, mr);
        remote = suite_peer(fixture, mr);
        for (uint64_t offset = 0; offset <= 64 * (count / 2); offset += 64) {
            assert_ok(hmreg_remote_addr(remote, offset, 1, &addr, &key));
            suite_denied(fixture, remote, true, addr, key, 1, -EACCES);
        }
        suite_end(fixture, remote, mr);
        mr = NULL;
    }
}

/* ---- the caller's dmabuf ---------------------------------------------------------------- */

#define DMABUF_BYTES 20480

static void begin_dmabuf(struct suite_fixture *fixture, struct hmreg_mr_dmabuf *dmabuf,
                         struct hmreg_mr_attr *attr, unsigned char **view)
{
    *attr = (struct hmreg_mr_attr){.size = sizeof(*attr),
                                   .access = HMREG_ACCESS_REMOTE,
                                   .requested_key = suite_key(fixture, KEY),
                                   .dmabuf = dmabuf};
    *dmabuf = (struct hmreg_mr_dmabuf){
        .fd = suite_dmabuf(fixture, DMABUF_BYTES, view), .offset = 5000, .len = 64};
}

/* The fabric imports it or, as the region reports, reaches it by a mapping. */
static void note_path(const struct hmreg_mr *mr)
{
    struct hmreg_explanation explanation = {.size = sizeof(explanation)};
    struct hmreg_mr_info info = {.size = sizeof(info)};

    assert_ok(hmreg_mr_query(mr, &info));
    assert_ok(hmreg_mr_explain(mr, &explanation));
    if (info.path == HMREG_PATH_DMABUF) {
        assert_int_equal(explanation.refused, 0);
        return;
    }
    assert_int_equal(info.path, HMREG_PATH_MAPPED);
    assert_int_equal(explanation.reasons[0].path, HMREG_PATH_DMABUF);
    suite_supplied("through a CPU mapping (%s)", explanation.reasons[0].slug);
}

CASE(dmabuf__callers__its_bytes_are_reached)
{
    struct hmreg_mr_dmabuf dmabuf;
    struct hmreg_mr_attr attr;
    struct hmreg_mr *mr = NULL;
    unsigned char *view;
    int rc;

    begin_dmabuf(fixture, &dmabuf, &attr, &view);
    rc = hmreg_mr_regattr(fixture->domain, &attr, HMREG_REG_DMABUF, &mr);
    close(dmabuf.fd); /* borrowed for the call only */
    if (rc) {
        assert_int_equal(rc, -EOPNOTSUPP);
        suite_impossible("no path to it: EOPNOTSUPP");
        munmap(view, DMABUF_BYTES);
        return;
    }
    note_path(mr);
    suite_ready(fixture, fixture->domain, mr);
    suite_reach(fixture, mr, 3, 9, view + 5003);
    munmap(view, DMABUF_BYTES);
}

/* hmreg has no runtime of these ifaces: whatever the fabric does with a caller's dmabuf of unknown
 * memory, it does with theirs, unless it refuses the iface by name. */
CASE(dmabuf__of_an_iface_without_runtime__its_bytes_are_reached)
{
    static const enum hmreg_iface ifaces[] = {HMREG_IFACE_NEURON, HMREG_IFACE_SYNAPSEAI,
                                              HMREG_IFACE_MAX};

    for (int i = 0; i < 6; i++) {
        struct hmreg_mr_dmabuf dmabuf;
        struct hmreg_mr_attr attr;
        struct hmreg_mr *mr = NULL;
        unsigned char *view;
        int rc;

        begin_dmabuf(fixture, &dmabuf, &attr, &view);
        attr.claim_iface = i < 3 ? HMREG_CLAIM_CHECKED : HMREG_CLAIM_TRUSTED;
        attr.iface = ifaces[i % 3];
        attr.device = 2;
        rc = hmreg_mr_regattr(fixture->domain, &attr, HMREG_REG_DMABUF, &mr);
        close(dmabuf.fd);
        if (rc) {
            assert_int_equal(rc, -EOPNOTSUPP);
            suite_impossible("no path to it: EOPNOTSUPP");
            munmap(view, DMABUF_BYTES);
            return;
        }
        assert_int_equal(test_info_of(mr).iface, ifaces[i % 3]);
        assert_int_equal(test_info_of(mr).device, 2);
        suite_ready(fixture, fixture->domain, mr);
        suite_reach(fixture, mr, 3, 9, view + 5003);
        munmap(view, DMABUF_BYTES);
    }
}

/* A fabric takes their iface with the address, or has the kernel's peer memory. Nothing is mapped
 * here for the CPU, and no such device is there: what is registered is not reached. */
CASE(memory__of_an_iface_without_runtime__peer_memory_or_refused)
{
    static const enum hmreg_iface ifaces[] = {HMREG_IFACE_NEURON, HMREG_IFACE_SYNAPSEAI,
                                              HMREG_IFACE_MAX};
    struct iovec iov = {.iov_len = 4096};
    struct hmreg_mr_attr attr = {.size = sizeof(attr),
                                 .iov = &iov,
                                 .iov_count = 1,
                                 .access = HMREG_ACCESS_REMOTE,
                                 .device = 2};

    iov.iov_base = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(iov.iov_base, MAP_FAILED);
    for (int i = 0; i < 12; i++) {
        bool gets = i >= 6;
        struct hmreg_mr *mr = NULL;
        int rc;

        attr.claim_iface = i % 2 ? HMREG_CLAIM_CHECKED : HMREG_CLAIM_TRUSTED;
        attr.iface = ifaces[i / 2 % 3];
        attr.requested_key = gets ? 0 : suite_key(fixture, KEY);
        rc = gets ? hmreg_mr_get_attr(fixture->domain, &attr, 0, &mr)
                  : hmreg_mr_regattr(fixture->domain, &attr, 0, &mr);
        if (rc) {
            assert_int_equal(rc, -EOPNOTSUPP);
            assert_null(mr);
            continue;
        }
        assert_int_equal(test_info_of(mr).path, HMREG_PATH_PEERMEM);
        assert_int_equal(test_info_of(mr).iface, attr.iface);
        assert_int_equal(test_info_of(mr).device, 2);
        if (gets)
            hmreg_mr_put(mr);
        else
            assert_ok(hmreg_mr_close(mr));
    }
    munmap(iov.iov_base, 4096);
}

/* A mapping of that length would succeed, and the first access beyond the file raise SIGBUS. */
CASE(dmabuf__range_behind_its_end__inval)
{
    struct hmreg_mr_dmabuf dmabuf;
    struct hmreg_mr_attr attr;
    struct hmreg_mr *mr = NULL;
    unsigned char *view;

    begin_dmabuf(fixture, &dmabuf, &attr, &view);
    dmabuf.offset = DMABUF_BYTES - 1;
    dmabuf.len = 2;
    assert_fails(hmreg_mr_regattr(fixture->domain, &attr, HMREG_REG_DMABUF, &mr), -EINVAL,
                 "beyond its 20480 bytes");
    assert_null(mr);
    dmabuf.len = 1;
    if (hmreg_mr_regattr(fixture->domain, &attr, HMREG_REG_DMABUF, &mr) == -EOPNOTSUPP)
        suite_impossible("no path to it: EOPNOTSUPP");
    else
        assert_non_null(mr);
    assert_true(lseek(dmabuf.fd, 0, SEEK_CUR) <=
                0); /* unchanged; a real dmabuf does not report it */
    assert_ok(hmreg_mr_close(mr));
    munmap(view, DMABUF_BYTES);
    close(dmabuf.fd);
}

/* A cached region: NCCL closes the descriptor at once, and comes with another the next time. */
CASE(dmabuf__cached__hit_by_another_descriptor)
{
    struct hmreg_mr *mr = NULL, *again = NULL;
    struct hmreg_mr_dmabuf dmabuf;
    struct hmreg_remote *remote;
    struct hmreg_mr_attr attr;
    unsigned char *view;
    int other, rc;

    begin_dmabuf(fixture, &dmabuf, &attr, &view);
    attr.requested_key = 0;
    attr.context = &attr;
    other = fcntl(dmabuf.fd, F_DUPFD_CLOEXEC, 0);
    rc = hmreg_mr_get_attr(fixture->domain, &attr, HMREG_REG_DMABUF, &mr);
    close(dmabuf.fd);
    dmabuf.fd = other;
    if (rc) {
        assert_int_equal(rc, -EOPNOTSUPP);
        suite_impossible("no path to it: EOPNOTSUPP");
    } else if (suite_has(fixture, HMREG_MR_ENDPOINT)) { /* without an endpoint: its own region */
        assert_ok(hmreg_mr_get_attr(fixture->domain, &attr, HMREG_REG_DMABUF, &again));
        assert_ptr_not_equal(again, mr);
        hmreg_mr_put(again);
        suite_not_applicable();
    } else {
        attr.context = &dmabuf;
        dmabuf.offset += 10;
        dmabuf.len -= 20;
        assert_ok(hmreg_mr_get_attr(fixture->domain, &attr, HMREG_REG_DMABUF, &again));
        assert_ptr_equal(again, mr);
        assert_ptr_equal(hmreg_mr_context(mr), &attr);
        hmreg_mr_put(again);
        remote = suite_peer(fixture, mr);
        suite_put(fixture, remote, 3, 9, view + 5003);
        hmreg_remote_close(remote);
    }
    close(other);
    hmreg_mr_put(mr);
    munmap(view, DMABUF_BYTES);
}

/* A get binds the region and enables it; a hit finds it so. */
static void check_endpoints(struct suite_fixture *fixture, struct attributes *a)
{
    void *ep = fixture->fabric->ep_open(fixture->domain), *other;
    struct hmreg_mr *mr = NULL, *again = NULL, *third = NULL;
    struct hmreg_remote *remote;

    other = fixture->fabric->ep_open(fixture->domain);
    a->attr.endpoint = ep;
    assert_ok(hmreg_mr_get_attr(fixture->domain, &a->attr, 0, &mr));
    assert_fails(hmreg_mr_enable(mr), -HMREG_EOPBADSTATE, "enabled already");
    remote = suite_peer(fixture, mr);
    suite_put(fixture, remote, 5, 7, fixture->memory + 13);
    assert_ok(hmreg_mr_get_attr(fixture->domain, &a->attr, 0, &again));
    assert_true(again == mr || !test_info_of(mr).cached);
    a->attr.endpoint = other;
    assert_ok(hmreg_mr_get_attr(fixture->domain, &a->attr, 0, &third));
    assert_ptr_not_equal(third, mr);
    suite_put(fixture, remote, 5, 7, fixture->memory + 13);
    hmreg_remote_close(remote);
    hmreg_mr_put(mr);
    hmreg_mr_put(again);
    hmreg_mr_put(third);
    assert_ok(hmreg_domain_flush(fixture->domain));
    assert_int_equal(
        test_stats_of(fixture->domain).regions + test_stats_of(fixture->domain).retired, 0);
    fixture->fabric->ep_close(ep);
    fixture->fabric->ep_close(other);
}

CASE(endpoint__cached_regions__bound_and_enabled)
{
    struct hmreg_mr *mr = NULL;
    struct attributes a;
    int here;

    fill(fixture, &a);
    a.attr.requested_key = 0;
    if (suite_has(fixture, HMREG_MR_ENDPOINT)) {
        check_endpoints(fixture, &a);
    } else {
        a.attr.endpoint = &here;
        assert_fails(hmreg_mr_get_attr(fixture->domain, &a.attr, 0, &mr), -EINVAL, "endpoint");
        suite_not_applicable();
    }
    a.attr.endpoint = &here;
    assert_fails(hmreg_mr_regattr(fixture->domain, &a.attr, 0, &mr), -EINVAL, "endpoint");
    assert_null(mr);
}
