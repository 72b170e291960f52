/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 * Opening the libfabric provider on a simulated fid_domain: how it reads fi_info, libfabric's own
 * cache, limits and the NIC. */
#include "tests/support/fake_fabric.h"
#include "tests/support/queries.h"
#include "tests/support/vendors.h"
#include "tests/unit/ofi_fixture.h"

#include <hmreg/ofi.h>
#include <hmreg/plan.h>
#include <rdma/fi_errno.h>

#define LOCAL_MR (UINT64_C(1) << 55) /* FI_LOCAL_MR, about which newer headers warn */

static char memory[8192];

static int reg(uint64_t access, uint64_t key, struct hmreg_mr **mr)
{
    return hmreg_mr_reg(fixture.domain, memory + 1, 4099, access, 0, key, 0, mr, &fixture.lib);
}

/* ---- opening: arguments ----------------------------------------------------------------- */

TEST(open__null_argument__inval)
{
    struct hmreg_domain *domain = (void *)1;

    ofi_begin();
    assert_fails(hmreg_domain_open_ofi(NULL, &fake_fabric.domain, fake_fabric.info, NULL, &domain),
                 -EINVAL, "lib");
    assert_fails(hmreg_domain_open_ofi(fixture.lib, NULL, fake_fabric.info, NULL, &domain), -EINVAL,
                 "domain is NULL");
    assert_fails(hmreg_domain_open_ofi(fixture.lib, &fake_fabric.domain, NULL, NULL, &domain),
                 -EINVAL, "info is NULL");
    assert_fails(
        hmreg_domain_open_ofi(fixture.lib, &fake_fabric.domain, fake_fabric.info, NULL, NULL),
        -EINVAL, "out");
    assert_ptr_equal(domain, (void *)1);
}

TEST(open__some_other_fid__inval)
{
    ofi_begin();
    fake_fabric.domain.fid.fclass = FI_CLASS_EP;
    assert_fails(ofi_open_domain(NULL), -EINVAL, "no fid_domain");
    assert_null(fixture.domain);
}

TEST(open__info_without_attributes__inval)
{
    struct fi_info info;

    ofi_begin();
    info = *fake_fabric.info;
    info.fabric_attr = NULL;
    assert_fails(
        hmreg_domain_open_ofi(fixture.lib, &fake_fabric.domain, &info, NULL, &fixture.domain),
        -EINVAL, "info->fabric_attr");
    info = *fake_fabric.info;
    info.domain_attr = NULL;
    assert_fails(
        hmreg_domain_open_ofi(fixture.lib, &fake_fabric.domain, &info, NULL, &fixture.domain),
        -EINVAL, "info->domain_attr");
}

TEST(open__unknown_config_flag__badflags)
{
    struct hmreg_domain_config config = {.size = sizeof(config), .flags = 1u << 31};

    ofi_begin();
    assert_fails(ofi_open_domain(&config), -HMREG_EBADFLAGS, "config->flags");
    assert_null(fixture.domain);
}

/* ---- opening: modes --------------------------------------------------------------------- */

static void assert_unmet(int mode, const char *words)
{
    ofi_begin();
    fake_fabric.info->domain_attr->mr_mode = mode;
    assert_fails(ofi_open_domain(NULL), -EOPNOTSUPP, words);
    assert_null(fixture.domain);
    test_finish();
}

TEST(open__unknown_mode__opnotsupp)
{
    assert_unmet(1 << 13, "0x2000");
}

TEST(open__collective_mode__opnotsupp_by_name)
{
    assert_unmet(FI_MR_COLLECTIVE, "FI_MR_COLLECTIVE");
    assert_unmet(FI_MR_COLLECTIVE | FI_MR_LOCAL | 1 << 13, "FI_MR_COLLECTIVE");
}

/* FI_MR_BASIC and FI_MR_SCALABLE stand alone. */
TEST(open__old_mode_with_another__opnotsupp)
{
    assert_unmet(HMREG_MR_BASIC | FI_MR_LOCAL, "0x1,");
}

static void assert_mode(int mode, uint64_t info_mode, uint32_t becomes)
{
    ofi_begin();
    fake_fabric.info->mode = info_mode;
    fake_fabric.info->domain_attr->mr_mode = mode;
    assert_ok(ofi_open_domain(NULL));
    assert_int_equal(test_domain_info(fixture.domain).mr_mode, becomes);
    test_finish();
}

TEST(open__modes_that_can_be_met__kept)
{
    uint32_t all = HMREG_MR_LOCAL | HMREG_MR_RAW | HMREG_MR_VIRT_ADDR | HMREG_MR_ALLOCATED |
                   HMREG_MR_PROV_KEY | HMREG_MR_HMEM;

    assert_mode(0, 0, 0);
    assert_mode((int)all, 0, all);
    assert_mode(FI_MR_LOCAL | 1 << 12, 0, FI_MR_LOCAL); /* FI_MR_XPU_DESC is the caller's */
}

TEST(open__old_modes__translated)
{
    uint32_t basic = HMREG_MR_VIRT_ADDR | HMREG_MR_ALLOCATED | HMREG_MR_PROV_KEY;

    assert_mode(HMREG_MR_BASIC, 0, basic);
    assert_mode(HMREG_MR_SCALABLE, 0, 0);
    assert_mode(HMREG_MR_BASIC, LOCAL_MR, basic | HMREG_MR_LOCAL);
    assert_mode(HMREG_MR_SCALABLE, LOCAL_MR, HMREG_MR_LOCAL);
    assert_mode(FI_MR_VIRT_ADDR, LOCAL_MR, HMREG_MR_VIRT_ADDR);
}

/* ---- opening: other fields of fi_info --------------------------------------------------- */

TEST(query__domain__as_fi_info_says)
{
    ofi_begin();
    ofi_set_provider("verbs;ofi_rxm");
    fake_fabric.info->domain_attr->mr_key_size = 4;
    fake_fabric.info->domain_attr->mr_iov_limit = 5;
    assert_ok(ofi_open_domain(NULL));
    assert_string_equal(test_domain_info(fixture.domain).provider, "ofi");
    assert_string_equal(test_domain_info(fixture.domain).fabric, "verbs;ofi_rxm");
    assert_int_equal(test_domain_info(fixture.domain).key_size, 4);
    assert_int_equal(test_domain_info(fixture.domain).iov_limit, 5);
    assert_int_equal(test_domain_info(fixture.domain).max_len, HMREG_LIMIT_NONE);
}

TEST(query__iov_limit_0__1)
{
    ofi_begin_with(0);
    assert_int_equal(test_domain_info(fixture.domain).iov_limit, 1);
}

/* The domain does not offer a second range that peers cannot access. */
TEST(query__fabric_that_checks_the_first_range_only__1)
{
    ofi_begin();
    ofi_set_provider("shm");
    fake_fabric.info->domain_attr->mr_iov_limit = 4;
    assert_ok(ofi_open_domain(NULL));
    assert_int_equal(test_domain_info(fixture.domain).iov_limit, 1);
}

TEST(open__no_provider_name__opens)
{
    struct hmreg_mr *mr;

    ofi_begin();
    ofi_set_provider(NULL);
    assert_ok(ofi_open_domain(NULL));
    assert_ok(reg(HMREG_ACCESS_ALL, 5, &mr));
    assert_ok(hmreg_mr_close(mr));
}

/* ---- one cache, not two ----------------------------------------------------------------- */

static bool caches_nothing(void)
{
    struct hmreg_plan plan = {.size = sizeof(plan)};

    assert_ok(hmreg_domain_plan(fixture.domain, HMREG_IFACE_SYSTEM, -1, 4096, &plan));
    return !plan.cacheable;
}

static bool is_uncached(const char *provider, const struct hmreg_domain_config *config)
{
    bool uncached;

    ofi_begin();
    ofi_set_provider(provider);
    assert_ok(ofi_open_domain(config));
    uncached = caches_nothing();
    test_finish();
    return uncached;
}

TEST(open__libfabric_caches__ours_is_off)
{
    assert_true(is_uncached("verbs;ofi_rxm", NULL));
    assert_true(is_uncached("efa", NULL));
    assert_false(is_uncached("tcp;ofi_rxm", NULL));
    assert_false(is_uncached("verbsy", NULL));
}

/* prov_version: FI_VERSION(major * 100 + minor, ...) of the provider's libfabric; 0: unknown. */
static bool is_efa_uncached(uint32_t loaded, uint32_t prov_version)
{
    bool uncached;

    ofi_begin();
    ofi_set_provider("efa");
    fake_fabric.version = loaded;
    fake_fabric.info->fabric_attr->prov_version = prov_version;
    assert_ok(ofi_open_domain(NULL));
    uncached = caches_nothing();
    test_finish();
    return uncached;
}

TEST(open__efas_cache_takes_no_registrations_from_2_2_on__ours_is_on)
{
    assert_true(is_efa_uncached(FI_VERSION(2, 1), 0));
    assert_false(is_efa_uncached(FI_VERSION(2, 2), 0));
    assert_false(is_efa_uncached(FI_VERSION(2, 6), 0));
    /* A provider of another libfabric than the one that loads it. */
    assert_true(is_efa_uncached(FI_VERSION(2, 6), FI_VERSION(201, 10)));
    assert_true(is_efa_uncached(FI_VERSION(2, 6), FI_VERSION(122, 0)));
    assert_false(is_efa_uncached(FI_VERSION(2, 1), FI_VERSION(202, 0)));
    assert_true(is_efa_uncached(FI_VERSION(2, 1), FI_VERSION(3, 0)));
}

TEST(open__libfabric_caches_but_limits_are_set__ours_is_on)
{
    struct hmreg_domain_config config = {.size = sizeof(config), .max_regions = 100};

    assert_false(is_uncached("verbs;ofi_rxm", &config));
}

/* 0 is our default too; the config's limits are above both. */
TEST(open__libfabrics_cache_is_switched_off__limits_turn_ours_on)
{
    struct hmreg_domain_config config = {
        .size = sizeof(config), .max_regions = 100, .max_bytes = 1 << 20};

    test_setenv("FI_MR_CACHE_MAX_COUNT", "0");
    assert_true(is_uncached("verbs;ofi_rxm", NULL));
    assert_false(is_uncached("verbs;ofi_rxm", &config));
}

TEST(open__libfabrics_monitor_is_disabled__ours_is_on)
{
    test_setenv("FI_MR_CACHE_MONITOR", "disabled");
    assert_false(is_uncached("verbs;ofi_rxm", NULL));
}

static unsigned warnings;

static void count_warnings(enum hmreg_log_level level, const char *text, void *context)
{
    if (strstr(text, "FI_MR_CACHE_MAX_COUNT=0")) {
        assert_int_equal(level, HMREG_LOG_WARN);
        assert_non_null(strstr(text, "path peermem"));
        warnings++;
    }
}

static unsigned warned(const char *provider)
{
    struct hmreg_config config = {.size = sizeof(config), .log = count_warnings};
    struct hmreg_domain *domain = NULL;
    struct hmreg *lib = NULL;

    warnings = 0;
    fake_fabric_begin();
    ofi_set_provider(provider);
    assert_ok(hmreg_open(&config, &lib));
    assert_ok(hmreg_domain_open_ofi(lib, &fake_fabric.domain, fake_fabric.info, NULL, &domain));
    assert_ok(hmreg_domain_close(domain));
    assert_ok(hmreg_close(lib));
    fake_fabric_end();
    return warnings;
}

TEST(open__libfabric_caches__is_said_once)
{
    assert_int_equal(warned("verbs;ofi_rxm"), 1);
    assert_int_equal(warned("tcp"), 0);
    test_setenv("FI_MR_CACHE_MAX_COUNT", "0");
    assert_int_equal(warned("verbs;ofi_rxm"), 0);
}

static unsigned lost;

static void count_lost(enum hmreg_log_level level, const char *text, void *context)
{
    lost += level == HMREG_LOG_ERROR && strstr(text, "4096 bytes at") && strstr(text, "fi_close()");
}

/* No call reports it: a put has no result. */
TEST(put__fabric_does_not_deregister__logged)
{
    struct hmreg_config config = {.size = sizeof(config), .log = count_lost};
    struct hmreg_domain_config last_put = {.size = sizeof(last_put),
                                           .policy = HMREG_POLICY_LAST_PUT};
    struct hmreg_domain *domain = NULL;
    struct hmreg_mr *mr = NULL;
    struct fid_mr *native;
    struct hmreg *lib = NULL;

    lost = 0;
    fake_fabric_begin();
    assert_ok(hmreg_open(&config, &lib));
    assert_ok(
        hmreg_domain_open_ofi(lib, &fake_fabric.domain, fake_fabric.info, &last_put, &domain));
    assert_ok(hmreg_mr_get(domain, memory, 4096, HMREG_ACCESS_REMOTE, &mr));
    hmreg_mr_put(mr);
    assert_int_equal(lost, 0);
    assert_ok(hmreg_mr_get(domain, memory, 4096, HMREG_ACCESS_REMOTE, &mr));
    native = hmreg_mr_head_of(mr)->keys->native;
    fake_fabric.close_code = -FI_EIO;
    hmreg_mr_put(mr);
    assert_int_equal(lost, 1);
    fake_fabric.close_code = 0;
    fi_close(&native->fid);
    assert_ok(hmreg_domain_close(domain));
    assert_ok(hmreg_close(lib));
    fake_fabric_end();
}

/* ---- plans ------------------------------------------------------------------------------ */

TEST(plan__of_a_provider__pinned_where_it_locks)
{
    static const struct {
        const char *provider;
        uint64_t pinned;
    } cases[] = {{"tcp;ofi_rxm", 0}, {"verbs;ofi_rxm", 4096}, {"efa", 4096}, {"something", 0}};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct hmreg_plan plan = {.size = sizeof(plan)};

        ofi_begin();
        ofi_set_provider(cases[i].provider);
        assert_ok(ofi_open_domain(NULL));
        assert_ok(hmreg_domain_plan(fixture.domain, HMREG_IFACE_SYSTEM, -1, 4096, &plan));
        assert_int_equal(plan.pinned, cases[i].pinned);
        assert_true(plan.limits[HMREG_PLAN_MAX_LEN].limit == HMREG_LIMIT_NONE);
        assert_true(plan.limits[HMREG_PLAN_MAX_MR].limit == HMREG_LIMIT_NONE);
        test_finish();
    }
}

/* ---- the NIC ---------------------------------------------------------------------------- */

TEST(query__info_with_a_nic__its_name_and_address)
{
    struct fi_device_attr device = {.name = (char *)"mlx5_3"};
    struct fi_bus_attr bus = {.bus_type = FI_BUS_PCI, .attr.pci = {1, 0x3b, 4, 1}};
    struct fid_nic nic = {.device_attr = &device, .bus_attr = &bus};
    struct hmreg_domain_info info;

    ofi_begin();
    fake_fabric.info->nic = &nic;
    assert_ok(ofi_open_domain(NULL));
    fake_fabric.info->nic = NULL;
    info = test_domain_info(fixture.domain);
    assert_string_equal(info.nic, "mlx5_3");
    assert_int_equal(info.pci.valid, 1);
    assert_int_equal(info.pci.domain, 1);
    assert_int_equal(info.pci.bus, 0x3b);
    assert_int_equal(info.pci.device, 4);
    assert_int_equal(info.pci.function, 1);
}

TEST(query__nic_with_nothing_in_it__the_domains_name)
{
    struct fid_nic nic = {.bus_attr = NULL};
    struct hmreg_domain_info info;

    ofi_begin();
    fake_fabric.info->nic = &nic;
    free(fake_fabric.info->domain_attr->name);
    fake_fabric.info->domain_attr->name = strdup("efa_0-rdm");
    assert_ok(ofi_open_domain(NULL));
    fake_fabric.info->nic = NULL;
    info = test_domain_info(fixture.domain);
    assert_string_equal(info.nic, "efa_0-rdm");
    assert_int_equal(info.pci.valid, 0);
}

TEST_MAIN()
