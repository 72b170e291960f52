/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * What the targets of ./run fuzz share. A target is one file that defines LLVMFuzzerTestOneInput():
 * it does with the bytes what its first comment says, and aborts if a promise is broken. clang
 * links it with libFuzzer; replay.c replays corpora with any compiler, as tests.
 */
#ifndef TESTS_FUZZ_TARGETS_TARGET_H
#define TESTS_FUZZ_TARGETS_TARGET_H

#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
/* Called once, before the first input. */
int LLVMFuzzerInitialize(int *argc, char ***argv);

/* The bytes that are left of an input. Those behind its end are 0. */
struct input {
    const uint8_t *at;
    size_t left;
};

uint8_t input_byte(struct input *input);
uint64_t input_number(struct input *input, unsigned bytes); /* little-endian */
/* Up to `most` bytes, as many as the next byte or two bytes say. Returns how many. */
size_t input_piece(struct input *input, size_t most, const uint8_t **out);
/* The same as a string, which ends at a NUL byte. */
void input_text(struct input *input, char *out, size_t room);
/* Overwrites bytes, each as (position, piece), until the input or its pieces end. */
void input_patch(struct input *input, uint8_t *bytes, size_t size);

/* Ends the process, and says where, if a promise does not hold. */
#define PROMISED(promise)                                                                          \
    do {                                                                                           \
        if (!(promise))                                                                            \
            target_broken(__FILE__, __LINE__, #promise);                                           \
    } while (0)
_Noreturn void target_broken(const char *file, int line, const char *promise);

#endif
