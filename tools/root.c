/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See root.h.
 */
#include "tools/root.h"

#include "tools/document.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char *root_prefix(void)
{
    const char *prefix = secure_getenv("HMREG_DOCTOR_ROOT");

    return prefix ? prefix : "";
}

static void full_path(char path[PATH_MAX], const char *format, va_list args)
{
    int used = snprintf(path, PATH_MAX, "%s", root_prefix());

    if (used < 0 || used >= PATH_MAX)
        path[used = 0] = '\0';
    vsnprintf(path + used, PATH_MAX - (size_t)used, format, args);
}

/* Builds the full path from a function's format and variable arguments. */
#define FULL_PATH(path, format)                                                                    \
    do {                                                                                           \
        va_list args_;                                                                             \
                                                                                                   \
        va_start(args_, format);                                                                   \
        full_path(path, format, args_);                                                            \
        va_end(args_);                                                                             \
    } while (0)

bool root_exists(const char *format, ...)
{
    char path[PATH_MAX];

    FULL_PATH(path, format);
    return !access(path, F_OK);
}

bool root_opens(const char *format, ...)
{
    char path[PATH_MAX];

    FULL_PATH(path, format);
    return !access(path, R_OK | W_OK);
}

const char *root_state(const char *path)
{
    return !root_exists("%s", path) ? "missing" : root_opens("%s", path) ? "good" : "closed";
}

/* ---- files ------------------------------------------------------------------------------ */

static ssize_t read_path(const char *path, void *buf, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    size_t used = 0;
    ssize_t got = fd < 0 ? -1 : 0;

    while (fd >= 0 && used < size && (got = read(fd, (char *)buf + used, size - used)) > 0)
        used += (size_t)got;
    if (fd >= 0)
        close(fd);
    return got < 0 && !used ? -1 : (ssize_t)used;
}

static bool text_of(const char *path, char *buf, size_t size)
{
    ssize_t got = read_path(path, buf, size - 1);

    if (got < 0)
        return false;
    while (got > 0 && strchr(" \t\n", buf[got - 1]))
        got--;
    buf[got] = '\0';
    return true;
}

bool root_read(char *buf, size_t size, const char *format, ...)
{
    char path[PATH_MAX];

    FULL_PATH(path, format);
    return text_of(path, buf, size);
}

size_t root_bytes(void *buf, size_t size, const char *format, ...)
{
    char path[PATH_MAX];
    ssize_t got;

    FULL_PATH(path, format);
    got = read_path(path, buf, size);
    return got < 0 ? 0 : (size_t)got;
}

/* ---- links ------------------------------------------------------------------------------ */

static bool real_of(const char *path, char *buf, size_t size)
{
    char prefix[PATH_MAX] = "", found[PATH_MAX];
    size_t skip;

    if (!realpath(path, found) || (root_prefix()[0] && !realpath(root_prefix(), prefix)))
        return false;
    skip = strlen(prefix);
    if (strncmp(found, prefix, skip) || (found[skip] && found[skip] != '/'))
        return false;
    snprintf(buf, size, "%s", found + skip);
    return true;
}

bool root_link(char *buf, size_t size, const char *link)
{
    char path[PATH_MAX];
    ssize_t got;

    if (snprintf(path, sizeof(path), "%s%s", root_prefix(), link) >= (int)sizeof(path))
        return false;
    got = readlink(path, buf, size - 1);
    if (got < 0)
        return false;
    buf[got] = '\0';
    return true;
}

/* ---- facts ------------------------------------------------------------------------------ */

json_t *root_text_fact(const char *format, ...)
{
    char path[PATH_MAX], words[512];

    FULL_PATH(path, format);
    return text_of(path, words, sizeof(words)) ? doc_text(words) : json_null();
}

json_t *root_number_fact(const char *format, ...)
{
    char path[PATH_MAX], words[32] = "", *end;
    unsigned long long number;

    FULL_PATH(path, format);
    text_of(path, words, sizeof(words));
    number = strtoull(words, &end, 0);
    return words[0] < '0' || words[0] > '9' || *end ? json_null() : doc_count(number, UINT64_MAX);
}

json_t *root_target_fact(const char *format, ...)
{
    char path[PATH_MAX], found[PATH_MAX], *name;

    FULL_PATH(path, format);
    if (!real_of(path, found, sizeof(found)))
        return json_null();
    name = strrchr(found, '/');
    return doc_text(name ? name + 1 : found);
}

/* ---- folders ---------------------------------------------------------------------------- */

static int visible(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

json_t *root_list(const char *format, ...)
{
    json_t *names = doc_array();
    struct dirent **entries;
    char path[PATH_MAX];
    int count;

    FULL_PATH(path, format);
    count = scandir(path, &entries, visible, alphasort);
    for (int i = 0; i < count; i++) {
        doc_add(names, doc_text(entries[i]->d_name));
        free(entries[i]);
    }
    if (count >= 0)
        free(entries);
    return names;
}
