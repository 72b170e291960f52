/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See memory_limit.h. /proc/self/cgroup has the process's group as a path from the root of its
 * control group namespace, of which a container may not see all: where a group has no file, those
 * above it are read all the same.
 */
#include "core/base/memory_limit.h"

#include "core/base/high_fd.h"

#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <string.h>

#define GROUPS "/sys/fs/cgroup"

static FILE *open_file(const char *root, const char *folder, const char *name)
{
    char path[3 * PATH_MAX];

    snprintf(path, sizeof(path), "%s%s/%s", root, folder, name);
    return high_file(path);
}

static void lower(struct memory_limit *limit, uint64_t bytes, const char *what)
{
    if (bytes < limit->bytes)
        *limit = (struct memory_limit){bytes, what};
}

static void read_machine(const char *root, struct memory_limit *limit)
{
    FILE *file = open_file(root, "/proc", "meminfo");
    char line[256];
    uint64_t kilobytes;

    while (file && fgets(line, sizeof(line), file))
        if (sscanf(line, "MemTotal: %" SCNu64 " kB", &kilobytes) == 1)
            lower(limit, kilobytes * 1024, "this machine's memory");
    if (file)
        fclose(file);
}

/* "max", or a number. */
static void read_group(const char *root, const char *group, struct memory_limit *limit)
{
    FILE *file = open_file(root, group, "memory.max");
    uint64_t bytes;

    if (file && fscanf(file, "%" SCNu64, &bytes) == 1)
        lower(limit, bytes, "memory.max of a control group");
    if (file)
        fclose(file);
}

/* Of the line "0::/group", from that group up. */
static void read_groups(const char *root, struct memory_limit *limit)
{
    FILE *file = open_file(root, "/proc/self", "cgroup");
    char line[PATH_MAX], path[sizeof(GROUPS) + sizeof(line)];
    bool found = false;

    while (file && !found && fgets(line, sizeof(line), file))
        found = !strncmp(line, "0::/", 4);
    if (file)
        fclose(file);
    if (!found)
        return;
    line[strcspn(line, "\n")] = '\0';
    snprintf(path, sizeof(path), GROUPS "%s", line + 3);
    for (char *end = path + strlen(path); end >= path + strlen(GROUPS); end = strrchr(path, '/')) {
        *end = '\0';
        read_group(root, path, limit);
    }
}

struct memory_limit memory_limit_read(const char *root)
{
    struct memory_limit limit = {UINT64_MAX, "unknown"};

    read_machine(root, &limit);
    read_groups(root, &limit);
    return limit;
}
