/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Copies of libfabric's tables of operations. A table begins with its size, which may exceed sizeof
 * the struct that we compile with. Tables lie in the provider's constant data, so we replace an
 * object's operation in a copy of its table. A copy leads to the original and to an owner.
 */
#ifndef HMREG_PRELOAD_OFI_OPS_COPY_H
#define HMREG_PRELOAD_OFI_OPS_COPY_H

/* A copy for one object. NULL: no memory. Free it with ops_copy_free(), which accepts NULL. */
void *ops_copy_new(const void *original, void *owner);
void ops_copy_free(void *copy);

/* A copy's owner, and the table that it copies. */
void *ops_copy_owner(const void *copy);
const void *ops_copy_original(const void *copy);

/*
 * The copy of `original` that all its objects share, never freed. change() replaces operations
 * before other threads see the copy. Returns `original` if it is such a copy itself. NULL: no
 * memory. Any thread; takes no lock.
 */
void *ops_copy_shared(const void *original, void (*change)(void *copy));

#endif
