/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 * What the command prints of names and texts that others chose: no character that a terminal obeys,
 * and no byte that is not UTF-8, in a table, in JSON and on stderr. */
#include "tools/foreign.h"

#include "tests/tools/tool.h"
#include "tools/document.h"
#include "tools/table.h"

#include <fcntl.h>

/* Control characters of one byte and of two, directions, line separators, then bytes that are no
 * character: an early end, a surrogate, too long, too large, a second byte alone. */
#define EVIL                                                                                       \
    "a\x1b\n\x7f|\xc2\x9b\xc2\x80|\xd8\x9c\xe2\x80\x8e\xe2\x80\xae\xe2\x81\xa6\xe2\x80\xa8|"       \
    "\xe2\x80|\xed\xa0\x80|\xc0\x80|\xf4\x90\x80\x80|\x9b|\xf8"
#define MADE "a\?\?\?|\?\?|\?\?\?\?\?|\?\?|\?\?\?|\?\?|\?\?\?\?|\?|\?"
/* The nearest characters that are printed. */
#define GOOD                                                                                       \
    "~\xc2\xa0\xc3\xa4\xd8\x9b\xe2\x80\x8d\xe2\x80\x90\xe2\x80\xa7\xe2\x80\xaf\xe2\x81\xaa\xf0"    \
    "\x9f\x98\x80"

TEST(text__any__as_a_terminal_may_show_it)
{
    char text[] = EVIL, good[] = GOOD, copy[4];

    assert_string_equal(foreign_text(text), MADE);
    assert_string_equal(foreign_text(good), GOOD);
    foreign_copy(copy, "a\xc3\xa4\xc3\xa4", 4 - 1);
    assert_string_equal(copy, "a\xc3\xa4");
    foreign_copy(copy, "ab\xc3\xa4", 4 - 1);
    assert_string_equal(copy, "ab?");
}

static void print_evil(void)
{
    print_line("%s", EVIL);
}

TEST(table__evil_text__made_printable)
{
    char *out = output_of(print_evil, 0);

    assert_string_equal(out, MADE "\n");
}

TEST(json__evil_text__made_printable)
{
    json_t *text = doc_text(EVIL);

    assert_string_equal(json_string_value(text), MADE);
    json_decref(text);
}

TEST(message__evil_text__made_printable)
{
    char seen[256] = "";
    int ends[2], err = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);

    assert_int_equal(pipe(ends), 0);
    dup2(ends[1], STDERR_FILENO);
    print_error("hmreg: %s", EVIL);
    dup2(err, STDERR_FILENO);
    assert_true(read(ends[0], seen, sizeof(seen) - 1) > 0);
    close(ends[0]);
    close(ends[1]);
    close(err);
    assert_string_equal(seen, "hmreg: " MADE "\n");
}

TEST_MAIN()
