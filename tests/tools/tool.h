/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Runs the command `hmreg` (HMREG_TOOL is its path) and keeps its output until the case returns.
 *
 *     struct tool tool = tool_run("plan", "--iface", "cuda");
 *     assert_int_equal(tool.status, 0);
 */
#ifndef TESTS_TOOL_H
#define TESTS_TOOL_H

#include "tests/support/test.h"

#include <jansson.h>

struct tool {
    int status; /* exit status; -1: it did not exit by itself */
    char *out, *err;
};

/* Runs with these arguments and output in files; _on(): output on a terminal of so many columns. */
#define tool_run(...)             tool_run_list(0, (const char *const[]){__VA_ARGS__, NULL})
#define tool_run_on(columns, ...) tool_run_list(columns, (const char *const[]){__VA_ARGS__, NULL})
struct tool tool_run_list(unsigned columns, const char *const *arguments);
/* Standard error on a terminal. */
#define tool_run_watched(...) tool_run_watched_list((const char *const[]){__VA_ARGS__, NULL})
struct tool tool_run_watched_list(const char *const *arguments);

/* Whether commands that are run from now on have the simulated NIC's library (FAKE_NIC_LIBRARY). */
void tool_preload_nic(bool on);

/* The --patience of doctor and verify where a test names none: more seconds than anything takes. */
#define TOOL_PATIENCE "280"

/* Where a NIC hangs, whose seconds do not pass (simulated/nic/nic.c), except where the tool
 * has poll(2) of clang's sanitizer. */
#if defined(__clang__) && (TEST_ASAN || TEST_TSAN)
#define TOOL_PATIENCE_HANGS "20"
#else
#define TOOL_PATIENCE_HANGS TOOL_PATIENCE
#endif

/* The output of print(), on a terminal of so many columns (0: a file). */
char *output_of(void (*print)(void), unsigned columns);

/* Runs, and expects this exit status and nothing on stderr. */
#define tool_document(status, ...)                                                                 \
    tool_document_list(status, (const char *const[]){__VA_ARGS__, NULL})
json_t *tool_document_list(int status, const char *const *arguments);
/* Runs with --openmetrics, and returns what metrics.py reads: each sample a line. Skips the case
 * without Prometheus' parser. */
#define tool_metrics(...) tool_metrics_list((const char *const[]){__VA_ARGS__, NULL})
char *tool_metrics_list(const char *const *arguments);
/* Frees it after the case. */
json_t *tool_keep(json_t *document);

/* The length of a text's longest line. */
size_t longest_line(const char *text);

/* Values at a path like "limits/cache/regions" or "processes/0"; a test fails where one is missing
 * or of another type. */
json_t *at(const json_t *value, const char *path);
const char *words_at(const json_t *object, const char *path);
json_t *list_at(const json_t *object, const char *path);
int64_t number_at(const json_t *object, const char *path);
/* The object of an array whose key has this value; without one, NULL, or in with() a failed test.
 */
json_t *find(const json_t *array, const char *key, const char *words);
json_t *with(const json_t *array, const char *key, const char *words);

#define assert_says(text, words)                                                                   \
    do {                                                                                           \
        if (!strstr(text, words))                                                                  \
            fail_msg("\"%s\" is missing in:\n%s", words, text);                                    \
    } while (0)
#define assert_silent(text, words)                                                                 \
    do {                                                                                           \
        if (strstr(text, words))                                                                   \
            fail_msg("\"%s\" is in:\n%s", words, text);                                            \
    } while (0)

#endif
