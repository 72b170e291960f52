/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See settings.h. One function per variable reads it and names the accepted values in its error.
 */
#include "core/context/settings.h"

#include "core/base/error.h"
#include "core/base/validate.h"

#include <ctype.h>
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ALL_IFACES          ((1u << HMREG_IFACE_COUNT) - 1)
#define DEFAULT_MAX_REGIONS 4096

/* HMREG_IFACE_COUNT: no iface has this name. */
static int iface_named(const char *name, size_t len)
{
    int iface = 0;

    while (iface < HMREG_IFACE_COUNT &&
           (strlen(hmreg_iface_name(iface)) != len || memcmp(name, hmreg_iface_name(iface), len)))
        iface++;
    return iface;
}

static int read_ifaces(uint32_t *out)
{
    const char *value = getenv("HMREG_IFACES");
    uint32_t found = HMREG_IFACE_BIT(HMREG_IFACE_SYSTEM);
    static const char nameless[] = "an empty name";
    const char *name = value;

    while (name) {
        size_t len = strcspn(name, ",");
        int iface = iface_named(name, len);

        if (iface == HMREG_IFACE_COUNT)
            return hmreg_fail(-EINVAL, "HMREG_IFACES=%s: %.*s is none of system, cuda, rocr, ze",
                              value, len ? (int)len : (int)sizeof(nameless), len ? name : nameless);
        found |= HMREG_IFACE_BIT(iface);
        name = name[len] ? name + len + 1 : NULL;
    }
    if (value)
        *out = found;
    return 0;
}

static int read_monitor(enum hmreg_monitor *out)
{
    static const struct {
        const char *name;
        enum hmreg_monitor monitor;
    } known[] = {
        {"userfaultfd", HMREG_MONITOR_USERFAULTFD},
        {"memhooks", HMREG_MONITOR_MEMHOOKS},
        {"import", HMREG_MONITOR_IMPORT},
        {"disabled", HMREG_MONITOR_DISABLED},
    };
    const char *value = getenv("FI_MR_CACHE_MONITOR");

    if (!value)
        return 0;
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        if (strcmp(value, known[i].name))
            continue;
        *out = known[i].monitor;
        return 0;
    }
    return hmreg_fail(
        -EINVAL, "FI_MR_CACHE_MONITOR=%s: accepted are userfaultfd, memhooks, import, disabled",
        value);
}

static int read_switch(const char *name, bool *out)
{
    const char *value = getenv(name);

    if (!value)
        return 0;
    if (strcmp(value, "0") && strcmp(value, "1"))
        return hmreg_fail(-EINVAL, "%s=%s: accepted are 0 and 1", name, value);
    *out = value[0] == '1';
    return 0;
}

static int read_stats(bool *out)
{
    const char *value = getenv("HMREG_STATS");

    if (!value)
        return 0;
    if (strcmp(value, "on") && strcmp(value, "off"))
        return hmreg_fail(-EINVAL, "HMREG_STATS=%s: accepted are on and off", value);
    *out = !strcmp(value, "on");
    return 0;
}

static int read_debug(bool *puts)
{
    const char *value = getenv("HMREG_DEBUG");

    if (!value)
        return 0;
    if (strcmp(value, "puts"))
        return hmreg_fail(-EINVAL, "HMREG_DEBUG=%s: accepted is puts", value);
    *puts = true;
    return 0;
}

static int read_log(int *out)
{
    static const char *const levels[] = {"error", "warn", "info", "debug"};
    const char *value = getenv("HMREG_LOG");

    if (!value)
        return 0;
    if (!strcmp(value, "off")) {
        *out = LOG_STDERR_OFF;
        return 0;
    }
    for (int i = 0; i < 4; i++) {
        if (strcmp(value, levels[i]))
            continue;
        *out = HMREG_LOG_ERROR + i;
        return 0;
    }
    return hmreg_fail(-EINVAL, "HMREG_LOG=%s: accepted are off, error, warn, info, debug", value);
}

static int read_number(const char *name, uint64_t *out)
{
    const char *value = getenv(name);
    char *end = NULL;
    unsigned long long number;

    if (!value)
        return 0;
    errno = 0;
    number = strtoull(value, &end, !strncmp(value, "0x", 2) ? 16 : 10); /* no octal numbers */
    if (!isdigit((unsigned char)value[0]) || *end || errno)
        return hmreg_fail(-EINVAL, "%s=%s: a number from 0 to 18446744073709551615 is accepted",
                          name, value);
    *out = number;
    return 0;
}

/* HMREG_CHECK_DEFAULT: no check has this name. */
static enum hmreg_check check_named(const char *name, size_t len)
{
    if (len == 6 && !memcmp(name, "always", len))
        return HMREG_CHECK_ALWAYS;
    if (len == 6 && !memcmp(name, "notice", len))
        return HMREG_CHECK_NOTICE;
    return HMREG_CHECK_DEFAULT;
}

/* An item such as "notice", for every iface, or "cuda=notice". */
static bool read_check(const char *item, size_t len, enum hmreg_check *out)
{
    const char *equals = memchr(item, '=', len);
    const char *name = equals ? equals + 1 : item;
    enum hmreg_check check = check_named(name, len - (size_t)(name - item));
    int iface = equals ? iface_named(item, (size_t)(equals - item)) : 0;
    int last = equals ? iface : HMREG_IFACE_COUNT - 1;

    if (check == HMREG_CHECK_DEFAULT || iface == HMREG_IFACE_COUNT)
        return false;
    while (iface <= last)
        out[iface++] = check;
    return true;
}

static int read_checks(enum hmreg_check *out)
{
    const char *value = getenv("HMREG_CACHE_CHECK"), *item = value;

    while (item) {
        size_t len = strcspn(item, ",");

        if (!read_check(item, len, out))
            return hmreg_fail(-EINVAL,
                              "HMREG_CACHE_CHECK=%s: accepted are always, notice, or a list such "
                              "as system=notice,cuda=always",
                              value);
        item = item[len] ? item + len + 1 : NULL;
    }
    return 0;
}

static int read_environment(struct settings *out)
{
    int rc = read_ifaces(&out->ifaces);

    rc = rc ? rc : read_monitor(&out->monitor);
    rc = rc ? rc : read_switch("FI_MR_CUDA_CACHE_MONITOR_ENABLED", &out->watch[HMREG_IFACE_CUDA]);
    rc = rc ? rc : read_switch("FI_MR_ROCR_CACHE_MONITOR_ENABLED", &out->watch[HMREG_IFACE_ROCR]);
    rc = rc ? rc : read_switch("FI_MR_ZE_CACHE_MONITOR_ENABLED", &out->watch[HMREG_IFACE_ZE]);
    rc = rc ? rc : read_stats(&out->stats);
    rc = rc ? rc : read_log(&out->log.level);
    rc = rc ? rc : read_debug(&out->check_puts);
    rc = rc ? rc : read_number("FI_MR_CACHE_MAX_COUNT", &out->max_regions);
    rc = rc ? rc : read_number("FI_MR_CACHE_MAX_SIZE", &out->max_bytes);
    rc = rc ? rc : read_number("HMREG_CACHE_MAX_COUNT", &out->all_regions);
    rc = rc ? rc : read_number("HMREG_CACHE_MAX_SIZE", &out->all_bytes);
    rc = rc ? rc : read_checks(out->check);
    return rc;
}

/* Callers built before `log` end here. */
#define FIRST_CONFIG_SIZE offsetof(struct hmreg_config, log)

static int check_config(const struct hmreg_config *callers, struct hmreg_config *config)
{
    int rc = validate_copy_in(config, sizeof(*config), callers, FIRST_CONFIG_SIZE,
                              "struct hmreg_config");

    if (rc)
        return rc;
    if (config->ifaces & ~ALL_IFACES)
        return hmreg_fail(-EINVAL, "config->ifaces has unknown bits %#x; accepted are %#x",
                          config->ifaces & ~ALL_IFACES, ALL_IFACES);
    if ((unsigned)config->monitor > HMREG_MONITOR_MEMHOOKS)
        return hmreg_fail(-EINVAL, "config->monitor is %d; accepted are 0 (default) to %d",
                          (int)config->monitor, HMREG_MONITOR_MEMHOOKS);
    return 0;
}

int settings_read(const struct hmreg_config *callers, struct settings *out)
{
    struct settings settings = {
        .ifaces = ALL_IFACES,
        .watch = {true, true, true, true},
        .stats = true,
        .max_regions = DEFAULT_MAX_REGIONS,
        .max_bytes = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE) / 2,
        .all_regions = HMREG_LIMIT_NONE,
        .all_bytes = HMREG_LIMIT_NONE,
        .check = {HMREG_CHECK_ALWAYS, HMREG_CHECK_ALWAYS, HMREG_CHECK_ALWAYS, HMREG_CHECK_ALWAYS},
    };
    struct hmreg_config config = {0};
    int rc = callers ? check_config(callers, &config) : 0;

    if (!rc)
        rc = read_environment(&settings);
    if (rc)
        return rc;
    if (config.ifaces)
        settings.ifaces = config.ifaces | HMREG_IFACE_BIT(HMREG_IFACE_SYSTEM);
    if (config.monitor)
        settings.monitor = config.monitor;
    settings.log.callback = config.log;
    settings.log.context = config.log_context;
    *out = settings;
    return 0;
}
