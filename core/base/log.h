/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * What the library says of itself besides its answers: to the application's callback, and to stderr
 * as far as HMREG_LOG asks for it. By itself it writes one kind of line only: that host memory is
 * not cached at all, which nothing else would tell. Never called under a lock or in a hook.
 */
#ifndef HMREG_CORE_BASE_LOG_H
#define HMREG_CORE_BASE_LOG_H

#include <hmreg/hmreg.h>

/* Least urgent level that stderr gets. */
enum log_stderr {
    LOG_STDERR_OFF = -1,
    LOG_STDERR_UNSET = 0, /* HMREG_LOG says nothing: log_must() only, if there is no callback */
    /* from here on enum hmreg_log_level */
};

struct log {
    void (*callback)(enum hmreg_log_level level, const char *text, void *context);
    void *context;
    int level; /* enum log_stderr */
};

/* text: one line, without its end. */
void log_say(const struct log *log, enum hmreg_log_level level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* An error that stderr gets unless HMREG_LOG=off, or the callback has it. */
void log_must(const struct log *log, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
