/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A large region: one range, registered piece by piece in any order, by several threads at once.
 */
#ifndef HMREG_CORE_MR_LARGE_H
#define HMREG_CORE_MR_LARGE_H

#include "core/mr/composite.h"

struct large;

/* Checks a range of any length, divides it and allocates its region; registers nothing. piece_len:
 * 0: the library chooses. any_key: it chooses all keys too. Free *out with large_free(). Errors of
 * hmreg_job_start(). */
int large_new(struct hmreg_domain *domain, const struct hmreg_mr_attr *attr, uint64_t flags,
              bool any_key, uint64_t piece_len, struct large **out);

/* The pieces: their ranges in iov and their count. */
const struct composite *large_pieces(const struct large *large);

/* Must piece 0 be registered before the others, because it has a key of the caller's, which the
 * library must not choose for another? */
bool large_begins_alone(const struct large *large);

/* Registers a piece, on all rails. Other threads may register other pieces at the same time. Errors
 * of hmreg_mr_regattr(); the text begins with the piece. */
int large_make(struct large *large, size_t piece);

/* Once no thread is in large_make(), one of these: all pieces are registered, publishes the region;
 * or deregisters those that are. */
struct hmreg_mr *large_publish(struct large *large);
void large_undo(struct large *large);

/* Frees all but the published region, undoing what is neither published nor undone. NULL is
 * accepted. */
void large_free(struct large *large);

#endif
