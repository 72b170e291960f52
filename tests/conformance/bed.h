/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A loopback domain in some mr_mode, some memory, and a peer's way to a region: what most
 * conformance cases stand on.
 */
#ifndef TESTS_CONFORMANCE_BED_H
#define TESTS_CONFORMANCE_BED_H

#include "tests/support/test.h"

#include <errno.h>
#include <hmreg/loopback.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct bed {
    struct hmreg *lib;
    struct hmreg_domain *domain;
    char *memory; /* pages of its own, not resident */
    size_t bytes;
};

static inline void bed_open(struct bed *bed, uint32_t mr_mode)
{
    struct hmreg_loopback_config config = {.size = sizeof(config), .mr_mode = mr_mode};

    assert_ok(hmreg_open(NULL, &bed->lib));
    assert_ok(hmreg_domain_open_loopback(bed->lib, &config, NULL, &bed->domain));
    bed->bytes = 8 * (size_t)sysconf(_SC_PAGESIZE);
    /* Far from where anybody else's mappings go, so that what is unmapped stays so. */
    bed->memory = mmap((void *)0x7e9000000000, bed->bytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(bed->memory, MAP_FAILED);
    madvise(bed->memory, bed->bytes, MADV_NOHUGEPAGE);
}

static inline void bed_close(struct bed *bed)
{
    munmap(bed->memory, bed->bytes);
    assert_ok(hmreg_domain_close(bed->domain));
    assert_ok(hmreg_close(bed->lib));
}

static inline struct hmreg_mr *bed_reg(struct bed *bed, uint64_t key, uint64_t flags)
{
    struct hmreg_mr *mr = NULL;

    assert_ok(hmreg_mr_reg(bed->domain, bed->memory, bed->bytes, HMREG_ACCESS_ALL, 0, key, flags,
                           &mr, NULL));
    return mr;
}

/* A peer in this process, by the token. */
static inline struct hmreg_remote *bed_peer_on(struct hmreg_domain *domain,
                                               const struct hmreg_mr *mr)
{
    struct hmreg_remote *remote = NULL;
    uint8_t token[4096];
    size_t size = sizeof(token);

    assert_ok(hmreg_mr_pack(mr, token, &size));
    assert_ok(hmreg_remote_open(domain, token, size, &remote));
    return remote;
}

static inline struct hmreg_remote *bed_peer(struct bed *bed, const struct hmreg_mr *mr)
{
    return bed_peer_on(bed->domain, mr);
}

/* The peer writes one byte at offset; desc NULL. */
static inline int peer_put(struct hmreg_remote *remote, uint64_t offset, char byte)
{
    uint64_t addr = 0, key = 0;
    int rc = hmreg_remote_addr(remote, offset, 1, &addr, &key);

    return rc ? rc : hmreg_loopback_write(remote, &byte, 1, NULL, addr, key);
}

#endif
