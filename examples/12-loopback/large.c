/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Regions of several registrations: a large range in pieces, by several threads, in one call or in
 * the background; and two ranges as one region.
 */
#include "parts.h"

#include <hmreg/job.h>
#include <hmreg/loopback.h>
#include <stdio.h>

#define PIECE  (UINT64_C(1) << 20)
#define PIECES 8

static char buffer[PIECES * PIECE];

static void note(struct hmreg_job *job, uint64_t done, uint64_t total, void *complete)
{
    (void)job;
    if (done == total)
        *(int *)complete = 1;
}

static size_t pieces_of(const struct hmreg_mr *mr)
{
    struct hmreg_piece_info piece = {.size = sizeof(piece)};
    size_t count = 0;

    while (!hmreg_mr_piece(mr, count, &piece)) /* piece.desc, piece.key: for its operations */
        count++;
    return count;
}

static int in_one_call(struct hmreg_domain *domain)
{
    int complete = 0;
    const struct hmreg_job_config config = {.size = sizeof(config),
                                            .piece_len = PIECE,
                                            .progress = note,
                                            .progress_context = &complete};
    struct hmreg_mr *mr = NULL;
    int rc = hmreg_mr_reg_large(domain, buffer, sizeof(buffer), HMREG_REMOTE_WRITE, &config, &mr);

    rc = rc ? rc : expect(complete && pieces_of(mr) == PIECES);
    hmreg_mr_close(mr);
    return rc;
}

/* The program goes on meanwhile. Of a job that is cancelled nothing stays registered. */
static int in_the_background(struct hmreg_domain *domain, int cancel)
{
    const struct hmreg_job_config config = {.size = sizeof(config), .piece_len = PIECE};
    const struct iovec iov = {buffer, sizeof(buffer)};
    const struct hmreg_mr_attr attr = {.size = sizeof(attr),
                                       .iov = &iov,
                                       .iov_count = 1,
                                       .access = HMREG_REMOTE_WRITE,
                                       .requested_key = HMREG_KEY_ANY};
    struct hmreg_job *job = NULL;
    struct hmreg_mr *mr = NULL;
    int rc = hmreg_job_start(domain, &attr, 0, &config, &job);

    if (!rc && cancel)
        rc = hmreg_job_cancel(job);
    rc = rc ? rc : hmreg_job_wait(job, -1, &mr);
    if (cancel && rc == -ECANCELED) /* else all pieces were registered already */
        rc = expect(!mr);
    hmreg_job_close(job);
    hmreg_mr_close(mr);
    return rc;
}

static int of_two_ranges(struct hmreg_domain *domain)
{
    struct hmreg_segment segments[2] = {{.kind = HMREG_SEGMENT_MEMORY},
                                        {.kind = HMREG_SEGMENT_MEMORY}};
    struct hmreg_mr *mr = NULL;
    int rc;

    for (int i = 0; i < 2; i++)
        segments[i].u.memory = (struct iovec){buffer + i * PIECE, 100};
    rc = hmreg_mr_regsgl(domain, segments, 2, HMREG_REMOTE_READ, 0, HMREG_KEY_ANY, 0, &mr, NULL);
    rc = rc ? rc : expect(pieces_of(mr) == 2);
    hmreg_mr_close(mr);
    return rc;
}

int large(struct hmreg *lib)
{
    const struct hmreg_loopback_config short_regions = {.size = sizeof(short_regions),
                                                        .max_len = PIECE};
    struct hmreg_domain *domain = NULL;
    int rc = hmreg_domain_open_loopback(lib, &short_regions, NULL, &domain);

    rc = rc ? rc : in_one_call(domain);
    rc = rc ? rc : in_the_background(domain, 0);
    rc = rc ? rc : in_the_background(domain, 1);
    rc = rc ? rc : of_two_ranges(domain);
    hmreg_domain_close(domain);
    if (!rc)
        printf("large: %d pieces in one call, and in the background\n", PIECES);
    return rc;
}
