/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A get of many ranges beside the model, which judges one get after the other, those that
 * registered with the evictions and deregistrations that happened before the next registration.
 */
#ifndef TESTS_MODEL_MANY_H
#define TESTS_MODEL_MANY_H

#include "tests/model/oracle.h"

#define MANY 5 /* ranges of a call, at most */

struct many_got {
    struct oracle_want want;
    const struct pinned *region;
    bool cached;
};

/* Call it before hmreg_mr_get_many(). evictions: returns how many there were since its last call.
 */
void many_begin(struct hmreg_domain *domain, uint64_t (*evictions)(void));
/* Judges what the call has got. */
void many_end(const struct many_got *got, unsigned count);

#endif
