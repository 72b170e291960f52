/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The contract of hmreg_mr_get_attr() in rows: what was got before and put, what is got now, and
 * whether the same region serves it. What holds of each get is in hmreg_mr_get.c, of each
 * registration with attributes in tests/conformance/arguments.c.
 */
#include "tests/support/table.h"
#include "tests/support/vendors.h"

#include <fcntl.h>
#include <hmreg/suspend.h>
#include <sys/mman.h>

#define LEN       4096u
#define ALL_ASKED "cuda.resolve rocr.resolve ze.resolve"
#define ASKED     ALL_ASKED " "

/* A get's memory and attributes. */
struct ask {
    enum {
        NOTHING,
        HOST,
        GPU,
        DMABUF,
        DMABUF_AT,
        OTHER_DMABUF,
        TWO,
        TWO_REVERSED,
        TWO_SEGMENTS
    } of;
    uint64_t at, len;
    struct hmreg_mr_attr attr; /* all but these */
};

struct args {
    int usual_;
    struct ask first, then;
    uint64_t flags; /* of the second */
    uint64_t first_flags;
    bool no_domain, no_attr, no_mr;
};

#define ASK(where, offset, length, ...)                                                            \
    {                                                                                              \
        .of = (where), .at = (offset), .len = (length), .attr = {                                  \
            .access = HMREG_ACCESS_REMOTE,                                                         \
            __VA_ARGS__                                                                            \
        }                                                                                          \
    }
#define AFTER(...) .first = ASK(HOST, 0, 2 * LEN, __VA_ARGS__)
#define OF(...)    .then = ASK(HOST, 0, 2 * LEN, __VA_ARGS__)
#define FIRST(...) .first = ASK(__VA_ARGS__)
#define THEN(...)  .then = ASK(__VA_ARGS__)
#define TRUSTS     .claim_iface = HMREG_CLAIM_TRUSTED, .device = HMREG_DEVICE_ANY
/* Its allocation is filled in. */
#define IS_DEVICE(number)                                                                          \
    .claim_iface = HMREG_CLAIM_TRUSTED, .iface = HMREG_IFACE_CUDA, .device = 1,                    \
    .claim_kind = HMREG_MEM_DEVICE, .claim_identity = (number)
#define KEEP        .policy = HMREG_POLICY_KEEP
#define HIT         RETURNS(1, "")
#define ANEW        RETURNS(2, ASKED "nic0.reg")
#define TWO_ANEW    RETURNS(2, ASKED ASKED "nic0.reg")
#define WRONG(text) FAILS(-EINVAL, text, "")

#define BASE ((void *)(uintptr_t)0x7eb000000000) /* no runtime knows it */

static const uint8_t secret[8] = "secret", same[8] = "secret", other[8] = "secreu";
static int one, two;
static int dmabufs[2];

static void get_plainly(void)
{
    world_key(world.host, 2 * LEN);
}

static void plain_get_hits(void)
{
    assert_int_equal(world_key(world.host, LEN), 1);
    assert_int_equal(world_stats().hits, 1);
}

static void pin(void)
{
    vendor_claim(HMREG_IFACE_CUDA, world.host, 2 * LEN, HMREG_MEM_HOST_PINNED, 0)->range.host_addr =
        (uintptr_t)world.host;
}

static struct hmreg_mr *got;

static void counts_both(void)
{
    assert_int_equal(world_stats().regions, 1);
    assert_int_equal(world_stats().bytes, 2 * LEN);
}

static void is_rocrs(void)
{
    assert_int_equal(test_info_of(got).iface, HMREG_IFACE_ROCR);
    assert_int_equal(test_info_of(got).device, 1);
}

static void suspend(void)
{
    assert_ok(hmreg_suspend(world.lib, world.host, LEN));
}

/* ---- which region serves ---------------------------------------------------------------- */

static const struct row keys[] = {
    {"nothing is cached", ARGS(OF()), RETURNS(1, ASKED "nic0.reg"), .after = plain_get_hits},
    {"it was got without attributes", .before = get_plainly, ARGS(OF()), HIT},
    {"a larger range was got", ARGS(AFTER(), THEN(HOST, 1, LEN)), HIT},
    {"without a cache", .as = {.domain.flags = HMREG_DOMAIN_NO_CACHE}, ARGS(AFTER(), OF()), ANEW},

    /* what is compared */
    {"page_size", ARGS(AFTER(.page_size = 65536), OF(.page_size = 65536)), HIT},
    {"page_size, before none", ARGS(AFTER(), OF(.page_size = 65536)), ANEW},
    {"none, before a page_size", ARGS(AFTER(.page_size = 65536), OF()), ANEW},
    {"another page_size", ARGS(AFTER(.page_size = 65536), OF(.page_size = 4096)), ANEW},
    {"hmem_data", ARGS(AFTER(.hmem_data = &one), OF(.hmem_data = &one)), HIT},
    {"hmem_data of the same bytes", ARGS(AFTER(.hmem_data = &one), OF(.hmem_data = &two)), ANEW},
    {"no hmem_data", ARGS(AFTER(.hmem_data = &one), OF()), ANEW},
    {"auth_key of the same bytes",
     ARGS(AFTER(.auth_key_size = 8, .auth_key = secret), OF(.auth_key_size = 8, .auth_key = same)),
     HIT},
    {"auth_key of other bytes",
     ARGS(AFTER(.auth_key_size = 8, .auth_key = secret), OF(.auth_key_size = 8, .auth_key = other)),
     ANEW},
    {"auth_key of fewer bytes",
     ARGS(AFTER(.auth_key_size = 8, .auth_key = secret), OF(.auth_key_size = 7, .auth_key = same)),
     ANEW},
    {"no auth_key", ARGS(AFTER(.auth_key_size = 8, .auth_key = secret), OF()), ANEW},
    {"iova", ARGS(AFTER(.set_iova = 1, .iova = 0x10000), OF(.set_iova = 1, .iova = 0x10000)), HIT},
    {"iova of the same bytes, in a larger range",
     ARGS(AFTER(.set_iova = 1, .iova = 0x10000),
          THEN(HOST, LEN, LEN, .set_iova = 1, .iova = 0x11000)),
     HIT},
    {"iova of other bytes",
     ARGS(AFTER(.set_iova = 1, .iova = 0x10000),
          THEN(HOST, LEN, LEN, .set_iova = 1, .iova = 0x10000)),
     ANEW},
    {"no iova", ARGS(AFTER(.set_iova = 1, .iova = 0x10000), OF()), ANEW},
    {"ordering", ARGS(AFTER(), OF(.ordering = HMREG_ORDERING_RELAXED)), ANEW},
    {"atomics", ARGS(AFTER(), OF(.atomics = HMREG_CHOICE_ON)), ANEW},
    {"on_demand", ARGS(AFTER(), OF(.on_demand = HMREG_CHOICE_ON)), ANEW},
    {"HMREG_REG_SINGLE", ARGS(AFTER(), OF(), .flags = HMREG_REG_SINGLE), ANEW},
    {"HMREG_REG_SINGLE, as the domain", .as = {.domain.flags = HMREG_DOMAIN_SINGLE},
     ARGS(AFTER(), OF(), .flags = HMREG_REG_SINGLE), HIT},
    {"the system's, before as of none", ARGS(AFTER(), OF(TRUSTS)), HIT},
    {"the system's, twice", ARGS(AFTER(TRUSTS), OF(TRUSTS)), HIT},
    {"as of none, before the system's", ARGS(AFTER(TRUSTS), OF()), ANEW},
    {"the system's, checked, before trusted",
     ARGS(AFTER(TRUSTS), OF(.claim_iface = HMREG_CLAIM_CHECKED, .device = -1)), ANEW},
    {"the system's, of pinned memory", .before = pin, ARGS(AFTER(), OF(TRUSTS)),
     RETURNS(2, "nic0.reg")},
    {"a device's", ARGS(FIRST(GPU, 0, LEN, IS_DEVICE(7)), THEN(GPU, 0, LEN, IS_DEVICE(7))), HIT},
    {"a device's of another identity",
     ARGS(FIRST(GPU, 0, LEN, IS_DEVICE(7)), THEN(GPU, 0, LEN, IS_DEVICE(8))),
     RETURNS(2, "cuda.export nic0.reg")},
    {"a device's without an identity",
     ARGS(FIRST(GPU, 0, LEN, IS_DEVICE(0)), THEN(GPU, 0, LEN, IS_DEVICE(0))),
     RETURNS(2, "cuda.export nic0.reg")},

    /* what is not */
    {"context", ARGS(AFTER(), OF(.context = &one)), HIT},
    {"policy", ARGS(AFTER(), OF(KEEP)), HIT},
    {"HMREG_REG_EXACT", ARGS(AFTER(), OF(), .flags = HMREG_REG_EXACT), HIT},
    {"HMREG_REG_PARTS, as the domain", ARGS(AFTER(), OF(), .flags = HMREG_REG_PARTS), HIT},
    {"requested_key any", ARGS(AFTER(), OF(.requested_key = HMREG_KEY_ANY)), HIT},
    {"a checked claim",
     ARGS(FIRST(GPU, 0, LEN), THEN(GPU, 0, LEN, .claim_iface = HMREG_CLAIM_CHECKED,
                                   .iface = HMREG_IFACE_CUDA, .device = 1)),
     RETURNS(1, "cuda.identity")},
    {"a checked claim of any device",
     ARGS(FIRST(GPU, 0, LEN), THEN(GPU, 0, LEN, .claim_iface = HMREG_CLAIM_CHECKED,
                                   .iface = HMREG_IFACE_CUDA, .device = HMREG_DEVICE_ANY)),
     RETURNS(1, "cuda.identity")},
    {"a checked claim of another device",
     ARGS(FIRST(GPU, 0, LEN), THEN(GPU, 0, LEN, .claim_iface = HMREG_CLAIM_CHECKED,
                                   .iface = HMREG_IFACE_CUDA, .device = 0)),
     FAILS(-EINVAL, "the caller claims 0, the memory is on 1", ALL_ASKED)},
    {"a checked claim of another iface",
     ARGS(FIRST(GPU, 0, LEN), THEN(GPU, 0, LEN, .claim_iface = HMREG_CLAIM_CHECKED,
                                   .iface = HMREG_IFACE_SYSTEM, .device = 0)),
     FAILS(-EINVAL, "the caller claims system", ALL_ASKED)},

    /* a policy that ends with the last put */
    {"LAST_PUT", ARGS(AFTER(.policy = HMREG_POLICY_LAST_PUT), OF()), RETURNS(2, ASKED "nic0.reg")},
    {"LAST_PUT, before a region that is kept", ARGS(AFTER(), OF(.policy = HMREG_POLICY_LAST_PUT)),
     ANEW},

    /* lists of ranges */
    {"two ranges", ARGS(FIRST(TWO, 0, LEN), THEN(TWO, 0, LEN)), HIT},
    {"two ranges in the other order", ARGS(FIRST(TWO, 0, LEN), THEN(TWO_REVERSED, 0, LEN)),
     TWO_ANEW},
    {"two ranges, before as segments", ARGS(FIRST(TWO_SEGMENTS, 0, LEN), THEN(TWO, 0, LEN)),
     TWO_ANEW},
    {"two segments", .as = {.iov_limit = 1},
     ARGS(FIRST(TWO_SEGMENTS, 0, LEN), THEN(TWO_SEGMENTS, 0, LEN)), HIT, .after = counts_both},
    {"two segments, without a cache", .as = {.iov_limit = 1, .domain.flags = HMREG_DOMAIN_NO_CACHE},
     ARGS(FIRST(TWO_SEGMENTS, 0, LEN), THEN(TWO_SEGMENTS, 0, LEN)),
     RETURNS(3, ASKED ASKED "nic0.reg nic0.reg")},
    {"one of two segments", .as = {.iov_limit = 1},
     ARGS(FIRST(TWO_SEGMENTS, 0, LEN), THEN(HOST, 0, LEN)), RETURNS(3, ASKED "nic0.reg")},
    {"between two segments", .as = {.iov_limit = 1},
     ARGS(FIRST(TWO_SEGMENTS, 0, LEN), THEN(HOST, LEN, LEN)), RETURNS(3, ASKED "nic0.reg")},
    {"two ranges, of which the NIC takes one", .as = {.iov_limit = 1}, ARGS(THEN(TWO, 0, LEN)),
     FAILS(-EINVAL, "takes 1 to 1 ranges", "")},
    {"two shorter ranges", ARGS(FIRST(TWO, 0, LEN), THEN(TWO, 0, LEN - 1)), TWO_ANEW},
    {"one of two ranges", ARGS(FIRST(TWO, 0, LEN), THEN(HOST, 0, LEN)), ANEW},
};

/* ---- the caller's dmabuf ---------------------------------------------------------------- */

/* No address, or one that no runtime knows: kept on demand only. */
#define SAVED(where, offset, length, ...) ASK(where, offset, length, KEEP, __VA_ARGS__)
#define BUFFERS(before, now)                                                                       \
    ARGS(.first = before, .then = now, .first_flags = HMREG_REG_DMABUF, .flags = HMREG_REG_DMABUF)
#define BUFFER(now) ARGS(.then = now, .flags = HMREG_REG_DMABUF)
#define OTHER_CLAIM .claim_iface = HMREG_CLAIM_CHECKED, .iface = HMREG_IFACE_ROCR, .device = 1
#define BUFFER_ANEW RETURNS(2, REGISTERED)
#define REGISTERED  "nic0.reg"

static const struct row callers_dmabuf[] = {
    {"nothing is cached", BUFFER(SAVED(DMABUF, 0, LEN)), RETURNS(1, REGISTERED)},
    {"it was got by another descriptor", BUFFERS(SAVED(DMABUF, 0, LEN), SAVED(DMABUF, 0, LEN)),
     HIT},
    {"a larger range of it was got", BUFFERS(SAVED(DMABUF, 0, LEN), SAVED(DMABUF, 1, LEN - 1)),
     HIT},
    {"a smaller range of it was got", BUFFERS(SAVED(DMABUF, 1, LEN), SAVED(DMABUF, 0, LEN)),
     BUFFER_ANEW},
    {"another was got", BUFFERS(SAVED(OTHER_DMABUF, 0, LEN), SAVED(DMABUF, 0, LEN)), BUFFER_ANEW},
    {"it was got at another address", BUFFERS(SAVED(DMABUF, 0, LEN), SAVED(DMABUF_AT, 0, LEN)),
     RETURNS(2, ASKED REGISTERED)},
    {"it was got with a claim", BUFFERS(SAVED(DMABUF, 0, LEN, OTHER_CLAIM), SAVED(DMABUF, 0, LEN)),
     BUFFER_ANEW},
    {"it was got with this claim",
     BUFFERS(SAVED(DMABUF, 0, LEN, OTHER_CLAIM), SAVED(DMABUF, 0, LEN, OTHER_CLAIM)), HIT,
     .after = is_rocrs},
    {"it was got without a policy", BUFFERS(ASK(DMABUF, 0, LEN), ASK(DMABUF, 0, LEN)), BUFFER_ANEW},
    {"no path takes it", .as = {.domain.order = {HMREG_PATH_PEERMEM}},
     BUFFER(SAVED(DMABUF, 0, LEN)), FAILS(-EOPNOTSUPP, "dmabuf", "")},
};

/* ---- refusals --------------------------------------------------------------------------- */

static void *endpoints[2];

static const struct row refusals[] = {
    {"domain is NULL", ARGS(OF(), .no_domain = true), WRONG("domain is NULL")},
    {"attr is NULL", ARGS(OF(), .no_attr = true), WRONG("attr is NULL")},
    {"mr is NULL", ARGS(OF(), .no_mr = true), WRONG("mr is NULL")},
    {"the memory is suspended", .before = suspend, ARGS(OF()), FAILS(-EAGAIN, "suspended", "")},
    {"len is 0", ARGS(THEN(HOST, 0, 0)), WRONG("len is 0")},
    {"an unknown flag", ARGS(OF(), .flags = 1), FAILS(-HMREG_EBADFLAGS, "flags", "")},
    {"HMREG_RMA_EVENT", ARGS(OF(), .flags = HMREG_RMA_EVENT), FAILS(-HMREG_EBADFLAGS, "flags", "")},
    {"both covers", ARGS(OF(), .flags = HMREG_REG_COVER | HMREG_REG_EXACT),
     FAILS(-HMREG_EBADFLAGS, "flags", "")},
    {"both forms", ARGS(OF(), .flags = HMREG_REG_SINGLE | HMREG_REG_PARTS),
     FAILS(-HMREG_EBADFLAGS, "flags", "")},
    {"HMREG_REG_DMABUF with a range", ARGS(OF(), .flags = HMREG_REG_DMABUF), WRONG("iov is set")},
    {"page_size is 3", ARGS(OF(.page_size = 3)), WRONG("page_size")},
    {"policy is 3", ARGS(OF(.policy = 3)), WRONG("policy is 3")},
    {"requested_key is 5", .as = {.mr_mode = HMREG_MR_VIRT_ADDR}, ARGS(OF(.requested_key = 5)),
     WRONG("requested_key")},
    {"requested_key is 5, the NIC chooses keys", ARGS(OF(.requested_key = 5)),
     FAILS(-EKEYREJECTED, "requested_key", "")},
    {"a trusted claim of a smaller allocation",
     ARGS(OF(TRUSTS, .claim_base = 4096, .claim_len = LEN)),
     FAILS(-ERANGE, "not within the claimed allocation", "")},
    {"a trusted claim of the system's identity", ARGS(OF(TRUSTS, .claim_identity = 1)),
     WRONG("claim_identity is set")},
    {"endpoint", ARGS(OF(.endpoint = &one)), WRONG("endpoint")},
    {"endpoint on a group", .as = {.nics = 2, .group = true}, ARGS(OF(.endpoint = &one)),
     WRONG("endpoint")},
    {"endpoints of another number", .as = {.nics = 2, .group = true},
     ARGS(OF(.endpoints = endpoints, .endpoint_count = 1)), WRONG("endpoint_count")},
    {"endpoint beside endpoints", .as = {.nics = 2, .group = true},
     ARGS(OF(.endpoint = &one, .endpoints = endpoints, .endpoint_count = 2)), WRONG("endpoint")},
    {"two ranges, together longer than max_len", .as = {.max_len = LEN},
     ARGS(THEN(TWO, 0, LEN / 2 + 1)), FAILS(-EMSGSIZE, "longer than", "")},
    {"ordering, which the NIC has not", .as = {.relaxed = true},
     ARGS(OF(.ordering = HMREG_ORDERING_STRICT)), FAILS(-EOPNOTSUPP, "ordering", "")},
};

/* ---- each row --------------------------------------------------------------------------- */

static void put_got(void)
{
    hmreg_mr_put(got);
}

static int get(const struct ask *ask, uint64_t flags, struct hmreg_mr **mr)
{
    bool of_gpu = ask->of == GPU, reversed = ask->of == TWO_REVERSED;
    char *at = (of_gpu ? world.gpu[1] : world.host) + ask->at;
    struct iovec ranges[2] = {{at + (reversed ? 4 * LEN : 0), ask->len},
                              {at + (reversed ? 0 : 4 * LEN), ask->len}};
    struct hmreg_segment segments[2] = {{.u.memory = ranges[0]}, {.u.memory = ranges[1]}};
    struct hmreg_mr_dmabuf dmabuf = {.fd = fcntl(dmabufs[ask->of == OTHER_DMABUF], F_DUPFD, 100),
                                     .offset = ask->at,
                                     .len = ask->len,
                                     .base_addr = ask->of == DMABUF_AT ? BASE : NULL};
    struct hmreg_mr_attr attr = ask->attr;
    int rc;

    attr.size = sizeof(attr);
    if (attr.claim_kind == HMREG_MEM_DEVICE) {
        attr.claim_base = (uintptr_t)world.gpu[1];
        attr.claim_len = WORLD_BYTES;
    }
    if (ask->of >= DMABUF && ask->of <= OTHER_DMABUF) {
        attr.dmabuf = &dmabuf;
    } else if (ask->of == TWO_SEGMENTS) {
        attr.segments = segments;
        attr.segment_count = 2;
    } else {
        attr.iov = ranges;
        attr.iov_count = ask->of == TWO || reversed ? 2 : 1;
    }
    rc = hmreg_mr_get_attr(world.domain, &attr, flags, mr);
    close(dmabuf.fd);
    return rc;
}

static int get_attr(const struct row *row)
{
    const struct args *args = row->args;
    int rc;

    got = UNTOUCHED;
    if (args->no_domain || args->no_attr || args->no_mr)
        rc = hmreg_mr_get_attr(args->no_domain ? NULL : world.domain,
                               args->no_attr ? NULL : &args->then.attr, 0,
                               args->no_mr ? NULL : &got);
    else
        rc = get(&args->then, args->flags, &got);
    if (!rc)
        test_after(put_got);
    table_result(row, rc);
    if (rc)
        assert_ptr_equal(got, UNTOUCHED);
    else
        table_value(row, table_key(got));
    return rc;
}

static void close_dmabufs(void)
{
    for (int i = 0; i < 2; i++)
        close(dmabufs[i]);
}

static void open_row(const struct row *row)
{
    const struct args *args = row->args;
    struct hmreg_mr *mr = NULL;

    for (int i = 0; i < 2; i++) {
        dmabufs[i] = memfd_create("hmreg-test", MFD_CLOEXEC);
        assert_int_equal(ftruncate(dmabufs[i], 4 * LEN), 0);
    }
    test_after(close_dmabufs);
    table_open_usual(row);
    if (args->first.of) {
        assert_ok(get(&args->first, args->first_flags, &mr));
        hmreg_mr_put(mr);
    }
}

TEST(get_attr__what_serves)
{
    CHECK_EACH_IN(keys, open_row, get_attr);
}

TEST(get_attr__callers_dmabuf)
{
    CHECK_EACH_IN(callers_dmabuf, open_row, get_attr);
}

TEST(get_attr__refused)
{
    CHECK_EACH_IN(refusals, open_row, get_attr);
}

TEST_MAIN()
