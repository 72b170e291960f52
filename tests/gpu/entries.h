/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Every way to open a vendor's runtime, the same for each vendor, through the public interface:
 * docs/runtime-ways.md has the table, tests/gpu/<vendor>/entries.c the runtimes. A runtime keeps
 * state until its process ends, so each case runs in a child, before which nothing was opened.
 */
#ifndef TESTS_ENTRIES_H
#define TESTS_ENTRIES_H

#include "tests/support/test.h"

#include <hmreg/hmreg.h>

/* A runtime in one state of its machine. */
struct entry {
    enum hmreg_iface iface;
    int devices;         /* 0: it does not open */
    const char *why;     /* part of the reason for that */
    const char *library; /* part of the file's name; NULL: none */
    /* The application's own use of the runtime; 0, or an error text. NULL: none. */
    const char *(*application)(void);
    /* Skips the case if this machine is in another state. NULL: it never is. */
    void (*need)(void);
    /* An environment variable that makes the runtime's first start fail, and its value; and whether
     * a later start succeeds without the variable. NULL: none does. */
    const char *fault, *fault_value, *fault_why;
    int fault_stays;
};

void entries_open(const struct entry *entry);
void entries_open_twice(const struct entry *entry);
void entries_open_after_failure(const struct entry *entry);
void entries_open_after_close(const struct entry *entry);
void entries_open_in_child_of_user(const struct entry *entry);
void entries_start_at_first_need(const struct entry *entry);
void entries_open_in_child_only(const struct entry *entry);
void entries_open_on_threads(const struct entry *entry);
void entries_open_beside_application(const struct entry *entry);
void entries_fork_while_threads_open(const struct entry *entry);

/* The cases of one runtime, SUBJECT__CIRCUMSTANCE__RESULT, each of which is a column of its table.
 */
#define ENTRY_CASE(name, function, entry)                                                          \
    TEST(name)                                                                                     \
    {                                                                                              \
        entries_##function(entry);                                                                 \
    }
#define ENTRY_CASES(subject, entry)                                                                \
    ENTRY_CASE(subject##__opened__answers, open, entry)                                            \
    ENTRY_CASE(subject##__opened_twice__both_answer, open_twice, entry)                            \
    ENTRY_CASE(subject##__opened_after_a_failure__answers, open_after_failure, entry)              \
    ENTRY_CASE(subject##__opened_after_close__answers, open_after_close, entry)                    \
    ENTRY_CASE(subject##__opened_in_a_child_of_a_user__refused, open_in_child_of_user, entry)      \
    ENTRY_CASE(subject##__forked_before_the_first_need__harmless, start_at_first_need, entry)      \
    ENTRY_CASE(subject##__opened_in_a_child_only__answers, open_in_child_only, entry)              \
    ENTRY_CASE(subject##__opened_on_threads_at_once__all_answer, open_on_threads, entry)           \
    ENTRY_CASE(subject##__opened_beside_the_application__answers, open_beside_application, entry)  \
    ENTRY_CASE(subject##__forked_while_threads_open__children_live, fork_while_threads_open, entry)

#endif
