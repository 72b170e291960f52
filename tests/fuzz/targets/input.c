/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See target.h.
 */
#include "tests/fuzz/targets/target.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

uint8_t input_byte(struct input *input)
{
    if (!input->left)
        return 0;
    input->left--;
    return *input->at++;
}

uint64_t input_number(struct input *input, unsigned bytes)
{
    uint64_t number = 0;

    for (unsigned i = 0; i < bytes; i++)
        number |= (uint64_t)input_byte(input) << 8 * i;
    return number;
}

size_t input_piece(struct input *input, size_t most, const uint8_t **out)
{
    size_t size = most < 256 ? input_byte(input) : (size_t)input_number(input, 2);

    size = size < most ? size : most;
    size = size < input->left ? size : input->left;
    *out = input->at;
    input->at += size;
    input->left -= size;
    return size;
}

void input_text(struct input *input, char *out, size_t room)
{
    const uint8_t *piece;
    size_t size = input_piece(input, room - 1, &piece);

    if (size)
        memcpy(out, piece, size);
    out[size] = '\0';
}

void input_patch(struct input *input, uint8_t *bytes, size_t size)
{
    while (input->left) {
        size_t at = (size_t)input_number(input, size < 65536 ? 2 : 3) % size;
        const uint8_t *piece;
        size_t count = input_piece(input, size - at < 255 ? size - at : 255, &piece);

        if (count)
            memcpy(bytes + at, piece, count);
    }
}

void target_broken(const char *file, int line, const char *promise)
{
    fprintf(stderr, "%s:%d: not so: %s\n", file, line, promise);
    abort();
}
