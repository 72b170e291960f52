/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A domain whose registrations take a given time and do nothing, on every path.
 */
#ifndef BENCH_SPINNING_H
#define BENCH_SPINNING_H

#include <hmreg/hmreg.h>

/* reg_ns: what a registration takes; must outlive the domain. config: as hmreg_domain_open_*() take
 * it. Ends the program after a failure. */
struct hmreg_domain *spinning_domain(struct hmreg *lib, double *reg_ns,
                                     const struct hmreg_domain_config *config);

#endif
