/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * How a large range is divided into pieces that are registered one by one.
 */
#ifndef HMREG_CORE_MR_PIECES_H
#define HMREG_CORE_MR_PIECES_H

#include "core/mr/composite.h"
#include "core/mr/shared.h"

/* The longest piece for a fabric that registers max_len bytes at once. */
uint64_t pieces_longest(uint64_t max_len);

/* The length that the library chooses for the pieces of a range: see struct hmreg_job_config. */
uint64_t pieces_length(uint64_t len, uint64_t max_len);

/*
 * Divides the one range of pieces->whole into pieces of piece_len: sets iov, found, dmabufs and
 * count, to be freed by pieces_free(), after a failure too. found: the memory of the range.
 * callers: piece_len is the caller's choice. Pieces of device memory also end where its physical
 * segments end, unless one dmabuf contains all; shared gets the ranges to export, and that export.
 * -EINVAL: piece_len makes too many pieces. -EMSGSIZE: so does the domain's max_len. -EOPNOTSUPP:
 * so do the segments. -ENOMEM; errors of resolve().
 */
int pieces_divide(struct hmreg_domain *domain, const struct resolved *found, uint64_t piece_len,
                  bool callers, struct shared *shared, struct composite *pieces);
void pieces_free(struct composite *pieces);

#endif
