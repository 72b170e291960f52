/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The last error of the calling thread. The function that detects a failure calls hmreg_fail() once
 * with a sentence that describes it; its callers return the code and record nothing.
 */
#ifndef HMREG_CORE_BASE_ERROR_H
#define HMREG_CORE_BASE_ERROR_H

#include <hmreg/hmreg.h>
#include <stdbool.h>

#define KERNEL_ENOTSUPP 524 /* the kernel's own "not supported"; drivers return it to programs */

#pragma GCC visibility push(default) /* the providers' libraries call these */

/* Records a failure that hmreg detected. code: a negative error number, which is returned. */
int hmreg_fail(int code, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Records a failure that a vendor, a fabric or the system reported. source: "cuda", "ofi", "os"...;
 * vendor_text may be NULL. Returns code. */
int hmreg_fail_vendor(int code, const char *source, int64_t vendor_code, const char *vendor_text,
                      const char *format, ...) __attribute__((format(printf, 5, 6)));

/* Records the failure of a system call: code -errnum, source "os". Returns -errnum. */
int hmreg_fail_os(int errnum, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Fills a reason, except for its path. slug: the reason's stable name. Returns code. */
int hmreg_refuse(struct hmreg_reason *why, int code, const char *slug, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

#ifdef __clang_analyzer__ /* does not see that these return their code, so never 0 */
#define hmreg_fail(code, ...)        ((void)hmreg_fail(code, __VA_ARGS__), (code))
#define hmreg_fail_vendor(code, ...) ((void)hmreg_fail_vendor(code, __VA_ARGS__), (code))
#define hmreg_refuse(why, code, slug, ...)                                                         \
    ((void)hmreg_refuse(why, code, slug, __VA_ARGS__), (code))
#endif

/* Save and restore the thread's last error around work whose failure is not the caller's. */
void hmreg_error_save(struct hmreg_error *out);
void hmreg_error_restore(const struct hmreg_error *saved);

#pragma GCC visibility pop

/* Puts the failed element of an argument before the text of the last error, as in "mrs[3]: ...".
 * Returns code. */
int hmreg_fail_at(int code, const char *array, size_t index);

/* The same for work that rarely fails: without a failure, nothing is copied. The thread that begins
 * a guard ends it once; guards nest. */
struct hmreg_error_guard {
    unsigned outer, before; /* numbers of errors: the one that an outer guard keeps, the last one */
    const struct hmreg_error *unkept; /* in the place of the last one */
};
void hmreg_error_guard(struct hmreg_error_guard *guard);
/* restored: the last error is again the one before the guard. */
void hmreg_error_unguard(struct hmreg_error_guard *guard, bool restored);

#endif
