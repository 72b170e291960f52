/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Functions of given bytes.
 */
#ifndef TESTS_MADE_H
#define TESTS_MADE_H

#include "tests/support/test.h"

#include <sys/mman.h>

typedef unsigned long made_function(unsigned long a, unsigned long b);

#define PLACE 256 /* of the function in its page */

struct made {
    uint8_t *page;
    size_t size;
    made_function *call;
};

static inline void seal(const struct made *made)
{
    __builtin___clear_cache((char *)made->page, (char *)made->page + made->size);
    assert_int_equal(mprotect(made->page, made->size, PROT_READ | PROT_EXEC), 0);
}

static inline void call_at(struct made *made, size_t place)
{
    const uint8_t *code = made->page + place;

    memcpy(&made->call, &code, sizeof(code));
}

/* A page of `filler` with the function in it. */
static inline struct made make_at(const uint8_t *bytes, size_t count, uint8_t filler, size_t place)
{
    struct made made = {.size = (size_t)sysconf(_SC_PAGESIZE)};

    made.page = mmap(NULL, made.size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(made.page, MAP_FAILED);
    memset(made.page, filler, made.size);
    memcpy(made.page + place, bytes, count);
    seal(&made);
    call_at(&made, place);
    return made;
}

#define MAKE(filler, ...)                                                                          \
    make_at((const uint8_t[]){__VA_ARGS__}, sizeof((const uint8_t[]){__VA_ARGS__}), filler, PLACE)

/* The page stays: it may be among the mappings that hooks were placed in. */
static inline uint8_t *code_of(const struct made *made)
{
    uint8_t *code;

    memcpy(&code, &made->call, sizeof(code));
    return code;
}

#endif
