/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The command `hmreg run` in tests: with programs on a simulated libibverbs.
 */
#ifndef TESTS_PRELOAD_COMMAND_H
#define TESTS_PRELOAD_COMMAND_H

#include "tests/tools/tool.h"

static inline const char *environment(const char *name)
{
    const char *value = getenv(name);

    assert_non_null(value);
    return value;
}

/* LD_LIBRARY_PATH=... of the simulated libibverbs, for env(1): the command has the real one. */
static inline const char *fake(void)
{
    static char words[4200];

    snprintf(words, sizeof(words), "LD_LIBRARY_PATH=%s", environment("FAKE_IBVERBS"));
    return words;
}

#endif
