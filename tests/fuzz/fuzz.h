/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Calls of the public interface with random arguments, most of them invalid. Objects are alive when
 * they are passed; everything else may have any value, as the contract permits: addresses, lengths,
 * flags, sizes of structs, keys, tokens. checks.c has the checks after each call. The same seed, or
 * the same input of libFuzzer (targets/calls.c), makes the same calls.
 */
#ifndef TESTS_FUZZ_H
#define TESTS_FUZZ_H

#include <hmreg/group.h>
#include <hmreg/job.h>
#include <hmreg/loopback.h>
#include <stdbool.h>

#define FUZZ_SLOTS   8
#define FUZZ_PLACES  5
#define FUZZ_MEMBERS 4    /* of a group, fewer */
#define FUZZ_BYTES   4200 /* of each struct: more than any accepted size */

/* One thread's objects; NULL: none. All threads share the library. */
struct fuzz {
    uint64_t state;       /* of the random numbers */
    const uint8_t *input; /* not NULL: they are these bytes */
    size_t input_left;
    char *places[FUZZ_PLACES], *around;
    struct hmreg *lib;
    struct hmreg_domain *domains[FUZZ_SLOTS];             /* groups of others, too */
    struct hmreg_domain *owned[FUZZ_SLOTS][FUZZ_MEMBERS]; /* they end with the group of that slot */
    struct hmreg_mr *regions[FUZZ_SLOTS]; /* of mr_reg and the other registering calls */
    struct hmreg_mr *gotten[FUZZ_SLOTS];  /* of mr_get */
    struct hmreg_remote *remotes[FUZZ_SLOTS];
    struct hmreg_loopback_ep *eps[FUZZ_SLOTS];
    struct hmreg_loopback_counter *counters[FUZZ_SLOTS];
    void *memory[FUZZ_SLOTS]; /* of mem_alloc */
    unsigned memory_len[FUZZ_SLOTS];
    uint8_t token[4096]; /* the last one packed */
    size_t token_size;
    unsigned long calls, successes;
};

/* ---- random arguments (arguments.c) ----------------------------------------------------- */

uint64_t fuzz_random(struct fuzz *fuzz);
unsigned fuzz_below(struct fuzz *fuzz, unsigned limit);
bool fuzz_rarely(struct fuzz *fuzz); /* one in 16 */

/* An address in memory that may be written, in a device's, or in no mapping. */
void *fuzz_target(struct fuzz *fuzz);
/* Any address, which must not be accessed. */
void *fuzz_anywhere(struct fuzz *fuzz);
size_t fuzz_length(struct fuzz *fuzz);
uint64_t fuzz_bits(struct fuzz *fuzz, uint64_t known); /* mostly some of these bits */
int fuzz_small(struct fuzz *fuzz);                     /* near an index, or arbitrary */
size_t fuzz_size(struct fuzz *fuzz, size_t right);     /* of a struct: mostly the right one */

/* Host memory of all kinds for a thread, mapped before it begins; and its end. */
void fuzz_places_make(struct fuzz *fuzz);
void fuzz_places_free(struct fuzz *fuzz);

/* ---- calls (calls.c, peer_calls.c)
 * ----------------------------------------------------------------- */

void fuzz_call(struct fuzz *fuzz);
/* Closes all that is open. */
void fuzz_end(struct fuzz *fuzz);

/* Checks after every call: the result is 0 or negative and the last error's; out, if any,
 * has changed only on success. Returns the result. */
int fuzz_check(struct fuzz *fuzz, const char *call, int rc, const void *out, const void *before,
               size_t size);

/* Ends the program with the broken rule; cmocka's assertions are for one thread. */
void fuzz_must(const struct fuzz *fuzz, bool kept, const char *rule);
#define MUST(rule) fuzz_must(fuzz, rule, #rule)

#endif
