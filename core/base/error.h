/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The error of the calling thread. Whoever sees a failure first calls hmreg_fail() once, with
 * the sentence; callers above pass the code on and stay silent.
 */
#ifndef HMREG_CORE_BASE_ERROR_H
#define HMREG_CORE_BASE_ERROR_H

#include <hmreg/hmreg.h>
#include <stdbool.h>

#pragma GCC visibility push(default) /* libhmreg-ofi and -verbs call these */

/* Records a failure of ours. code: negative error number, returned. */
int hmreg_fail(int code, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Records a failure a vendor, a fabric or the system reported. source: "cuda", "ofi", "os"...;
 * vendor_text may be NULL. Returns code. */
int hmreg_fail_vendor(int code, const char *source, int64_t vendor_code, const char *vendor_text,
                      const char *format, ...) __attribute__((format(printf, 5, 6)));

/* The failure of a system call: code -errnum, source "os". */
int hmreg_fail_os(int errnum, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Fills a reason: slug is its stable name. The path is kept. Returns code. */
int hmreg_refuse(struct hmreg_reason *why, int code, const char *slug, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* Keeps and restores the thread's error around work whose failure is not the caller's. */
void hmreg_error_save(struct hmreg_error *out);
void hmreg_error_restore(const struct hmreg_error *saved);

#pragma GCC visibility pop

/* The same where a failure is rare: what the error was is copied only when it is overwritten. Each
 * guard is ended once, the latest begun first, by the thread that began it. */
struct hmreg_error_guard {
    struct hmreg_error_guard *outer;
    bool overwritten;
    struct hmreg_error before; /* if overwritten */
};
void hmreg_error_guard(struct hmreg_error_guard *guard);
void hmreg_error_unguard(struct hmreg_error_guard *guard, bool restore);

#endif
