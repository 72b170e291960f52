/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Errors: a code for programs, a sentence for people, the vendor's own words for both.
 * One slot a thread, written only on failure, so a success costs nothing.
 */
#include "core/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static _Thread_local struct {
    struct hmreg_error last;
    struct hmreg_error_guard
        *guards; /* the latest; whoever was overwritten, so were those outside */
} thread = {.last = {.source = "hmreg"}};

const struct hmreg_error *hmreg_last_error(void)
{
    return &thread.last;
}

static void overwrite(const struct hmreg_error *next)
{
    struct hmreg_error_guard *guard = thread.guards;

    for (; guard && !guard->overwritten; guard = guard->outer) {
        guard->before = thread.last;
        guard->overwritten = true;
    }
    thread.last = *next;
}

static void record(int code, const char *source, int64_t vendor_code, const char *vendor_text,
                   const char *format, va_list args)
{
    /* The arguments may point into the old error: build the new one aside. */
    struct hmreg_error next = {.code = code, .source = source, .vendor_code = vendor_code};

    vsnprintf(next.text, sizeof(next.text), format, args);
    if (vendor_text)
        snprintf(next.vendor_text, sizeof(next.vendor_text), "%s", vendor_text);
    overwrite(&next);
}

int hmreg_fail(int code, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    record(code, "hmreg", 0, NULL, format, args);
    va_end(args);
    return code;
}

int hmreg_fail_vendor(int code, const char *source, int64_t vendor_code, const char *vendor_text,
                      const char *format, ...)
{
    va_list args;

    va_start(args, format);
    record(code, source, vendor_code, vendor_text, format, args);
    va_end(args);
    return code;
}

int hmreg_fail_os(int errnum, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    record(-errnum, "os", errnum, hmreg_strerror(errnum), format, args);
    va_end(args);
    return -errnum;
}

int hmreg_refuse(struct hmreg_reason *why, int code, const char *slug, const char *format, ...)
{
    va_list args;

    why->code = code;
    snprintf(why->slug, sizeof(why->slug), "%s", slug);
    va_start(args, format);
    vsnprintf(why->text, sizeof(why->text), format, args);
    va_end(args);
    return code;
}

void hmreg_error_save(struct hmreg_error *out)
{
    *out = thread.last;
}

void hmreg_error_restore(const struct hmreg_error *saved)
{
    overwrite(saved);
}

void hmreg_error_guard(struct hmreg_error_guard *guard)
{
    guard->outer = thread.guards;
    guard->overwritten = false;
    thread.guards = guard;
}

void hmreg_error_unguard(struct hmreg_error_guard *guard, bool restore)
{
    thread.guards = guard->outer;
    if (restore && guard->overwritten)
        thread.last = guard->before;
}

const char *hmreg_strerror(int code)
{
    int errnum = code < 0 && code != INT32_MIN ? -code : code;
    const char *words;

    switch (errnum) {
    case 0:
        return "Success";
    case HMREG_ETOOSMALL:
        return "Provided buffer is too small";
    case HMREG_EOPBADSTATE:
        return "Not possible in this state";
    case HMREG_EBADFLAGS:
        return "Flags not supported";
    case HMREG_ENOKEY:
        return "Requested key is in use";
    }
    words = strerrordesc_np(errnum);
    return words ? words : "Unknown error";
}
