/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See error.h. An error has a code for programs, a sentence for people, and the vendor's own text.
 *
 * A thread's error is allocated at its first failure and found by a pthread key, so a success costs
 * nothing. It is not thread-local data: the library's is static TLS (thread_cache.h), of which the
 * dynamic linker reserves about 1.5 KiB for all libraries that are loaded late. The key's
 * destructor is libc's free(3), which remains when this library is unloaded.
 *
 * What guards restore is on the heap too: a signal handler of the program may leave a call by a
 * jump, and the call's frame, with its guard, is then other memory of the program's.
 */
#include "core/base/error.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#undef hmreg_fail /* what the analyzer is shown of them */
#undef hmreg_fail_vendor
#undef hmreg_refuse

#define GUARDS 16 /* those within as many others restore nothing */

/* A thread's errors. */
struct errors {
    struct hmreg_error last;
    struct hmreg_error *before[GUARDS]; /* what each open guard restores; NULL: not overwritten */
};

static _Thread_local struct {
    unsigned guards; /* open ones, and those of calls that were left by a jump */
    bool kept;       /* one of them has an error to restore */
    bool lost;       /* there was no memory for the last error */
} thread __attribute__((tls_model("initial-exec")));

/* ---- the last error --------------------------------------------------------------------- */

/* Creates the key at its first use. If several threads create one, a compare-and-swap decides; a
 * lock might be held for ever in a forked child. False: no key is left. */
static bool have_key(pthread_key_t *out)
{
    static _Atomic uint64_t made; /* 1 + the key; 0: none yet */
    uint64_t key = atomic_load(&made);

    if (!key) {
        if (pthread_key_create(out, free))
            return false;
        if (!atomic_compare_exchange_strong(&made, &key, (uint64_t)*out + 1))
            pthread_key_delete(*out);
        key = atomic_load(&made);
    }
    *out = (pthread_key_t)(key - 1);
    return true;
}

/* The thread's errors; make: allocates them if there are none. NULL: none, or no memory. */
static struct errors *find(bool make)
{
    pthread_key_t key;
    struct errors *found;

    if (!have_key(&key))
        return NULL;
    found = pthread_getspecific(key);
    if (found || !make)
        return found;
    found = calloc(1, sizeof(*found));
    if (found && pthread_setspecific(key, found)) {
        free(found);
        found = NULL;
    }
    return found;
}

const struct hmreg_error *hmreg_last_error(void)
{
    static const struct hmreg_error none = {.source = "hmreg"};
    static const struct hmreg_error lost = {
        .code = -ENOMEM, .source = "hmreg", .text = "no memory to keep the error"};
    const struct errors *errors = find(false);

    if (thread.lost)
        return &lost;
    return errors && errors->last.source ? &errors->last : &none;
}

static void set_last(const struct hmreg_error *next)
{
    struct errors *errors = find(next->code != 0);

    if (errors && &errors->last != next)
        errors->last = *next;
    thread.lost = next->code && !errors;
}

/* Keeps the last error for the open guards. Without memory they restore nothing. */
static void keep_before(struct errors *errors)
{
    for (unsigned i = 0; i < GUARDS && i < thread.guards; i++) {
        if (errors->before[i])
            continue;
        errors->before[i] = malloc(sizeof(*errors->before[i]));
        if (!errors->before[i])
            return;
        *errors->before[i] = *hmreg_last_error();
        thread.kept = true;
    }
}

static void overwrite(const struct hmreg_error *next)
{
    struct errors *errors = thread.guards ? find(true) : NULL;

    if (errors)
        keep_before(errors);
    set_last(next);
}

static void record(int code, const char *source, int64_t vendor_code, const char *vendor_text,
                   const char *format, va_list args)
{
    /* The arguments may point into the old error, so the new one is built in a separate struct. */
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

int hmreg_fail_at(int code, const char *array, size_t index)
{
    const struct hmreg_error *why = hmreg_last_error();

    return hmreg_fail_vendor(code, why->source, why->vendor_code, why->vendor_text, "%s[%zu]: %s",
                             array, index, why->text);
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
    *out = *hmreg_last_error();
}

void hmreg_error_restore(const struct hmreg_error *saved)
{
    overwrite(saved);
}

/* Ends what was kept for guard number `first` and those within it, which calls that were left by a
 * jump may have begun. */
static void end_kept(struct errors *errors, unsigned first, bool restore)
{
    if (restore && first < GUARDS && errors->before[first])
        set_last(errors->before[first]);
    for (unsigned i = first; i < GUARDS && errors->before[i]; i++) {
        free(errors->before[i]);
        errors->before[i] = NULL;
    }
    thread.kept = first;
}

void hmreg_error_guard(struct hmreg_error_guard *guard)
{
    guard->outer = thread.guards++;
}

void hmreg_error_unguard(struct hmreg_error_guard *guard, bool restore)
{
    thread.guards = guard->outer;
    if (thread.kept)
        end_kept(find(false), guard->outer, restore);
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
