/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * What every test of the cache begins and ends with: a library with a monitor, a domain on the
 * tests' fabric; at the end everything is closed, and deregistered exactly once.
 */
#ifndef TESTS_CACHE_FIXTURE_H
#define TESTS_CACHE_FIXTURE_H

#include "tests/support/counter.h"
#include "tests/support/test.h"

#include <stdbool.h>
#include <stdint.h>

/* Built with AddressSanitizer or ThreadSanitizer, whose runtime has libc's place, and which enters
 * the kernel past it. */
#define FIXTURE_SANITIZED (TEST_TSAN || TEST_ASAN)

struct fixture {
    struct hmreg *lib;
    struct hmreg_domain *domain;
};

/* The monitor of host memory that this run of the tests is for: HMREG_TEST_MONITOR is userfaultfd
 * or memhooks; unset: userfaultfd. */
enum hmreg_monitor fixture_monitor(void);

/* Skips the test where this machine does not permit the monitor. */
void fixture_open(struct fixture *fixture, enum hmreg_monitor monitor,
                  const struct hmreg_domain_config *config);
/* With memhooks. */
void fixture_open_hooked(struct fixture *fixture);
void fixture_close(struct fixture *fixture);

/* A get for peers to read and write; fails the test. */
struct hmreg_mr *fixture_get(const struct fixture *fixture, const void *addr, size_t len);
/* Gets, puts, and gives the key: that of an earlier call means a hit. */
uint64_t fixture_key(const struct fixture *fixture, const void *addr, size_t len);

/* Does the kernel tell of changes, alone or behind hooks? */
bool fixture_hears_kernel(const struct fixture *fixture);

/* What a seccomp filter does from now on, in this process and its children, with userfaultfd(2) and
 * with the ioctl of /dev/userfaultfd: SECCOMP_RET_*. False: the kernel has no filters. */
bool fixture_filter_userfaultfd(uint32_t call, uint32_t file);

bool fixture_is_cached(const struct hmreg_mr *mr);
/* When all that has happened is counted. */
struct hmreg_stats fixture_stats(const struct fixture *fixture);

/* Threads of this process that have this name; the first of them, up to `most`, in *out. */
int fixture_threads_named(const char *name, pid_t *out, int most);

size_t fixture_page(void);
/* Addresses that nobody else gets by chance, so that what was unmapped there stays free. */
char *fixture_reserve(size_t pages);
/* Private memory there; NULL: something is mapped already. */
char *fixture_map_at(char *addr, size_t pages);
/* Both, and filled. */
char *fixture_map(size_t pages);

#endif
