/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See memory_limit.h. /proc/self/cgroup has the process's group in each hierarchy, as a path from
 * the root of its control group namespace; /proc/self/mountinfo says which group a mount shows as
 * its root. In a container of version 1 that is the container's own, whose path is the host's.
 */
#include "core/base/memory_limit.h"

#include "core/base/high_fd.h"

#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <string.h>

/* A hierarchy with limits of memory. */
struct hierarchy {
    bool unified;         /* version 2 */
    char group[PATH_MAX]; /* the process's */
    char top[PATH_MAX];   /* the group that is the mount's root */
    char mount[PATH_MAX];
};

static FILE *open_file(const char *root, const char *path)
{
    char full[2 * PATH_MAX + 64];

    snprintf(full, sizeof(full), "%s%s", root, path);
    return high_file(full);
}

static void lower(struct memory_limit *limit, uint64_t bytes, const char *what)
{
    if (bytes < limit->bytes)
        *limit = (struct memory_limit){bytes, what};
}

static void read_machine(const char *root, struct memory_limit *limit)
{
    FILE *file = open_file(root, "/proc/meminfo");
    char line[256];
    uint64_t kilobytes;

    while (file && fgets(line, sizeof(line), file))
        if (sscanf(line, "MemTotal: %" SCNu64 " kB", &kilobytes) == 1)
            lower(limit, kilobytes * 1024, "this machine's memory");
    if (file)
        fclose(file);
}

/* ---- the hierarchies -------------------------------------------------------------------- */

/* Is memory in a list such as "cpu,memory"? */
static bool has_memory(const char *list)
{
    for (const char *at = list; (at = strstr(at, "memory")); at += 6)
        if ((at == list || at[-1] == ',') && strchr(",\n", at[6]))
            return true;
    return false;
}

/* "4:memory:/group", and "0::/group" of version 2. */
static bool find_group(const char *root, struct hierarchy *hierarchy)
{
    FILE *file = open_file(root, "/proc/self/cgroup");
    char line[PATH_MAX + 256], *list, *group;
    bool found = false;

    while (file && !found && fgets(line, sizeof(line), file)) {
        line[strcspn(line, "\n")] = '\0';
        list = strchr(line, ':');
        group = list ? strchr(list + 1, ':') : NULL;
        if (!group)
            continue;
        *group++ = '\0';
        found = hierarchy->unified ? !list[1] : has_memory(list + 1);
        snprintf(hierarchy->group, sizeof(hierarchy->group), "%s", group);
    }
    if (file)
        fclose(file);
    return found;
}

/* "36 35 0:30 TOP MOUNT options - cgroup2 source options". */
static bool find_mount(const char *root, struct hierarchy *hierarchy)
{
    FILE *file = open_file(root, "/proc/self/mountinfo");
    char line[3 * PATH_MAX], type[32], options[512];
    bool found = false;

    while (file && !found && fgets(line, sizeof(line), file)) {
        const char *rest = strstr(line, " - ");

        if (!rest || sscanf(rest, " - %31s %*s %511s", type, options) != 2 ||
            sscanf(line, "%*s %*s %*s %4095s %4095s", hierarchy->top, hierarchy->mount) != 2)
            continue;
        found = hierarchy->unified ? !strcmp(type, "cgroup2")
                                   : !strcmp(type, "cgroup") && has_memory(options);
    }
    if (file)
        fclose(file);
    return found;
}

/* The process's group below the mount; "": the mount's root, also if the mount does not show it. */
static const char *below_mount(const struct hierarchy *hierarchy)
{
    size_t top = strcmp(hierarchy->top, "/") ? strlen(hierarchy->top) : 0;
    const char *below = hierarchy->group + top;

    if (strstr(hierarchy->group, "/..") || strncmp(hierarchy->group, hierarchy->top, top) ||
        (*below && *below != '/') || !strcmp(below, "/"))
        return "";
    return below;
}

/* "max", or a number. */
static void read_group(const char *root, const char *path, bool unified, struct memory_limit *limit)
{
    char file_path[2 * PATH_MAX + 32];
    uint64_t bytes;
    FILE *file;

    snprintf(file_path, sizeof(file_path), "%s/%s", path,
             unified ? "memory.max" : "memory.limit_in_bytes");
    file = open_file(root, file_path);
    if (file && fscanf(file, "%" SCNu64, &bytes) == 1)
        lower(limit, bytes,
              unified ? "memory.max of a control group"
                      : "memory.limit_in_bytes of a control group");
    if (file)
        fclose(file);
}

static void read_groups(const char *root, bool unified, struct memory_limit *limit)
{
    struct hierarchy hierarchy = {.unified = unified};
    char path[2 * PATH_MAX];
    size_t mount;

    if (!find_group(root, &hierarchy) || !find_mount(root, &hierarchy))
        return;
    mount = strlen(hierarchy.mount);
    snprintf(path, sizeof(path), "%s%s", hierarchy.mount, below_mount(&hierarchy));
    for (char *end = path + strlen(path); end; end = strrchr(path, '/')) {
        *end = '\0';
        if ((size_t)(end - path) < mount)
            break;
        read_group(root, path, unified, limit);
    }
}

struct memory_limit memory_limit_read(const char *root)
{
    struct memory_limit limit = {UINT64_MAX, "unknown"};

    read_machine(root, &limit);
    read_groups(root, true, &limit);
    read_groups(root, false, &limit);
    return limit;
}
