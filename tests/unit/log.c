/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The log: which messages reach stderr and the application's function, and that a line is one line.
 */
#include "core/base/log.h"

#include "tests/support/test.h"

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
