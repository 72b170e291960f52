/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * This process: its limits and permissions to lock memory, watch memory and read system files.
 */
#include "core/base/lock_right.h"
#include "tools/doctor/doctor.h"
#include "tools/doctor/findings.h"
#include "tools/machine.h"
#include "tools/root.h"

#include <limits.h>
#include <linux/seccomp.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CONFIG_UNPRIVILEGED 64
#define STATUS_BYTES        (1 << 20) /* /proc/self/status; the list of groups may be long */
#define MEMLOCK_ENOUGH      (UINT64_C(1) << 30) /* bytes per NIC */

/* ---- facts ------------------------------------------------------------------------------ */

/* The soft limit in bytes; null: none, or unknown. */
static json_t *memlock(void)
{
    static const char name[] = "Max locked memory";
    char limits[4096], *line;

    if (!root_read(limits, sizeof(limits), "/proc/self/limits"))
        return json_null();
    line = strstr(limits, name);
    line = line ? line + sizeof(name) - 1 : NULL;
    if (!line)
        return json_null();
    line += strspn(line, " ");
    return line[0] >= '0' && line[0] <= '9' ? doc_count(strtoull(line, NULL, 10), UINT64_MAX)
                                            : json_null();
}

/* A number from /proc/self/status; 0: absent. */
static uint64_t status_number(const char *name, int base)
{
    char *status = calloc(1, STATUS_BYTES), *line = NULL;
    uint64_t number = 0;

    if (status && root_read(status, STATUS_BYTES, "/proc/self/status"))
        line = strstr(status, name);
    if (line)
        number = strtoull(line + strlen(name), NULL, base);
    free(status);
    return number;
}

/* As lock_right_exempts(), but also in a simulated tree. */
static bool may_lock(void)
{
    char target[PATH_MAX];

    return status_number("\nCapEff:", 16) >> CAP_IPC_LOCK & 1 &&
           root_link(target, sizeof(target), LOCK_RIGHT_NAMESPACE) && lock_right_is_first(target);
}

static bool is_filtered(void)
{
    return status_number("\nSeccomp:", 10) == SECCOMP_MODE_FILTER;
}

static json_t *userfaultfd(void)
{
    json_t *found = machine_monitor();

    doc_set(found, "seccomp_filter", doc_made(json_boolean(is_filtered())));
    doc_set(found, "file", doc_text(root_state("/dev/userfaultfd")));
    return found;
}

json_t *process_facts(struct hmreg *lib)
{
    const struct passwd *user = getpwuid(geteuid());

    return doc_pack("{s:b, s:o, s:i, s:o, s:b, s:o, s:o}", "root", geteuid() == 0, "user",
                    user ? doc_text(user->pw_name) : doc_text("without a name"), "uid",
                    (int)geteuid(), "memlock", memlock(), "ipc_lock", may_lock(), "userfaultfd",
                    userfaultfd(), "monitor", machine_active_monitor(lib));
}

/* ---- judging ---------------------------------------------------------------------------- */

static void judge_memlock(const json_t *process, size_t nics, json_t *findings)
{
    uint64_t limit = doc_number(process, "memlock");
    char all[32], each[32];

    if (!nics || !doc_has(process, "memlock") || doc_is(process, "ipc_lock") ||
        limit / nics >= MEMLOCK_ENOUGH)
        return;
    finding_add(findings, "memlock-low", "/proc/self/limits, /proc/self/status (CapEff)",
                "ulimit -l is %s; with %zu RDMA device%s, registrations larger than %s fail.",
                doc_bytes_words(limit, all), nics, nics > 1 ? "s" : "",
                doc_bytes_words(limit / nics, each));
}

static void judge_userfaultfd(const json_t *found, json_t *findings)
{
    const char *file = doc_words(found, "file");
    const char *filter = doc_is(found, "seccomp_filter") ? "in force" : "none";

    if (!found || doc_is(found, "available"))
        return;
    finding_add(findings, "userfaultfd-denied",
                "userfaultfd(2), /dev/userfaultfd, /proc/self/status (Seccomp)",
                "The kernel does not let this process watch its memory: %s "
                "(seccomp filter: %s, /dev/userfaultfd: %s).",
                doc_words(json_object_get(found, "error"), "text"), filter, file);
}

/* Judges only the default monitor: an environment variable may choose another. */
static void judge_monitor(const json_t *found, json_t *findings)
{
    const char *active = doc_words(found, "active");

    if (strcmp(doc_words(found, "asked"), "default") ||
        (strcmp(active, "userfaultfd") && strcmp(active, "disabled")))
        return;
    finding_add(findings, "memhooks-impossible", "a registration in this process",
                "Host memory is %s: %s.",
                strcmp(active, "disabled") ? "watched by userfaultfd" : "not cached",
                doc_words(found, "why"));
}

/* Without CAP_SYS_ADMIN, which root in a container may lack, the kernel shows only 64 bytes of a
 * device's configuration: no ACS bits. */
static void judge_root(const json_t *facts, json_t *findings)
{
    const json_t *bridge, *topology = json_object_get(facts, "topology");
    struct names unread = {.count = 0};
    const char *pci;

    json_object_foreach(json_object_get(topology, "bridges"), pci, bridge)
        if (!doc_has(bridge, "acs_redirect") &&
            doc_number(bridge, "config_bytes") <= CONFIG_UNPRIVILEGED)
            names_add(&unread, pci);
    if (unread.count)
        finding_add(findings, "not-root", "/sys/bus/pci/devices/*/config",
                    "Whether ACS is on could not be read, for %s %s.",
                    unread.count > 1 ? "bridges" : "bridge", names_text(&unread));
}

void process_judge(const json_t *facts, json_t *findings)
{
    const json_t *process = json_object_get(facts, "process");

    judge_memlock(process, nics_count(facts), findings);
    judge_userfaultfd(json_object_get(process, "userfaultfd"), findings);
    judge_monitor(json_object_get(process, "monitor"), findings);
    judge_root(facts, findings);
}
