/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A fabric that pins, for proofs about the cache: a region remembers the pages that its memory had
 * when it was registered. By tags: each page of the test's memory begins with a number that no
 * other page ever has, and registering reads them. By the kernel, where it permits io_uring
 * (ring.h): a peer's bytes then go to the very pages.
 *
 * It knows who uses a region (the test says so), and complains of every wrong call: registered
 * twice at once for one miss, deregistered while in use or twice. The first complaint is kept.
 * Any thread may call. A region's key is the number of its registration, from 1.
 */
#ifndef TESTS_PINNING_H
#define TESTS_PINNING_H

#include "providers/provider.h"
#include "tests/support/ring.h"

#include <stdatomic.h>
#include <stdbool.h>

#define PINNED_PAGES 24 /* tags of a region, at the most */

struct pinned {
    uint64_t key;
    uint64_t start, end;
    uint64_t access;
    enum hmreg_iface iface;
    int device;
    atomic_int users;  /* gets not yet put, by the test's count */
    atomic_bool alive; /* registered */
    bool in_ring;
    unsigned slot;
    struct provider_mr below; /* of the fabric that this one stands before */
    struct pinned *next;      /* of those that are kept */
    unsigned pages;
    uint64_t tags[PINNED_PAGES];
};

struct pinning {
    atomic_uint regs;     /* that succeeded */
    atomic_uint failures; /* as asked */
    atomic_uint deregs;   /* that succeeded */
    atomic_uint alive;
    atomic_int reg_code;   /* what reg answers instead of working... */
    atomic_int reg_times;  /* ...so often */
    atomic_int busy_times; /* dereg answers EBUSY so often */
    struct ring *ring;     /* NULL: by tags only */
    bool tags;             /* memory has them */
    bool keep;             /* a region that has ended can be looked at until pinning_reset() */
    /* Called within reg, and by dereg with a region that has just ended; nothing is locked. */
    void (*reg_hook)(const struct provider_request *request);
    void (*dereg_hook)(const struct pinned *region);
};
extern struct pinning pinning;

/* All as new, but the ring. */
void pinning_reset(void);
/* A domain on it. config: NULL for defaults. 0 or an error number. */
int pinning_open(struct hmreg *lib, const struct hmreg_domain_config *config,
                 struct hmreg_domain **out);

/* Stands before another fabric: the ops to open a domain with in place of its own. */
const struct provider_ops *pinning_before(const struct provider_ops *ops);

/* The region's memory and rights, valid until it is deregistered. */
struct pinned *pinned_of(const struct hmreg_mr *mr);
/* The test has got it, and is about to put it. */
void pinned_use(struct pinned *region);
void pinned_unuse(struct pinned *region);
/* The tag of the page that contains addr, which the region covers, as of its registration. */
uint64_t pinned_tag(const struct pinned *region, uint64_t addr);
/* A peer's access; there must be a ring. 0 or an error number. */
int pinned_write(const struct pinned *region, uint64_t at, const void *bytes, size_t len);
int pinned_read(const struct pinned *region, uint64_t at, void *bytes, size_t len);

/* What was wrong first, "": nothing. Complaining is for tests as well. */
const char *pinning_complaint(void);
void pinning_complain(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
