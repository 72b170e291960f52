/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A loopback target in a process of its own, with a region that an initiator may access and whose
 * bytes are shared with the test; and an initiator here.
 */
#ifndef TESTS_FAULT_TARGET_H
#define TESTS_FAULT_TARGET_H

#include "tests/support/test.h"

#include <hmreg/loopback.h>

#define TARGET_BYTES (1u << 20)

/* Shared between the test and the process. */
struct target_page {
    uint8_t token[4096];
    size_t token_size;
    volatile int
        ready; /* 1: the token is written; -1: the target failed to start; others: the test's own */
};
/* In a target: its page. */
extern struct target_page *target_page;

struct target {
    pid_t pid;
    struct target_page *page;
    char *bytes; /* the region's, shared */
};

/* Forks a target, which calls before() first if it is not NULL, and waits to be killed. */
void target_start(struct target *target, void (*before)(void));
/* The same; false: it ended before it was ready. */
bool target_try_start(struct target *target, void (*before)(void));
/* Kills it, if it is alive, and frees everything. */
void target_end(struct target *target);

struct initiator {
    struct hmreg *lib;
    struct hmreg_domain *domain;
    struct hmreg_remote *remote;
};

void initiator_open(struct initiator *initiator, const struct target *target);
void initiator_close(struct initiator *initiator);
/* RMA at an offset of the region. */
int initiator_write(struct initiator *initiator, uint64_t offset, const void *bytes, size_t len);
int initiator_read(struct initiator *initiator, uint64_t offset, void *bytes, size_t len);

/* The exit status of a process, -1 if it was killed. */
int status_of(pid_t pid);

#endif
