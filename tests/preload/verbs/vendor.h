/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Device memory for programs that know nothing of hmreg: the vendor that VENDOR in the environment
 * names ("cuda", "rocr", "ze"), by its own calls. A failure ends the program.
 */
#ifndef TESTS_PRELOAD_VERBS_VENDOR_H
#define TESTS_PRELOAD_VERBS_VENDOR_H

#include <stdbool.h>
#include <stddef.h>

/* Loads the runtime; false: VENDOR is not set. */
bool vendor_load(void);
/* Loads and starts it, once. */
bool vendor_begin(void);
/* Is it started, by whatever part of this process? */
bool vendor_is_begun(void);

/* Loads the runtime that OTHER in the environment names, and starts nothing of it: is it started?
 */
bool vendor_other_is_begun(void);

void *vendor_alloc(size_t len);
void vendor_free(void *memory);
/* Between memory of the device and the host's, in either order. */
void vendor_copy(void *to, const void *from, size_t len);

#endif
