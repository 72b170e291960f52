/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The ways of path dmabuf: which are tried in which order for which pair of NIC and device, how
 * others are chosen, the reason of each refusal, and what a group exports for them.
 */
#include "simulated/engine/pcie.h"
#include "tests/support/failing_allocation.h"
#include "tests/support/queries.h"
#include "tests/support/script.h"
#include "tests/support/vendors.h"

#include <hmreg/group.h>

static struct script_fixture fixture;

#define PLAIN  HMREG_WAY_PLAIN
#define DIRECT HMREG_WAY_DATA_DIRECT
#define PCIE   HMREG_WAY_PCIE
#define BOTH   HMREG_WAY_DATA_DIRECT_PCIE

static struct vendor *const cuda = &vendors[HMREG_IFACE_CUDA];

static void open_nic(bool direct, bool pcie, const enum hmreg_way *ways)
{
    struct hmreg_domain_config config = {.size = sizeof(config),
                                         .order = {HMREG_PATH_DMABUF, HMREG_PATH_PEERMEM}};
    struct script_caps caps = script_caps;

    caps.data_direct = direct;
    caps.pcie = pcie;
    for (int i = 0; ways && i < HMREG_WAY_COUNT - 1 && ways[i]; i++)
        config.ways[i] = ways[i];
    script_open(&fixture, &caps, &config);
}

static enum hmreg_way way_of(const struct hmreg_mr *mr)
{
    struct hmreg_mr_info info = {.size = sizeof(info)};

    assert_ok(hmreg_mr_query(mr, &info));
    return info.way;
}

static void assert_reason(const struct hmreg_reason *reason, const char *slug, const char *words)
{
    assert_int_equal(reason->path, HMREG_PATH_DMABUF);
    assert_string_equal(reason->slug, slug);
    if (!strstr(reason->text, words))
        fail_msg("\"%s\" is without \"%s\"", reason->text, words);
}

/* ---- the order -------------------------------------------------------------------------- */

/* The NIC refuses each way: they were tried in this order, each with its mapping. */
static void check_order(bool direct, bool pcie, bool coherent, const enum hmreg_way *order)
{
    struct hmreg_explanation why;
    struct hmreg_mr *mr;
    uint32_t count = 0;

    open_nic(direct, pcie, NULL);
    cuda->coherent = coherent;
    for (int way = 1; way < HMREG_WAY_COUNT; way++)
        script.refuse_way[way] = -EREMOTE;
    assert_ok(script_reg(&fixture, fixture.memory[0], FIXTURE_BYTES, &mr));
    why = test_why_of(mr);
    for (; order[count]; count++) {
        assert_int_equal(script.calls[count].way, order[count]);
        assert_int_equal(script.calls[count].pcie, order[count] == PCIE || order[count] == BOTH);
        assert_string_equal(why.reasons[count].slug, "script-refused-way");
        assert_int_equal(why.reasons[count].path, HMREG_PATH_DMABUF);
        assert_int_equal(why.reasons[count].code, -EREMOTE);
        if (order[count] != PLAIN)
            assert_memory_equal(why.reasons[count].text, hmreg_way_name(order[count]),
                                strlen(hmreg_way_name(order[count])));
    }
    assert_int_equal(why.refused, count);
    assert_int_equal(why.path, HMREG_PATH_PEERMEM);
    assert_int_equal(way_of(mr), HMREG_WAY_NONE);
    assert_int_equal(script.count, count + 1);
    assert_int_equal(cuda->exports, count);
    assert_ok(hmreg_mr_close(mr));
    test_finish();
}

#define ORDER(...) ((const enum hmreg_way[]){__VA_ARGS__, HMREG_WAY_NONE})

TEST(order__each_pair__its_own)
{
    check_order(false, false, false, ORDER(PLAIN));
    check_order(false, false, true, ORDER(PLAIN));
    check_order(false, true, false, ORDER(PLAIN));
    check_order(false, true, true, ORDER(PCIE, PLAIN));
    check_order(true, false, false, ORDER(DIRECT, BOTH, PLAIN));
    check_order(true, false, true, ORDER(BOTH, DIRECT, PLAIN));
}

TEST(way__first_that_works__taken)
{
    static const enum hmreg_way order[] = {BOTH, DIRECT, PLAIN};
    struct hmreg_mr *mr;

    open_nic(true, false, NULL);
    cuda->coherent = true;
    for (uint32_t refused = 0; refused < 3; refused++) {
        script.count = 0;
        assert_ok(script_reg(&fixture, fixture.memory[1], 100, &mr));
        assert_int_equal(way_of(mr), order[refused]);
        assert_int_equal(script_last()->way, order[refused]);
        assert_int_equal(test_why_of(mr).refused, refused);
        assert_int_equal(test_why_of(mr).path, HMREG_PATH_DMABUF);
        assert_ok(hmreg_mr_close(mr));
        script.refuse_way[order[refused]] = -EINVAL;
    }
}

/* ---- refusals --------------------------------------------------------------------------- */

TEST(way__vendor_without_the_mapping__the_next_one)
{
    struct hmreg_explanation why;
    struct hmreg_mr *mr;

    open_nic(true, false, NULL);
    cuda->coherent = true;
    cuda->pcie_code = -EOPNOTSUPP;
    assert_ok(script_reg(&fixture, fixture.memory[0], 100, &mr));
    assert_int_equal(way_of(mr), DIRECT);
    why = test_why_of(mr);
    assert_int_equal(why.refused, 1);
    assert_reason(&why.reasons[0], "no-pcie-mapping", "data-direct-pcie: export for PCIe of cuda");
    assert_int_equal(why.reasons[0].vendor_code, 999);
    assert_int_equal(script.count, 1);
    assert_ok(hmreg_mr_close(mr));
}

TEST(domain_explain__ways_known_not_to_work__refused)
{
    struct hmreg_explanation why = {.size = sizeof(why)};

    open_nic(false, false, ORDER(DIRECT, PLAIN));
    assert_ok(hmreg_domain_explain(fixture.domain, HMREG_IFACE_CUDA, 0, &why));
    assert_int_equal(why.path, HMREG_PATH_DMABUF);
    assert_int_equal(why.refused, 1);
    assert_reason(&why.reasons[0], "no-data-direct", "data-direct: ");
    test_finish();
    open_nic(false, false, ORDER(DIRECT));
    assert_ok(hmreg_domain_explain(fixture.domain, HMREG_IFACE_CUDA, 0, &why));
    assert_int_equal(why.path, HMREG_PATH_PEERMEM);
    assert_int_equal(why.refused, 1);
}

/* Each allocation of a registration that ways refuse fails once: nothing stays. */
TEST(way__no_memory_for_a_reason__fails_and_leaves_nothing)
{
    struct hmreg_mr *mr;
    unsigned n = 1;

    open_nic(true, false, NULL);
    script.refuse_way[DIRECT] = -EREMOTE;
    for (;; n++) {
        int fds = test_count_fds(), rc;

        mr = NULL;
        allocations = 0;
        failing = n;
        rc = script_reg(&fixture, fixture.memory[0], 100, &mr);
        failing = 0;
        if (!rc)
            break;
        assert_int_equal(rc, -ENOMEM);
        assert_null(mr);
        assert_int_equal(script.live, 0);
        assert_int_equal(test_count_fds(), fds);
    }
    assert_true(n > 3); /* region, its more, reasons */
    assert_int_equal(way_of(mr), BOTH);
    assert_ok(hmreg_mr_close(mr));
}

/* ---- who chooses ------------------------------------------------------------------------ */

TEST(environment__ways__counts_unless_configured)
{
    struct hmreg_mr *mr;

    test_setenv("HMREG_DMABUF_WAYS", "pcie,data-direct");
    open_nic(true, false, NULL);
    assert_ok(script_reg(&fixture, fixture.memory[0], 100, &mr));
    assert_int_equal(way_of(mr), PCIE);
    assert_ok(hmreg_mr_close(mr));
    script.refuse_way[PCIE] = -EREMOTE;
    assert_ok(script_reg(&fixture, fixture.memory[0], 100, &mr));
    assert_int_equal(way_of(mr), DIRECT);
    assert_ok(hmreg_mr_close(mr));
    test_finish();
    open_nic(true, false, ORDER(PLAIN));
    assert_ok(script_reg(&fixture, fixture.memory[0], 100, &mr));
    assert_int_equal(way_of(mr), PLAIN);
    assert_ok(hmreg_mr_close(mr));
    test_finish();
}

TEST(environment__wrong_way__names_those_accepted)
{
    static const char *const wrong[] = {"",      "direct",      "plain,",     ",plain",
                                        "Plain", "plain,plain", "plain pcie", "none"};
    struct hmreg *lib = NULL;

    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        test_setenv("HMREG_DMABUF_WAYS", wrong[i]);
        assert_fails(hmreg_open(NULL, &lib), -EINVAL,
                     "accepted are plain, data-direct, pcie, data-direct-pcie");
        assert_null(lib);
    }
}

TEST(config__wrong_ways__named)
{
    struct hmreg_domain_config config = {.size = sizeof(config)};
    struct hmreg_domain *domain = NULL;

    script_open(&fixture, NULL, NULL);
    config.ways[1] = (enum hmreg_way)HMREG_WAY_COUNT;
    assert_fails(script_domain(fixture.lib, NULL, &config, &domain), -EINVAL,
                 "config->ways[1] is 5; accepted are");
    config.ways[1] = HMREG_WAY_PCIE;
    assert_fails(script_domain(fixture.lib, NULL, &config, &domain), -EINVAL,
                 "config->ways[1] is set after the list's end, ways[0]");
    config.ways[0] = HMREG_WAY_PCIE;
    assert_fails(script_domain(fixture.lib, NULL, &config, &domain), -EINVAL,
                 "config->ways has pcie twice");
    assert_null(domain);
    script.destroys = 0;
}

static char said[4096];

static void hear(enum hmreg_log_level level, const char *text, void *context)
{
    size_t used = strlen(said);

    if (level == HMREG_LOG_DEBUG)
        snprintf(said + used, sizeof(said) - used, "%s\n", text);
}

TEST(log__each_refusal_and_the_way_taken)
{
    struct hmreg_config config = {.size = sizeof(config), .log = hear};
    struct script_caps caps = script_caps;
    struct hmreg_domain *domain;
    struct hmreg *lib;
    struct hmreg_mr *mr;
    char *memory;

    vendors_reset();
    script = (struct script){.times = -1};
    said[0] = '\0';
    caps.data_direct = true;
    assert_ok(hmreg_open(&config, &lib));
    assert_ok(script_domain(lib, &caps, NULL, &domain));
    memory = vendor_memory(HMREG_IFACE_CUDA, 1, HMREG_MEM_DEVICE, 4096);
    script.refuse_way[DIRECT] = -EREMOTE;
    assert_ok(hmreg_mr_reg(domain, memory, 4096, HMREG_SEND, 0, 0, 0, &mr, NULL));
    assert_non_null(
        strstr(said, "script refused path dmabuf: data-direct: script: not by this way\n"));
    assert_non_null(strstr(said, "script registered memory of cuda 1 by way data-direct-pcie\n"));
    assert_ok(hmreg_mr_close(mr));
    vendor_memory_free(memory);
    assert_ok(hmreg_domain_close(domain));
    assert_ok(hmreg_close(lib));
}

/* ---- groups ----------------------------------------------------------------------------- */

/* Six members of three sorts: one export for each mapping that is used, not for each rail. */
TEST(group__each_mapping__exported_once)
{
    static const enum hmreg_way taken[] = {BOTH, BOTH, DIRECT, PLAIN, PCIE, PLAIN};
    struct hmreg_domain_config own = {.size = sizeof(own)};
    struct hmreg_group_config config = {.size = sizeof(config), .domain = &own};
    struct hmreg_domain *members[6], *group;
    struct hmreg_mr *mr, *rail;

    script_open(&fixture, NULL, NULL);
    cuda->coherent = true;
    for (int i = 0; i < 6; i++) {
        struct hmreg_domain_config each = {.size = sizeof(each)};
        struct script_caps caps = script_caps;

        caps.data_direct = taken[i] == BOTH;
        caps.pcie = taken[i] == PCIE;
        if (taken[i] == DIRECT) {
            caps.data_direct = true;
            each.ways[0] = DIRECT;
        }
        assert_ok(script_domain(fixture.lib, &caps, &each, &members[i]));
    }
    own.ways[0] = PLAIN;
    assert_fails(hmreg_group_open(fixture.lib, members, 6, &config, &group), -EINVAL,
                 "config->domain->ways is set");
    assert_ok(hmreg_group_open(fixture.lib, members, 6, NULL, &group));
    assert_ok(hmreg_mr_reg(group, fixture.memory[0], 100, HMREG_SEND, 0, 0, 0, &mr, NULL));
    assert_int_equal(cuda->exports, 2);
    assert_int_equal(cuda->pcie_exports, 1);
    assert_int_equal(way_of(mr), BOTH);
    for (size_t i = 0; i < 6; i++) {
        rail = hmreg_mr_rail(mr, i);
        assert_int_equal(way_of(rail), taken[i]);
        assert_int_equal(script.calls[i].pcie, taken[i] == BOTH || taken[i] == PCIE);
    }
    assert_ok(hmreg_mr_close(mr));

    /* A refusal of the mapping is one as well. */
    cuda->exports = cuda->pcie_exports = 0;
    cuda->pcie_code = -EOPNOTSUPP;
    assert_ok(hmreg_mr_reg(group, fixture.memory[0], 100, HMREG_SEND, 0, 0, 0, &mr, NULL));
    assert_int_equal(cuda->pcie_exports, 1);
    assert_int_equal(cuda->exports, 1);
    rail = hmreg_mr_rail(mr, 1);
    assert_int_equal(way_of(rail), DIRECT);
    assert_ok(hmreg_mr_close(mr));

    /* A descriptor with the mapping whose import was refused is imported by no other member. */
    cuda->exports = cuda->pcie_exports = 0;
    cuda->pcie_code = 0;
    script.refuse_way[BOTH] = -ENOMEM;
    assert_ok(hmreg_mr_reg(group, fixture.memory[0], 100, HMREG_SEND, 0, 0, 0, &mr, NULL));
    assert_int_equal(cuda->pcie_exports, 3);
    assert_int_equal(cuda->exports, 4);
    assert_int_equal(way_of(hmreg_mr_rail(mr, 1)), DIRECT);
    assert_int_equal(way_of(hmreg_mr_rail(mr, 4)), PCIE);
    assert_ok(hmreg_mr_close(mr));
    assert_ok(hmreg_domain_close(group));
    for (int i = 0; i < 6; i++)
        assert_ok(hmreg_domain_close(members[i]));
    script.destroys = 0;
}

TEST(name__each_way)
{
    assert_string_equal(hmreg_way_name(HMREG_WAY_NONE), "none");
    assert_string_equal(hmreg_way_name(HMREG_WAY_PLAIN), "plain");
    assert_string_equal(hmreg_way_name(HMREG_WAY_DATA_DIRECT), "data-direct");
    assert_string_equal(hmreg_way_name(HMREG_WAY_PCIE), "pcie");
    assert_string_equal(hmreg_way_name(HMREG_WAY_DATA_DIRECT_PCIE), "data-direct-pcie");
    assert_string_equal(hmreg_way_name((enum hmreg_way)HMREG_WAY_COUNT), "?");
    assert_string_equal(hmreg_way_name((enum hmreg_way) - 1), "?");
}

TEST_MAIN()
