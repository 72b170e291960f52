/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Tests one kind of memory through the public interface: query, export, registration, reuse. The
 * expected results are those of docs/memory-kinds.md. The application allocates by the vendor's own
 * runtime, in tests/gpu/<vendor>/kinds.c. The CPU may be unable to map a real device's memory:
 * there, and only there, regions use the device's address, and the refusals of single paths are not
 * checked.
 */
#ifndef TESTS_KINDS_H
#define TESTS_KINDS_H

#include <hmreg/hmreg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct kind {
    void *addr;
    size_t len;
    enum hmreg_iface iface;
    enum hmreg_mem_kind kind;
    int device;        /* -1: none */
    unsigned segments; /* physical ones under the range */
    bool exportable;   /* as the query promises */
    int export_code;   /* 0: a descriptor, whose bytes are the range's */
    const char *export_says;
    enum hmreg_path path; /* on a fabric that maps descriptors; NONE: refused */
    const char *refusal;  /* part of its text */
    unsigned pieces;      /* number of registrations; 0: one */
    uint64_t local_addr;  /* where the fabric reaches it; 0: not compared */
    bool uncached;        /* no identity: a change of the memory cannot be detected */
    bool unnoticed;       /* it has one that may recur, and nothing notices its end: not cached */
};

extern bool kind_is_real; /* the runtime is not simulated */

/* The library with this vendor only, until the next call or the end of the case. */
struct hmreg *kind_open(enum hmreg_iface iface);

/* Query, export, register; a peer writes every byte of the region, and it arrives. */
void kind_check(struct hmreg *lib, const struct kind *kind);

/* Gets it twice; then renew() places other memory at the same addresses, and returns where; a get
 * after that reaches the new memory. Calls kind_check() before and after. A real runtime may choose
 * other addresses. */
void kind_reuse(struct hmreg *lib, const struct kind *kind, void *(*renew)(void *arg), void *arg);

#endif
