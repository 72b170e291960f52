/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See log.h. One write(2) writes each line, so that the lines of several threads do not mix.
 */
#include "core/base/log.h"

#include "core/base/error.h"
#include "core/base/now.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define LINE_MAX_BYTES 1024 /* an error's text and its context */

static const char *name_of(enum hmreg_log_level level)
{
    static const char *const names[] = {"", "error", "warning", "info", "debug"};

    return names[level];
}

static void write_line(enum hmreg_log_level level, const char *text)
{
    char line[LINE_MAX_BYTES + 32];
    int len = snprintf(line, sizeof(line), "hmreg: %s: %s\n", name_of(level), text);

    if (write(STDERR_FILENO, line, (size_t)len) < 0)
        return; /* stderr is closed: the line is lost */
}

static void hand_out(const struct log *log, enum hmreg_log_level level, bool must, const char *text)
{
    if (log->callback)
        log->callback(level, text, log->context);
    if ((int)level <= log->level || (must && log->level == LOG_STDERR_UNSET && !log->callback))
        write_line(level, text);
}

void log_say(const struct log *log, enum hmreg_log_level level, const char *format, ...)
{
    char text[LINE_MAX_BYTES];
    va_list arguments;

    if (!log_takes(log, level))
        return;
    va_start(arguments, format);
    text_write_args(text, sizeof(text), format, arguments);
    va_end(arguments);
    hand_out(log, level, false, text);
}

void log_must(const struct log *log, const char *format, ...)
{
    char text[LINE_MAX_BYTES];
    va_list arguments;

    va_start(arguments, format);
    text_write_args(text, sizeof(text), format, arguments);
    va_end(arguments);
    hand_out(log, HMREG_LOG_ERROR, true, text);
}

bool log_admits(struct log_rate *rate, int64_t now, unsigned *left_out)
{
    int64_t due = atomic_load(&rate->due), from;

    do {
        from = due > now ? due : now;
        if (from - now > (LOG_AT_ONCE - 1) * SECOND_NS) {
            atomic_fetch_add(&rate->left_out, 1);
            return false;
        }
    } while (!atomic_compare_exchange_weak(&rate->due, &due, from + SECOND_NS));
    *left_out = atomic_exchange(&rate->left_out, 0);
    return true;
}
