/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Reuse of device memory's addresses, under the cache and through a real vendor's code: the
 * application frees and allocates by the runtime itself, gets a region, and a peer writes through
 * it. A stale region maps the freed memory, so the bytes would be missing in the new.
 */
#ifndef TESTS_REUSE_H
#define TESTS_REUSE_H

#include <hmreg/hmreg.h>
#include <stdbool.h>

/* The application's own calls. */
struct reuse {
    enum hmreg_iface iface;
    void *(*alloc)(int device, size_t len); /* at most 16384 */
    void (*free)(void *addr);
    bool covered; /* the first get of each allocation is of its first half, and covers all of it */
};

/* Allocates on two devices until so many allocations had an address of before. Fails the test if a
 * region is stale, if fewer than half of the addresses were reused, or if unchanged memory is
 * registered again. */
void reuse_addresses(const struct reuse *reuse, unsigned times);

/* The same by four threads, each with its own memory of hmreg_mem_alloc(): regions end while other
 * threads get some. */
void reuse_by_threads(const struct reuse *reuse, unsigned times);

/* The same for host memory that the runtime knows, with the kernel as the peer; on device 0 only.
 */
void reuse_host_addresses(const struct reuse *reuse, unsigned times);

/* First with a region held while its memory is freed and allocated again. */
void reuse_held(const struct reuse *reuse, unsigned times);

#endif
