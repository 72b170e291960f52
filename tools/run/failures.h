/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Explains a failed registration, with a remedy.
 */
#ifndef HMREG_TOOLS_RUN_FAILURES_H
#define HMREG_TOOLS_RUN_FAILURES_H

#include "preload/record_layout.h"

#include <stdbool.h>

struct failure {
    const char *text;    /* a sentence */
    const char *remedy;  /* what to do; often a finding's of the doctor */
    const char *finding; /* the doctor's code, for hmreg doctor --explain; NULL: none */
};

/* The failure of a key whose error is not 0. */
struct failure failure_of(const struct record_key *key);
/* Would hmreg run --gpu have registered this memory of a device by a dmabuf? */
bool failure_wants_gpu(const struct record_key *key);

#endif
