/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The calls with which an episode gets and puts: plain ones, those for a thread that must not wait,
 * claims, and attributes. Judges what one call alone shows; the oracle judges the rest.
 */
#ifndef TESTS_MODEL_CALL_H
#define TESTS_MODEL_CALL_H

#include "tests/model/oracle.h"
#include "tests/model/plan.h"

/* What a get of this form asks for, beside the range and the rights. */
void call_form(const struct plan *plan, uint32_t form, struct oracle_want *want);

/* Does it ask for a list of two ranges? */
bool call_is_list(const struct oracle_want *want, uint32_t form);

/* Returns as hmreg_mr_get(). *at_once: hmreg_mr_try_get() served. */
int call_get(struct hmreg_domain *domain, const struct oracle_want *want, uint32_t form,
             struct hmreg_mr **mr, bool *at_once);

void call_put(struct hmreg_mr *mr, uint32_t form);

#endif
