/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Copies of libfabric's tables of operations. Each begins with its size, which may be larger than
 * that of this header's struct, and lies in a provider's constant data: to replace an operation of
 * an object, the object gets a copy of its table. A copy knows the original, and an owner.
 */
#ifndef HMREG_PRELOAD_OFI_OPS_COPY_H
#define HMREG_PRELOAD_OFI_OPS_COPY_H

/* A copy for one object. NULL: no memory. Free it with ops_copy_free(), which accepts NULL. */
void *ops_copy_new(const void *original, void *owner);
void ops_copy_free(void *copy);

/* Of a copy. */
void *ops_copy_owner(const void *copy);
const void *ops_copy_original(const void *copy);

/*
 * The one copy of `original` for all objects that have it, never freed: change() replaces
 * operations in it before any other thread sees it. If `original` is such a copy already, it is the
 * result. NULL: no memory. Any thread; takes no lock.
 */
void *ops_copy_shared(const void *original, void (*change)(void *copy));

#endif
