/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See nearest.h. Letters added, left out and replaced count 1 each, as do two that changed places.
 */
#include "tools/nearest.h"

#include <string.h>

#define MOST    2           /* letters: more and it is another word */
#define LONGEST (24 + MOST) /* no command, option or finding's code has more than 24 letters */

static size_t least(size_t one, size_t other)
{
    return one < other ? one : other;
}

static size_t distance(const char *one, size_t one_length, const char *other, size_t other_length)
{
    size_t cost[LONGEST + 1][LONGEST + 1];

    for (size_t i = 0; i <= one_length; i++) {
        for (size_t j = 0; j <= other_length; j++) {
            if (!i || !j) {
                cost[i][j] = i + j;
                continue;
            }
            cost[i][j] = least(least(cost[i - 1][j], cost[i][j - 1]) + 1,
                               cost[i - 1][j - 1] + (one[i - 1] != other[j - 1]));
            if (i > 1 && j > 1 && one[i - 1] == other[j - 2] && one[i - 2] == other[j - 1])
                cost[i][j] = least(cost[i][j], cost[i - 2][j - 2] + 1);
        }
    }
    return cost[one_length][other_length];
}

void nearest_try(struct nearest *nearest, const char *accepted)
{
    size_t length = strlen(accepted), found;

    if (length > LONGEST || nearest->length > LONGEST)
        return;
    found = distance(nearest->typed, nearest->length, accepted, length);
    if (found > MOST || 2 * found > length || (nearest->found && found >= nearest->distance))
        return;
    nearest->found = accepted;
    nearest->distance = found;
}
