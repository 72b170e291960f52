/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 * One range over several physical segments: registered as a whole where a descriptor names the
 * whole, else as exactly its segments, else not at all. */
#define FAILING_MALLOC
#include "tests/support/failing_allocation.h"
#include "tests/support/inside.h"
#include "tests/support/queries.h"
#include "tests/support/script.h"
#include "tests/support/vendors.h"

#include <hmreg/group.h>
#include <sys/mman.h>

#define MANY (HMREG_SEGMENTS_MAX + 1)

/* Device memory in segments of a page each, at consecutive addresses. */
static struct fixture {
    struct script_fixture script;
    struct vendor_claim *claims[MANY];
    char *addr;
    size_t page;
    unsigned count;
    int fd; /* of each segment's memory */
    long blocks;
} fixture;

/* A thread's first failure and its first refusal allocate what the thread keeps. The first case has
 * no refusal, and shows it. */
static void fail_once(void)
{
    static bool again;

    test_old_error();
    if (again)
        inside_keep_refusal();
    again = true;
}

static void close_fixture(void)
{
    for (unsigned i = 0; i < fixture.count && fixture.claims[i]; i++)
        vendors[HMREG_IFACE_CUDA].count--;
    close(fixture.fd);
    munmap(fixture.addr, fixture.count * fixture.page);
    vendors[HMREG_IFACE_CUDA].hook = NULL;
    script_close(&fixture.script);
    assert_int_equal(blocks, fixture.blocks);
}

static void open_fixture(unsigned count)
{
    fail_once();
    fixture =
        (struct fixture){.page = (size_t)sysconf(_SC_PAGESIZE), .count = count, .blocks = blocks};
    fixture.fd = memfd_create("segment", MFD_CLOEXEC);
    assert_int_equal(ftruncate(fixture.fd, (off_t)fixture.page), 0);
    script_open(&fixture.script, NULL, NULL);
    vendors[HMREG_IFACE_CUDA].one_by_one = true;
    script.can[HMREG_PATH_PEERMEM][0] = -EOPNOTSUPP;
    script.can[HMREG_PATH_PEERMEM][1] = -EOPNOTSUPP;
    fixture.addr = mmap(NULL, count * fixture.page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(fixture.addr, MAP_FAILED);
    for (unsigned i = 0; i < count; i++) {
        fixture.claims[i] = vendor_claim(HMREG_IFACE_CUDA, fixture.addr + i * fixture.page,
                                         fixture.page, HMREG_MEM_DEVICE, 0);
        fixture.claims[i]->fd = fixture.fd;
        fixture.claims[i]->goes_on = true;
    }
    test_after(close_fixture);
}

static int reg(struct hmreg_mr **mr)
{
    return script_reg(&fixture.script, fixture.addr + 10, fixture.count * fixture.page - 30, mr);
}

/* ---- split registrations ---------------------------------------------------------------- */

static void check_call(unsigned call, unsigned piece)
{
    const struct script_call *made = &script.calls[call];
    uint64_t skip = piece ? 0 : 10;
    size_t len = fixture.page - skip - (piece == fixture.count - 1 ? 20 : 0);

    assert_int_equal(made->path, HMREG_PATH_DMABUF);
    assert_int_equal(made->count, 1);
    assert_ptr_equal(made->iov[0].iov_base, fixture.addr + piece * fixture.page + skip);
    assert_int_equal(made->iov[0].iov_len, len);
    assert_int_equal(made->dmabuf.offset, skip);
    assert_int_equal(made->dmabuf.length, len);
    assert_int_equal(made->access, HMREG_ACCESS_ALL);
    assert_int_equal(made->requested_key == 5, piece == 0);
    assert_ptr_equal(made->context, (void *)0x99);
}

TEST(range__no_descriptor_for_the_whole__a_piece_for_each_segment)
{
    struct hmreg_piece_info piece = {.size = sizeof(piece)};
    struct hmreg_explanation why = {.size = sizeof(why)};
    struct hmreg_mr_info info = {.size = sizeof(info)};
    struct hmreg_mr *mr = NULL;
    uint64_t sum = 0;

    open_fixture(3);
    assert_ok(reg(&mr));
    assert_int_equal(script.count, 3);
    for (unsigned i = 0; i < 3; i++)
        check_call(i, i);
    for (size_t i = 0; i < 3; i++) {
        assert_ok(hmreg_mr_piece(mr, i, &piece));
        assert_int_equal(piece.local_addr, (uintptr_t)fixture.addr + 10 + sum);
        sum += piece.len;
    }
    assert_fails(hmreg_mr_piece(mr, 3, &piece), -ENOENT, "3 pieces");
    assert_ok(hmreg_mr_query(mr, &info));
    assert_int_equal(info.addr, (uintptr_t)fixture.addr + 10);
    assert_int_equal(info.len, 3 * fixture.page - 30);
    assert_int_equal(sum, info.len);
    assert_int_equal(info.path, HMREG_PATH_DMABUF);
    assert_true(hmreg_mr_key(mr) == HMREG_KEY_NOTAVAIL);
    assert_null(hmreg_mr_desc(mr));
    assert_ok(hmreg_mr_explain(mr, &why)); /* why one registration does not suffice */
    assert_int_equal(why.path, HMREG_PATH_DMABUF);
    assert_int_equal(why.refused, 3);
    assert_int_equal(why.reasons[0].path, HMREG_PATH_DMABUF);
    assert_int_equal(why.reasons[0].code, -EXDEV);
    assert_fails(hmreg_mr_explain(NULL, &why), -ENOENT, "no registration of this thread");
    assert_ok(hmreg_mr_close(mr));
}

/* ---- one registration or an error ------------------------------------------------------- */

static int reg_flagged(struct hmreg_domain *domain, uint64_t flags, struct hmreg_mr **mr)
{
    return hmreg_mr_reg(domain, fixture.addr, fixture.count * fixture.page, HMREG_ACCESS_ALL, 0, 0,
                        flags, mr, NULL);
}

static struct hmreg_domain *open_flagged(uint32_t flags, bool single)
{
    struct hmreg_domain_config config = {.size = sizeof(config), .flags = flags};
    struct script_caps caps = script_caps;
    struct hmreg_domain *domain = NULL;

    caps.single = single;
    assert_ok(script_domain(fixture.script.lib, &caps, &config, &domain));
    return domain;
}

static void close_flagged(struct hmreg_domain *domain)
{
    assert_ok(hmreg_domain_close(domain));
    script.destroys = 0;
}

TEST(range__of_several_segments__one_registration_or_parts_as_asked)
{
    static const struct {
        uint32_t domain;
        bool provider;
        uint64_t flag;
        bool refused;
    } cases[] = {
        {0, false, 0, false},
        {0, true, 0, true},
        {0, false, HMREG_REG_SINGLE, true},
        {0, true, HMREG_REG_PARTS, false},
        {HMREG_DOMAIN_SINGLE, false, 0, true},
        {HMREG_DOMAIN_SINGLE, false, HMREG_REG_PARTS, false},
        {HMREG_DOMAIN_PARTS, true, 0, false},
        {HMREG_DOMAIN_PARTS, true, HMREG_REG_SINGLE, true},
    };

    open_fixture(3);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct hmreg_domain *domain = open_flagged(cases[i].domain, cases[i].provider);
        struct hmreg_mr *mr = (void *)1;

        if (cases[i].refused) {
            assert_fails(reg_flagged(domain, cases[i].flag, &mr), -EXDEV, "HMREG_REG_PARTS");
            assert_ptr_equal(mr, (void *)1);
            assert_int_equal(script.live, 0);
            assert_int_equal(test_why_of(NULL).reasons[0].code, -EXDEV);
            if (!cases[i].flag)
                assert_fails(hmreg_mr_get(domain, fixture.addr, 3 * fixture.page, HMREG_SEND, &mr),
                             -EXDEV, "HMREG_DOMAIN_PARTS");
        } else {
            assert_ok(reg_flagged(domain, cases[i].flag, &mr));
            assert_int_equal(script.live, 3);
            assert_ok(hmreg_mr_close(mr));
        }
        close_flagged(domain);
    }
}

TEST(flags__one_registration_and_parts__badflags)
{
    struct hmreg_domain_config config = {.size = sizeof(config),
                                         .flags = HMREG_DOMAIN_SINGLE | HMREG_DOMAIN_PARTS};
    struct hmreg_domain *domain = NULL;
    struct hmreg_mr *mr = NULL;

    open_fixture(2);
    assert_fails(reg_flagged(fixture.script.domain, HMREG_REG_SINGLE | HMREG_REG_PARTS, &mr),
                 -HMREG_EBADFLAGS, "give one of them");
    assert_fails(script_domain(fixture.script.lib, NULL, &config, &domain), -HMREG_EBADFLAGS,
                 "give one of them");
    script.destroys = 0;
}

TEST(regsgl__segments_as_one_registration__exdev)
{
    struct hmreg_segment segments[2] = {{.kind = HMREG_SEGMENT_MEMORY}};
    struct hmreg_mr *mr = (void *)1;
    struct hmreg_domain *domain;

    open_fixture(2);
    domain = open_flagged(HMREG_DOMAIN_SINGLE, true);
    for (unsigned i = 0; i < 2; i++)
        segments[i].u.memory = (struct iovec){fixture.addr + i * fixture.page, fixture.page};
    assert_fails(
        hmreg_mr_regsgl(domain, segments, 2, HMREG_SEND, 0, 0, HMREG_REG_SINGLE, &mr, NULL), -EXDEV,
        "hmreg_mr_piece()");
    assert_ptr_equal(mr, (void *)1);
    assert_ok(hmreg_mr_regsgl(domain, segments, 2, HMREG_SEND, 0, 0, 0, &mr, NULL));
    assert_int_equal(script.live, 2); /* a list says that there are several */
    assert_ok(hmreg_mr_close(mr));
    close_flagged(domain);
}

static void assert_no_own(const char *call)
{
    assert_int_equal(hmreg_last_error()->code, -EXDEV);
    assert_non_null(strstr(hmreg_last_error()->text, call));
    test_old_error();
}

static void assert_only_parts(const struct hmreg_mr *mr, const char *call)
{
    assert_true(hmreg_mr_key(mr) == HMREG_KEY_NOTAVAIL);
    assert_no_own(call);
    assert_null(hmreg_mr_desc(mr));
    assert_no_own(call);
}

TEST(accessors__of_several_parts__no_value_and_the_call_that_has_it)
{
    struct hmreg_domain *group = NULL;
    struct hmreg_mr *mr;

    open_fixture(2);
    assert_true(hmreg_mr_key(NULL) == HMREG_KEY_NOTAVAIL);
    assert_int_equal(hmreg_last_error()->code, -EINVAL);
    assert_ok(reg(&mr));
    assert_only_parts(mr, "hmreg_mr_piece()");
    assert_ok(hmreg_mr_close(mr));
    assert_ok(hmreg_group_open(fixture.script.lib, &fixture.script.domain, 1, NULL, &group));
    assert_ok(reg_flagged(group, 0, &mr));
    assert_only_parts(mr, "hmreg_mr_rail()");
    assert_only_parts(hmreg_mr_rail(mr, 0), "hmreg_mr_piece()");
    assert_ok(hmreg_mr_close(mr));
    assert_ok(hmreg_domain_close(group));
}

static void assert_keys(const struct hmreg_mr_keys *keys, const struct hmreg_mr *mr)
{
    assert_ptr_equal(keys->desc, hmreg_mr_desc(mr));
    assert_true(keys->key == hmreg_mr_key(mr));
}

TEST(head__of_several_parts__the_keys_of_each)
{
    struct hmreg_group_config config = {.size = sizeof(config), .flags = HMREG_GROUP_PARTIAL};
    struct hmreg_piece_info piece = {.size = sizeof(piece)};
    struct hmreg_domain *members[2], *group = NULL;
    struct hmreg_mr *mr, *first = NULL;
    const struct hmreg_mr_head *head;
    static char host[64];

    open_fixture(2);
    assert_ok(reg(&mr));
    head = hmreg_mr_head_of(mr);
    assert_int_equal(head->count, 2);
    for (size_t i = 0; i < 2; i++) {
        assert_ok(hmreg_mr_piece(mr, i, &piece));
        assert_true(head->keys[i].key == piece.key && piece.key != HMREG_KEY_NOTAVAIL);
    }
    test_addresses(fixture.script.domain, mr, mr, 0, fixture.addr + 10);
    assert_ok(hmreg_mr_close(mr));
    members[0] = open_flagged(0, true); /* it refuses: the group has one rail */
    members[1] = fixture.script.domain;
    assert_ok(hmreg_group_open(fixture.script.lib, members, 2, &config, &group));
    assert_ok(reg_flagged(group, 0, &mr));
    head = hmreg_mr_head_of(mr);
    assert_int_equal(head->count, 4); /* two pieces on each member */
    for (size_t i = 0; i < 2; i++) {
        assert_ok(hmreg_mr_piece(hmreg_mr_rail(mr, 1), i, &piece));
        assert_true(head->keys[i].key == HMREG_KEY_NOTAVAIL);
        assert_int_equal(head->keys[i].lkey, HMREG_VERBS_KEY_NOTAVAIL);
        assert_true(head->keys[2 + i].key == piece.key && piece.key != HMREG_KEY_NOTAVAIL);
    }
    test_addresses(members[1], hmreg_mr_rail(mr, 1), mr, 2, fixture.addr);
    assert_ok(hmreg_mr_close(mr));
    assert_ok(hmreg_mr_get(group, host, sizeof(host), HMREG_ACCESS_ALL, &first));
    assert_keys(&hmreg_mr_head_of(first)->keys[0], hmreg_mr_rail(first, 0));
    test_addresses(members[0], hmreg_mr_rail(first, 0), first, 0, host);
    assert_true(hmreg_mr_head_of(first)->keys[0].key != HMREG_KEY_NOTAVAIL);
    hmreg_mr_put(first);
    assert_ok(hmreg_domain_close(group));
    close_flagged(members[0]);
}

/* Of a group without the flags each member decides; with one, the group. */
TEST(group__members_that_differ__each_decides_or_the_group)
{
    struct hmreg_domain_config parts = {.size = sizeof(parts), .flags = HMREG_DOMAIN_PARTS};
    struct hmreg_group_config config = {.size = sizeof(config), .flags = HMREG_GROUP_PARTIAL};
    struct hmreg_domain *members[2], *group = NULL;
    struct hmreg_mr *mr;

    open_fixture(2);
    members[0] = fixture.script.domain;
    members[1] = open_flagged(0, true);
    for (int i = 0; i < 2; i++) {
        config.domain = i ? &parts : NULL;
        assert_ok(hmreg_group_open(fixture.script.lib, members, 2, &config, &group));
        assert_ok(reg_flagged(group, 0, &mr));
        assert_non_null(hmreg_mr_rail(mr, 0));
        assert_int_equal(hmreg_mr_rail(mr, 1) != NULL, i);
        if (!i)
            assert_int_equal(hmreg_last_error()->code, -EXDEV);
        assert_ok(hmreg_mr_close(mr));
        assert_fails(reg_flagged(group, HMREG_REG_SINGLE, &mr), -EXDEV, "rail 0");
        assert_ok(hmreg_domain_close(group));
    }
    close_flagged(members[1]);
}

/* Each piece takes all options, and begins where the one before it ends. */
TEST(range__split_with_options__each_piece_has_them)
{
    struct hmreg_piece_info piece = {.size = sizeof(piece)};
    struct hmreg_mr_attr attr = {.size = sizeof(attr),
                                 .iov_count = 1,
                                 .access = HMREG_ACCESS_ALL,
                                 .requested_key = 5,
                                 .ordering = HMREG_ORDERING_STRICT,
                                 .atomics = HMREG_CHOICE_ON,
                                 .on_demand = HMREG_CHOICE_OFF,
                                 .set_iova = 1};
    struct iovec range;
    struct hmreg_mr *mr = NULL;
    uint64_t sum = 0;

    open_fixture(3);
    range = (struct iovec){fixture.addr + 10, 3 * fixture.page - 30};
    attr.iov = &range;
    assert_ok(hmreg_mr_regattr(fixture.script.domain, &attr, 0, &mr));
    assert_int_equal(script.count, 3);
    for (unsigned i = 0; i < 3; i++) {
        const struct script_options *options = &script.calls[i].options;

        assert_int_equal(options->ordering, HMREG_ORDERING_STRICT);
        assert_int_equal(options->atomics, HMREG_CHOICE_ON);
        assert_int_equal(options->on_demand, HMREG_CHOICE_OFF);
        assert_int_equal(options->set_iova, 1);
        assert_int_equal(options->iova, sum);
        assert_ok(hmreg_mr_piece(mr, i, &piece));
        assert_int_equal(piece.local_addr, sum);
        sum += piece.len;
    }
    test_addresses(fixture.script.domain, mr, mr, 0, range.iov_base);
    assert_ok(hmreg_mr_close(mr));
    attr.iova = UINT64_MAX - range.iov_len + 1;
    assert_reg_fails(hmreg_mr_regattr(fixture.script.domain, &attr, 0, &mr), mr, -EINVAL,
                     "would wrap");
    assert_int_equal(script.count, 3);
}

/* ---- registrations that are not split --------------------------------------------------- */

TEST(range__refused_for_another_reason__not_split)
{
    struct hmreg_mr *mr;

    open_fixture(3);
    vendors[HMREG_IFACE_CUDA].export_code = -EOPNOTSUPP;
    assert_reg_fails(reg(&mr), mr, -EOPNOTSUPP, "no path");
    assert_int_equal(script.count, 0);
}

TEST(range__a_piece_is_refused__nothing_stays)
{
    struct hmreg_mr *mr;

    open_fixture(3);
    fixture.claims[2]->range.device = 1;
    for (int path = 0; path < HMREG_PATH_COUNT; path++)
        script.refuse[path][1] = -EOPNOTSUPP;
    assert_reg_fails(reg(&mr), mr, -EOPNOTSUPP, "refused");
    for (int path = 0; path < HMREG_PATH_COUNT; path++)
        script.refuse[path][1] = 0;
    assert_ok(reg(&mr)); /* key 5 is free again */
    assert_ok(hmreg_mr_close(mr));
}

TEST(range__more_segments_than_a_region_has__eopnotsupp)
{
    struct hmreg_mr *mr;

    open_fixture(HMREG_SEGMENTS_MAX + 1);
    assert_reg_fails(reg(&mr), mr, -EOPNOTSUPP, "register it in parts");
    assert_int_equal(script.count, 0);
    test_finish();
    open_fixture(HMREG_SEGMENTS_MAX);
    assert_ok(reg(&mr));
    assert_int_equal(script.live, HMREG_SEGMENTS_MAX);
    assert_ok(hmreg_mr_close(mr));
}

/* A device whose memory lies on several tiles: a query of one byte still reports several. */
TEST(range__segments_that_have_no_borders__refused)
{
    struct hmreg_mr *mr;

    open_fixture(1);
    fixture.claims[0]->range.segments = 2;
    assert_reg_fails(reg(&mr), mr, -EOPNOTSUPP, "no path");
    assert_int_equal(script.count, 0);
}

TEST(regsgl__a_segment_that_would_split__refused)
{
    struct hmreg_segment segments[2] = {{.kind = HMREG_SEGMENT_MEMORY},
                                        {.kind = HMREG_SEGMENT_MEMORY}};
    struct hmreg_mr *mr;

    open_fixture(3);
    segments[0].u.memory = (struct iovec){fixture.addr, 10};
    segments[1].u.memory = (struct iovec){fixture.addr + 20, 2 * fixture.page};
    assert_reg_fails(hmreg_mr_regsgl(fixture.script.domain, segments, 2, HMREG_ACCESS_REMOTE, 0, 5,
                                     0, &mr, NULL),
                     mr, -EOPNOTSUPP, "no path");
    assert_int_equal(hmreg_last_error()->code, -EOPNOTSUPP);
}

/* ---- changing memory -------------------------------------------------------------------- */

static struct fixture *changing;
static unsigned countdown;

/* The last segment is freed at the `countdown`-th query from now. */
static void lose_last(const char *call, uint64_t addr, size_t len)
{
    if (countdown && !--countdown)
        changing->claims[changing->count - 2]->goes_on = false;
}

/* Between any two queries: the call registers no part, and leaks nothing. */
TEST(range__changes_while_it_is_split__no_part_of_it)
{
    struct hmreg_mr *mr;

    open_fixture(3);
    changing = &fixture;
    for (unsigned at = 1; at <= 7; at++) {
        unsigned live = script.live;
        int rc;

        fixture.claims[1]->goes_on = true;
        mr = NULL;
        countdown = at;
        vendors[HMREG_IFACE_CUDA].hook = lose_last;
        rc = reg(&mr);
        vendors[HMREG_IFACE_CUDA].hook = NULL;
        countdown = 0;
        assert_true(rc ? !mr : !!mr);
        if (!rc)
            assert_ok(hmreg_mr_close(mr));
        assert_int_equal(script.live, live);
    }
}

TEST(get__composite__remembered_until_a_segment_changes)
{
    struct hmreg_mr *first = NULL, *mr = NULL;

    open_fixture(3);
    for (int i = 0; i < 2; i++) {
        assert_ok(hmreg_mr_get(fixture.script.domain, fixture.addr, 3 * fixture.page,
                               HMREG_REMOTE_READ, &mr));
        assert_true(!first || mr == first);
        first = mr;
        hmreg_mr_put(mr);
    }
    assert_int_equal(script.live, 3);
    vendor_renew(fixture.claims[2]);
    assert_ok(hmreg_mr_get(fixture.script.domain, fixture.addr, 3 * fixture.page, HMREG_REMOTE_READ,
                           &mr));
    hmreg_mr_put(mr);
    assert_int_equal(script.live, 3);
    assert_int_equal(script.count, 6);
    assert_int_equal(test_stats_of(fixture.script.domain).hits, 1);
    assert_int_equal(test_stats_of(fixture.script.domain).misses, 2);
}

TEST_MAIN()
