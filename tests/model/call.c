/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See call.h.
 */
#include "tests/model/call.h"

#include <string.h>

/* A step's form decides by different bits how it gets and how it puts. */
enum form {
    PLAIN,
    TRY, /* and PLAIN after that */
    HOST,
    BARE, /* attributes, of which none is compared */
    PAGE_SIZE,
    AUTH_KEY,
    OTHER_AUTH_KEY,
    HMEM_DATA,
    SEGMENTS,
    RANGES,
    KEEP,
    LAST_PUT,
};

static enum form form_of(const struct oracle_want *want, uint32_t form)
{
    static const enum form forms[] = {
        PLAIN,     PLAIN, PLAIN, PLAIN,    TRY,      TRY,       TRY,      TRY,
        TRY,       HOST,  HOST,  BARE,     BARE,     PAGE_SIZE, AUTH_KEY, OTHER_AUTH_KEY,
        HMEM_DATA, KEEP,  KEEP,  LAST_PUT, LAST_PUT, SEGMENTS,  SEGMENTS, SEGMENTS,
        RANGES};
    enum form chosen = forms[form % (sizeof(forms) / sizeof(forms[0]))];

    if (want->area && (chosen == HOST || chosen == SEGMENTS || chosen == RANGES))
        return PLAIN; /* each segment of device memory has a registration of its own */
    return chosen;
}

bool call_is_list(const struct oracle_want *want, uint32_t form)
{
    enum form chosen = form_of(want, form);

    return chosen == SEGMENTS || chosen == RANGES;
}

void call_form(const struct plan *plan, uint32_t form, struct oracle_want *want)
{
    enum form chosen = form_of(want, form);

    want->attributes = chosen >= PAGE_SIZE && chosen <= RANGES ? chosen : 0;
    want->claims = chosen == HOST;
    want->ends = chosen == LAST_PUT || (plan->policy == HMREG_POLICY_LAST_PUT && chosen != KEEP);
}

/* ---- gets ------------------------------------------------------------------------------- */

static int get_attr(struct hmreg_domain *domain, const struct oracle_want *want, enum form form,
                    struct hmreg_mr **mr)
{
    static uint8_t secrets[2][8] = {"secret", "secret"}, other[8] = "Secret";
    static unsigned count;
    struct iovec iov[2] = {
        {(void *)(uintptr_t)want->start, (size_t)(want->end - want->start)},
        {(void *)(uintptr_t)want->next_start, (size_t)(want->next_end - want->next_start)}};
    struct hmreg_segment segments[2] = {{.u.memory = iov[0]}, {.u.memory = iov[1]}};
    struct hmreg_mr_attr attr = {.size = sizeof(attr),
                                 .iov = iov,
                                 .iov_count = want->next_end ? 2 : 1,
                                 .access = want->access};

    if (form == SEGMENTS) {
        attr.segments = segments;
        attr.segment_count = 2;
        attr.iov = NULL;
        attr.iov_count = 0;
    }

    if (form == PAGE_SIZE)
        attr.page_size = 65536;
    if (form == HMEM_DATA)
        attr.hmem_data = secrets;
    if (form == AUTH_KEY) /* by its bytes: the address does not matter */
        attr.auth_key = secrets[count++ % 2];
    if (form == OTHER_AUTH_KEY)
        attr.auth_key = other;
    attr.auth_key_size = attr.auth_key ? sizeof(other) : 0;
    if (form == KEEP || form == LAST_PUT)
        attr.policy = form == KEEP ? HMREG_POLICY_KEEP : HMREG_POLICY_LAST_PUT;
    return hmreg_mr_get_attr(domain, &attr, 0, mr);
}

static uint64_t access_of(const struct oracle_want *want)
{
    return want->access | (want->claims ? HMREG_GET_HOST : 0);
}

static struct hmreg_mr_info info_of(const struct hmreg_mr *mr)
{
    struct hmreg_mr_info info = {.size = sizeof(info)};

    if (hmreg_mr_query(mr, &info))
        oracle_fail("hmreg_mr_query: %s", hmreg_last_error()->text);
    return info;
}

/* May it be served at once, without a question to the runtime or the kernel? */
static bool is_quick(const struct hmreg_mr *mr)
{
    struct hmreg_mr_info info = info_of(mr);

    return info.cached && !info.asks && info.policy != HMREG_POLICY_LAST_PUT;
}

static int try_get(struct hmreg_domain *domain, const struct oracle_want *want,
                   struct hmreg_mr **mr)
{
    struct hmreg_mr *before = *mr;
    unsigned regs = atomic_load(&pinning.regs), deregs = atomic_load(&pinning.deregs);
    int rc = hmreg_mr_try_get(domain, (void *)(uintptr_t)want->start,
                              (size_t)(want->end - want->start), access_of(want), mr);

    if (atomic_load(&pinning.regs) != regs || atomic_load(&pinning.deregs) != deregs)
        oracle_fail("hmreg_mr_try_get() called the fabric");
    if (rc && (rc != -EAGAIN || *mr != before))
        oracle_fail("hmreg_mr_try_get() = %d", rc);
    if (!rc && !is_quick(*mr))
        oracle_fail("served at once, though it asks or ends with its last put");
    return rc;
}

static int get(struct hmreg_domain *domain, const struct oracle_want *want, enum form form,
               struct hmreg_mr **mr)
{
    if (form > HOST)
        return get_attr(domain, want, form, mr);
    return hmreg_mr_get(domain, (void *)(uintptr_t)want->start, (size_t)(want->end - want->start),
                        access_of(want), mr);
}

/* A call that succeeds leaves the thread's last error, whatever fails within it. */
static void judge_last_error(const struct hmreg_error *before)
{
    if (strcmp(hmreg_last_error()->text, before->text) != 0)
        oracle_fail("a call that succeeds leaves the error: %s", hmreg_last_error()->text);
}

int call_get(struct hmreg_domain *domain, const struct oracle_want *want, uint32_t form,
             struct hmreg_mr **mr, bool *at_once)
{
    const struct hmreg_error before = *hmreg_last_error();
    enum form chosen = form_of(want, form);
    int rc;

    *at_once = chosen == TRY && !try_get(domain, want, mr);
    rc = *at_once ? 0 : get(domain, want, chosen, mr);
    if (!rc)
        judge_last_error(&before);
    return rc;
}

/* ---- puts ------------------------------------------------------------------------------- */

static int try_put(struct hmreg_mr *mr)
{
    struct hmreg_mr_info info = info_of(mr);
    unsigned deregs = atomic_load(&pinning.deregs);
    int rc = hmreg_mr_try_put(mr);

    if (atomic_load(&pinning.deregs) != deregs)
        oracle_fail("hmreg_mr_try_put() called the fabric");
    if (rc && rc != -EAGAIN)
        oracle_fail("hmreg_mr_try_put() = %d", rc);
    if (!rc && (!info.cached || info.policy == HMREG_POLICY_LAST_PUT))
        oracle_fail("put at once, though it was to end");
    return rc;
}

void call_put(struct hmreg_mr *mr, uint32_t form)
{
    const struct hmreg_error before = *hmreg_last_error();

    if (form / 64 % 4 || try_put(mr))
        hmreg_mr_put(mr);
    judge_last_error(&before);
}
