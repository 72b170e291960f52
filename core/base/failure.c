/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See failure.h.
 */
#include "core/base/failure.h"

#include "core/base/now.h"
#include "core/base/out_of_line.h"
#include "core/base/uncancelled.h"

#include <errno.h>

/* How many scopes the thread is in, the log's function included. If a signal handler of the program
 * jumps out of a call, its scope stays counted for ever: the thread then logs no more failures. */
static _Thread_local unsigned depth __attribute__((tls_model("initial-exec")));

/* Errors that a caller expects: it retries, waits, or asked whether something exists. */
static bool is_expected(int code)
{
    switch (-code) {
    case EAGAIN:
    case ECANCELED:
    case EINPROGRESS:
    case ENOENT:
    case HMREG_ETOOSMALL:
        return true;
    default:
        return false;
    }
}

static void say(struct log *log, const char *call, const struct hmreg_error *error)
{
    bool expected = is_expected(error->code);
    enum hmreg_log_level level = expected ? HMREG_LOG_INFO : HMREG_LOG_WARN;
    unsigned left_out;

    if (!log_takes(log, level) || !log_admits(&log->failures[expected], now_ns(), &left_out))
        return;
    if (left_out)
        log_say(log, level, "%s: %s (%s); %u failures before it were not logged", call, error->text,
                hmreg_strerror(error->code), left_out);
    else
        log_say(log, level, "%s: %s (%s)", call, error->text, hmreg_strerror(error->code));
}

static OUT_OF_LINE void say_last(const struct failure_scope *scope)
{
    struct hmreg_error_guard guard;
    int before = errno;
    UNCANCELLED;

    hmreg_error_guard(&guard);
    say(scope->log, scope->call, hmreg_last_error());
    hmreg_error_unguard(&guard, true);
    errno = before;
}

void hmreg_failure_begin(struct failure_scope *scope, struct log *log, const char *call)
{
    scope->log = log;
    scope->call = call;
    hmreg_error_guard(&scope->before);
    depth++;
}

void hmreg_failure_end(struct failure_scope *scope)
{
    bool failed = hmreg_error_leave(&scope->before);

    if (failed && scope->log && depth == 1)
        say_last(scope);
    depth--;
}
