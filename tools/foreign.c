/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See foreign.h.
 */
#include "tools/foreign.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Reads one character in UTF-8. Returns the number of its bytes; 0: they are no character, because
 * they end too early, are longer than needed, or no character has this number. */
static size_t read_character(const char *text, uint32_t *out)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    unsigned char first = (unsigned char)text[0];
    size_t bytes = first < 0x80 ? 1 : first < 0xc0 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
    uint32_t character = bytes < 2 ? first : first & (0x7fu >> bytes);

    if (!bytes || first >= 0xf8)
        return 0;
    for (size_t i = 1; i < bytes; i++) {
        if ((text[i] & 0xc0) != 0x80)
            return 0;
        character = character << 6 | (text[i] & 0x3f);
    }
    *out = character;
    return character < least[bytes] || character > 0x10ffff ||
                   (character >= 0xd800 && character <= 0xdfff)
               ? 0
               : bytes;
}

static bool is_printable(uint32_t character)
{
    static const struct {
        uint32_t first, last;
    } others[] = {{0x00, 0x1f},     {0x7f, 0x9f},     {0x61c, 0x61c},
                  {0x200e, 0x200f}, {0x2028, 0x202e}, {0x2066, 0x2069}};

    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        if (character >= others[i].first && character <= others[i].last)
            return false;
    return true;
}

char *foreign_text(char *text)
{
    char *to = text;

    for (const char *from = text; *from;) {
        uint32_t character;
        size_t bytes = read_character(from, &character);

        if (bytes && is_printable(character)) {
            memmove(to, from, bytes);
            to += bytes;
        } else {
            *to++ = '?';
        }
        from += bytes ? bytes : 1;
    }
    *to = '\0';
    return text;
}

void foreign_copy(char *to, const char *from, size_t room)
{
    memcpy(to, from, room);
    to[room] = '\0';
    foreign_text(to);
}

static char first[512];

void print_error(const char *format, ...)
{
    char *text = NULL;
    va_list args;

    va_start(args, format);
    if (vasprintf(&text, format, args) < 0)
        text = NULL;
    va_end(args);
    fprintf(stderr, "%s\n", text ? foreign_text(text) : "hmreg: out of memory");
    if (!first[0] && text) {
        snprintf(first, sizeof(first), "%.500s", text);
        foreign_text(first); /* a character may be cut */
    }
    free(text);
}

const char *first_error(void)
{
    return first;
}
