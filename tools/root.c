/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See root.h.
 */
#include "tools/root.h"

#include "core/base/below.h"
#include "tools/document.h"

#include <dirent.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <pwd.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

const char *root_prefix(void)
{
    const char *prefix = secure_getenv("HMREG_DOCTOR_ROOT");

    return prefix ? prefix : "";
}

/* Builds the path from a function's format and variable arguments; too long a one becomes "". */
#define PATH_OF(path, format)                                                                      \
    do {                                                                                           \
        va_list args_;                                                                             \
                                                                                                   \
        va_start(args_, format);                                                                   \
        if (vsnprintf(path, PATH_MAX, format, args_) >= PATH_MAX)                                  \
            path[0] = '\0';                                                                        \
        va_end(args_);                                                                             \
    } while (0)

bool root_exists(const char *format, ...)
{
    char path[PATH_MAX];
    int fd;

    PATH_OF(path, format);
    fd = below_open(root_prefix(), path, O_PATH);
    if (fd >= 0)
        close(fd);
    return fd >= 0;
}

bool root_opens(const char *format, ...)
{
    char path[PATH_MAX], opened[32];
    int fd;
    bool opens;

    PATH_OF(path, format);
    if (!root_prefix()[0])
        return !access(path, R_OK | W_OK);
    fd = below_open(root_prefix(), path, O_PATH);
    snprintf(opened, sizeof(opened), "/proc/self/fd/%d", fd);
    opens = fd >= 0 && !access(opened, R_OK | W_OK);
    if (fd >= 0)
        close(fd);
    return opens;
}

const char *root_state(const char *path)
{
    return !root_exists("%s", path) ? "missing" : root_opens("%s", path) ? "good" : "closed";
}

json_t *root_access(const char *path)
{
    int fd = below_open(root_prefix(), path, O_PATH);
    const struct passwd *owner;
    const struct group *group;
    struct stat stat;
    bool known = fd >= 0 && !fstat(fd, &stat);

    if (fd >= 0)
        close(fd);
    if (!known)
        return json_null();
    owner = getpwuid(stat.st_uid);
    group = getgrgid(stat.st_gid);
    return doc_pack("{s:o, s:o, s:o}", "owner",
                    owner ? doc_text(owner->pw_name) : doc_format("%u", stat.st_uid), "group",
                    group ? doc_text(group->gr_name) : doc_format("%u", stat.st_gid), "mode",
                    doc_format("%04o", stat.st_mode & 07777));
}

/* ---- files ------------------------------------------------------------------------------ */

static ssize_t read_path(const char *path, void *buf, size_t size)
{
    FILE *file = below_file(root_prefix(), path);
    size_t used = 0;
    ssize_t got = file ? 0 : -1;

    while (file && used < size && (got = read(fileno(file), (char *)buf + used, size - used)) > 0)
        used += (size_t)got;
    if (file)
        fclose(file);
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

    PATH_OF(path, format);
    return text_of(path, buf, size);
}

size_t root_bytes(void *buf, size_t size, const char *format, ...)
{
    char path[PATH_MAX];
    ssize_t got;

    PATH_OF(path, format);
    got = read_path(path, buf, size);
    return got < 0 ? 0 : (size_t)got;
}

/* ---- links ------------------------------------------------------------------------------ */

bool root_link(char *buf, size_t size, const char *link)
{
    const char *name = strrchr(link, '/');
    char folder[PATH_MAX];
    ssize_t got;
    int fd;

    snprintf(folder, sizeof(folder), "%.*s", (int)(name - link), link);
    fd = below_open(root_prefix(), folder, O_PATH | O_DIRECTORY);
    got = fd < 0 ? -1 : readlinkat(fd, name + 1, buf, size - 1);
    if (fd >= 0)
        close(fd);
    if (got < 0)
        return false;
    buf[got] = '\0';
    return true;
}

/* ---- facts ------------------------------------------------------------------------------ */

json_t *root_text_fact(const char *format, ...)
{
    char path[PATH_MAX], words[512];

    PATH_OF(path, format);
    return text_of(path, words, sizeof(words)) ? doc_text(words) : json_null();
}

json_t *root_number_fact(const char *format, ...)
{
    char path[PATH_MAX], words[32] = "", *end;
    unsigned long long number;

    PATH_OF(path, format);
    text_of(path, words, sizeof(words));
    number = strtoull(words, &end, 0);
    return words[0] < '0' || words[0] > '9' || *end ? json_null() : doc_count(number, UINT64_MAX);
}

json_t *root_target_fact(const char *format, ...)
{
    char path[PATH_MAX], found[PATH_MAX], *name;

    PATH_OF(path, format);
    if (!below_real(root_prefix(), path, found))
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
    int fd, count;

    PATH_OF(path, format);
    fd = below_open(root_prefix(), path, O_PATH | O_DIRECTORY);
    count = fd < 0 ? -1 : scandirat(fd, ".", &entries, visible, alphasort);
    if (fd >= 0)
        close(fd);
    for (int i = 0; i < count; i++) {
        doc_add(names, doc_text(entries[i]->d_name));
        free(entries[i]);
    }
    if (count >= 0)
        free(entries);
    return names;
}
