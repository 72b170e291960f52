/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Set-up and tear-down of every test of the cache: a library with a monitor, a domain on the tests'
 * fabric; the tear-down, after the case, closes everything, and checks that each region was
 * deregistered exactly once.
 */
#ifndef TESTS_CACHE_FIXTURE_H
#define TESTS_CACHE_FIXTURE_H

#include "tests/support/counter.h"
#include "tests/support/test.h"

/* Built with AddressSanitizer or ThreadSanitizer, whose runtime interposes libc, and enters the
 * kernel past it. */
#define FIXTURE_SANITIZED (TEST_TSAN || TEST_ASAN)

struct fixture {
    struct hmreg *lib;
    struct hmreg_domain *domain;
};
/* The case's own, of the functions without a fixture among their arguments. */
extern struct fixture fixture;

/* This run's monitor of host memory: HMREG_TEST_MONITOR is userfaultfd or memhooks; unset:
 * userfaultfd. */
enum hmreg_monitor fixture_monitor(void);

/* Opens with this monitor, or skips the test where the machine does not permit it. What is still
 * open when the case returns is closed then. */
void fixture_open(enum hmreg_monitor monitor, const struct hmreg_domain_config *config);
/* With memhooks. */
void fixture_open_hooked(void);
void fixture_close(void);
/* For what a case opens by other calls; a domain NULL is closed already. */
void fixture_close_after(void);

/* A get for peers to read and write; an error fails the test. */
struct hmreg_mr *fixture_get(const void *addr, size_t len);
/* Gets, puts, and returns the key: that of an earlier call means a hit. */
uint64_t fixture_key(const void *addr, size_t len);
/* Counts after all pending changes are processed. */
struct hmreg_stats fixture_stats(void);
/* How many changes the monitor has read, pending ones included. */
uint64_t fixture_events(void);
/* Does the kernel report changes, alone or behind hooks? */
bool fixture_has_kernel_events(void);

/* The same in other fixtures of a case. */
void fixture_open_in(struct fixture *in, enum hmreg_monitor monitor,
                     const struct hmreg_domain_config *config);
void fixture_open_hooked_in(struct fixture *in);
void fixture_close_in(struct fixture *in);
struct hmreg_mr *fixture_get_in(const struct fixture *in, const void *addr, size_t len);
uint64_t fixture_key_in(const struct fixture *in, const void *addr, size_t len);
struct hmreg_stats fixture_stats_in(const struct fixture *in);

bool fixture_is_cached(const struct hmreg_mr *mr);

/* In a forked child, of memory that the parent has cached: its own library notices its own changes.
 * 0, or the step that failed. */
int fixture_in_child(void (*open)(void), char *parents);

/* Counts threads of this process with this name; *out: the first `most` of them. */
int fixture_threads_named(const char *name, pid_t *out, int most);

size_t fixture_page(void);
/* Addresses that no other mapping gets by chance, so that unmapped ones stay free. */
char *fixture_reserve(size_t pages);
/* Private memory there; NULL: the place is in use. */
char *fixture_map_at(char *addr, size_t pages);
/* So many bytes there, which nothing else uses. */
void fixture_map_again(char *addr, size_t len);
/* Reserves, maps and fills. */
char *fixture_map(size_t pages);

#endif
