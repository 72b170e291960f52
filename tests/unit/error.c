/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The thread's last error: its contents, the functions that record it, and its own text in a new
 * one. And the log: which messages reach stderr and the application's function, and that a line is
 * one line.
 */

/* Errors and messages of any length, kind and rate, of which the library has a few. */
#include "core/base/error.h"
#include "core/base/log.h"

#include "tests/support/test.h"

#include <pthread.h>

TEST(fail__records_code_and_sentence)
{
    assert_int_equal(hmreg_fail(-EINVAL, "len is %d", 0), -EINVAL);
    assert_int_equal(hmreg_last_error()->code, -EINVAL);
    assert_string_equal(hmreg_last_error()->text, "len is 0");
    assert_string_equal(hmreg_last_error()->source, "hmreg");
}

TEST(fail_vendor__keeps_vendor_words)
{
    hmreg_fail_vendor(-EIO, "cuda", 999, "CUDA_ERROR_UNKNOWN", "cuInit failed");
    assert_int_equal(hmreg_last_error()->vendor_code, 999);
    assert_string_equal(hmreg_last_error()->vendor_text, "CUDA_ERROR_UNKNOWN");
}

/* What it is about, and the end. */
TEST(text_write__sentence_that_does_not_fit__loses_its_middle)
{
    char text[41] = "old";

    text_write(text, sizeof(text), "rail %d: %s", 7,
               "what is so is at length this and that: do so");
    assert_string_equal(text, "rail 7: wh ... ngth this and that: do so");
    assert_int_equal(strlen(text), 40);
}

TEST(text_write__sentence_that_just_fits__whole)
{
    char text[9] = "";

    text_write(text, sizeof(text), "%s", "12345678");
    assert_string_equal(text, "12345678");
}

TEST(text_write__old_text_as_argument__is_in_the_new_one)
{
    char text[32] = "old";

    text_write(text, sizeof(text), "new: %s, %s", text, text);
    assert_string_equal(text, "new: old, old");
}

/* The words of a caller may be of any length: what is accepted is not lost. */
TEST(fail__very_long_argument__keeps_the_end)
{
    char value[1500];

    memset(value, 'v', sizeof(value) - 1);
    value[sizeof(value) - 1] = '\0';
    hmreg_fail(-EINVAL, "NAME=%s: accepted are a and b", value);
    assert_memory_equal(hmreg_last_error()->text, "NAME=vvv", 8);
    assert_non_null(strstr(hmreg_last_error()->text, "v ... v"));
    assert_non_null(strstr(hmreg_last_error()->text, "vvv: accepted are a and b"));
}

TEST(fail_at__nested__keeps_code_source_and_vendors_words)
{
    hmreg_fail_vendor(-EIO, "verbs", 5, "in its own words", "it failed: do so");
    assert_int_equal(hmreg_fail_at(-EIO, "rail %d", 1), -EIO);
    assert_int_equal(hmreg_fail_at(-EIO, "iov[%d]", 3), -EIO);
    assert_int_equal(hmreg_last_error()->code, -EIO);
    assert_string_equal(hmreg_last_error()->source, "verbs");
    assert_int_equal(hmreg_last_error()->vendor_code, 5);
    assert_string_equal(hmreg_last_error()->vendor_text, "in its own words");
    assert_string_equal(hmreg_last_error()->text, "iov[3]: rail 1: it failed: do so");
}

static void *other_thread(void *arg)
{
    assert_int_equal(hmreg_last_error()->code, 0);
    hmreg_fail(-EPERM, "theirs");
    return NULL;
}

TEST(last_error__is_per_thread)
{
    hmreg_fail(-EINVAL, "ours");
    test_on_a_thread(other_thread, NULL);
    assert_string_equal(hmreg_last_error()->text, "ours");
}

TEST(strerror__knows_libfabrics_errors_in_both_signs)
{
    assert_string_equal(hmreg_strerror(-HMREG_ENOKEY), hmreg_strerror(HMREG_ENOKEY));
    assert_string_not_equal(hmreg_strerror(HMREG_EBADFLAGS), "Unknown error");
    assert_string_not_equal(hmreg_strerror(HMREG_EOPBADSTATE), "Unknown error");
    assert_string_equal(hmreg_strerror(0), "Success");
    assert_string_equal(hmreg_strerror(INT32_MIN), "Unknown error");
}

static jmp_buf before_guard;

__attribute__((noinline)) static void leave_by_a_jump(void)
{
    struct hmreg_error_guard guard;

    hmreg_error_guard(&guard);
    hmreg_fail(-EIO, "in a call that is left");
    longjmp(before_guard, 1);
}

/* Each call that is left fails before the jump. */
TEST(guard__after_very_many_jumps__still_restores)
{
    struct hmreg_error_guard guard;

    for (volatile int i = 0; i < 100; i++) {
        if (!setjmp(before_guard))
            leave_by_a_jump();
        hmreg_fail(-EIO, "jump %d", i);
    }
    hmreg_error_guard(&guard);
    hmreg_fail(-EINVAL, "not the caller's");
    hmreg_error_unguard(&guard, true);
    assert_string_equal(hmreg_last_error()->text, "jump 99");
}

static void fail_and_guard(int depth)
{
    struct hmreg_error_guard guard;

    hmreg_fail(-depth, "%d more", depth);
    if (!depth)
        return;
    hmreg_error_guard(&guard);
    fail_and_guard(depth - 1);
    hmreg_error_unguard(&guard, true);
    assert_int_equal(hmreg_last_error()->code, -depth);
}

TEST(guard__seven_within_each_other__each_restores)
{
    fail_and_guard(7);
}

/* The failure in a guard is kept for its caller whether or not one before it is. */
TEST(guard__many_failures_in_turn__do_not_reach_the_outer_one)
{
    struct hmreg_error_guard outer, guard;

    hmreg_fail(-EINVAL, "ours");
    hmreg_error_guard(&outer);
    for (int i = 0; i < 100; i++) {
        hmreg_error_guard(&guard);
        hmreg_fail(-EIO, "number %d", i);
        hmreg_error_unguard(&guard, false);
    }
    assert_string_equal(hmreg_last_error()->text, "number 99");
    hmreg_error_unguard(&outer, true);
    assert_string_equal(hmreg_last_error()->text, "ours");
}

/* In another key's destructor, before or after the error's own. */
static void fail_at_exit(void *arg)
{
    hmreg_fail(-EIO, "at exit");
    *(int *)arg = hmreg_last_error()->code;
}

/* The thread's errors may have been freed. */
static void guard_at_exit(void *arg)
{
    struct hmreg_error_guard guard;

    hmreg_error_guard(&guard);
    hmreg_error_unguard(&guard, true);
    hmreg_error_guard(&guard);
    hmreg_fail(-EIO, "not the caller's");
    hmreg_error_unguard(&guard, false);
    *(int *)arg = hmreg_last_error()->code;
}

static void guard_and_restore_at_exit(void *arg)
{
    struct hmreg_error_guard guard;

    hmreg_error_guard(&guard);
    hmreg_fail(-EIO, "not the caller's");
    hmreg_error_unguard(&guard, true);
    *(int *)arg = hmreg_last_error()->code;
}

static pthread_key_t at_exit;

static void *fail_and_leave(void *arg)
{
    pthread_setspecific(at_exit, arg);
    hmreg_fail(-EPERM, "before");
    return NULL;
}

static void *jump_fail_and_leave(void *arg)
{
    if (!setjmp(before_guard))
        leave_by_a_jump();
    return fail_and_leave(arg);
}

static int code_at_exit(void *(*thread_of)(void *arg), void (*destructor)(void *arg))
{
    int code = 0;

    assert_int_equal(pthread_key_create(&at_exit, destructor), 0);
    test_on_a_thread(thread_of, &code);
    pthread_key_delete(at_exit);
    return code;
}

TEST(last_error__of_a_thread_that_ends__can_be_set_in_destructors)
{
    assert_int_equal(code_at_exit(fail_and_leave, fail_at_exit), -EIO);
}

TEST(guard__of_a_thread_that_ends_after_a_jump__can_end_in_destructors)
{
    hmreg_fail(-EPERM, "the errors' key is the first, and so is its destructor");
    assert_int_equal(code_at_exit(jump_fail_and_leave, guard_at_exit), -EIO);
}

/* Destructors run in the order of their keys, of which earlier cases may have left some free: the
 * next one is behind the errors'. */
static void take_free_keys(void)
{
    pthread_key_t key;

    for (int i = 0; i < 16; i++)
        assert_int_equal(pthread_key_create(&key, NULL), 0);
}

TEST(guard__of_a_thread_whose_errors_are_freed__restores_none)
{
    hmreg_fail(-EPERM, "the errors' key is made");
    take_free_keys();
    assert_int_equal(code_at_exit(fail_and_leave, guard_and_restore_at_exit), 0);
}

/* ---- the log --------------------------------------------------------------------------------- */

static struct {
    int count;
    enum hmreg_log_level level;
    char text[1024];
    void *context;
} taken;

static void take(enum hmreg_log_level level, const char *text, void *context)
{
    taken.count++;
    taken.level = level;
    taken.context = context;
    snprintf(taken.text, sizeof(taken.text), "%s", text);
}

static const char *on_stderr(const struct log *log)
{
    static char text[4096];
    int ends[2], before = dup(STDERR_FILENO);
    ssize_t len;

    assert_int_equal(pipe(ends), 0);
    dup2(ends[1], STDERR_FILENO);
    log_must(log, "must %d", 1);
    for (int level = HMREG_LOG_ERROR; level <= HMREG_LOG_DEBUG; level++)
        log_say(log, (enum hmreg_log_level)level, "say %d", level);
    dup2(before, STDERR_FILENO);
    close(before);
    close(ends[1]);
    len = read(ends[0], text, sizeof(text) - 1);
    close(ends[0]);
    text[len] = '\0';
    return text;
}

TEST(stderr__each_level__that_and_what_is_more_urgent)
{
    static const struct {
        int level;
        const char *text;
    } cases[] = {
        {LOG_STDERR_OFF, ""},
        {LOG_STDERR_UNSET, "hmreg: error: must 1\n"},
        {HMREG_LOG_ERROR, "hmreg: error: must 1\nhmreg: error: say 1\n"},
        {HMREG_LOG_WARN, "hmreg: error: must 1\nhmreg: error: say 1\nhmreg: warning: say 2\n"},
        {HMREG_LOG_DEBUG, "hmreg: error: must 1\nhmreg: error: say 1\nhmreg: warning: say 2\n"
                          "hmreg: info: say 3\nhmreg: debug: say 4\n"},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct log log = {.level = cases[i].level};

        assert_string_equal(on_stderr(&log), cases[i].text);
    }
}

TEST(callback__whatever_stderr_gets__every_message)
{
    struct log log = {.callback = take, .context = &log, .level = LOG_STDERR_UNSET};

    taken.count = 0;
    assert_string_equal(on_stderr(&log), "");
    assert_int_equal(taken.count, 5);
    assert_int_equal(taken.level, HMREG_LOG_DEBUG);
    assert_string_equal(taken.text, "say 4");
    assert_ptr_equal(taken.context, &log);
    log.level = HMREG_LOG_ERROR;
    assert_string_equal(on_stderr(&log), "hmreg: error: must 1\nhmreg: error: say 1\n");
    assert_int_equal(taken.count, 10);
}

/* The line of a text of so many bytes, of which the last are "do so". */
static const char *line_of(const char *before_it, size_t bytes)
{
    static char line[4096];
    struct log log = {.level = HMREG_LOG_ERROR};
    char text[5000];
    int ends[2], before = dup(STDERR_FILENO);
    ssize_t len;

    memset(text, 'x', bytes);
    strcpy(text + bytes - 5, "do so");
    assert_int_equal(pipe(ends), 0);
    dup2(ends[1], STDERR_FILENO);
    log_say(&log, HMREG_LOG_ERROR, "%s%s", before_it, text);
    dup2(before, STDERR_FILENO);
    close(before);
    close(ends[1]);
    len = read(ends[0], line, sizeof(line) - 1);
    close(ends[0]);
    assert_in_range(len, 256, sizeof(line) - 1);
    line[len] = '\0';
    assert_ptr_equal(strchr(line, '\n'), line + len - 1);
    return line;
}

TEST(stderr__very_long_message__one_line)
{
    line_of("", 4999);
}

TEST(stderr__longest_error_and_more__whole_line)
{
    const char *line = line_of("a fabric's name of 63 bytes, and what it did with the memory: ",
                               sizeof(hmreg_last_error()->text) - 1);

    assert_null(strstr(line, " ... "));
    assert_non_null(strstr(line, "do so\n"));
    line = line_of("", 1500);
    assert_non_null(strstr(line, " ... "));
    assert_non_null(strstr(line, "do so\n"));
}

TEST(rate__some_at_once_then_one_a_second__and_how_many_not)
{
    struct log_rate rate = {0};
    const int64_t second = 1000000000;
    unsigned left_out = 1;

    for (int i = 0; i < LOG_AT_ONCE; i++) {
        assert_true(log_admits(&rate, 5 * second, &left_out));
        assert_int_equal(left_out, 0);
    }
    for (int i = 0; i < 7; i++)
        assert_false(log_admits(&rate, 6 * second - 1, &left_out));
    assert_true(log_admits(&rate, 6 * second, &left_out));
    assert_int_equal(left_out, 7);
    assert_false(log_admits(&rate, 6 * second, &left_out));
    for (int i = 0; i < LOG_AT_ONCE; i++) /* after silence, as at first */
        assert_true(log_admits(&rate, 100 * second, &left_out));
    assert_false(log_admits(&rate, 100 * second, &left_out));
}

TEST_MAIN()
