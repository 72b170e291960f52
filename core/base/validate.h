/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Checks of arguments of the public interface. Each public function calls them before anything
 * else, so that all providers and vendors refuse the same arguments with the same text.
 */
#ifndef HMREG_CORE_BASE_VALIDATE_H
#define HMREG_CORE_BASE_VALIDATE_H

#include <hmreg/hmreg.h>
#include <stdbool.h>
#include <stddef.h>

/* Checks that pointer is not NULL. -EINVAL, with the argument's name in the text. */
int validate_pointer(const void *pointer, const char *argument);

/* Checks that addr is not NULL, len is not 0, and addr + len does not wrap. -EINVAL. */
int validate_range(const void *addr, size_t len);

/* As validate_range(), for one of several ranges, named by `argument`. */
int validate_range_of(const char *argument, const void *addr, size_t len);

/* As validate_range(), for the element of a list at `index`. */
int validate_range_at(const char *list, size_t index, const void *addr, size_t len);

/* Checks each range, and that there are 1 to limit of them. -EINVAL. */
int validate_iov(const struct iovec *iov, size_t count, size_t limit);

/* Checks that at least one access right is set and none is unknown. -EINVAL. */
int validate_access(uint64_t access);

/* Checks that flags has no bit outside known. -HMREG_EBADFLAGS. */
int validate_flags(uint64_t flags, uint64_t known, const char *argument);

/* Checks that iface is one of enum hmreg_iface. -EINVAL. */
int validate_iface(enum hmreg_iface iface);

/* Checks the device of system memory, which is -1 or 0. Fails with code. */
int validate_system_device(int device, int code);

/* Checks that out is not NULL, and the size field with which the output struct begins. least: the
 * size of the struct in the first version of this ABI. -EINVAL. */
int validate_out(const void *out, size_t least, const char *type);

/*
 * Copies a caller's input struct, which begins with its size, to the library's struct of known_size
 * bytes. Fields beyond the caller's size become zero; the caller's bytes beyond known_size must be
 * zero (-EINVAL). least: the size of the struct in the first version of this ABI.
 */
int validate_copy_in(void *ours, size_t known_size, const void *callers, size_t least,
                     const char *type);

/* Copies the library's output struct to a caller's, up to the size in the caller's struct. The
 * caller's bytes beyond known_size stay as they are. */
void validate_copy_out(void *callers, const void *ours, size_t known_size);

#endif
