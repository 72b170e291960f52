/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * What every test of the cache begins and ends with: a library with a monitor, a domain on the
 * tests' fabric; at the end everything is closed, and deregistered exactly once.
 */
#ifndef TESTS_CACHE_BED_H
#define TESTS_CACHE_BED_H

#include "tests/support/counter.h"
#include "tests/support/test.h"

#include <stdbool.h>
#include <stdint.h>

/* Built with AddressSanitizer or ThreadSanitizer, whose runtime has libc's place, and which enters
 * the kernel past it. */
#define BED_SANITIZED (TEST_TSAN || TEST_ASAN)

struct bed {
    struct hmreg *lib;
    struct hmreg_domain *domain;
};

/* The monitor of host memory that this run of the tests is for: HMREG_TEST_MONITOR is userfaultfd
 * or memhooks; unset: userfaultfd. */
enum hmreg_monitor bed_monitor(void);

/* Skips the test where this machine does not permit the monitor. */
void bed_open(struct bed *bed, enum hmreg_monitor monitor,
              const struct hmreg_domain_config *config);
/* With memhooks. */
void bed_open_hooked(struct bed *bed);
void bed_close(struct bed *bed);

/* A get for peers to read and write; fails the test. */
struct hmreg_mr *bed_get(const struct bed *bed, const void *addr, size_t len);
/* Gets, puts, and gives the key: that of an earlier call means a hit. */
uint64_t bed_key(const struct bed *bed, const void *addr, size_t len);

/* Does the kernel tell of changes, alone or behind hooks? */
bool bed_hears_kernel(const struct bed *bed);

/* What a seccomp filter does from now on, in this process and its children, with userfaultfd(2) and
 * with the ioctl of /dev/userfaultfd: SECCOMP_RET_*. False: the kernel has no filters. */
bool bed_filter_userfaultfd(uint32_t call, uint32_t file);

bool bed_is_cached(const struct hmreg_mr *mr);
/* When all that has happened is counted. */
struct hmreg_stats bed_stats(const struct bed *bed);

/* Threads of this process that have this name; the first of them, up to `most`, in *out. */
int bed_threads_named(const char *name, pid_t *out, int most);

size_t bed_page(void);
/* Addresses that nobody else gets by chance, so that what was unmapped there stays free. */
char *bed_reserve(size_t pages);
/* Private memory there; NULL: something is mapped already. */
char *bed_map_at(char *addr, size_t pages);
/* Both, and filled. */
char *bed_map(size_t pages);

#endif
