/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Finds a program's file and reads from it whether the dynamic linker will load a library into it:
 * not if the program is static, has another user's rights, another processor or another libc, or
 * cannot be read. Another user may be able to write the file, so every offset is checked by
 * pread(2).
 */
#include "tools/run/run.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#define MOST_SCRIPTS 5 /* scripts that interpret each other: Linux executes no more */
#define MOST_HEADERS 256

/* ---- the file ---------------------------------------------------------------------------- */

static int judge_file(const char *path, char why[512])
{
    struct stat status;

    if (stat(path, &status)) {
        snprintf(why, 512, "%s: %s", path, strerror(errno));
        return errno == ENOENT || errno == ENOTDIR ? RUN_NOT_FOUND : RUN_NOT_EXECUTABLE;
    }
    if (S_ISREG(status.st_mode) && !access(path, X_OK))
        return 0;
    snprintf(why, 512, "%s: %s", path,
             S_ISREG(status.st_mode) ? "you may not execute it" : "it is not a regular file");
    return RUN_NOT_EXECUTABLE;
}

/* Judges the name in a folder of PATH; an empty folder is the working directory. */
static int judge_in(const char *folder, size_t length, const char *name, char path[PATH_MAX],
                    char why[512])
{
    int made = snprintf(path, PATH_MAX, "%.*s%s%s", (int)length, folder, length ? "/" : "./", name);

    return made > 0 && made < PATH_MAX ? judge_file(path, why) : RUN_NOT_FOUND;
}

int program_find(const char *name, char path[PATH_MAX], char why[512])
{
    const char *folders = getenv("PATH");
    int status = RUN_NOT_FOUND, found;

    if (strchr(name, '/')) {
        if (snprintf(path, PATH_MAX, "%s", name) < PATH_MAX)
            return judge_file(path, why);
        snprintf(why, 512, "the path of the program is too long");
        return RUN_NOT_FOUND;
    }
    for (const char *at = folders ? folders : "/bin:/usr/bin";; at++) {
        size_t length = strcspn(at, ":");

        found = judge_in(at, length, name, path, why);
        if (!found)
            return 0;
        status = found == RUN_NOT_EXECUTABLE ? found : status;
        at += length;
        if (!*at)
            break;
    }
    if (status == RUN_NOT_FOUND)
        snprintf(why, 512, "%.200s: no such program in PATH", name);
    else
        snprintf(why, 512, "%.200s: it is in PATH, but you may not execute it", name);
    return status;
}

/* ---- rights ------------------------------------------------------------------------------ */

/* Does the kernel give the program rights that this user lacks? Then the dynamic linker ignores
 * LD_PRELOAD. By path, since the file may not be readable. */
static bool raises_rights(const char *path)
{
    struct statvfs system;
    struct stat status;

    if (stat(path, &status) || statvfs(path, &system) || system.f_flag & ST_NOSUID)
        return false;
    if (status.st_mode & S_ISUID && status.st_uid != getuid())
        return true;
    if (status.st_mode & S_ISGID && status.st_mode & S_IXGRP && status.st_gid != getgid())
        return true;
    return getuid() && getxattr(path, "security.capability", NULL, 0) > 0;
}

static bool refuse_rights(const char *path, char why[512])
{
    snprintf(
        why, 512,
        "%.200s runs with another user's rights (set-user-ID, set-group-ID or file capabilities): "
        "the dynamic linker does not load hmreg's libraries into it. Run it as a "
        "user with these rights, or a copy of it without them.",
        path);
    return false;
}

/* ---- ELF --------------------------------------------------------------------------------- */

static bool read_at(int fd, void *to, size_t size, uint64_t offset)
{
    return offset <= INT64_MAX && pread(fd, to, size, (off_t)offset) == (ssize_t)size;
}

/* Is it for this process's processor and word size? */
static bool is_of_our_kind(const ElfW(Ehdr) * header)
{
    static const ElfW(Half) machine =
#if defined(__x86_64__)
        EM_X86_64;
#elif defined(__aarch64__)
        EM_AARCH64;
#else
        EM_NONE;
#endif
    return header->e_ident[EI_CLASS] == (sizeof(void *) == 8 ? ELFCLASS64 : ELFCLASS32) &&
           (machine == EM_NONE || header->e_machine == machine);
}

/* The path of its dynamic linker; "": it has none. */
static void read_linker(int fd, const ElfW(Ehdr) * header, char linker[256])
{
    ElfW(Phdr) part;

    linker[0] = '\0';
    for (unsigned i = 0; i < header->e_phnum && i < MOST_HEADERS; i++) {
        uint64_t at = header->e_phoff + (uint64_t)i * header->e_phentsize;

        if (header->e_phentsize < sizeof(part) || !read_at(fd, &part, sizeof(part), at))
            return;
        if (part.p_type != PT_INTERP || part.p_filesz < 2 || part.p_filesz > 255)
            continue;
        if (!read_at(fd, linker, part.p_filesz, part.p_offset))
            part.p_filesz = 0;
        linker[part.p_filesz] = '\0';
        return;
    }
}

static bool judge_elf(int fd, const char *path, char why[512])
{
    ElfW(Ehdr) header;
    char linker[256];

    if (!read_at(fd, &header, sizeof(header), 0) || !is_of_our_kind(&header)) {
        snprintf(why, 512,
                 "%.200s is a program for another processor or word size than this hmreg, whose "
                 "libraries it cannot load. Use an hmreg built for it.",
                 path);
        return false;
    }
    read_linker(fd, &header, linker);
    if (!linker[0]) {
        snprintf(why, 512,
                 "%.200s is statically linked: no library can be loaded into it. Link it "
                 "dynamically, or call libhmreg in its source.",
                 path);
        return false;
    }
    if (!strstr(linker, "musl"))
        return true;
    snprintf(why, 512,
             "%.200s uses another libc (%.100s) than this hmreg, whose libraries it cannot load. "
             "Use an hmreg built for it.",
             path, linker);
    return false;
}

/* ---- scripts ----------------------------------------------------------------------------- */

/* The interpreter that a script's first line names. */
static bool script_interpreter(const char *line, char *interpreter, size_t room)
{
    size_t length;

    line += 2;
    line += strspn(line, " \t");
    length = strcspn(line, " \t\n");
    if (!length || length >= room)
        return false;
    memcpy(interpreter, line, length);
    interpreter[length] = '\0';
    return true;
}

static bool judge(const char *path, int depth, char why[512]);

/* first: the file's beginning. A file without an interpreter on its first line goes to the shell,
 * as with execvp(3). */
static bool judge_script(const char *path, const char first[256], int depth, char why[512])
{
    char interpreter[256];

    if (depth == MOST_SCRIPTS) {
        snprintf(why, 512, "%.200s is a script below %d others; Linux executes no longer chain",
                 path, MOST_SCRIPTS);
        return false;
    }
    if (memcmp(first, "#!", 2) || !script_interpreter(first, interpreter, sizeof(interpreter)))
        strcpy(interpreter, "/bin/sh");
    return judge(interpreter, depth + 1, why);
}

static bool judge_open(int fd, const char *path, int depth, char why[512])
{
    char first[256] = "";

    if (pread(fd, first, sizeof(first) - 1, 0) < 0) {
        snprintf(why, 512, "%.200s cannot be read: %s", path, strerror(errno));
        return false;
    }
    if (memcmp(first, "#!", 2) && raises_rights(path))
        return refuse_rights(path, why);
    return memcmp(first, ELFMAG, SELFMAG) ? judge_script(path, first, depth, why)
                                          : judge_elf(fd, path, why);
}

static bool judge(const char *path, int depth, char why[512])
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY), error = errno;
    bool good;

    if (fd < 0 && (error == ENOENT || error == ENOTDIR))
        return true; /* the interpreter is missing: the kernel will report it */
    if (fd < 0 && raises_rights(path))
        return refuse_rights(path, why);
    if (fd < 0) {
        snprintf(why, 512,
                 "%.200s cannot be read (%s), so hmreg cannot tell whether its libraries can be "
                 "loaded into it. Run it as a user who may read it.",
                 path, strerror(error));
        return false;
    }
    good = judge_open(fd, path, depth, why);
    close(fd);
    return good;
}

bool program_takes_libraries(const char *path, char why[512])
{
    return judge(path, 0, why);
}
