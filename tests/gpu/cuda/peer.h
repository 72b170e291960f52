/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A loopback domain beside an application of the simulated driver, and a peer that writes through
 * cached regions. The driver exports memory of every kind here, so that all of it can be registered
 * by descriptors: a stale region leaves the new memory without the bytes.
 */
#ifndef TESTS_CUDA_PEER_H
#define TESTS_CUDA_PEER_H

#include "tests/gpu/cuda/driver.h"

#include <hmreg/loopback.h>

struct peer {
    struct bench bench;
    struct hmreg *lib;
    struct hmreg_domain *domain;
};

/* Skips on a real driver. */
struct peer peer_begin(void);
void peer_end(struct peer *peer);
/* Writes into the memory through regions of two gets. The driver, in the current context, finds the
 * bytes there. */
void peer_write(const struct peer *peer, uint64_t memory, size_t len, unsigned char value);
/* What was at `base` has ended: memory that is allocated now is there, and a peer's write to
 * `memory` in it is found there. */
void peer_write_reused(const struct peer *peer, uint64_t base, size_t size, uint64_t memory,
                       size_t len, unsigned char value);

#endif
