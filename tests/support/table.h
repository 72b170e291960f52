/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The contract of a call in rows: arguments and state, then result, error, and every call of
 * vendors and NICs. Each row has a world of its own (world.h). The file of a table says how a row's
 * call is made; what holds of each call is checked here. One that fails changes nothing, neither
 * what is registered nor which descriptors are open; one that succeeds leaves the last error.
 */
#ifndef TESTS_TABLE_H
#define TESTS_TABLE_H

#include "tests/support/world.h"

#define UNTOUCHED ((void *)1) /* an output before the call, and after one that fails */

struct row {
    const char *circumstance;
    struct world_as as;
    void (*before)(void); /* brings about the state; NULL: it is that of an open world */
    const void *args;     /* the arguments, as the table's file defines them */

    int result;
    const char *words;   /* of the error */
    bool in_part;        /* an error after which something has changed; else nothing has */
    bool fds;            /* descriptors are opened or closed */
    uint64_t value;      /* that it returns beside: the table's file says which */
    const char *calls;   /* in order; NULL: no matter */
    void (*after)(void); /* checks what else has changed */
};

/* struct args begins with `int usual_;`, which is this macro's. */
#define ARGS(...)                                                                                  \
    .args = &(const struct args)                                                                   \
    {                                                                                              \
        .usual_ = 0, __VA_ARGS__                                                                   \
    }
#define FAILS(code, text, log) .result = (code), .words = (text), .calls = (log)
#define RETURNS(number, log)   .value = (number), .calls = (log)

/* The key of a region's first registration: with the NICs of a world, that one's number. */
static inline uint64_t table_key(const struct hmreg_mr *mr)
{
    return hmreg_mr_head_of(mr)->keys->key;
}

/* An address `at` bytes from base, which may be NULL, or before or beyond it. */
static inline char *table_at(const void *base, uint64_t at)
{
    return (char *)((uintptr_t)base + (uintptr_t)at);
}

static inline void table_result(const struct row *row, int rc)
{
    if (rc != row->result)
        fail_msg("the call returned %d (%s), not %d; it made these calls: \"%s\"", rc,
                 rc ? hmreg_last_error()->text : "success", row->result, world_log());
    if (rc)
        assert_fails(rc, row->result, row->words);
}

static inline void table_value(const struct row *row, uint64_t value)
{
    if (value != row->value)
        fail_msg("the result is %ju, not %ju; the call made these calls: \"%s\"", (uintmax_t)value,
                 (uintmax_t)row->value, world_log());
}

/* Makes the call of a row. Outputs are compared there, and what was opened ends by test_after(). */
typedef int table_call(const struct row *row);
/* Opens the row's world, and brings about its state. */
typedef void table_open(const struct row *row);

static inline void table_open_usual(const struct row *row)
{
    world_open_as(&row->as);
    if (row->before)
        row->before();
}

static inline void table_check(const struct row *row, table_open *open, table_call *call)
{
    unsigned live;
    int fds, rc;

    print_message("%s\n", row->circumstance);
    fflush(stdout); /* before what fails */
    open(row);
    world_clear();
    world_old_error();
    live = world_live(WORLD_EACH);
    fds = test_count_fds();
    rc = call(row);
    table_result(row, rc);
    assert_true(row->result || world_error_is_old());
    if (row->result && !row->in_part)
        assert_int_equal(world_live(WORLD_EACH), live);
    if (!row->fds)
        assert_int_equal(test_count_fds(), fds);
    if (row->calls)
        assert_string_equal(world_log(), row->calls);
    if (row->after)
        row->after();
    test_finish();
}

#define CHECK_EACH_IN(rows, open, call)                                                            \
    for (size_t i = 0; i < sizeof(rows) / sizeof((rows)[0]); i++)                                  \
    table_check(&(rows)[i], open, call)
#define CHECK_EACH(rows, call) CHECK_EACH_IN(rows, table_open_usual, call)

#endif
