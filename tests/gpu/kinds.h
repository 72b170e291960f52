/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * One kind of memory, from its query to its last reuse, through the public interface: what
 * docs/memory-kinds.md says of a kind is what its test expects here. The application allocates by
 * the vendor's own runtime, in tests/gpu/<vendor>/kinds.c.
 *
 * A real device's memory may not be mapped for the CPU: there, and only there, regions go by the
 * device's address, and what they are refused for by a path is not looked at.
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
    const char *refusal;  /* words of it */
    unsigned pieces;      /* registrations it takes; 0: one */
    uint64_t local_addr;  /* where the fabric reaches it; 0: not compared */
    bool uncached;        /* no identity: a change of the memory cannot be detected */
};

extern bool kind_is_real; /* the runtime is no fake */

/* The library with this vendor only. */
struct hmreg *kind_open(enum hmreg_iface iface);

/* Query, export, register; a peer writes every byte of the region, and it arrives. */
void kind_check(struct hmreg *lib, const struct kind *kind);

/* Gets it twice; then renew() puts other memory at the same addresses, and says where it is; a
 * get after that reaches the new memory. kind_check() is part of it, before and after. A real
 * runtime may choose other addresses. */
void kind_reuse(struct hmreg *lib, const struct kind *kind, void *(*renew)(void *arg), void *arg);

#endif
