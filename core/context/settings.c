/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See settings.h. An invalid value's error names the accepted ones.
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
#define UNKNOWN_MAX_BYTES   (UINT64_C(1) << 30)
#define DEFAULT_FORK_BYTES  (UINT64_C(16) << 20)

/* HMREG_IFACE_COUNT: no iface has this name. */
static int iface_named(const char *name, size_t len)
{
    int iface = 0;

    while (iface < HMREG_IFACE_COUNT &&
           (strlen(hmreg_iface_name(iface)) != len || memcmp(name, hmreg_iface_name(iface), len)))
        iface++;
    return iface;
}

#define VALUE "%.1000s" /* leaves room for the accepted values in an error's text */

static int read_ifaces(struct settings *out)
{
    const char *value = secure_getenv("HMREG_IFACES");
    uint32_t found = HMREG_IFACE_BIT(HMREG_IFACE_SYSTEM);
    static const char nameless[] = "an empty name";
    const char *name = value;

    while (name) {
        size_t len = strcspn(name, ",");
        int iface = iface_named(name, len);

        if (iface == HMREG_IFACE_COUNT)
            return hmreg_fail(-EINVAL,
                              "HMREG_IFACES=" VALUE ": %.*s is not one of system, cuda, rocr, ze",
                              value, len && len < 500 ? (int)len : 500, len ? name : nameless);
        found |= HMREG_IFACE_BIT(iface);
        name = name[len] ? name + len + 1 : NULL;
    }
    if (value)
        out->ifaces = out->named = found;
    return 0;
}

/* A value that a variable accepts, and the setting that it means. */
struct choice {
    const char *name;
    int setting;
};

/* A variable's setting; unset: the setting if the variable is not set. choice: ends with a NULL
 * name. accepted: the choices, for the error. *rc: becomes -EINVAL if no choice has the value; if
 * it is an error already, nothing is read. */
static int choose(const char *variable, const struct choice *choice, const char *accepted,
                  int unset, int *rc)
{
    const char *value = *rc ? NULL : secure_getenv(variable);

    if (!value)
        return unset;
    while (choice->name && strcmp(value, choice->name))
        choice++;
    if (!choice->name)
        *rc = hmreg_fail(-EINVAL, "%s=" VALUE ": accepted %s", variable, value, accepted);
    return choice->setting;
}

/* Users set the variable for libfabric, which has a monitor that hmreg does not have. */
static int read_monitor(struct settings *out)
{
    enum { KDREG2 = -1 };
    static const struct choice monitors[] = {{"userfaultfd", HMREG_MONITOR_USERFAULTFD},
                                             {"uffd", HMREG_MONITOR_USERFAULTFD},
                                             {"memhooks", HMREG_MONITOR_MEMHOOKS},
                                             {"counter", HMREG_MONITOR_COUNTER},
                                             {"import", HMREG_MONITOR_IMPORT},
                                             {"disabled", HMREG_MONITOR_DISABLED},
                                             {"kdreg2", KDREG2},
                                             {NULL, 0}};
    int rc = 0;
    int chosen =
        choose("FI_MR_CACHE_MONITOR", monitors,
               "are counter, userfaultfd, memhooks, import, disabled", (int)out->monitor, &rc);

    out->monitor = chosen == KDREG2 ? HMREG_MONITOR_DEFAULT : (enum hmreg_monitor)chosen;
    out->monitor_if_there = out->monitor == HMREG_MONITOR_COUNTER;
    if (chosen == KDREG2)
        out->monitor_missing = "kdreg2: hmreg has no such monitor";
    return rc;
}

static int read_choices(struct settings *out)
{
    static const struct choice switches[] = {{"0", false}, {"1", true}, {NULL, 0}};
    static const struct choice on_off[] = {{"on", true}, {"off", false}, {NULL, 0}};
    static const struct choice calls[] = {{"all", false}, {"plain", true}, {NULL, 0}};
    static const struct choice levels[] = {{"off", LOG_STDERR_OFF},    {"error", HMREG_LOG_ERROR},
                                           {"warn", HMREG_LOG_WARN},   {"info", HMREG_LOG_INFO},
                                           {"debug", HMREG_LOG_DEBUG}, {NULL, 0}};
    static const char *const watches[HMREG_IFACE_COUNT] = {
        [HMREG_IFACE_CUDA] = "FI_MR_CUDA_CACHE_MONITOR_ENABLED",
        [HMREG_IFACE_ROCR] = "FI_MR_ROCR_CACHE_MONITOR_ENABLED",
        [HMREG_IFACE_ZE] = "FI_MR_ZE_CACHE_MONITOR_ENABLED",
    };
    int rc = read_monitor(out);

    for (int i = HMREG_IFACE_SYSTEM + 1; i < HMREG_IFACE_COUNT; i++)
        out->watch[i] = choose(watches[i], switches, "are 0 and 1", out->watch[i], &rc);
    out->sync_memops = choose("HMREG_SYNC_MEMOPS", switches, "are 0 and 1", false, &rc);
    out->stats = choose("HMREG_STATS", on_off, "are on and off", out->stats, &rc);
    out->plain_calls = choose("HMREG_SYSCALLS", calls, "are all and plain", false, &rc);
    out->device_ends =
        choose("HMREG_DEVICE_MONITOR", on_off, "are on and off", out->device_ends, &rc);
    out->log.level =
        choose("HMREG_LOG", levels, "are off, error, warn, info, debug", out->log.level, &rc);
    return rc;
}

static int read_debug(struct settings *out)
{
    const char *value = secure_getenv("HMREG_DEBUG"), *item = value;

    while (item) {
        size_t len = strcspn(item, ",");

        if (len == 4 && !memcmp(item, "puts", len))
            out->check_puts = true;
        else if (len == 6 && !memcmp(item, "claims", len))
            out->check_claims = true;
        else
            return hmreg_fail(-EINVAL,
                              "HMREG_DEBUG=" VALUE ": accepted are puts, claims, and puts,claims",
                              value);
        item = item[len] ? item + len + 1 : NULL;
    }
    return 0;
}

static int read_number(const char *name, uint64_t *out)
{
    const char *value = secure_getenv(name);
    char *end = NULL;
    unsigned long long number;

    if (!value)
        return 0;
    errno = 0;
    number = strtoull(value, &end, !strncmp(value, "0x", 2) ? 16 : 10); /* no octal numbers */
    if (!isdigit((unsigned char)value[0]) || *end || errno)
        return hmreg_fail(-EINVAL,
                          "%s=" VALUE ": a number from 0 to 18446744073709551615 is accepted", name,
                          value);
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
    const char *value = secure_getenv("HMREG_CACHE_CHECK"), *item = value;

    while (item) {
        size_t len = strcspn(item, ",");

        if (!read_check(item, len, out))
            return hmreg_fail(-EINVAL,
                              "HMREG_CACHE_CHECK=" VALUE
                              ": accepted are always, notice, or a list such "
                              "as system=notice,cuda=always",
                              value);
        item = item[len] ? item + len + 1 : NULL;
    }
    return 0;
}

/* HMREG_WAY_NONE: no way has this name. */
static enum hmreg_way way_named(const char *name, size_t len)
{
    int way = HMREG_WAY_COUNT - 1;

    while (way && (strlen(hmreg_way_name((enum hmreg_way)way)) != len ||
                   memcmp(name, hmreg_way_name((enum hmreg_way)way), len)))
        way--;
    return (enum hmreg_way)way;
}

static int read_ways(enum hmreg_way *out)
{
    const char *value = secure_getenv("HMREG_DMABUF_WAYS"), *item = value;
    unsigned seen = 0;

    for (int i = 0; item; i++) {
        size_t len = strcspn(item, ",");
        enum hmreg_way way = way_named(item, len);

        if (!way || seen & 1u << way)
            return hmreg_fail(-EINVAL,
                              "HMREG_DMABUF_WAYS=" VALUE ": accepted are plain, data-direct, pcie, "
                              "data-direct-pcie, each once, with commas",
                              value);
        seen |= 1u << way;
        out[i] = way;
        item = item[len] ? item + len + 1 : NULL;
    }
    return 0;
}

static int read_environment(struct settings *out)
{
    int rc = read_ifaces(out);

    rc = rc ? rc : read_choices(out);
    rc = rc ? rc : read_debug(out);
    rc = rc ? rc : read_number("FI_MR_CACHE_MAX_COUNT", &out->max_regions);
    rc = rc ? rc : read_number("FI_MR_CACHE_MAX_SIZE", &out->max_bytes);
    rc = rc ? rc : read_number("HMREG_CACHE_MAX_COUNT", &out->all_regions);
    rc = rc ? rc : read_number("HMREG_CACHE_MAX_SIZE", &out->all_bytes);
    rc = rc ? rc : read_number("HMREG_FORK_MAX_SIZE", &out->fork_bytes);
    rc = rc ? rc : read_checks(out->check);
    rc = rc ? rc : read_ways(out->ways);
    return rc;
}

static int check_config(const struct hmreg_config *callers, struct hmreg_config *config)
{
    int rc =
        validate_copy_in(config, sizeof(*config), callers, sizeof(*config), "struct hmreg_config");

    if (rc)
        return rc;
    if (config->ifaces & ~ALL_IFACES && config->ifaces != HMREG_IFACES_STARTED)
        return hmreg_fail(-EINVAL, "config->ifaces has unknown bits %#x; accepted are %#x",
                          config->ifaces & ~ALL_IFACES, ALL_IFACES);
    if ((unsigned)config->monitor > HMREG_MONITOR_COUNTER)
        return hmreg_fail(-EINVAL, "config->monitor is %d; accepted are 0 (default) to %d",
                          (int)config->monitor, HMREG_MONITOR_COUNTER);
    return 0;
}

/* A sandbox may refuse sysinfo(2), by which libc counts the machine's pages. */
static uint64_t half_of_memory(void)
{
    long pages = sysconf(_SC_PHYS_PAGES);

    return pages > 0 ? (uint64_t)pages * (uint64_t)sysconf(_SC_PAGESIZE) / 2 : UNKNOWN_MAX_BYTES;
}

/* HMREG_SYSCALLS=plain excludes settings that need other calls. */
static int keep_to_plain_calls(struct settings *settings)
{
    settings->stats = settings->device_ends = false;
    if (settings->monitor == HMREG_MONITOR_MEMHOOKS ||
        settings->monitor == HMREG_MONITOR_USERFAULTFD ||
        settings->monitor == HMREG_MONITOR_COUNTER)
        return hmreg_fail(-EINVAL,
                          "HMREG_SYSCALLS=plain excludes the monitor %s, which was requested by "
                          "name; import and disabled make plain calls only",
                          hmreg_monitor_name(settings->monitor));
    return 0;
}

int settings_read(const struct hmreg_config *callers, struct settings *out)
{
    struct settings settings = {
        .ifaces = ALL_IFACES,
        .watch = {true, true, true, true},
        .device_ends = true,
        .stats = true,
        .max_regions = DEFAULT_MAX_REGIONS,
        .max_bytes = half_of_memory(),
        .all_regions = HMREG_LIMIT_NONE,
        .all_bytes = HMREG_LIMIT_NONE,
        .fork_bytes = DEFAULT_FORK_BYTES,
        .check = {HMREG_CHECK_ALWAYS, HMREG_CHECK_ALWAYS, HMREG_CHECK_ALWAYS, HMREG_CHECK_ALWAYS},
    };
    struct hmreg_config config = {0};
    int rc = callers ? check_config(callers, &config) : 0;

    settings.log.callback = config.log;
    settings.log.context = config.log_context;
    if (!rc)
        rc = read_environment(&settings);
    out->log = settings.log; /* for the failure */
    if (rc)
        return rc;
    settings.started_only = config.ifaces == HMREG_IFACES_STARTED;
    if (config.ifaces && !settings.started_only)
        settings.ifaces = settings.named = config.ifaces | HMREG_IFACE_BIT(HMREG_IFACE_SYSTEM);
    if (config.monitor) {
        settings.monitor = config.monitor;
        settings.monitor_if_there = false;
        settings.monitor_missing = NULL;
    }
    if (config.fork_max_bytes)
        settings.fork_bytes = config.fork_max_bytes;
    if (settings.plain_calls)
        rc = keep_to_plain_calls(&settings);
    if (!rc)
        *out = settings;
    return rc;
}
