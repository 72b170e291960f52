/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See error.h. An error has a code for programs, a sentence for people, and the vendor's own text.
 *
 * A thread's error is allocated at its first failure and found by a pthread key, so a success costs
 * nothing. It is not thread-local data: the library has static TLS (thread_cache.h), and the
 * dynamic linker reserves only about 1.5 KiB of that for all libraries loaded late. The key's
 * destructor is libc's free(3), which stays loaded when this library is unloaded. A child made
 * without fork's handlers allocates nothing for a call that it may not make.
 *
 * Errors have serial numbers. A guard keeps those up to the last one when it began: a failure
 * within it becomes the next, and further failures replace that one. So only the number of a guard
 * is outside its frame. If a signal handler of the program jumps out of a call, nothing remains
 * that is read or must be freed.
 */
#include "core/base/error.h"

#include "core/base/epoch.h"
#include "core/base/out_of_line.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#undef hmreg_fail /* seen by the analyzer instead */
#undef hmreg_fail_vendor
#undef hmreg_refuse

#define KEPT                                                                                       \
    8 /* the errors that are kept, at most: the last one, and one of each of 7 nested guards       \
       */

/* A thread's errors: number n in slot n % KEPT. */
struct errors {
    struct {
        unsigned number;
        struct hmreg_error error;
    } slots[KEPT];
};

static _Thread_local struct {
    unsigned last;                    /* the number of the last error; 0: none */
    unsigned kept;                    /* errors up to this one are not replaced */
    unsigned recorded;                /* number of the last failure, unless restored */
    const struct hmreg_error *unkept; /* a copy that replaces the last error; NULL: the error itself
                                       * is kept */
} thread __attribute__((tls_model("initial-exec")));

/* ---- sentences -------------------------------------------------------------------------- */

#define SENTENCE 2048 /* longer text is cut: callers bound their words */
#define GAP      " ... "

void text_write_args(char *text, size_t size, const char *format, va_list args)
{
    char whole[SENTENCE]; /* the arguments may point into the old text */
    size_t len, front = size / 4;

    vsnprintf(whole, sizeof(whole), format, args);
    len = strlen(whole);
    if (len < size) {
        memcpy(text, whole, len + 1);
        return;
    }
    assert(front > sizeof(GAP));
    memcpy(text, whole, front);
    memcpy(text + front, GAP, sizeof(GAP) - 1);
    front += sizeof(GAP) - 1;
    memcpy(text + front, whole + len + 1 - (size - front), size - front);
}

void text_write(char *text, size_t size, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    text_write_args(text, size, format, args);
    va_end(args);
}

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

/* The thread's errors; make: allocates them if there are none and the process may. NULL: none. */
static struct errors *find(bool make)
{
    pthread_key_t key;
    struct errors *found;

    if (!have_key(&key))
        return NULL;
    found = pthread_getspecific(key);
    if (found || !make || process_is_bare())
        return found;
    found = calloc(1, sizeof(*found));
    if (found && pthread_setspecific(key, found)) {
        free(found);
        found = NULL;
    }
    return found;
}

void hmreg_error_prepare(void)
{
    (void)find(true);
}

/* NULL: the error was never recorded, or was replaced. */
static struct hmreg_error *error_at(struct errors *errors, unsigned number)
{
    bool is_there = errors && number && errors->slots[number % KEPT].number == number;

    return is_there ? &errors->slots[number % KEPT].error : NULL;
}

const struct hmreg_error *hmreg_last_error(void)
{
    static const struct hmreg_error none = {.source = "hmreg"};
    const struct hmreg_error *last = error_at(find(false), thread.last);

    if (thread.unkept)
        return thread.unkept;
    return last ? last : &none;
}

static const struct hmreg_error *unkept(void)
{
    static const struct hmreg_error lost = {
        .code = -ENOMEM, .source = "hmreg", .text = "hmreg has no memory to keep the error"};
    static const struct hmreg_error bare = {
        .code = -EPERM,
        .source = "hmreg",
        .text = "this process was forked without fork handlers (_Fork, clone), and must open its "
                "own hmreg; no other error is kept until then"};

    return process_is_bare() ? &bare : &lost;
}

static void set_number(struct errors *errors, unsigned number, const struct hmreg_error *error)
{
    errors->slots[number % KEPT].error = *error;
    errors->slots[number % KEPT].number = number;
    thread.last = number;
}

static void set_last(const struct hmreg_error *next)
{
    struct errors *errors = find(next->code != 0);

    thread.unkept = next->code && !errors ? unkept() : NULL;
    thread.recorded = 0;
    if (errors)
        set_number(errors, thread.last > thread.kept ? thread.last : thread.last + 1, next);
}

static void record(int code, const char *source, int64_t vendor_code, const char *vendor_text,
                   const char *format, va_list args)
{
    /* The arguments may point into the old error, so the new one is built in a separate struct. */
    struct hmreg_error next = {.code = code, .source = source, .vendor_code = vendor_code};

    text_write_args(next.text, sizeof(next.text), format, args);
    if (vendor_text)
        snprintf(next.vendor_text, sizeof(next.vendor_text), "%s", vendor_text);
    set_last(&next);
    thread.recorded = thread.last;
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

int hmreg_fail_at(int code, const char *place, ...)
{
    const struct hmreg_error *why = hmreg_last_error();
    char words[128];
    va_list args;

    va_start(args, place);
    text_write_args(words, sizeof(words), place, args);
    va_end(args);
    return hmreg_fail_vendor(code, why->source, why->vendor_code, why->vendor_text, "%s: %s", words,
                             why->text);
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
    text_write_args(why->text, sizeof(why->text), format, args);
    va_end(args);
    return code;
}

void hmreg_error_save(struct hmreg_error *out)
{
    *out = *hmreg_last_error();
}

void hmreg_error_restore(const struct hmreg_error *saved)
{
    set_last(saved);
}

void hmreg_error_guard(struct hmreg_error_guard *guard)
{
    guard->outer = thread.kept;
    guard->before = thread.last;
    guard->unkept = thread.unkept;
    thread.kept = thread.last;
}

static bool is_unchanged(const struct hmreg_error_guard *guard)
{
    return thread.last == guard->before && thread.unkept == guard->unkept;
}

/* A thread that ends may have freed its errors meanwhile: then restore "no error". */
static OUT_OF_LINE void restore(const struct hmreg_error_guard *guard)
{
    const struct errors *errors = find(false);

    if (guard->before && errors && errors->slots[guard->before % KEPT].number > guard->before)
        return; /* too many guards within this one have kept theirs */
    thread.last = guard->before;
    thread.unkept = guard->unkept;
}

/* Has the work failed, and left its error? */
static bool is_new(const struct hmreg_error_guard *guard)
{
    const struct hmreg_error *before = error_at(find(false), guard->before);
    const struct hmreg_error *last = hmreg_last_error();

    /* Work that saves and restores the earlier error leaves a copy of it. */
    if (!last->code)
        return false;
    return thread.recorded == thread.last || !before || before->code != last->code ||
           strcmp(before->text, last->text);
}

/* The work's error replaces the last one, unless an outer guard keeps that. */
static OUT_OF_LINE bool leave(const struct hmreg_error_guard *guard)
{
    bool failed = is_new(guard);
    unsigned number = guard->before > guard->outer ? guard->before : guard->before + 1;
    struct errors *errors = find(false);
    const struct hmreg_error *last = error_at(errors, thread.last);

    if (last && thread.last > number) {
        thread.recorded = thread.recorded == thread.last ? number : 0;
        set_number(errors, number, last);
    }
    return failed;
}

bool hmreg_error_leave(struct hmreg_error_guard *guard)
{
    thread.kept = guard->outer;
    return !is_unchanged(guard) && leave(guard);
}

void hmreg_error_unguard(struct hmreg_error_guard *guard, bool restored)
{
    thread.kept = guard->outer;
    if (is_unchanged(guard))
        return;
    if (restored)
        restore(guard);
    else
        (void)leave(guard);
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
    case KERNEL_ENOTSUPP:
        return "Operation not supported";
    }
    words = strerrordesc_np(errnum);
    return words ? words : "Unknown error";
}
