/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Logs that a public call has failed: one line, when the call ends, of the error that it leaves.
 * The error is recorded deep in the call: under locks, in attempts that later ones make good, or by
 * a thread of the library's own. At the end of the call no lock is held, and the last error is the
 * caller's. So the application's function may take any lock, and even call the library.
 *
 * Nested calls log nothing, whether the library makes them or the log's function.
 */
#ifndef HMREG_CORE_BASE_FAILURE_H
#define HMREG_CORE_BASE_FAILURE_H

#include "core/base/error.h"
#include "core/base/log.h"

struct failure_scope {
    struct log *log; /* NULL: none */
    const char *call;
    struct hmreg_error_guard before;
};

#pragma GCC visibility push(default) /* the providers' libraries call these */

void hmreg_failure_begin(struct failure_scope *scope, struct log *log, const char *call);
void hmreg_failure_end(struct failure_scope *scope);

#pragma GCC visibility pop

static inline struct failure_scope failure_scope_of(struct log *log, const char *call)
{
    struct failure_scope scope;

    hmreg_failure_begin(&scope, log, call);
    return scope;
}

/* Put it first in a public function, before any declaration that fails or locks. */
#define LOGS_FAILURE_AS(call, log)                                                                 \
    struct failure_scope failure_scope __attribute__((cleanup(hmreg_failure_end), unused)) =       \
        failure_scope_of(log, call)
#define LOGS_FAILURE(log) LOGS_FAILURE_AS(__func__, log)

#endif
