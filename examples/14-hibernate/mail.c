/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See mail.h.
 */
#include "mail.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#define PATH_BYTES 4096

static int path_of(const char *folder, const char *name, char *path)
{
    return snprintf(path, PATH_BYTES, "%s/%s", folder, name) < PATH_BYTES ? 0 : -ENAMETOOLONG;
}

static int write_file(const char *path, const void *bytes, size_t size)
{
    FILE *file = fopen(path, "we");
    size_t written;

    if (!file)
        return -errno;
    written = fwrite(bytes, 1, size, file);
    return fclose(file) || written < size ? -EIO : 0;
}

/* Under another name at first: who finds a message finds all of it. */
int mail_post(const char *folder, const char *name, const void *bytes, size_t size)
{
    char path[PATH_BYTES], draft[PATH_BYTES];
    int rc = path_of(folder, name, path);

    rc = rc ? rc : path_of(folder, "draft", draft);
    rc = rc ? rc : write_file(draft, bytes, size);
    return rc || !rename(draft, path) ? rc : -errno;
}

int mail_await(const char *folder, const char *name, void *bytes, size_t most)
{
    char path[PATH_BYTES];
    int rc = path_of(folder, name, path);
    size_t found;
    FILE *file;

    if (rc)
        return rc;
    while (!(file = fopen(path, "re"))) {
        if (errno != ENOENT)
            return -errno;
        usleep(10000);
    }
    found = fread(bytes, 1, most, file);
    (void)fclose(file);
    return (int)found;
}
