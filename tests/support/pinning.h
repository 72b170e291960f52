/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A fabric that pins, for proofs about the cache: a region records the pages that its memory had
 * when it was registered. By tags: each page of the test's memory begins with a unique number,
 * which registering reads. By the kernel, if it permits io_uring (ring.h): a peer's bytes then go
 * to exactly those pages.
 *
 * The test reports who uses a region, and the fabric complains of every wrong call: registered
 * twice at once for one miss, deregistered while in use or twice. It keeps the first complaint. Any
 * thread may call. A region's key is the number of its registration, from 1.
 */
#ifndef TESTS_PINNING_H
#define TESTS_PINNING_H

#include "core/contract/provider.h"
#include "tests/support/ring.h"

#include <stdatomic.h>
#include <stdbool.h>

#define PINNED_PAGES 24 /* tags of a region, at most */

/* Of two ranges, the tags only: the kernel pins one. */
struct pinned {
    uint64_t key;
    uint64_t start, end;
    uint64_t next_start, next_end; /* of two ranges: the second; else 0 */
    uint64_t access;
    enum hmreg_iface iface;
    int device;
    atomic_int users;  /* gets not yet put, as reported by the test */
    atomic_bool alive; /* registered */
    bool in_ring;
    unsigned slot;
    atomic_uint told;           /* for a test's callbacks: made and ended */
    struct hmreg_mr_keys below; /* of the fabric below this one */
    struct pinned *next;        /* of the kept regions */
    unsigned pages;
    uint64_t tags[PINNED_PAGES];
};

struct pinning {
    atomic_uint regs;     /* successful ones */
    atomic_uint failures; /* requested ones */
    atomic_uint deregs;   /* successful ones */
    atomic_uint alive;
    atomic_int reg_code;   /* the result of reg, if not 0... */
    atomic_int reg_times;  /* ...for so many calls */
    atomic_int busy_times; /* number of calls of dereg that answer EBUSY */
    struct ring *ring;     /* NULL: by tags only */
    bool tags;             /* memory has tags */
    bool keep;             /* keeps ended regions readable until pinning_reset() */
    /* Called within reg, and by dereg with a region that has just ended; no lock is held. */
    void (*reg_hook)(const struct provider_request *request);
    void (*dereg_hook)(const struct pinned *region);
};
extern struct pinning pinning;

/* Resets everything but the ring. */
void pinning_reset(void);
/* A domain on it. config: NULL for defaults. 0 or an error number. */
int pinning_open(struct hmreg *lib, const struct hmreg_domain_config *config,
                 struct hmreg_domain **out);

/* Wraps another fabric: returns the ops to open a domain with in place of its own. */
const struct provider_ops *pinning_before(const struct provider_ops *ops);

/* The region's memory and rights, valid until it is deregistered. */
struct pinned *pinned_of(const struct hmreg_mr *mr);
/* The test uses the region after a get, and no longer before its put. */
void pinned_use(struct pinned *region);
void pinned_unuse(struct pinned *region);
uint64_t pinned_bytes(const struct pinned *region);
/* The tag, at registration, of the page that contains addr, which the region covers. */
uint64_t pinned_tag(const struct pinned *region, uint64_t addr);
/* A peer's access; requires a ring. 0 or an error number. */
int pinned_write(const struct pinned *region, uint64_t at, const void *bytes, size_t len);
int pinned_read(const struct pinned *region, uint64_t at, void *bytes, size_t len);

/* The first complaint, "": none. Tests may complain too. */
const char *pinning_complaint(void);
void pinning_complain(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
