/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See replay.h.
 */
#include "tests/support/replay.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#define TRIES       400
#define TRY_SECONDS 60

unsigned long replay_setting(const char *name, unsigned long otherwise)
{
    const char *value = getenv(name);

    return value ? strtoul(value, NULL, 0) : otherwise;
}

bool replay_keep(bool *keep, unsigned count, const char *list)
{
    memset(keep, 0, count * sizeof(*keep));
    while (*list) {
        char *end;
        unsigned long first = strtoul(list, &end, 10), last = first;

        if (end == list)
            return false;
        if (*end == '-')
            last = strtoul(end + 1, &end, 10);
        for (unsigned long i = first; i <= last && i < count; i++)
            keep[i] = true;
        if (*end && *end != ',')
            return false;
        list = *end ? end + 1 : end;
    }
    return true;
}

void replay_print_kept(const bool *keep, unsigned count, FILE *out)
{
    const char *comma = "";

    for (unsigned i = 0; i < count; i++) {
        unsigned first = i;

        if (!keep[i])
            continue;
        while (i + 1 < count && keep[i + 1])
            i++;
        fprintf(out, i == first ? "%s%u" : "%s%u-%u", comma, first, i);
        comma = ",";
    }
}

static unsigned kept(const bool *keep, unsigned steps)
{
    unsigned count = 0;

    for (unsigned i = 0; i < steps; i++)
        count += keep[i];
    return count;
}

/* Leaves out kept steps from `from` to `from` + `size`, if the rest still fails. */
static void leave_out(bool *keep, unsigned count, unsigned from, unsigned size,
                      bool (*still_fails)(void))
{
    bool *before = malloc(count * sizeof(*keep));
    unsigned at = 0;

    if (!before)
        return;
    memcpy(before, keep, count * sizeof(*keep));
    for (unsigned i = 0; i < count; i++)
        if (keep[i] && at++ >= from && at <= from + size)
            keep[i] = false;
    if (!still_fails())
        memcpy(keep, before, count * sizeof(*keep));
    free(before);
}

void replay_shorten(bool *keep, unsigned count, bool (*still_fails)(void))
{
    time_t until = time(NULL) + TRY_SECONDS;
    int tries = 0;

    for (unsigned size = kept(keep, count) / 2; size; size /= 2)
        for (unsigned from = kept(keep, count); from > 0 && tries < TRIES && time(NULL) < until;
             tries++) {
            from -= from < size ? from : size;
            leave_out(keep, count, from, size, still_fails);
        }
}
