/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Calls of the public interface with random arguments, most of them wrong. Objects are alive
 * when they are passed; everything else may be anything, as the contract has it: addresses,
 * lengths, flags, sizes of structs, keys, tokens. What must hold after each call is in main.c.
 * The same seed makes the same calls.
 */
#ifndef TESTS_FUZZ_H
#define TESTS_FUZZ_H

#include <hmreg/loopback.h>
#include <stdbool.h>

#define FUZZ_SLOTS  8
#define FUZZ_PLACES 5
#define FUZZ_BYTES  4200 /* room at every struct: more than any size that is accepted */

/* One thread's objects; NULL where there is none. The library is everybody's. */
struct fuzz {
    uint64_t state; /* of the random numbers */
    char *places[FUZZ_PLACES], *around;
    struct hmreg *lib;
    struct hmreg_domain *domains[FUZZ_SLOTS];
    struct hmreg_mr *regions[FUZZ_SLOTS]; /* of mr_reg and its like */
    struct hmreg_mr *gotten[FUZZ_SLOTS];  /* of mr_get */
    struct hmreg_remote *remotes[FUZZ_SLOTS];
    struct hmreg_loopback_ep *eps[FUZZ_SLOTS];
    struct hmreg_loopback_counter *counters[FUZZ_SLOTS];
    void *memory[FUZZ_SLOTS]; /* of mem_alloc */
    uint8_t token[2048];      /* the last one packed */
    size_t token_size;
    unsigned long calls, successes;
};

/* ---- random arguments (arguments.c) ----------------------------------------------------- */

uint64_t fuzz_random(struct fuzz *fuzz);
unsigned fuzz_below(struct fuzz *fuzz, unsigned limit);
bool fuzz_rarely(struct fuzz *fuzz); /* one in 16 */

/* An address in memory that is there to be written, in a device's, or in nobody's. */
void *fuzz_target(struct fuzz *fuzz);
/* Any address at all, to be asked about and not touched. */
void *fuzz_anywhere(struct fuzz *fuzz);
size_t fuzz_length(struct fuzz *fuzz);
uint64_t fuzz_bits(struct fuzz *fuzz, uint64_t known); /* mostly some of these */
int fuzz_small(struct fuzz *fuzz);                     /* about an index, or wild */
size_t fuzz_size(struct fuzz *fuzz, size_t right);     /* of a struct: mostly right */

/* Host memory of all sorts for a thread, laid out before it begins; and taken away. */
void fuzz_places_make(struct fuzz *fuzz);
void fuzz_places_free(struct fuzz *fuzz);

/* ---- calls (calls.c) -------------------------------------------------------------------- */

/* One call. */
void fuzz_call(struct fuzz *fuzz);
/* Closes all that is open. */
void fuzz_end(struct fuzz *fuzz);

/* What every call must keep (main.c): the result is 0 or negative and the last error's; out, where
 * there is one, has changed only on success. Gives the result back. */
int fuzz_check(struct fuzz *fuzz, const char *call, int rc, const void *out, const void *before,
               size_t size);

/* A rule that is broken ends the program; no assertion of cmocka, which are for one thread. */
void fuzz_must(const struct fuzz *fuzz, bool kept, const char *rule);
#define MUST(rule) fuzz_must(fuzz, rule, #rule)

#endif
