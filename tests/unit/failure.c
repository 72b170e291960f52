/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The log of failures: one line for each public call that fails, at its end, of the level that the
 * failure has; none where the caller sees no failure; and a function of the log that calls back.
 */
#include "tests/support/script.h"
#include "tests/support/vendors.h"

#include <time.h>

#define AT_ONCE 16 /* lines */

static struct {
    unsigned count[HMREG_LOG_DEBUG + 1]; /* lines of each level */
    char text[16][1024];                 /* the first lines but the monitor's */
    unsigned texts;
    void (*call_back)(void);
} logged;

static struct hmreg *lib;
static struct hmreg_domain *domain;
static char *memory; /* of a device */
static char page[4096];

static void take(enum hmreg_log_level level, const char *text, void *context)
{
    if (strstr(text, "changes of host memory") || strstr(text, "devices") ||
        strstr(text, "is not usable"))
        return;
    logged.count[level]++;
    if (logged.texts < 16)
        snprintf(logged.text[logged.texts++], sizeof(logged.text[0]), "%s", text);
    if (logged.call_back)
        logged.call_back();
}

static void open_with_log(void)
{
    struct hmreg_config config = {.size = sizeof(config), .log = take};
    struct hmreg_domain_config own = {.size = sizeof(own),
                                      .order = {HMREG_PATH_DMABUF, HMREG_PATH_PEERMEM}};

    vendors_reset();
    script = (struct script){.times = -1};
    memset(&logged, 0, sizeof(logged));
    assert_ok(hmreg_open(&config, &lib));
    assert_ok(script_domain(lib, NULL, &own, &domain));
    memory = vendor_memory(HMREG_IFACE_CUDA, 0, HMREG_MEM_DEVICE, 4096);
}

static void close_with_log(void)
{
    vendor_memory_free(memory);
    assert_ok(hmreg_domain_close(domain));
    assert_ok(hmreg_close(lib));
}

static unsigned lines(void)
{
    return logged.count[HMREG_LOG_ERROR] + logged.count[HMREG_LOG_WARN] +
           logged.count[HMREG_LOG_INFO];
}

static void assert_line(unsigned index, const char *begins, const char *words)
{
    assert_in_range(index, 0, logged.texts - 1);
    if (strncmp(logged.text[index], begins, strlen(begins)) || !strstr(logged.text[index], words))
        fail_msg("line %u is \"%s\", not \"%s ... %s\"", index, logged.text[index], begins, words);
}

TEST(calls_that_fail__one_line_each__of_its_level)
{
    struct hmreg_mem_info info = {.size = sizeof(info)};
    struct hmreg_mr *mr = NULL;
    struct hmreg_piece_info piece = {.size = sizeof(piece)};

    open_with_log();
    assert_int_equal(hmreg_query(lib, page, 0, &info), -EINVAL);
    assert_int_equal(lines(), 1);
    assert_line(0, "hmreg_query: ", "len is 0");
    assert_line(0, "hmreg_query: ", "(Invalid argument)");
    script.fail[HMREG_PATH_SYSTEM] = -EPROTO;
    assert_int_equal(hmreg_mr_get(domain, page, 100, HMREG_SEND, &mr), -EPROTO);
    assert_int_equal(lines(), 2);
    assert_line(1, "hmreg_mr_get: ", "(Protocol error)");
    assert_int_equal(logged.count[HMREG_LOG_WARN], 2);
    script.fail[HMREG_PATH_SYSTEM] = 0;
    assert_ok(hmreg_mr_reg(domain, page, 100, HMREG_SEND, 0, 0, 0, &mr, NULL));
    assert_int_equal(hmreg_mr_piece(mr, 7, &piece), -ENOENT); /* the way to count them */
    assert_int_equal(lines(), 3);
    assert_int_equal(logged.count[HMREG_LOG_INFO], 1);
    assert_line(2, "hmreg_mr_piece: ", "the region has 1 pieces");
    assert_ok(hmreg_mr_close(mr));
    close_with_log();
    assert_int_equal(lines(), 3);
}

TEST(close__refused_for_what_is_open__a_line)
{
    open_with_log();
    assert_int_equal(hmreg_close(lib), -EBUSY);
    assert_int_equal(lines(), 1);
    assert_line(0, "hmreg_close: ", "1 domains of this library are open");
    close_with_log();
}

TEST(open__wrong_variable__the_configs_function_is_called)
{
    struct hmreg_config config = {.size = sizeof(config), .log = take};

    memset(&logged, 0, sizeof(logged));
    setenv("HMREG_STATS", "maybe", 1);
    assert_int_equal(hmreg_open(&config, &lib), -EINVAL);
    unsetenv("HMREG_STATS");
    assert_int_equal(logged.count[HMREG_LOG_WARN], 1);
    assert_line(0, "hmreg_open: ", "HMREG_STATS=maybe");
}

TEST(same_words_again__a_line_again__none_of_calls_that_restore_the_error)
{
    struct hmreg_mem_info info = {.size = sizeof(info)};
    struct hmreg_explanation why = {.size = sizeof(why)};

    open_with_log();
    for (unsigned i = 1; i < 4; i++) {
        assert_int_equal(hmreg_query(lib, page, 0, &info), -EINVAL);
        assert_int_equal(lines(), i);
        assert_ok(hmreg_domain_explain(domain, HMREG_IFACE_CUDA, 0, &why));
        assert_int_equal(lines(), i);
    }
    close_with_log();
}

/* The paths that refuse are attempts of the library's own. */
TEST(refused_paths__of_a_call_that_succeeds__debug_alone)
{
    struct hmreg_mr *mr;

    open_with_log();
    script.refuse[HMREG_PATH_DMABUF][0] = -EOPNOTSUPP;
    assert_ok(hmreg_mr_get(domain, memory, 100, HMREG_SEND, &mr));
    assert_int_equal(lines(), 0);
    assert_int_equal(logged.count[HMREG_LOG_DEBUG], 1);
    assert_line(0, "script refused path dmabuf: ", "");
    hmreg_mr_put(mr);
    close_with_log();
}

TEST(refused_paths__all__each_in_debug_and_one_warning)
{
    struct hmreg_mr *mr;

    open_with_log();
    script.refuse[HMREG_PATH_DMABUF][0] = script.refuse[HMREG_PATH_PEERMEM][0] = -EOPNOTSUPP;
    assert_int_equal(hmreg_mr_reg(domain, memory, 100, HMREG_SEND, 0, 0, 0, &mr, NULL),
                     -EOPNOTSUPP);
    assert_int_equal(logged.count[HMREG_LOG_DEBUG], 2);
    assert_line(0, "script refused path dmabuf: ", "");
    assert_line(1, "script refused path peermem: ", "");
    assert_line(2, "hmreg_mr_reg: ", "no path to this cuda memory");
    assert_int_equal(lines(), 1);
    close_with_log();
}

TEST(hits__after_a_failure__nothing)
{
    struct hmreg_mr *first, *mr;

    open_with_log();
    assert_ok(hmreg_mr_get(domain, page, 100, HMREG_SEND, &first));
    assert_int_equal(hmreg_mr_get(domain, page, 0, HMREG_SEND, &mr), -EINVAL);
    assert_int_equal(lines(), 1);
    for (int i = 0; i < 100; i++) {
        assert_ok(hmreg_mr_get(domain, page, 100, HMREG_SEND, &mr));
        hmreg_mr_put(mr);
    }
    assert_int_equal(lines(), 1);
    hmreg_mr_put(first);
    close_with_log();
}

/* What a program should not do. */
static void call_the_library(void)
{
    struct hmreg_mem_info info = {.size = sizeof(info)};
    struct hmreg_mr *mr;

    assert_int_equal(hmreg_query(lib, NULL, 1, &info), -EINVAL);
    assert_ok(hmreg_mr_get(domain, page, 200, HMREG_SEND, &mr));
    hmreg_mr_put(mr);
    assert_ok(hmreg_domain_flush(domain));
    errno = EXDEV;
}

TEST(function_that_calls_the_library__no_deadlock_no_line_more_and_the_error_stays)
{
    struct hmreg_mr *mr;

    open_with_log();
    logged.call_back = call_the_library;
    errno = 0;
    assert_int_equal(hmreg_mr_get(domain, page, 0, HMREG_SEND, &mr), -EINVAL);
    assert_int_equal(errno, 0);
    assert_int_equal(lines(), 1);
    assert_non_null(strstr(hmreg_last_error()->text, "len is 0"));
    logged.call_back = NULL;
    assert_int_equal(hmreg_mr_get(domain, NULL, 1, HMREG_SEND, &mr), -EINVAL);
    assert_int_equal(lines(), 2); /* the thread still logs */
    close_with_log();
}

/* The words differ, as addresses do. */
TEST(many_failures__some_lines_at_once)
{
    struct hmreg_mr *mr;
    int64_t start = 0;
    unsigned seconds, failures = 200;
    struct timespec now;

    open_with_log();
    clock_gettime(CLOCK_MONOTONIC, &now);
    start = now.tv_sec;
    for (unsigned i = 0; i < failures; i++)
        assert_int_equal(hmreg_mr_get(domain, page, 1, UINT64_C(1) << 40 | i << 20, &mr), -EINVAL);
    clock_gettime(CLOCK_MONOTONIC, &now);
    seconds = (unsigned)(now.tv_sec - start) + 1;
    assert_in_range(lines(), AT_ONCE, AT_ONCE + seconds);
    close_with_log();
}

TEST_MAIN()
