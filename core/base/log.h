/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The log: messages go to the application's callback, and to stderr up to the level of HMREG_LOG.
 * By default stderr gets only one message, that host memory is not cached at all: the application
 * would not notice it otherwise. Never called under a lock or in a hook.
 */
#ifndef HMREG_CORE_BASE_LOG_H
#define HMREG_CORE_BASE_LOG_H

#include <hmreg/hmreg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* The least severe level that is written to stderr. */
enum log_stderr {
    LOG_STDERR_OFF = -1,
    /* HMREG_LOG is not set: only log_must() writes, and only without a callback. */
    LOG_STDERR_UNSET = 0,
    /* Larger values are levels of enum hmreg_log_level. */
};

/* Limits the lines of one kind: some at once, then one each second. */
#define LOG_AT_ONCE 16

struct log_rate {
    _Atomic int64_t due; /* earliest time at which the lines so far are a second apart */
    atomic_uint left_out;
};

struct log {
    void (*callback)(enum hmreg_log_level level, const char *text, void *context);
    void *context;
    int level; /* enum log_stderr */
    struct log_rate
        failures[2]; /* for failures that callers do not expect, and for those that they expect */
};

/* Is a message of the level logged anywhere? */
static inline bool log_takes(const struct log *log, enum hmreg_log_level level)
{
    return log->callback || (int)level <= log->level;
}

/* May a line be logged at time now, in ns? If so, *left_out: lines left out since the last one. */
bool log_admits(struct log_rate *rate, int64_t now, unsigned *left_out);

/* Logs one line. format: printf's, without a newline. */
void log_say(const struct log *log, enum hmreg_log_level level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Logs an error that is also written to stderr if HMREG_LOG is not set and there is no callback. */
void log_must(const struct log *log, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
