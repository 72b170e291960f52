/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A list of names for a sentence, limited to a readable number.
 */
#include "tools/doctor/doctor.h"

#include <stdio.h>
#include <string.h>

#define MOST_CHARACTERS 100

void names_add(struct names *names, const char *name)
{
    size_t used = strlen(names->text);

    names->count++;
    if (used && used + strlen(name) + 2 > MOST_CHARACTERS) {
        names->left_out++;
        return;
    }
    snprintf(names->text + used, sizeof(names->text) - used, "%s%.100s", used ? ", " : "", name);
}

const char *names_text(struct names *names)
{
    size_t used = strlen(names->text);

    if (names->left_out)
        snprintf(names->text + used, sizeof(names->text) - used, " and %zu more", names->left_out);
    names->left_out = 0;
    return names->text;
}
