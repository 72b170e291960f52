/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The model test's fabrics, and the peer on them: the one that pins (pinning.h), and loopback with
 * that one in front of it, which counts and records in the same way.
 */
#ifndef TESTS_MODEL_REMOTE_H
#define TESTS_MODEL_REMOTE_H

#include "tests/model/plan.h"

int remote_open_domain(enum plan_fabric fabric, struct hmreg *lib,
                       const struct hmreg_domain_config *config, struct hmreg_domain **out);
/* Returns as hmreg_domain_close(). */
int remote_close_domain(struct hmreg_domain *domain);

/* Can a peer access memory here? Not if the kernel permits no io_uring. */
bool remote_reaches(void);

/* A peer's access to the region's memory at addr. 0 or an error number. */
int remote_write(struct hmreg_mr *mr, uint64_t at, const void *bytes, size_t len);
int remote_read(struct hmreg_mr *mr, uint64_t at, void *bytes, size_t len);

#endif
