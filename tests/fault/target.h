/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A loopback target in a process of its own, with a region that an initiator may reach and its
 * bytes where the test can see them; and an initiator here.
 */
#ifndef TESTS_FAULT_TARGET_H
#define TESTS_FAULT_TARGET_H

#include "tests/support/test.h"

#include <hmreg/loopback.h>
#include <sys/types.h>

#define TARGET_BYTES (1u << 20)

/* Shared between the test and the process. */
struct target_page {
    uint8_t token[4096];
    size_t token_size;
    volatile int ready; /* 1: the token is there; -1: the target could not be made; others: the
                           test's own */
};
/* In a target: its page. */
extern struct target_page *target_page;

struct target {
    pid_t pid;
    struct target_page *page;
    char *bytes; /* the region's, shared */
};

/* Forks a target; before, if not NULL, is called in it first. It waits to be killed. */
void target_start(struct target *target, void (*before)(void));
/* Kills it, if it is not dead yet, and gives everything back. */
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
