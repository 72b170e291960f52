/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A jump put over the first five bytes of a function, as libraries do that hook libc; no thread may
 * be there.
 */
#ifndef TESTS_PATCH_H
#define TESTS_PATCH_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PATCH_SIZE = 5 };

static inline bool patch_bytes(void *function, const uint8_t *bytes)
{
    uintptr_t page = (uintptr_t)function & ~(uintptr_t)4095;

    if (mprotect((void *)page, (size_t)2 * 4096, PROT_READ | PROT_WRITE | PROT_EXEC))
        return false;
    for (int i = 0; i < PATCH_SIZE; i++)
        ((volatile uint8_t *)function)[i] = bytes[i];
    return mprotect((void *)page, (size_t)2 * 4096, PROT_READ | PROT_EXEC) == 0;
}

/* False: it is too far away, or forbidden. */
static inline bool patch_jump(void *function, const void *target)
{
    intptr_t distance = (intptr_t)target - ((intptr_t)function + PATCH_SIZE);
    int32_t near = (int32_t)distance;
    uint8_t jump[PATCH_SIZE] = {0xe9};

    memcpy(jump + 1, &near, sizeof(near));
    return near == distance && patch_bytes(function, jump);
}

#endif
