/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 * Large regions: registered in pieces, reached by peers across the borders of the pieces. */
#include "tests/conformance/suite.h"

#include <hmreg/job.h>

#define KEY    5
#define PIECE  4096
#define PIECES 5
#define REST   100

#define FEW_BYTES 32
#define MANY      200 /* there are 256 keys of one byte */

/* Moves bytes over each border, in the two parts that hmreg_remote_addr() asks for. */
static void check_borders(struct suite_fixture *fixture, struct hmreg_mr *mr,
                          const unsigned char *base)
{
    struct hmreg_remote_info info = {.size = sizeof(info)};
    struct hmreg_remote *remote;
    uint64_t addr, key;

    suite_ready(fixture, fixture->domain, mr);
    remote = suite_peer(fixture, mr);
    assert_ok(hmreg_remote_query(remote, &info));
    assert_int_equal(info.len, (PIECES - 1) * PIECE + REST);
    assert_int_equal(info.segments, PIECES);
    for (uint64_t border = PIECE; border < info.len; border += PIECE) {
        assert_fails(hmreg_remote_addr(remote, border - 3, 10, &addr, &key), -EXDEV,
                     "crosses the border of two segments");
        suite_put(fixture, remote, border - 3, 3, base + border - 3);
        suite_put(fixture, remote, border, 7, base + border);
        suite_get(fixture, remote, border - 3, 3, base + border - 3);
        suite_get(fixture, remote, border, 7, base + border);
    }
    suite_put(fixture, remote, info.len - 1, 1, base + info.len - 1);
    assert_int_equal(suite_move(fixture, remote, true, info.len - 1, 2), -ERANGE);
    suite_end(fixture, remote, mr);
}

CASE(job__region_of_pieces__peers_reach_each)
{
    struct hmreg_job_config config = {.size = sizeof(config), .workers = 3, .piece_len = PIECE};
    unsigned char *base = fixture->memory + 60;
    struct iovec range = {base, (PIECES - 1) * PIECE + REST};
    struct hmreg_mr_attr attr = {.size = sizeof(attr),
                                 .iov = &range,
                                 .iov_count = 1,
                                 .access = HMREG_ACCESS_REMOTE,
                                 .requested_key = suite_key(fixture, KEY)};
    struct hmreg_mr *mr = NULL;
    struct hmreg_job *job = NULL;

    assert_ok(hmreg_job_start(fixture->domain, &attr, 0, &config, &job));
    assert_ok(hmreg_job_wait(job, -1, &mr));
    assert_ok(hmreg_job_close(job));
    check_borders(fixture, mr, base);
    assert_ok(hmreg_mr_reg_large(fixture->domain, base, range.iov_len, HMREG_ACCESS_REMOTE, &config,
                                 &mr));
    check_borders(fixture, mr, base);
}

/* More than older versions of a token have, and more raw keys than fit there. */
CASE(job__hundreds_of_pieces__peers_reach_each)
{
    struct hmreg_job_config config = {.size = sizeof(config), .piece_len = FEW_BYTES};
    unsigned char *base = fixture->memory;
    struct hmreg_remote *remote;
    struct hmreg_mr *mr = NULL;

    assert_ok(hmreg_mr_reg_large(fixture->domain, base, MANY * FEW_BYTES, HMREG_ACCESS_REMOTE,
                                 &config, &mr));
    suite_ready(fixture, fixture->domain, mr);
    remote = suite_peer(fixture, mr);
    for (uint64_t i = 0; i < MANY; i += MANY / 5 - 1) {
        suite_put(fixture, remote, i * FEW_BYTES + 1, FEW_BYTES - 1, base + i * FEW_BYTES + 1);
        suite_get(fixture, remote, i * FEW_BYTES, FEW_BYTES, base + i * FEW_BYTES);
    }
    suite_end(fixture, remote, mr);
}

CASE(job__cancelled_or_wrong__nothing_stays)
{
    struct hmreg_job_config config = {.size = sizeof(config), .piece_len = PIECE};
    struct iovec range = {fixture->memory, PIECES * PIECE};
    struct hmreg_mr_attr attr = {.size = sizeof(attr),
                                 .iov = &range,
                                 .iov_count = 1,
                                 .access = HMREG_ACCESS_REMOTE,
                                 .requested_key = suite_key(fixture, KEY)};
    struct hmreg_job *job = NULL;
    struct hmreg_mr *mr;

    for (int i = 0; i < 5; i++) {
        assert_ok(hmreg_job_start(fixture->domain, &attr, 0, &config, &job));
        assert_ok(hmreg_job_close(job));
    }
    config.workers = 65;
    assert_fails(hmreg_job_start(fixture->domain, &attr, 0, &config, &job), -EINVAL,
                 "accepted are 0 to 64");
    mr = suite_reg(fixture, fixture->memory, 64, HMREG_ACCESS_REMOTE, KEY); /* the key is free */
    suite_close(fixture, mr);
}
