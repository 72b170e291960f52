/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The interface of the libraries made of loads.c, found by the name "loads".
 */
#ifndef TESTS_LOADS_H
#define TESTS_LOADS_H

#include <stdbool.h>
#include <stddef.h>

struct loads {
    /* Unmaps the memory, and maps other memory there, past libc. */
    bool (*change)(void *addr, size_t len);
};

enum loads_from { LOADS_RESOLVER, LOADS_CONSTRUCTOR, LOADS_DESTRUCTOR };

/* The program's, if it has one: called while the linker runs the library's code. */
__attribute__((weak, visibility("default"))) void loads_call(const struct loads *loads,
                                                             enum loads_from from);

#endif
