/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See inlined.h. Few blocks of code enter the kernel, so a loop that compilers vectorize passes
 * over the others: as written, in 1.5 to 1.8 of the time of memchr(3) (bench/inlined.c).
 */
#include "core/patch/inlined.h"

#include <stddef.h>
#include <string.h>
#include <sys/syscall.h>

#ifndef SYS_process_madvise
#define SYS_process_madvise 440
#endif

#define BLOCK 256 /* bytes */

#if defined(__x86_64__) || defined(__aarch64__)
static const char *name_of(uint32_t number)
{
    static const struct {
        uint32_t number;
        const char *name;
    } calls[] = {{SYS_mmap, "mmap"},
                 {SYS_munmap, "munmap"},
                 {SYS_brk, "brk"},
                 {SYS_mremap, "mremap"},
                 {SYS_madvise, "madvise"},
                 {SYS_shmat, "shmat"},
                 {SYS_shmdt, "shmdt"},
                 {SYS_remap_file_pages, "remap_file_pages"},
                 {SYS_process_madvise, "process_madvise"}};

    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
        if (calls[i].number == number)
            return calls[i].name;
    return NULL;
}

static uint32_t word_at(const uint8_t *at)
{
    uint32_t word;

    memcpy(&word, at, sizeof(word));
    return word;
}
#endif

#if defined(__x86_64__)
#define STEP 1
#define SIZE 2 /* of the instruction */

static bool is_entry(const uint8_t *at)
{
    return at[0] == 0x0f && at[1] == 0x05;
}

/* One byte behind the block at `at` is readable too. */
static bool block_has_entry(const uint8_t *at)
{
    uint8_t least = UINT8_MAX; /* in which bits two bytes differ from the instruction */

    for (size_t i = 0; i < BLOCK; i++) {
        uint8_t differ = (at[i] ^ 0x0f) | (at[i + 1] ^ 0x05);

        least = differ < least ? differ : least;
    }
    return !least;
}

/* push $number, pop %rax: three bytes, which compilers prefer to mov's five with -Oz. A number
 * above 127 would take more. */
static const char *name_pushed(const uint8_t *at, size_t readable)
{
    return readable >= 3 && at[-3] == 0x6a && at[-1] == 0x58 ? name_of(at[-2]) : NULL;
}

/* mov of a number to %eax or %rax, 7 bytes before at most, or push and pop. */
static const char *name_before(const uint8_t *at, size_t readable)
{
    static const uint8_t pascal[] = {0x48, 0x89, 0xf8, 0x48, 0x89, 0xf7}; /* %rdi is the number */
    const char *name = name_pushed(at, readable);

    for (size_t back = 5; !name && back <= 7 && back <= readable; back++) {
        const uint8_t *mov = at - back;

        if (mov[0] == 0xb8)
            name = name_of(word_at(mov + 1));
        if (!name && back >= 6 && mov[0] == 0xc7 && mov[1] == 0xc0)
            name = name_of(word_at(mov + 2));
    }
    if (!name && readable >= sizeof(pascal) &&
        memcmp(at - sizeof(pascal), pascal, sizeof(pascal)) == 0)
        name = "any system call";
    return name;
}
#elif defined(__aarch64__)
#define STEP 4
#define SIZE 4

#define SVC        0xd4000001u
#define MOV_W8     0x52800008u
#define MOV_X8     0xd2800008u
#define MOV_NUMBER (0xffffu << 5)

static bool is_entry(const uint8_t *at)
{
    return word_at(at) == SVC;
}

static bool block_has_entry(const uint8_t *at)
{
    uint32_t least = UINT32_MAX; /* in which bits a word differs from the instruction */

    for (size_t i = 0; i < BLOCK; i += STEP) {
        uint32_t differ = word_at(at + i) ^ SVC;

        least = differ < least ? differ : least;
    }
    return !least;
}

static const char *name_before(const uint8_t *at, size_t readable)
{
    uint32_t mov = readable >= STEP ? word_at(at - STEP) : 0;
    uint32_t code = mov & ~MOV_NUMBER;

    return code == MOV_W8 || code == MOV_X8 ? name_of((mov & MOV_NUMBER) >> 5) : NULL;
}
#endif

#if defined(STEP)
/* The next instruction that enters the kernel, at `at` or behind it. */
static const uint8_t *next_entry(const uint8_t *at, const uint8_t *end)
{
    while (end - at > BLOCK && !block_has_entry(at))
        at += BLOCK;
    while (end - at >= SIZE && !is_entry(at))
        at += STEP;
    return end - at >= SIZE ? at : NULL;
}

static bool find(const uint8_t *from, const uint8_t *start, const uint8_t *end,
                 struct inlined_call *out)
{
    for (const uint8_t *at = from; (at = next_entry(at, end)); at += STEP) {
        const char *name = name_before(at, (size_t)(at - start));

        if (name) {
            *out = (struct inlined_call){at, name};
            return true;
        }
    }
    return false;
}
#else
#define STEP 1

static bool find(const uint8_t *from, const uint8_t *start, const uint8_t *end,
                 struct inlined_call *out)
{
    return false;
}
#endif

bool inlined_next(const uint8_t *start, const uint8_t *end, struct inlined_call *out)
{
    return find(start, start, end, out);
}

bool inlined_after(const struct inlined_call *found, const uint8_t *start, const uint8_t *end,
                   struct inlined_call *out)
{
    return find(found->at + STEP, start, end, out);
}
