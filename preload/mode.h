/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * What the libraries in preload/ do, from the environment that `hmreg run` sets:
 *
 *     HMREG_RUN_MODE   words separated by commas: trace, trace=watch, gpu; unset: trace
 *     HMREG_RUN_DIR    the folder for trace files; unset: /tmp
 *
 * A process with another user's rights (set-user-ID) ignores both, and makes no trace file.
 */
#ifndef HMREG_PRELOAD_MODE_H
#define HMREG_PRELOAD_MODE_H

#include <stdbool.h>

#pragma GCC visibility push(default)

struct preload_mode {
    bool gpu;   /* device memory is made registrable */
    bool watch; /* whether memory that is registered again is the same is recorded */
    bool wrong; /* HMREG_RUN_MODE has a word that is not accepted, and was left out */
};

/* The process's mode, read when the library is loaded. */
const struct preload_mode *preload_mode(void);

/* The folder for trace files, which may not exist; "": none is made. */
const char *preload_dir(void);

#pragma GCC visibility pop

#endif
