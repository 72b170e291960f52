/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * What the files of calls share: how a call is made and checked, and arguments that need an object.
 */
#ifndef TESTS_FUZZ_CALL_H
#define TESTS_FUZZ_CALL_H

#include "tests/fuzz/fuzz.h"

#include <string.h>

#define SLOT        fuzz_below(fuzz, FUZZ_SLOTS)
#define PICK(slots) ((slots)[fuzz_rarely(fuzz) ? 0 : SLOT])

/* Calls, and checks that out is unchanged unless the call succeeded. */
#define CALL(call, out)                                                                            \
    ({                                                                                             \
        __typeof__(*(out)) before_;                                                                \
        memcpy(&before_, (out), sizeof(before_));                                                  \
        int rc_ = (call);                                                                          \
        fuzz_check(fuzz, #call, rc_, (out), &before_, sizeof(before_));                            \
    })
#define PLAIN(call) fuzz_check(fuzz, #call, (call), NULL, NULL, 0)

/* A struct with room behind it, as an output or input of any stated size. */
#define STRUCT(type, name)                                                                         \
    union {                                                                                        \
        struct type it;                                                                            \
        uint8_t bytes[FUZZ_BYTES];                                                                 \
    } name;                                                                                        \
    memset(&name, 0, sizeof(name));                                                                \
    name.it.size = fuzz_size(fuzz, sizeof(name.it))

/* A key, and a region of a registration or of a get; NULL where the slot is empty. */
uint64_t fuzz_key(struct fuzz *fuzz);
struct hmreg_mr *fuzz_region(struct fuzz *fuzz);

/* Calls of peer_calls.c. */
void fuzz_call_raw(struct fuzz *fuzz);
void fuzz_call_pack(struct fuzz *fuzz);
void fuzz_call_remote_open(struct fuzz *fuzz);
void fuzz_call_remote_open_many(struct fuzz *fuzz);
void fuzz_call_remote_open_rails(struct fuzz *fuzz);
void fuzz_call_rma(struct fuzz *fuzz);

#endif
