/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 * Accepted and refused values of the environment and the configuration. */

/* What was read, of which a library shows only consequences. */
#include "core/context/settings.h"

#include "tests/support/test.h"

static const char *const names[] = {
    "HMREG_IFACES",
    "FI_MR_CACHE_MONITOR",
    "FI_MR_CUDA_CACHE_MONITOR_ENABLED",
    "FI_MR_ROCR_CACHE_MONITOR_ENABLED",
    "FI_MR_ZE_CACHE_MONITOR_ENABLED",
    "FI_MR_CACHE_MAX_COUNT",
    "FI_MR_CACHE_MAX_SIZE",
    "HMREG_STATS",
    "HMREG_DEVICE_MONITOR",
    "HMREG_SYSCALLS",
    "HMREG_LOG",
    "HMREG_FORK_MAX_SIZE",
    "HMREG_CACHE_CHECK",
};

static void take_line(enum hmreg_log_level level, const char *text, void *context)
{
}

/* Of what the user has set. */
__attribute__((constructor)) static void clear_environment(void)
{
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        unsetenv(names[i]);
}

#define CHECKS "accepted are always, notice"
#define ALL                                                                                        \
    (HMREG_IFACE_BIT(HMREG_IFACE_SYSTEM) | HMREG_IFACE_BIT(HMREG_IFACE_CUDA) |                     \
     HMREG_IFACE_BIT(HMREG_IFACE_ROCR) | HMREG_IFACE_BIT(HMREG_IFACE_ZE))

TEST(read__nothing_said__defaults)
{
    struct settings settings;

    assert_ok(settings_read(NULL, &settings));
    assert_int_equal(settings.ifaces, ALL);
    assert_int_equal(settings.monitor, HMREG_MONITOR_DEFAULT);
    assert_true(settings.stats);
    for (int i = 0; i < HMREG_IFACE_COUNT; i++)
        assert_true(settings.watch[i]);
    assert_int_equal(settings.max_regions, 4096);
    assert_int_equal(settings.max_bytes,
                     (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE) / 2);
}

TEST(read__wrong_values__inval_and_the_accepted_ones)
{
    static const struct {
        const char *name, *value, *words;
    } cases[] = {
        {"HMREG_IFACES", "cuda,neuron", " neuron is not one of system, cuda, rocr, ze"},
        {"HMREG_IFACES", "", "an empty name is not one of"},
        {"HMREG_IFACES", "cuda,", "an empty name is not one of"},
        {"HMREG_IFACES", ",cuda", "not one of"},
        {"HMREG_IFACES", "cuda,,ze", "not one of"},
        {"HMREG_IFACES", "cuda ze", "not one of"},
        {"HMREG_IFACES", "CUDA", "not one of"},
        {"HMREG_IFACES", "cud", "not one of"},
        {"HMREG_IFACES", "cudas", "not one of"},
        {"HMREG_LOG", "", "off, error, warn, info, debug"},
        {"HMREG_LOG", "warning", "off, error, warn, info, debug"},
        {"HMREG_STATS", "", "on and off"},
        {"HMREG_DEVICE_MONITOR", "1", "on and off"},
        {"HMREG_SYSCALLS", "few", "all and plain"},
        {"HMREG_STATS", "0", "on and off"},
        {"HMREG_STATS", "offline", "on and off"},
        {"FI_MR_CACHE_MONITOR", "kdreg", "userfaultfd, memhooks, import, disabled"},
        {"FI_MR_CACHE_MONITOR", "", "userfaultfd, memhooks, import, disabled"},
        {"FI_MR_CUDA_CACHE_MONITOR_ENABLED", "yes", "0 and 1"},
        {"FI_MR_CUDA_CACHE_MONITOR_ENABLED", "", "0 and 1"},
        {"FI_MR_ROCR_CACHE_MONITOR_ENABLED", "2", "0 and 1"},
        {"FI_MR_ZE_CACHE_MONITOR_ENABLED", "01", "0 and 1"},
        {"FI_MR_CACHE_MAX_COUNT", "many", "a number"},
        {"FI_MR_CACHE_MAX_COUNT", "", "a number"},
        {"FI_MR_CACHE_MAX_COUNT", "-1", "a number"},
        {"FI_MR_CACHE_MAX_COUNT", "+1", "a number"},
        {"FI_MR_CACHE_MAX_COUNT", " 1", "a number"},
        {"FI_MR_CACHE_MAX_SIZE", "1G", "a number"},
        {"FI_MR_CACHE_MAX_SIZE", "18446744073709551616", "a number"},
        {"FI_MR_CACHE_MAX_SIZE", "1.5", "a number"},
        {"HMREG_CACHE_CHECK", "", CHECKS},
        {"HMREG_CACHE_CHECK", "never", CHECKS},
        {"HMREG_CACHE_CHECK", "cuda", CHECKS},
        {"HMREG_CACHE_CHECK", "cuda=", CHECKS},
        {"HMREG_CACHE_CHECK", "=notice", CHECKS},
        {"HMREG_CACHE_CHECK", "gpu=notice", CHECKS},
        {"HMREG_CACHE_CHECK", "cuda=notice,", CHECKS},
        {"HMREG_CACHE_CHECK", "cuda=notice,always=cuda", CHECKS},
        {"HMREG_FORK_MAX_SIZE", "never", "a number from 0 to 18446744073709551615"},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct settings settings = {.max_regions = 77};

        test_setenv(cases[i].name, cases[i].value);
        assert_fails(settings_read(NULL, &settings), -EINVAL, cases[i].words);
        assert_non_null(strstr(hmreg_last_error()->text, cases[i].name));
        assert_int_equal(settings.max_regions, 77);
        test_finish();
    }
}

/* A value of any length leaves what is accepted, and the variable's name. */
TEST(read__very_long_wrong_value__the_accepted_ones_all_the_same)
{
    static const struct {
        const char *name, *words;
    } cases[] = {
        {"HMREG_DMABUF_WAYS", ": accepted are plain, data-direct, pcie, data-direct-pcie, each"},
        {"HMREG_CACHE_CHECK", ": accepted are always, notice, or a list such as system=notice"},
        {"HMREG_DEBUG", ": accepted are puts, claims, and puts,claims"},
        {"HMREG_LOG", ": accepted are off, error, warn, info, debug"},
        {"HMREG_IFACES", " is not one of system, cuda, rocr, ze"},
        {"FI_MR_CACHE_MAX_SIZE", ": a number from 0 to 18446744073709551615 is accepted"},
    };
    char value[5000];

    memset(value, 'v', sizeof(value) - 1);
    value[sizeof(value) - 1] = '\0';
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct settings settings;

        test_setenv(cases[i].name, value);
        assert_fails(settings_read(NULL, &settings), -EINVAL, cases[i].words);
        assert_ptr_equal(strstr(hmreg_last_error()->text, cases[i].name), hmreg_last_error()->text);
        test_finish();
    }
}

TEST(read__plain_calls_and_a_monitor_that_makes_others__inval)
{
    static const struct {
        enum hmreg_monitor monitor;
        int rc;
    } cases[] = {
        {HMREG_MONITOR_DEFAULT, 0},        {HMREG_MONITOR_USERFAULTFD, -EINVAL},
        {HMREG_MONITOR_MEMHOOKS, -EINVAL}, {HMREG_MONITOR_IMPORT, 0},
        {HMREG_MONITOR_DISABLED, 0},       {HMREG_MONITOR_COUNTER, -EINVAL},
    };
    struct hmreg_config config = {.size = sizeof(config)};
    struct settings settings;

    test_setenv("HMREG_SYSCALLS", "plain");
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        config.monitor = cases[i].monitor;
        assert_int_equal(settings_read(&config, &settings), cases[i].rc);
        if (cases[i].rc)
            assert_non_null(strstr(hmreg_last_error()->text, hmreg_monitor_name(cases[i].monitor)));
    }
}

TEST(read__ifaces__those_and_system)
{
    static const struct {
        const char *value;
        uint32_t ifaces;
    } cases[] = {
        {"system", HMREG_IFACE_BIT(HMREG_IFACE_SYSTEM)},
        {"ze", HMREG_IFACE_BIT(HMREG_IFACE_SYSTEM) | HMREG_IFACE_BIT(HMREG_IFACE_ZE)},
        {"rocr,cuda,rocr", ALL & ~HMREG_IFACE_BIT(HMREG_IFACE_ZE)},
        {"system,cuda,rocr,ze", ALL},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct settings settings;

        test_setenv("HMREG_IFACES", cases[i].value);
        assert_ok(settings_read(NULL, &settings));
        assert_int_equal(settings.ifaces, cases[i].ifaces);
    }
}

TEST(read__monitors)
{
    static const struct {
        const char *value;
        enum hmreg_monitor monitor;
    } cases[] = {
        {"userfaultfd", HMREG_MONITOR_USERFAULTFD},
        {"memhooks", HMREG_MONITOR_MEMHOOKS},
        {"import", HMREG_MONITOR_IMPORT},
        {"disabled", HMREG_MONITOR_DISABLED},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct settings settings;

        test_setenv("FI_MR_CACHE_MONITOR", cases[i].value);
        assert_ok(settings_read(NULL, &settings));
        assert_int_equal(settings.monitor, cases[i].monitor);
        assert_string_equal(hmreg_monitor_name(cases[i].monitor), cases[i].value);
    }
}

/* Values that users set for libfabric. */
TEST(read__monitors_that_may_be_missing__an_alias_and_modules)
{
    struct hmreg_config config = {.size = sizeof(config), .monitor = HMREG_MONITOR_IMPORT};
    struct settings settings;

    test_setenv("FI_MR_CACHE_MONITOR", "uffd");
    assert_ok(settings_read(NULL, &settings));
    assert_int_equal(settings.monitor, HMREG_MONITOR_USERFAULTFD);
    assert_false(settings.monitor_if_there);
    test_setenv("FI_MR_CACHE_MONITOR", "kdreg2");
    assert_ok(settings_read(NULL, &settings));
    assert_int_equal(settings.monitor, HMREG_MONITOR_DEFAULT);
    assert_false(settings.monitor_if_there);
    assert_non_null(settings.monitor_missing);
    assert_ok(settings_read(&config, &settings));
    assert_null(settings.monitor_missing);
    test_setenv("FI_MR_CACHE_MONITOR", "counter");
    assert_ok(settings_read(NULL, &settings));
    assert_int_equal(settings.monitor, HMREG_MONITOR_COUNTER);
    assert_true(settings.monitor_if_there);
    assert_ok(settings_read(&config, &settings));
    assert_int_equal(settings.monitor, HMREG_MONITOR_IMPORT);
    assert_false(settings.monitor_if_there);
    test_finish();
    assert_ok(settings_read(NULL, &settings));
    assert_false(settings.monitor_if_there);
}

TEST(read__switches__each_its_own_iface)
{
    for (int iface = HMREG_IFACE_CUDA; iface < HMREG_IFACE_COUNT; iface++) {
        struct settings settings;

        test_setenv(names[1 + iface], "0");
        assert_ok(settings_read(NULL, &settings));
        for (int i = 0; i < HMREG_IFACE_COUNT; i++)
            assert_int_equal(settings.watch[i], i != iface);
        test_setenv(names[1 + iface], "1");
        assert_ok(settings_read(NULL, &settings));
        assert_true(settings.watch[iface]);
        test_finish();
    }
}

TEST(read__checks__the_default_and_some_ifaces_own)
{
    struct settings settings;

    test_setenv("HMREG_CACHE_CHECK", "notice,rocr=always");
    assert_ok(settings_read(NULL, &settings));
    assert_int_equal(settings.check[HMREG_IFACE_SYSTEM], HMREG_CHECK_NOTICE);
    assert_int_equal(settings.check[HMREG_IFACE_ROCR], HMREG_CHECK_ALWAYS);
    assert_int_equal(settings.check[HMREG_IFACE_ZE], HMREG_CHECK_NOTICE);
}

TEST(read__limits__from_zero_to_none)
{
    struct settings settings;

    test_setenv("FI_MR_CACHE_MAX_COUNT", "10");
    test_setenv("FI_MR_CACHE_MAX_SIZE", "0x1000");
    assert_ok(settings_read(NULL, &settings));
    assert_int_equal(settings.max_regions, 10);
    assert_int_equal(settings.max_bytes, 4096);
    test_setenv("FI_MR_CACHE_MAX_COUNT", "010"); /* read as libfabric reads it */
    assert_ok(settings_read(NULL, &settings));
    assert_int_equal(settings.max_regions, 10);
    test_setenv("FI_MR_CACHE_MAX_COUNT", "18446744073709551615");
    test_setenv("FI_MR_CACHE_MAX_SIZE", "0");
    assert_ok(settings_read(NULL, &settings));
    assert_true(settings.max_regions == HMREG_LIMIT_NONE);
    assert_int_equal(settings.max_bytes, 0);
}

TEST(read__bytes_kept_at_a_fork__config_before_the_environment)
{
    struct hmreg_config config = {.size = sizeof(config)};
    struct settings settings;

    assert_ok(settings_read(&config, &settings));
    assert_int_equal(settings.fork_bytes, 16 << 20);
    test_setenv("HMREG_FORK_MAX_SIZE", "0");
    assert_ok(settings_read(&config, &settings));
    assert_int_equal(settings.fork_bytes, 0);
    config.fork_max_bytes = HMREG_LIMIT_NONE;
    assert_ok(settings_read(&config, &settings));
    assert_true(settings.fork_bytes == HMREG_LIMIT_NONE);
}

/* It says when a runtime starts, and leaves to the environment which. */
TEST(read__started_only__alone)
{
    struct hmreg_config config = {.size = sizeof(config), .ifaces = HMREG_IFACES_STARTED};
    struct settings settings;

    assert_ok(settings_read(&config, &settings));
    assert_true(settings.started_only);
    assert_int_equal(settings.ifaces, ALL);
    assert_int_equal(settings.named, 0);
    test_setenv("HMREG_IFACES", "rocr");
    assert_ok(settings_read(&config, &settings));
    assert_true(settings.named & HMREG_IFACE_BIT(HMREG_IFACE_ROCR));
    config.ifaces |= HMREG_IFACE_BIT(HMREG_IFACE_CUDA);
    assert_int_equal(settings_read(&config, &settings), -EINVAL);
    test_finish();
    assert_ok(settings_read(NULL, &settings));
    assert_false(settings.started_only);
}

TEST(read__config__goes_before_the_environment)
{
    struct hmreg_config config = {
        .size = sizeof(config),
        .ifaces = HMREG_IFACE_BIT(HMREG_IFACE_ROCR),
        .monitor = HMREG_MONITOR_DISABLED,
    };
    struct settings settings;

    test_setenv("HMREG_IFACES", "cuda");
    test_setenv("FI_MR_CACHE_MONITOR", "import");
    assert_ok(settings_read(&config, &settings));
    assert_int_equal(settings.ifaces,
                     HMREG_IFACE_BIT(HMREG_IFACE_SYSTEM) | HMREG_IFACE_BIT(HMREG_IFACE_ROCR));
    assert_int_equal(settings.monitor, HMREG_MONITOR_DISABLED);
    config.ifaces = 0;
    config.monitor = HMREG_MONITOR_DEFAULT;
    assert_ok(settings_read(&config, &settings));
    assert_int_equal(settings.ifaces,
                     HMREG_IFACE_BIT(HMREG_IFACE_SYSTEM) | HMREG_IFACE_BIT(HMREG_IFACE_CUDA));
    assert_int_equal(settings.monitor, HMREG_MONITOR_IMPORT);
}

TEST(read__log__levels_and_the_callers_function)
{
    static const char *const values[] = {"off", "error", "warn", "info", "debug"};
    static const int levels[] = {LOG_STDERR_OFF, HMREG_LOG_ERROR, HMREG_LOG_WARN, HMREG_LOG_INFO,
                                 HMREG_LOG_DEBUG};
    struct hmreg_config config = {.size = sizeof(config), .log = take_line, .log_context = &config};
    struct settings settings;

    assert_ok(settings_read(NULL, &settings));
    assert_int_equal(settings.log.level, LOG_STDERR_UNSET);
    for (size_t i = 0; i < sizeof(levels) / sizeof(levels[0]); i++) {
        test_setenv("HMREG_LOG", values[i]);
        assert_ok(settings_read(NULL, &settings));
        assert_int_equal(settings.log.level, levels[i]);
    }
    assert_ok(settings_read(&config, &settings));
    assert_ptr_equal(settings.log.callback, take_line);
    assert_ptr_equal(settings.log.context, &config);
}

TEST(read__wrong_config__inval)
{
    static const struct {
        struct hmreg_config config;
        const char *words;
    } cases[] = {
        {{.size = 0}, "size of struct hmreg_config is 0"},
        {{.size = sizeof(struct hmreg_config) - 1}, "size of struct hmreg_config"},
        {{.size = SIZE_MAX}, "size of struct hmreg_config"},
        {{.size = sizeof(struct hmreg_config), .ifaces = 1u << HMREG_IFACE_COUNT}, "ifaces"},
        {{.size = sizeof(struct hmreg_config), .ifaces = UINT32_MAX}, "ifaces"},
        {{.size = sizeof(struct hmreg_config), .monitor = 6}, "monitor is 6"},
        {{.size = sizeof(struct hmreg_config), .monitor = (enum hmreg_monitor) - 1},
         "monitor is -1"},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct settings settings = {.max_regions = 77};

        assert_fails(settings_read(&cases[i].config, &settings), -EINVAL, cases[i].words);
        assert_int_equal(settings.max_regions, 77);
    }
}

TEST_MAIN()
