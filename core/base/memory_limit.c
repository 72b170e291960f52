/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See memory_limit.h. /proc/self/cgroup has the process's group as a path from the root of its
 * control group namespace. A container may not see all groups on it: if a group has no file, the
 * groups above it are still read.
 */
#include "core/base/memory_limit.h"

#include "core/base/high_fd.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysinfo.h>

#define GROUPS "/sys/fs/cgroup"

/* Reads one value in the first line of a file at root, path, group, name, by the given format.
 * Paths and lines are on the heap: a caller's stack may be small. */
static void read_value(const char *root, const char *path, const char *group, const char *name,
                       const char *format, void *value)
{
    char *full = NULL, *line = NULL;
    FILE *file = NULL;
    size_t size = 0;

    if (asprintf(&full, "%s%s%s%s", root, path, group, name) >= 0) {
        file = high_file(full);
        free(full);
    }
    while (file && getline(&line, &size, file) > 0 && sscanf(line, format, value) != 1)
        ;
    free(line);
    if (file)
        fclose(file);
}

static void read_group(const char *root, const char *group, struct memory_limit *limit)
{
    uint64_t bytes = UINT64_MAX; /* "max" */

    read_value(root, GROUPS, group, "/memory.max", "%" SCNu64, &bytes);
    if (bytes < limit->bytes)
        *limit = (struct memory_limit){bytes, "memory.max of a control group"};
}

struct memory_limit memory_limit_read(const char *root)
{
    struct memory_limit limit = {UINT64_MAX, "unknown"};
    struct sysinfo machine;
    char *group = NULL;

    /* Not sysconf(3), which computes with uninitialized data if a sandbox refuses the call. */
    if (!sysinfo(&machine))
        limit = (struct memory_limit){(uint64_t)machine.totalram * machine.mem_unit,
                                      "this machine's memory"};
    read_value(root, "/proc/self/cgroup", "", "", "0::%m[^\n]", &group);
    read_group(root, group ? group : "", &limit);
    for (char *end; group && (end = strrchr(group, '/'));) {
        *end = '\0';
        read_group(root, group, &limit);
    }
    free(group);
    return limit;
}
