/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The contract of hmreg_open() in rows: the configuration and the environment, and what is accepted
 * or refused. What is not seen from outside is in settings.c, the monitors' choice in
 * monitor_choice.c.
 */
#include "tests/support/table.h"

/* Nothing is set but what a row says. */
static const char *const variables[] = {
    "HMREG_IFACES",
    "FI_MR_CACHE_MONITOR",
    "FI_MR_CACHE_MAX_COUNT",
    "FI_MR_CACHE_MAX_SIZE",
    "HMREG_SYSCALLS",
    "HMREG_CACHE_CHECK",
    "HMREG_LOG",
};

struct args {
    int usual_;
    const char *variable, *value;
    struct hmreg_config config;
    size_t size; /* of config; 0: all of it */
    bool default_config, size_0, no_out;
};

/* The monitor that is asked for. */
#define ASKS(monitor) RETURNS(HMREG_MONITOR_##monitor, NULL), .fds = true
#define WRONG(text)   FAILS(-EINVAL, text, NULL)
#define ENV(...)      ARGS(__VA_ARGS__)
#define CONFIG(...)   ARGS(.config = {__VA_ARGS__})
/* A wrong value, whose text begins with the variable's name. */
#define NOT(name, text, accepted)                                                                  \
    {                                                                                              \
        name "=" text, ENV(name, text), WRONG(accepted)                                            \
    }
#define NOT_LONG(name, accepted)                                                                   \
    {                                                                                              \
        name "=vvv...", ENV(name, far_too_long), WRONG(accepted)                                   \
    }
#define PLAIN(monitor_)                                                                            \
    ARGS("HMREG_SYSCALLS", "plain", .config = {.monitor = HMREG_MONITOR_##monitor_})
#define CHECKS "accepted are always, notice"

static char far_too_long[5000];

static const struct row wrong_values[] = {
    NOT("HMREG_IFACES", "cuda,neuron", " neuron is not one of system, cuda, rocr, ze"),
    NOT("HMREG_IFACES", "", "an empty name is not one of"),
    NOT("HMREG_IFACES", "cuda,", "an empty name is not one of"),
    NOT("HMREG_IFACES", ",cuda", "not one of"),
    NOT("HMREG_IFACES", "cuda,,ze", "not one of"),
    NOT("HMREG_IFACES", "cuda ze", "not one of"),
    NOT("HMREG_IFACES", "CUDA", "not one of"),
    NOT("HMREG_IFACES", "cud", "not one of"),
    NOT("HMREG_IFACES", "cudas", "not one of"),
    NOT("HMREG_LOG", "", "off, error, warn, info, debug"),
    NOT("HMREG_LOG", "warning", "off, error, warn, info, debug"),
    NOT("HMREG_STATS", "", "on and off"),
    NOT("HMREG_DEVICE_MONITOR", "1", "on and off"),
    NOT("HMREG_SYSCALLS", "few", "all and plain"),
    NOT("HMREG_STATS", "0", "on and off"),
    NOT("HMREG_STATS", "offline", "on and off"),
    NOT("FI_MR_CACHE_MONITOR", "kdreg", "userfaultfd, memhooks, import, disabled"),
    NOT("FI_MR_CACHE_MONITOR", "", "userfaultfd, memhooks, import, disabled"),
    NOT("FI_MR_CUDA_CACHE_MONITOR_ENABLED", "yes", "0 and 1"),
    NOT("FI_MR_CUDA_CACHE_MONITOR_ENABLED", "", "0 and 1"),
    NOT("FI_MR_ROCR_CACHE_MONITOR_ENABLED", "2", "0 and 1"),
    NOT("FI_MR_ZE_CACHE_MONITOR_ENABLED", "01", "0 and 1"),
    NOT("FI_MR_CACHE_MAX_COUNT", "many", "a number"),
    NOT("FI_MR_CACHE_MAX_COUNT", "", "a number"),
    NOT("FI_MR_CACHE_MAX_COUNT", "-1", "a number"),
    NOT("FI_MR_CACHE_MAX_COUNT", "+1", "a number"),
    NOT("FI_MR_CACHE_MAX_COUNT", " 1", "a number"),
    NOT("FI_MR_CACHE_MAX_SIZE", "1G", "a number"),
    NOT("FI_MR_CACHE_MAX_SIZE", "18446744073709551616", "a number"),
    NOT("FI_MR_CACHE_MAX_SIZE", "1.5", "a number"),
    NOT("HMREG_CACHE_CHECK", "", CHECKS),
    NOT("HMREG_CACHE_CHECK", "never", CHECKS),
    NOT("HMREG_CACHE_CHECK", "cuda", CHECKS),
    NOT("HMREG_CACHE_CHECK", "cuda=", CHECKS),
    NOT("HMREG_CACHE_CHECK", "=notice", CHECKS),
    NOT("HMREG_CACHE_CHECK", "gpu=notice", CHECKS),
    NOT("HMREG_CACHE_CHECK", "cuda=notice,", CHECKS),
    NOT("HMREG_CACHE_CHECK", "cuda=notice,always=cuda", CHECKS),
    NOT("HMREG_FORK_MAX_SIZE", "never", "a number from 0 to 18446744073709551615"),
    NOT_LONG("HMREG_DMABUF_WAYS",
             ": accepted are plain, data-direct, pcie, data-direct-pcie, each"),
    NOT_LONG("HMREG_CACHE_CHECK", ": accepted are always, notice, or a list such as system=notice"),
    NOT_LONG("HMREG_DEBUG", ": accepted are puts, claims, and puts,claims"),
    NOT_LONG("HMREG_LOG", ": accepted are off, error, warn, info, debug"),
    NOT_LONG("HMREG_IFACES", " is not one of system, cuda, rocr, ze"),
    NOT_LONG("FI_MR_CACHE_MAX_SIZE", ": a number from 0 to 18446744073709551615 is accepted"),
};

static const struct row wrong_configs[] = {
    {"out is NULL", ARGS(.no_out = true), WRONG("out is NULL")},
    {"size is 0", ARGS(.size_0 = true), WRONG("size of struct hmreg_config is 0")},
    {"size is a byte too few", ARGS(.size = sizeof(struct hmreg_config) - 1),
     WRONG("size of struct hmreg_config")},
    {"size is SIZE_MAX", ARGS(.size = SIZE_MAX), WRONG("size of struct hmreg_config")},
    {"an unknown iface", CONFIG(.ifaces = 1u << HMREG_IFACE_COUNT), WRONG("ifaces")},
    {"all ifaces", CONFIG(.ifaces = UINT32_MAX), WRONG("ifaces")},
    {"STARTED and an iface",
     CONFIG(.ifaces = HMREG_IFACES_STARTED | HMREG_IFACE_BIT(HMREG_IFACE_CUDA)), WRONG("ifaces")},
    {"monitor is 6", CONFIG(.monitor = 6), WRONG("monitor is 6")},
    {"monitor is -1", CONFIG(.monitor = (enum hmreg_monitor) - 1), WRONG("monitor is -1")},
    {"plain calls, userfaultfd", PLAIN(USERFAULTFD), WRONG("userfaultfd")},
    {"plain calls, memhooks", PLAIN(MEMHOOKS), WRONG("memhooks")},
    {"plain calls, counter", PLAIN(COUNTER), WRONG("counter")},
};

static void has_limits(uint64_t regions, uint64_t bytes)
{
    struct hmreg_domain_info info = test_domain_info(world_add());

    assert_true(info.max_regions == regions);
    assert_true(info.max_bytes == bytes);
}

static uint64_t half_of_memory(void)
{
    return (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE) / 2;
}

static void has_the_usual_limits(void)
{
    has_limits(4096, half_of_memory());
}

static void has_ten_regions(void)
{
    has_limits(10, half_of_memory());
}

static void has_4096_bytes(void)
{
    has_limits(4096, 4096);
}

static void has_no_limit_of_regions(void)
{
    has_limits(HMREG_LIMIT_NONE, half_of_memory());
}

static const struct row accepted[] = {
    {"nothing", ARGS(.default_config = true), ASKS(DEFAULT), .after = has_the_usual_limits},
    {"a configuration of zeros", ARGS(), ASKS(DEFAULT), .after = has_the_usual_limits},
    {"ten regions", ENV("FI_MR_CACHE_MAX_COUNT", "10"), ASKS(DEFAULT), .after = has_ten_regions},
    {"ten regions, as libfabric reads it", ENV("FI_MR_CACHE_MAX_COUNT", "010"), ASKS(DEFAULT),
     .after = has_ten_regions},
    {"as many regions as one likes", ENV("FI_MR_CACHE_MAX_COUNT", "18446744073709551615"),
     ASKS(DEFAULT), .after = has_no_limit_of_regions},
    {"4096 bytes", ENV("FI_MR_CACHE_MAX_SIZE", "0x1000"), ASKS(DEFAULT), .after = has_4096_bytes},
    {"import, by the environment", ENV("FI_MR_CACHE_MONITOR", "import"), ASKS(IMPORT)},
    {"disabled, by the environment", ENV("FI_MR_CACHE_MONITOR", "disabled"), ASKS(DISABLED)},
    {"disabled, by the configuration",
     ARGS("FI_MR_CACHE_MONITOR", "import", .config = {.monitor = HMREG_MONITOR_DISABLED}),
     ASKS(DISABLED)},
    {"plain calls", PLAIN(DEFAULT), ASKS(DEFAULT)},
    {"plain calls, import", PLAIN(IMPORT), ASKS(IMPORT)},
    {"plain calls, disabled", PLAIN(DISABLED), ASKS(DISABLED)},
    {"an iface twice", ENV("HMREG_IFACES", "rocr,cuda,rocr"), ASKS(DEFAULT)},
    {"checks", ENV("HMREG_CACHE_CHECK", "notice,rocr=always"), ASKS(DEFAULT)},
};

/* ---- each row --------------------------------------------------------------------------- */

static void open_row(const struct row *row)
{
    const struct args *args = row->args;

    for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]); i++)
        test_setenv(variables[i], NULL);
    if (args->variable)
        test_setenv(args->variable, args->value);
    world.lib = NULL;
    world.nics = 0;
}

static void close_library(void)
{
    while (world.nics)
        assert_ok(hmreg_domain_close(world.nic[--world.nics]));
    assert_ok(hmreg_close(world.lib));
}

static int open_library(const struct row *row)
{
    const struct args *args = row->args;
    struct hmreg_config config = args->config;
    int rc;

    config.size = args->size_0 ? 0 : args->size ? args->size : sizeof(config);
    world.lib = UNTOUCHED;
    rc = hmreg_open(args->default_config ? NULL : &config, args->no_out ? NULL : &world.lib);
    if (rc) {
        assert_ptr_equal(world.lib, UNTOUCHED);
        if (args->variable && !config.monitor)
            assert_ptr_equal(strstr(hmreg_last_error()->text, args->variable),
                             hmreg_last_error()->text);
        return rc;
    }
    test_after(close_library);
    assert_int_equal(test_monitor_info(world.lib).asked, row->value);
    return 0;
}

TEST(open__wrong_values__inval_and_the_accepted_ones)
{
    memset(far_too_long, 'v', sizeof(far_too_long) - 1);
    CHECK_EACH_IN(wrong_values, open_row, open_library);
}

TEST(open__wrong_config__inval)
{
    CHECK_EACH_IN(wrong_configs, open_row, open_library);
}

TEST(open__accepted)
{
    CHECK_EACH_IN(accepted, open_row, open_library);
}

TEST_MAIN()
