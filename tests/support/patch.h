/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A jump written over the beginning of a function, as libraries do that hook libc; no thread may be
 * executing it. On x86-64 the near one of five bytes, on arm64 one that loads its target as UCX's
 * does.
 */
#ifndef TESTS_PATCH_H
#define TESTS_PATCH_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* The bytes of this jump and of the processor's near one, and what instructions are aligned to. */
#if defined(__aarch64__)
enum { PATCH_SIZE = 20, PATCH_BRANCH = 4, PATCH_STEP = 4 };
#else
enum { PATCH_SIZE = 5, PATCH_BRANCH = 5, PATCH_STEP = 1 };
#endif

static inline bool patch_bytes(void *function, const uint8_t *bytes)
{
    uintptr_t size = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t page = (uintptr_t)function & ~(size - 1);

    if (mprotect((void *)page, 2 * size, PROT_READ | PROT_WRITE | PROT_EXEC))
        return false;
    for (int i = 0; i < PATCH_SIZE; i++)
        ((volatile uint8_t *)function)[i] = bytes[i];
    __builtin___clear_cache((char *)function, (char *)function + PATCH_SIZE);
    return mprotect((void *)page, 2 * size, PROT_READ | PROT_EXEC) == 0;
}

/* False: the target is too far away, or the kernel forbids it. */
static inline bool patch_jump(void *function, const void *target)
{
    uint8_t jump[PATCH_SIZE];

#if defined(__aarch64__)
    uint32_t code[5] = {0xd280000f, 0xf2a0000f, 0xf2c0000f, 0xf2e0000f, 0xd61f01e0}; /* x15 */

    for (unsigned i = 0; i < 4; i++)
        code[i] |= ((uint32_t)((uintptr_t)target >> 16 * i) & 0xffff) << 5;
    memcpy(jump, code, sizeof(code));
    return patch_bytes(function, jump);
#else
    intptr_t distance = (intptr_t)target - ((intptr_t)function + PATCH_SIZE);
    int32_t near = (int32_t)distance;

    jump[0] = 0xe9;
    memcpy(jump + 1, &near, sizeof(near));
    return near == distance && patch_bytes(function, jump);
#endif
}

#endif
