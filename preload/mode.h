/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The mode of the libraries in preload/, from the environment that `hmreg run` sets:
 *
 *     HMREG_RUN_MODE   words separated by commas: trace, trace=watch, gpu; unset: trace
 *     HMREG_RUN_DIR    the folder for trace files; unset: /tmp
 *
 * A set-user-ID process ignores both variables and makes no trace file.
 */
#ifndef HMREG_PRELOAD_MODE_H
#define HMREG_PRELOAD_MODE_H

#include <stdbool.h>

#pragma GCC visibility push(default)

struct preload_mode {
    bool gpu;   /* --gpu: hmreg registers device memory that the fabric refuses */
    bool watch; /* --trace=watch: record whether a range registered again has unchanged memory */
    bool wrong; /* HMREG_RUN_MODE has an unknown word, which was ignored */
};

/* The process's mode, read when the library is loaded. */
const struct preload_mode *preload_mode(void);

/* The folder for trace files, which may not exist; "": none is made. */
const char *preload_dir(void);

#pragma GCC visibility pop

#endif
