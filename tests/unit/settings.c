/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 * Values of the environment and the configuration that no public call shows, as the library reads
 * them. hmreg_open.c has the others. */

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

TEST_MAIN()
