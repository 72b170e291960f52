/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Replays a target's inputs without libFuzzer: the files named, and those in the folders named. The
 * name of each is printed before it is replayed, so that a crash names its input.
 */
#include "tests/fuzz/targets/target.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define MOST (1 << 20)

static unsigned replayed;

static int replay_file(const char *path)
{
    FILE *file = fopen(path, "re");
    size_t size, room;
    uint8_t *bytes;

    if (!file) {
        perror(path);
        return 1;
    }
    bytes = malloc(MOST);
    size = bytes ? fread(bytes, 1, MOST, file) : 0;
    fclose(file);
    fprintf(stderr, "%s: %zu bytes\n", path, size);
    room = size ? size : 1;
    bytes = realloc(bytes, room); /* so that a sanitizer sees a read behind the end */
    if (!bytes)
        return 1;
    LLVMFuzzerTestOneInput(bytes, size);
    replayed++;
    free(bytes);
    return 0;
}

static int replay(const char *path)
{
    struct dirent **entries;
    struct stat status;
    int count, rc = 0;

    if (stat(path, &status) || !S_ISDIR(status.st_mode))
        return replay_file(path);
    count = scandir(path, &entries, NULL, alphasort);
    for (int i = 0; i < count; i++) {
        char name[4096];

        snprintf(name, sizeof(name), "%s/%s", path, entries[i]->d_name);
        if (entries[i]->d_name[0] != '.')
            rc |= replay_file(name);
        free(entries[i]);
    }
    if (count >= 0)
        free(entries);
    return rc || count < 0;
}

int main(int argc, char **argv)
{
    int rc = LLVMFuzzerInitialize(&argc, &argv);

    for (int i = 1; i < argc; i++)
        rc |= replay(argv[i]);
    fprintf(stderr, "%u passed, %d failed, 0 skipped\n", replayed, rc || !replayed);
    return rc || !replayed;
}
