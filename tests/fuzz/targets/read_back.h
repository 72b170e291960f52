/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A document that the command writes must read back as it was. */
#ifndef TESTS_FUZZ_TARGETS_READ_BACK_H
#define TESTS_FUZZ_TARGETS_READ_BACK_H

#include "tests/fuzz/targets/target.h"

#include <jansson.h>
#include <stdlib.h>

static inline void must_read_back(const json_t *document)
{
    char *text = json_dumps(document, 0);
    json_t *again = text ? json_loads(text, 0, NULL) : NULL;

    PROMISED(again && json_equal(document, again));
    json_decref(again);
    free(text);
}

#endif
