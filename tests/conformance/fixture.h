/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A loopback domain in a given mr_mode, some memory, and a peer in the same process, for the
 * programs that run on loopback alone.
 */
#ifndef TESTS_CONFORMANCE_FIXTURE_H
#define TESTS_CONFORMANCE_FIXTURE_H

#include "tests/support/queries.h"

#include <hmreg/loopback.h>
#include <sys/mman.h>

struct fixture {
    struct hmreg *lib;
    struct hmreg_domain *domain;
    char *memory; /* pages of its own, not resident */
    size_t bytes;
};

static inline void fixture_open(struct fixture *fixture, uint32_t mr_mode)
{
    struct hmreg_loopback_config config = {.size = sizeof(config), .mr_mode = mr_mode};

    assert_ok(hmreg_open(NULL, &fixture->lib));
    assert_ok(hmreg_domain_open_loopback(fixture->lib, &config, NULL, &fixture->domain));
    fixture->bytes = 8 * (size_t)sysconf(_SC_PAGESIZE);
    /* At a distance from other mappings, so that no other maps into what a test unmaps. */
    fixture->memory = mmap((void *)0x7e9000000000, fixture->bytes, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(fixture->memory, MAP_FAILED);
    madvise(fixture->memory, fixture->bytes, MADV_NOHUGEPAGE);
}

static inline void fixture_close(struct fixture *fixture)
{
    munmap(fixture->memory, fixture->bytes);
    assert_ok(hmreg_domain_close(fixture->domain));
    assert_ok(hmreg_close(fixture->lib));
}

static inline struct hmreg_mr *fixture_reg(struct fixture *fixture, uint64_t key, uint64_t flags)
{
    struct hmreg_mr *mr = NULL;

    assert_ok(hmreg_mr_reg(fixture->domain, fixture->memory, fixture->bytes, HMREG_ACCESS_ALL, 0,
                           key, flags, &mr, NULL));
    return mr;
}

static inline struct hmreg_remote *fixture_peer(struct fixture *fixture, const struct hmreg_mr *mr)
{
    return test_remote_of(fixture->domain, mr);
}

/* The peer writes one byte at offset, with desc NULL. */
static inline int peer_put(struct hmreg_remote *remote, uint64_t offset, char byte)
{
    uint64_t addr = 0, key = 0;
    int rc = hmreg_remote_addr(remote, offset, 1, &addr, &key);

    return rc ? rc : hmreg_loopback_write(remote, &byte, 1, NULL, addr, key);
}

#endif
