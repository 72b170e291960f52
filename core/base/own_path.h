/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Folders and files that are opened to be written or mapped are this user's own; whatever else a
 * name leads to is refused. Used in other users' programs (preload/) and by the command, root's
 * too, whose names may lie in folders that other users fill.
 *
 * "Ours": the effective user's, where no other user can have its number. A
 * stranger: a user who is neither that one nor root. A folder is
 * open to strangers if one owns it, or if its group or everybody may write to it. A name is
 * followed component by component, each opened relative to the folder before it:
 *
 *   - in a folder that is open to strangers, no symbolic link is followed;
 *   - in one that everybody may write to, /tmp or not, only what is ours or root's is entered;
 *   - what is opened at the end is ours, as each function says; it is judged by its descriptor,
 *     and nothing is opened by name again.
 *
 * So a stranger who may change a folder above can take a name away, or have it refused. A group's
 * or another user's folder above is permitted for that reason: projects share folders so.
 *
 * A file is mapped only if no stranger may write to it, and has the mapping's length: no one else
 * can truncate it, which would be SIGBUS for the program.
 *
 * All return -1 and set errno; descriptors are close-on-exec and above 2. No allocation, no lock:
 * from any thread, in forked children and signal handlers.
 */
#ifndef HMREG_CORE_BASE_OWN_PATH_H
#define HMREG_CORE_BASE_OWN_PATH_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* A folder to make files in: ours, and no other user may write to it; or, as /tmp, ours or root's
 * with the sticky bit, where others can neither remove nor replace our files. The descriptor is
 * for openat(2) alone (O_PATH). */
int own_folder(const char *path);
/* Makes it first, for its user only. EEXIST: it is there. */
int own_folder_make(const char *path);

/* Creates a file in such a folder, for its user only, to be written and read. EEXIST: the name is
 * taken. */
int own_file_create(int folder, const char *name);
/* Opens a file there to be written and read: a regular one that is ours, which no stranger may
 * write to. */
int own_file_open(int folder, const char *name);

/* Maps a file of exactly this length that own_file_open() would open, shared; flags: more of
 * mmap(2)'s. NULL: errno. */
void *own_file_map(int fd, size_t size, int flags);

/* A file for a report. It is written anew, without a name or under another one in the same folder,
 * and renamed when it is complete: until then, and where the process ends before, what had the name
 * stays. */
struct own_output {
    int fd;     /* to be written, from its beginning; the caller closes it */
    int folder; /* of the name; -1: fd is what is there, which no other file replaces */
    bool unnamed;
    char name[NAME_MAX + 1], temporary[32];
};

/* A new name, or a regular file of ours, no link, and in a folder that is open to strangers without
 * a second name; or a device, such as /dev/null. /dev/stdout, /dev/stderr, /dev/fd/N and
 * /proc/self/fd/N are this process's own descriptors. Waits for no other process, as a FIFO's
 * opening would. Where no file can replace the one that is there (its folder may not be written to,
 * or something is mounted on it), that one is written from its beginning. */
int own_output_open(struct own_output *output, const char *path);
/* Ends what own_output_open() began, before fd is closed. complete: the file gets its name, or
 * where it is written in place, its length; else what was there stays. */
int own_output_end(struct own_output *output, bool complete);

/* The refusal that an errno value of these calls stands for, in words: "it is a symbolic link...".
 * NULL: it is the kernel's own. */
const char *own_refusal(int error);

#endif
