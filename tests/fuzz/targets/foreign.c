/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Any bytes as foreign_text() makes them: UTF-8, no longer than before, the same the second time,
 * and without a character that a terminal obeys. What had none of these stays as it was.
 */
#include "tests/fuzz/targets/target.h"
#include "tools/foreign.h"

#include <jansson.h>
#include <stdbool.h>
#include <string.h>

static bool is_utf8(const char *text)
{
    json_t *string = json_string(text);

    json_decref(string);
    return string;
}

/* In the bytes of UTF-8: a start, and the last byte's range. */
static bool has_any(const char *text)
{
    static const struct {
        const char *start;
        uint8_t first, last;
    } obeyed[] = {{"", 0x01, 0x1f},        {"", 0x7f, 0x7f},         {"\xc2", 0x80, 0x9f},
                  {"\xd8", 0x9c, 0x9c},    {"\xe2\x80", 0x8e, 0x8f}, {"\xe2\x80", 0xa8, 0xae},
                  {"\xe2\x81", 0xa6, 0xa9}};

    for (size_t i = 0; i < sizeof(obeyed) / sizeof(obeyed[0]); i++)
        for (unsigned last = obeyed[i].first; last <= obeyed[i].last; last++) {
            char bytes[4] = "";

            strcpy(bytes, obeyed[i].start);
            bytes[strlen(bytes)] = (char)last;
            if (strstr(text, bytes))
                return true;
        }
    return false;
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char before[512] = "", text[512], part[65], again[512];
    size_t length = size < sizeof(before) - 1 ? size : sizeof(before) - 1;

    if (length)
        memcpy(before, data, length);
    strcpy(text, before);
    PROMISED(foreign_text(text) == text && strlen(text) <= strlen(before));
    PROMISED(is_utf8(text) && !has_any(text));
    PROMISED(strcmp(text, before) == 0 || !is_utf8(before) || has_any(before));
    strcpy(again, text);
    PROMISED(!strcmp(foreign_text(again), text));
    foreign_copy(part, before, sizeof(part) - 1);
    PROMISED(strlen(part) < sizeof(part) && is_utf8(part) && !has_any(part));
    return 0;
}
