/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * What job.c and job_memory.c share: a domain or a group on the script, memory, and a job of it.
 */
#ifndef TESTS_UNIT_JOB_FIXTURE_H
#define TESTS_UNIT_JOB_FIXTURE_H

#include "tests/support/script.h"
#include "tests/support/vendors.h"

#include <hmreg/group.h>
#include <hmreg/job.h>

#define PIECE 4096u
#define MOST  3

static struct fixture {
    struct script_fixture script; /* its domain is member 0 */
    struct hmreg_domain *members[MOST], *group;
    struct hmreg_job_config config;
    struct hmreg_mr_attr attr;
    struct iovec range;
    char *host;
} fixture;

static inline void close_fixture(void)
{
    assert_ok(hmreg_domain_close(fixture.group));
    for (size_t i = 1; i < MOST; i++) {
        assert_ok(hmreg_domain_close(fixture.members[i]));
        script.destroys -= fixture.members[i] != NULL;
    }
    free(fixture.host);
    script_close(&fixture.script);
}

static inline void open_on(const struct script_caps *caps)
{
    fixture = (struct fixture){.config = {.size = sizeof(fixture.config), .piece_len = PIECE}};
    script_open(&fixture.script, caps, NULL);
    fixture.host = aligned_alloc(PIECE, 64 * PIECE);
    assert_non_null(fixture.host);
    memset(fixture.host, 'h', 64 * PIECE);
    fixture.range = (struct iovec){fixture.host, 8 * PIECE};
    fixture.attr = (struct hmreg_mr_attr){.size = sizeof(fixture.attr),
                                          .iov = &fixture.range,
                                          .iov_count = 1,
                                          .access = HMREG_ACCESS_ALL,
                                          .requested_key = 5};
    test_after(close_fixture);
}

static inline void open_fixture(void)
{
    open_on(NULL);
}

static inline void open_group(size_t count, uint32_t flags)
{
    struct hmreg_group_config config = {.size = sizeof(config), .flags = flags};

    open_fixture();
    fixture.members[0] = fixture.script.domain;
    for (size_t i = 1; i < count; i++)
        assert_ok(script_domain(fixture.script.lib, NULL, NULL, &fixture.members[i]));
    assert_ok(
        hmreg_group_open(fixture.script.lib, fixture.members, count, &config, &fixture.group));
}

static inline struct hmreg_domain *domain_of(void)
{
    return fixture.group ? fixture.group : fixture.script.domain;
}

static inline int start(struct hmreg_job **job)
{
    return hmreg_job_start(domain_of(), &fixture.attr, 0, &fixture.config, job);
}

static inline struct hmreg_mr *finish(struct hmreg_job *job)
{
    struct hmreg_mr *mr = NULL;

    assert_ok(hmreg_job_wait(job, -1, &mr));
    assert_ok(hmreg_job_close(job));
    return mr;
}

static inline struct hmreg_mr *registered(void)
{
    struct hmreg_job *job = NULL;

    assert_ok(start(&job));
    return finish(job);
}

static inline void check_piece(const struct hmreg_mr *mr, size_t index, const char *addr,
                               size_t len)
{
    struct hmreg_piece_info piece = {.size = sizeof(piece)};

    assert_ok(hmreg_mr_piece(mr, index, &piece));
    assert_int_equal(piece.local_addr, (uintptr_t)addr);
    assert_int_equal(piece.len, len);
    assert_true(piece.key != HMREG_KEY_NOTAVAIL);
}

#endif
