/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See memory_limit.h. /proc/self/cgroup has the process's group as a path from the root of its
 * control group namespace. A container may not see all groups on it: if a group has no file, the
 * groups above it are still read.
 */
#include "core/base/memory_limit.h"

#include "core/base/high_fd.h"

#include <inttypes.h>
#include <limits.h>
#include <string.h>
#include <sys/sysinfo.h>

#define GROUPS "/sys/fs/cgroup"

/* Reads one value in the first line of a file at root, path, name, by the given format. */
static void read_value(const char *root, const char *path, const char *name, const char *format,
                       void *value)
{
    char full[3 * PATH_MAX], line[PATH_MAX];
    FILE *file;

    snprintf(full, sizeof(full), "%s%s%s", root, path, name);
    file = high_file(full);
    while (file && fgets(line, sizeof(line), file) && sscanf(line, format, value) != 1)
        ;
    if (file)
        fclose(file);
}

struct memory_limit memory_limit_read(const char *root)
{
    struct memory_limit limit = {UINT64_MAX, "unknown"};
    struct sysinfo machine;
    char path[sizeof(GROUPS) + PATH_MAX] = GROUPS, *const group = path + strlen(GROUPS);

    /* Not sysconf(3), which computes with uninitialized data if a sandbox refuses the call. */
    if (!sysinfo(&machine))
        limit = (struct memory_limit){(uint64_t)machine.totalram * machine.mem_unit,
                                      "this machine's memory"};
    read_value(root, "/proc/self/cgroup", "", "0::%4095[^\n]", group);
    for (char *end = path + strlen(path); end && end >= group; end = strrchr(path, '/')) {
        uint64_t bytes = UINT64_MAX; /* "max" */

        *end = '\0';
        read_value(root, path, "/memory.max", "%" SCNu64, &bytes);
        if (bytes < limit.bytes)
            limit = (struct memory_limit){bytes, "memory.max of a control group"};
    }
    return limit;
}
