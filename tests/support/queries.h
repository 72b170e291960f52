/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * What the library answers about an object; the case fails where it refuses to.
 */
#ifndef TESTS_QUERIES_H
#define TESTS_QUERIES_H

#include "tests/support/test.h"

#include <hmreg/hmreg.h>

/* The thread's last error is as of an earlier call; is it still? A call that succeeds leaves it. */
static inline void test_old_error(void)
{
    assert_fails(hmreg_mr_query(NULL, NULL), -EINVAL, "mr is NULL");
}

static inline bool test_error_is_old(void)
{
    return strcmp(hmreg_last_error()->text, "mr is NULL") == 0;
}

#define TEST_QUERY(name, info, call, type)                                                         \
    static inline struct info name(type *of)                                                       \
    {                                                                                              \
        struct info found = {.size = sizeof(found)};                                               \
                                                                                                   \
        assert_ok(call(of, &found));                                                               \
        return found;                                                                              \
    }

TEST_QUERY(test_info_of, hmreg_mr_info, hmreg_mr_query, const struct hmreg_mr)
TEST_QUERY(test_why_of, hmreg_explanation, hmreg_mr_explain, const struct hmreg_mr)
TEST_QUERY(test_domain_info, hmreg_domain_info, hmreg_domain_query, struct hmreg_domain)
TEST_QUERY(test_stats_of, hmreg_stats, hmreg_domain_stats, struct hmreg_domain)
TEST_QUERY(test_monitor_info, hmreg_monitor_info, hmreg_monitor_query, struct hmreg)

/* What a peer, who opens its token in the domain, gets of the region. */
static inline struct hmreg_remote *test_remote_of(struct hmreg_domain *domain,
                                                  const struct hmreg_mr *mr)
{
    struct hmreg_remote *remote = NULL;
    char token[65536];
    size_t size = sizeof(token);

    assert_ok(hmreg_mr_pack(mr, token, &size));
    assert_ok(hmreg_remote_open(domain, token, size, &remote));
    return remote;
}

/* The addresses that the heads of a region without remote raw keys lead to are those of its pieces
 * and its token. start: its first byte; the ranges follow each other. whole: the region, or the
 * group's region of which it is a rail; first: its element in that one's head. */
static inline void test_addresses(struct hmreg_domain *domain, const struct hmreg_mr *mr,
                                  const struct hmreg_mr *whole, size_t first, const void *start)
{
    struct hmreg_remote *remote = test_remote_of(domain, mr);
    size_t count = hmreg_mr_head_of(mr)->count;
    uint64_t sum = 0, addr, key;

    for (size_t i = 0; i < count; i++) {
        struct hmreg_piece_info piece = {.size = sizeof(piece)};
        const char *at = (const char *)start + sum + 3;

        assert_ok(hmreg_mr_piece(mr, i, &piece));
        assert_ok(hmreg_remote_addr(remote, sum + 3, 1, &addr, &key));
        assert_int_equal(hmreg_mr_local_addr(mr, i, at), piece.local_addr + 3);
        assert_int_equal(hmreg_mr_local_addr(whole, first + i, at), piece.local_addr + 3);
        assert_int_equal(hmreg_mr_remote_addr(mr, i, at), addr);
        assert_int_equal(hmreg_mr_remote_addr(whole, first + i, at), addr);
        sum += piece.len;
    }
    hmreg_remote_close(remote);
}

#endif
