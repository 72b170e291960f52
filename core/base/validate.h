/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The door: every argument of the public interface is checked here, before anything is called,
 * so that all providers and vendors refuse the same things with the same sentence.
 */
#ifndef HMREG_CORE_BASE_VALIDATE_H
#define HMREG_CORE_BASE_VALIDATE_H

#include <hmreg/hmreg.h>
#include <stdbool.h>

/* Fails -EINVAL naming the argument if pointer is NULL. */
int validate_pointer(const void *pointer, const char *argument);

/* addr not NULL, len not 0, addr + len does not wrap. */
int validate_range(const void *addr, size_t len);

/* The same for one of several ranges, by its argument's name. */
int validate_range_of(const char *argument, const void *addr, size_t len);

/* Each range, and their number between 1 and limit. */
int validate_iov(const struct iovec *iov, size_t count, size_t limit);

/* At least one right, none unknown. */
int validate_access(uint64_t access);

/* No bit outside known: -HMREG_EBADFLAGS. */
int validate_flags(uint64_t flags, uint64_t known, const char *argument);

int validate_iface(enum hmreg_iface iface);

/* Host memory has no device: -1 and 0 both say so. Fails with code. */
int validate_system_device(int device, int code);

/* An output struct's size field: at least the first version's, which is all of `least`. */
int validate_out_size(size_t size, size_t least, const char *type);

/*
 * Copies a caller's input struct, which begins with its size, over ours of known_size: fields the
 * caller is too old to have are zero; bytes we are too old to know must be zero (-EINVAL).
 * least: the size of the struct's first version.
 */
int validate_copy_in(void *ours, size_t known_size, const void *callers, size_t least,
                     const char *type);

/* Copies our output struct to a caller's of its size field; bytes beyond ours stay. */
void validate_copy_out(void *callers, const void *ours, size_t known_size);

#endif
