/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The contract of hmreg_domain_open_ofi() in rows: what fi_info, libfabric's version, the
 * environment and the configuration say, and what the domain becomes, or why it is refused. Each
 * row has a world of its own, whose fid_domain is simulated.
 */
#include "tests/support/table.h"
#include "tests/support/world_ofi.h"

#include <hmreg/ofi.h>
#include <hmreg/plan.h>
#include <rdma/fi_errno.h>

#define LOCAL_MR (UINT64_C(1) << 55) /* FI_LOCAL_MR, about which newer headers warn */

struct args {
    int usual_;
    const char *provider; /* NULL: it has no name */
    /* fi_info: */
    uint64_t mr_mode;
    uint64_t mode;
    size_t ranges, key_size; /* 0: of 8 bytes */
    /* FI_VERSION(), 0: of the headers, unknown; a provider's is of major * 100 + minor. */
    uint32_t libfabric, providers;
    const char *variable, *value; /* of the environment */
    struct hmreg_domain_config config;
    /* Of the domain: */
    uint32_t limit; /* of ranges; 0: 1 */
    bool uncached;  /* libfabric caches: ours is off */
    bool pins;
};

#define BECOMES(modes)   RETURNS(modes, NULL) /* the domain's mr_mode */
#define ENV(name, text)  .variable = (name), .value = (text)
#define CACHES           .uncached = true, .pins = true
#define EFA(loaded, own) "efa", .libfabric = FI_VERSION loaded, .providers = FI_VERSION own
#define BASIC            (HMREG_MR_VIRT_ADDR | HMREG_MR_ALLOCATED | HMREG_MR_PROV_KEY)
#define ALL              (BASIC | HMREG_MR_LOCAL | HMREG_MR_RAW | HMREG_MR_HMEM)

static const struct row rows[] = {
    /* modes */
    {"no mode", ARGS("tcp"), BECOMES(0)},
    {"all modes", ARGS("tcp", .mr_mode = ALL), BECOMES(ALL)},
    {"FI_MR_XPU_DESC, which is the caller's", ARGS("tcp", .mr_mode = FI_MR_LOCAL | 1 << 12),
     BECOMES(FI_MR_LOCAL)},
    {"an unknown mode", ARGS("tcp", .mr_mode = 1 << 13), FAILS(-EOPNOTSUPP, "0x2000", NULL)},
    {"collectives", ARGS("tcp", .mr_mode = FI_MR_COLLECTIVE),
     FAILS(-EOPNOTSUPP, "FI_MR_COLLECTIVE", NULL)},
    {"collectives and an unknown mode",
     ARGS("tcp", .mr_mode = FI_MR_COLLECTIVE | FI_MR_LOCAL | 1 << 13),
     FAILS(-EOPNOTSUPP, "FI_MR_COLLECTIVE", NULL)},
    {"basic", ARGS("tcp", .mr_mode = HMREG_MR_BASIC), BECOMES(BASIC)},
    {"scalable", ARGS("tcp", .mr_mode = HMREG_MR_SCALABLE), BECOMES(0)},
    {"basic and local", ARGS("tcp", .mode = LOCAL_MR, .mr_mode = HMREG_MR_BASIC),
     BECOMES(BASIC | HMREG_MR_LOCAL)},
    {"scalable and local", ARGS("tcp", .mode = LOCAL_MR, .mr_mode = HMREG_MR_SCALABLE),
     BECOMES(HMREG_MR_LOCAL)},
    {"an old local among new modes", ARGS("tcp", .mode = LOCAL_MR, .mr_mode = FI_MR_VIRT_ADDR),
     BECOMES(HMREG_MR_VIRT_ADDR)},
    {"basic among new modes", ARGS("tcp", .mr_mode = HMREG_MR_BASIC | FI_MR_LOCAL),
     FAILS(-EOPNOTSUPP, "0x1,", NULL)},

    /* other fields */
    {"keys of 4 bytes, 5 ranges",
     ARGS("verbs;ofi_rxm", .key_size = 4, .ranges = 5, .limit = 5, CACHES), BECOMES(0)},
    {"a fabric that checks the first range only", ARGS("shm", .ranges = 4), BECOMES(0)},
    {"a provider without a name", ARGS(NULL), BECOMES(0)},
    {"an unknown flag", ARGS("tcp", .config = {.flags = 1u << 31}),
     FAILS(-HMREG_EBADFLAGS, "config->flags", NULL)},

    /* one cache, not two */
    {"libfabric caches for it", ARGS("verbs;ofi_rxm", CACHES), BECOMES(0)},
    {"it does not", ARGS("tcp;ofi_rxm"), BECOMES(0)},
    {"nor for one of a longer name", ARGS("verbsy"), BECOMES(0)},
    {"but limits are set", ARGS("verbs;ofi_rxm", .config = {.max_regions = 100}, .pins = true),
     BECOMES(0)},
    {"it is switched off", ARGS("verbs;ofi_rxm", ENV("FI_MR_CACHE_MAX_COUNT", "0"), CACHES),
     BECOMES(0)},
    {"it is switched off, and limits are set",
     ARGS("verbs;ofi_rxm", ENV("FI_MR_CACHE_MAX_COUNT", "0"),
          .config = {.max_regions = 100, .max_bytes = 1 << 20}, .pins = true),
     BECOMES(0)},
    {"its monitor is disabled",
     ARGS("verbs;ofi_rxm", ENV("FI_MR_CACHE_MONITOR", "disabled"), .pins = true), BECOMES(0)},
    /* EFA's takes no registrations from 2.2 on. */
    {"2.1", ARGS(EFA((2, 1), (0, 0)), CACHES), BECOMES(0)},
    {"2.2", ARGS(EFA((2, 2), (0, 0)), .pins = true), BECOMES(0)},
    {"2.6", ARGS(EFA((2, 6), (0, 0)), .pins = true), BECOMES(0)},
    {"2.6, which loads a provider of 2.1", ARGS(EFA((2, 6), (201, 10)), CACHES), BECOMES(0)},
    {"2.6, which loads one of 1.22", ARGS(EFA((2, 6), (122, 0)), CACHES), BECOMES(0)},
    {"2.1, which loads one of 2.2", ARGS(EFA((2, 1), (202, 0)), .pins = true), BECOMES(0)},
    {"2.1, and the provider's is no libfabric's", ARGS(EFA((2, 1), (3, 0)), CACHES), BECOMES(0)},
};

/* ---- each row --------------------------------------------------------------------------- */

static void open_world(const char *provider)
{
    world_open(.fabric = &world_ofi, .later = true);
    free(fake_fabric.info->fabric_attr->prov_name);
    fake_fabric.info->fabric_attr->prov_name = provider ? strdup(provider) : NULL;
}

static void check_domain(const struct args *args)
{
    struct hmreg_domain_info info = test_domain_info(world.domain);
    struct hmreg_plan plan = {.size = sizeof(plan)};

    assert_string_equal(info.provider, "ofi");
    if (args->provider)
        assert_string_equal(info.fabric, args->provider);
    else
        world_key(world.host, 64);
    assert_int_equal(info.iov_limit, args->limit ? args->limit : 1);
    assert_int_equal(info.key_size, args->key_size ? args->key_size : 8);
    assert_int_equal(info.max_len, HMREG_LIMIT_NONE);
    assert_ok(hmreg_domain_plan(world.domain, HMREG_IFACE_SYSTEM, -1, 4096, &plan));
    assert_int_equal(plan.cacheable, args->uncached ? 0 : 4096);
    assert_int_equal(plan.pinned, args->pins ? 4096 : 0);
    assert_true(plan.limits[HMREG_PLAN_MAX_LEN].limit == HMREG_LIMIT_NONE);
    assert_true(plan.limits[HMREG_PLAN_MAX_MR].limit == HMREG_LIMIT_NONE);
}

static void open_row(const struct row *row)
{
    const struct args *args = row->args;
    struct fi_domain_attr *attr;

    if (args->variable)
        test_setenv(args->variable, args->value);
    open_world(args->provider);
    attr = fake_fabric.info->domain_attr;
    attr->mr_mode = (int)args->mr_mode;
    attr->mr_iov_limit = args->ranges;
    attr->mr_key_size = args->key_size ? args->key_size : 8;
    fake_fabric.info->mode = args->mode;
    fake_fabric.info->fabric_attr->prov_version = args->providers;
    if (args->libfabric)
        fake_fabric.version = args->libfabric;
}

static int open_domain(const struct row *row)
{
    const struct args *args = row->args;
    const struct world_as as = {.fabric = &world_ofi, .domain = args->config};
    int rc = world_try_as(&as);

    if (rc)
        return rc;
    assert_int_equal(test_domain_info(world.domain).mr_mode, row->value);
    check_domain(args);
    return 0;
}

TEST(open__each_row)
{
    CHECK_EACH_IN(rows, open_row, open_domain);
}

/* ---- arguments -------------------------------------------------------------------------- */

TEST(open__wrong_argument__inval)
{
    struct hmreg_domain *domain = (void *)1;
    struct fi_info without[2];

    open_world("tcp");
    without[0] = without[1] = *fake_fabric.info;
    without[0].fabric_attr = NULL;
    without[1].domain_attr = NULL;
#define REFUSED(words, lib, of, info, out)                                                         \
    assert_fails(hmreg_domain_open_ofi(lib, of, info, NULL, out), -EINVAL, words)
    REFUSED("lib", NULL, &fake_fabric.domain, fake_fabric.info, &domain);
    REFUSED("domain is NULL", world.lib, NULL, fake_fabric.info, &domain);
    REFUSED("info is NULL", world.lib, &fake_fabric.domain, NULL, &domain);
    REFUSED("out", world.lib, &fake_fabric.domain, fake_fabric.info, NULL);
    REFUSED("info->fabric_attr", world.lib, &fake_fabric.domain, &without[0], &domain);
    REFUSED("info->domain_attr", world.lib, &fake_fabric.domain, &without[1], &domain);
    fake_fabric.domain.fid.fclass = FI_CLASS_EP;
    REFUSED("no fid_domain", world.lib, &fake_fabric.domain, fake_fabric.info, &domain);
    assert_ptr_equal(domain, (void *)1);
}

/* ---- the log ---------------------------------------------------------------------------- */

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

    warnings = 0;
    world_open(.fabric = &world_ofi, .later = true, .library = &config);
    free(fake_fabric.info->fabric_attr->prov_name);
    fake_fabric.info->fabric_attr->prov_name = strdup(provider);
    world_add(.fabric = &world_ofi);
    test_finish();
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
    struct fid_mr *native;
    struct hmreg_mr *mr;

    lost = 0;
    world_open(.fabric = &world_ofi, .library = &config, .domain.policy = HMREG_POLICY_LAST_PUT);
    world_key(world.host, 4096);
    assert_int_equal(lost, 0);
    mr = world_get(world.host, 4096);
    native = hmreg_mr_head_of(mr)->keys->native;
    fake_fabric.close_code = -FI_EIO;
    hmreg_mr_put(mr);
    assert_int_equal(lost, 1);
    fake_fabric.close_code = 0;
    fi_close(&native->fid);
}

/* ---- the NIC ---------------------------------------------------------------------------- */

static struct hmreg_domain_info open_on(struct fid_nic *nic, const char *name)
{
    open_world("tcp");
    fake_fabric.info->nic = nic;
    free(fake_fabric.info->domain_attr->name);
    fake_fabric.info->domain_attr->name = name ? strdup(name) : NULL;
    world_add(.fabric = &world_ofi);
    fake_fabric.info->nic = NULL;
    return test_domain_info(world.domain);
}

TEST(query__info_with_a_nic__its_name_and_address)
{
    struct fi_device_attr device = {.name = (char *)"mlx5_3"};
    struct fi_bus_attr bus = {.bus_type = FI_BUS_PCI, .attr.pci = {1, 0x3b, 4, 1}};
    struct fid_nic nic = {.device_attr = &device, .bus_attr = &bus};
    struct hmreg_domain_info info = open_on(&nic, NULL);

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
    struct hmreg_domain_info info = open_on(&nic, "efa_0-rdm");

    assert_string_equal(info.nic, "efa_0-rdm");
    assert_int_equal(info.pci.valid, 0);
}

TEST_MAIN()
