/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See mode.h. Both variables are read once, when the library is loaded: the program may change its
 * environment later, on another thread. libfabric may load the hook into a set-user-ID program. Its
 * user must not choose a mode or folder for it, so it makes no files.
 */
#include "preload/mode.h"

#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>

static struct preload_mode mode;
static char dir[512] = "/tmp";

static bool is_word(const char *word, size_t length, const char *expected)
{
    return strlen(expected) == length && !memcmp(word, expected, length);
}

static void take_word(const char *word, size_t length)
{
    if (is_word(word, length, "gpu"))
        mode.gpu = true;
    else if (is_word(word, length, "trace=watch"))
        mode.watch = true;
    else if (!is_word(word, length, "trace") && length)
        mode.wrong = true;
}

__attribute__((constructor)) static void read_environment(void)
{
    const char *words = secure_getenv("HMREG_RUN_MODE"), *folder = secure_getenv("HMREG_RUN_DIR");

    while (words && *words) {
        size_t length = strcspn(words, ",");

        take_word(words, length);
        words += length + (words[length] == ',');
    }
    if (folder && folder[0] && strlen(folder) < sizeof(dir))
        strcpy(dir, folder);
    if (getauxval(AT_SECURE))
        dir[0] = '\0';
}

const struct preload_mode *preload_mode(void)
{
    return &mode;
}

const char *preload_dir(void)
{
    return dir;
}
