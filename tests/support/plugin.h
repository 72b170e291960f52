/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The interface of plugin.c's library, found by the name "plugin".
 */
#ifndef TESTS_PLUGIN_H
#define TESTS_PLUGIN_H

#include <hmreg/hmreg.h>
#include <stdbool.h>

struct plugin {
    int (*open)(enum hmreg_monitor monitor);
    bool (*get)(void *addr, size_t len, bool *cached); /* and puts */
    uint64_t (*invalidations)(void);
    int (*close)(void);
    char *zeros; /* memory of the library's own */
    size_t zeros_len;
};

#endif
