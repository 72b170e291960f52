/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The kinds of changes of memory: those that take pages away, by whatever means, and those that
 * leave them where they are.
 */
#ifndef TESTS_COUNTER_KINDS_H
#define TESTS_COUNTER_KINDS_H

#include <stdbool.h>
#include <stddef.h>

struct kind {
    const char *name;
    char *(*make)(void);
    bool (*change)(void);
    int major, minor; /* the first kernel that has it; 0: every one */
};

/* Those that this kernel has. */
void kinds_each_that_takes_pages(void (*f)(const struct kind *, void *), void *arg);
void kinds_each_that_leaves_pages(void (*f)(const struct kind *, void *), void *arg);

/* One at a time: makes the memory; changes it, or fails the test; closes what it has opened. */
char *kind_make(const struct kind *kind, size_t *size);
void kind_change(const struct kind *kind);
void kind_end(void);

/* Private memory of small pages. */
char *kinds_small_pages(size_t size);
bool kinds_write_file(const char *path, const char *text);

#endif
