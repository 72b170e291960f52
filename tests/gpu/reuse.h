/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Addresses of device memory used again, under the cache and through a real vendor's code: the
 * application frees and allocates by the runtime itself, gets a region, and a peer writes through
 * it. A stale region would map the memory that is gone, and the bytes would be missing in the new.
 */
#ifndef TESTS_REUSE_H
#define TESTS_REUSE_H

#include <hmreg/hmreg.h>

/* The application's own calls. */
struct reuse {
    enum hmreg_iface iface;
    void *(*alloc)(int device, size_t len); /* at most 16384 */
    void (*free)(void *addr);
};

/* Allocations on two devices until so many were at an address of before. Fails the test if a
 * region is stale, if fewer than half of the addresses came again, or if memory that stayed is
 * registered again. */
void reuse_addresses(const struct reuse *reuse, unsigned times);

/* The same, and the peer is another process: begin with test_forks_with_threads(). */
void reuse_from_a_process(const struct reuse *reuse, unsigned times);

/* Of host memory that the runtime knows, with the kernel for a peer; on device 0 only. */
void reuse_host_addresses(const struct reuse *reuse, unsigned times);

/* The first, with a region held while its memory is freed and allocated anew. */
void reuse_held(const struct reuse *reuse, unsigned times);

#endif
