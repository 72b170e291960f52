/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 * Registrations that complete in a queue: the caller receives the region before its event, and an
 * error has no event. */
#include "tests/conformance/suite.h"

#define KEY 99

static bool begin(struct suite_fixture *fixture, struct hmreg_domain **domain)
{
    if (fixture->fabric->async_open && fixture->fabric->async_open(fixture, domain))
        return true;
    suite_impossible("the fabric registers in the call: FI_REG_MR is refused when the queue is "
                     "bound, with libfabric 2 when the domain is opened");
    return false;
}

static void *await_event(struct suite_fixture *fixture)
{
    void *context = NULL;

    while (!fixture->fabric->async_event(fixture, &context))
        fixture->fabric->progress(fixture);
    return context;
}

CASE(async__event_has_the_callers_context)
{
    struct hmreg_domain *domain = NULL;
    struct hmreg_mr *mr = NULL;
    uint8_t raw[64];
    size_t size = sizeof(raw);

    if (!begin(fixture, &domain))
        return;
    assert_ok(hmreg_mr_reg(domain, fixture->memory, 64, HMREG_REMOTE_READ, 0,
                           suite_key(fixture, KEY), 0, &mr, &mr));
    assert_non_null(mr);
    if (fixture->fabric->exact_errors) { /* elsewhere the registration may be complete already */
        assert_true(hmreg_mr_key(mr) == HMREG_KEY_NOTAVAIL);
        assert_fails(hmreg_mr_pack(mr, raw, &size), -EAGAIN, "not complete");
        assert_fails(hmreg_mr_pack_range(mr, fixture->memory, 1, raw, &size), -EAGAIN,
                     "not complete");
        assert_fails(hmreg_mr_pack_many(&mr, 1, raw, &size), -EAGAIN, "mrs[0]");
    }
    assert_ptr_equal(await_event(fixture), &mr);
    assert_ok(hmreg_mr_raw_attr(mr, NULL, raw, &size, 0));
    assert_true(suite_has(fixture, HMREG_MR_RAW) || hmreg_mr_key(mr) != HMREG_KEY_NOTAVAIL);
    assert_ok(hmreg_mr_close(mr));
    fixture->fabric->async_close(fixture, domain);
}

CASE(async__error__no_event)
{
    struct hmreg_mr *mr = NULL, *none = (void *)1;
    struct hmreg_domain *domain = NULL;
    void *context = NULL;

    if (!begin(fixture, &domain))
        return;
    assert_fails(hmreg_mr_reg(domain, fixture->memory, 64, 0, 0, 0, 0, &none, &none), -EINVAL,
                 "access");
    assert_ok(hmreg_mr_reg(domain, fixture->memory, 64, HMREG_REMOTE_READ, 0,
                           suite_key(fixture, KEY), 0, &mr, &mr));
    if (!suite_has(fixture, HMREG_MR_PROV_KEY))
        assert_fails(
            hmreg_mr_reg(domain, fixture->memory, 64, HMREG_REMOTE_READ, 0, KEY, 0, &none, &none),
            -HMREG_ENOKEY, "in use");
    assert_ptr_equal(none, (void *)1);
    assert_ptr_equal(await_event(fixture), &mr);
    assert_false(fixture->fabric->async_event(fixture, &context));
    assert_ok(hmreg_mr_close(mr));
    fixture->fabric->async_close(fixture, domain);
}

/* A composite has one event; a region that is closed early has none. */
CASE(async__composite__one_event)
{
    struct hmreg_piece_info info = {.size = sizeof(info)};
    struct hmreg_segment segments[3];
    struct hmreg_domain *domain = NULL;
    struct hmreg_mr *mr = NULL;
    void *context = NULL;

    if (!begin(fixture, &domain))
        return;
    for (int i = 0; i < 3; i++)
        segments[i] = (struct hmreg_segment){.u.memory = {fixture->memory + 100 * i, 50}};
    for (int closed = 0; closed < 2; closed++) {
        int rc = hmreg_mr_regsgl(domain, segments, 3, HMREG_ACCESS_REMOTE, 0,
                                 suite_key(fixture, KEY), 0, &mr, &mr);

        if (rc == -EOPNOTSUPP) {
            suite_impossible("segments would complete one by one: EOPNOTSUPP");
            break;
        }
        assert_int_equal(rc, 0);
        assert_ok(hmreg_mr_piece(mr, 0, &info));
        assert_true(info.key == HMREG_KEY_NOTAVAIL);
        if (!closed) {
            assert_ptr_equal(await_event(fixture), &mr);
            assert_ok(hmreg_mr_piece(mr, 0, &info));
            assert_true(info.key != HMREG_KEY_NOTAVAIL || suite_has(fixture, HMREG_MR_RAW));
        }
        assert_ok(hmreg_mr_close(mr));
        assert_false(fixture->fabric->async_event(fixture, &context));
    }
    fixture->fabric->async_close(fixture, domain);
}
