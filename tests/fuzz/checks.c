/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The checks after each call: fuzz.h says which.
 */
#include "tests/fuzz/fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void fuzz_must(const struct fuzz *fuzz, bool kept, const char *rule)
{
    if (kept)
        return;
    fprintf(stderr, "after %lu calls of this thread: not so: %s (last error %d: %s)\n", fuzz->calls,
            rule, hmreg_last_error()->code, hmreg_last_error()->text);
    abort();
}

int fuzz_check(struct fuzz *fuzz, const char *call, int rc, const void *out, const void *before,
               size_t size)
{
    const struct hmreg_error *error = hmreg_last_error();

    fuzz->calls++;
    fuzz->successes += rc == 0;
    if (rc == 0)
        return 0;
    if (rc > 0 || error->code != rc || !error->text[0])
        fprintf(stderr, "%s = %d\n", call, rc);
    MUST(rc < 0);
    MUST(error->code == rc);
    MUST(error->text[0]);
    if (size && memcmp(out, before, size))
        fprintf(stderr, "%s = %d\n", call, rc);
    MUST(!size || !memcmp(out, before, size));
    return rc;
}
