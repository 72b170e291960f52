/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The last error of the calling thread. The function that detects a failure calls hmreg_fail() once
 * with a sentence that describes it; its callers return the code and record nothing.
 */
#ifndef HMREG_CORE_BASE_ERROR_H
#define HMREG_CORE_BASE_ERROR_H

#include <hmreg/hmreg.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

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

/* Allocates what the thread needs to record its first error, as far as there is memory. */
void hmreg_error_prepare(void);

/* Save and restore the thread's last error around work whose failure is not the caller's. */
void hmreg_error_save(struct hmreg_error *out);
void hmreg_error_restore(const struct hmreg_error *saved);

#pragma GCC visibility pop

/* Puts the place of the failure before the text of the last error: "mrs[3]", "rail 1 (mlx5_1)".
 * Places nest. Returns code. */
int hmreg_fail_at(int code, const char *place, ...) __attribute__((format(printf, 2, 3)));

/* Writes a sentence; the old text may be an argument. All texts of errors and reasons are written
 * by it. A sentence names first its place (element, rail, way), then the fact, then the remedy. A
 * sentence that is longer than `size` loses its middle: the first quarter, " ... ", and as much of
 * the end as fits remain. The sizes in hmreg.h hold each of ours: a reason with its rail and way,
 * and an error with a whole reason and the words before it ("mrs[3]: rail 1 (mlx5_1): no path to
 * ..."). */
void text_write(char *text, size_t size, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void text_write_args(char *text, size_t size, const char *format, va_list args)
    __attribute__((format(printf, 3, 0)));

/* Saves and restores the last error around work that rarely fails: without a failure nothing is
 * copied. The thread that begins a guard ends it once; guards nest. */
struct hmreg_error_guard {
    unsigned outer,
        before; /* numbers of the error that an outer guard keeps, and of the last one */
    const struct hmreg_error *unkept; /* the caller's thread.unkept */
};
void hmreg_error_guard(struct hmreg_error_guard *guard);
/* restored: restores the last error from before the guard. */
void hmreg_error_unguard(struct hmreg_error_guard *guard, bool restored);
/* hmreg_error_unguard() without restoring. Has the work failed, and left its error? False if it has
 * restored the earlier error. */
bool hmreg_error_leave(struct hmreg_error_guard *guard);

#endif
