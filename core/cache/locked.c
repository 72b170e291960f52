/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See locked.h.
 */
#include "core/cache/locked.h"

#include "core/base/high_fd.h"
#include "core/base/lock_right.h"
#include "core/group/group.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

uint64_t locked_limit(void)
{
    struct rlimit limit = {RLIM_INFINITY, RLIM_INFINITY};

    getrlimit(RLIMIT_MEMLOCK, &limit);
    return limit.rlim_cur == RLIM_INFINITY || lock_right_exempts() ? UINT64_MAX : limit.rlim_cur;
}

uint64_t locked_now(void)
{
    FILE *file = high_file("/proc/self/status");
    char line[256];
    uint64_t kilobytes = 0;

    while (file && fgets(line, sizeof(line), file))
        if (!strncmp(line, "VmPin:", 6))
            kilobytes = strtoull(line + 6, NULL, 10);
    if (file)
        fclose(file);
    return kilobytes * 1024;
}

uint64_t locked_times(const struct hmreg_domain *domain)
{
    uint64_t times = 0;

    if (!domain->group)
        return domain->caps.pins;
    for (size_t i = 0; i < domain->group->count; i++)
        times += domain->group->members[i]->caps.pins;
    return times;
}
