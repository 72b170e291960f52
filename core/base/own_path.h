/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Folders and files that are opened to be written or mapped are this user's own; whatever else a
 * name leads to is refused. Used in other users' programs (preload/) and by the command, root's
 * too, whose names may lie in folders that other users fill.
 *
 * "Ours": the effective user's, where no other user can have its number. A stranger: a user who is
 * neither that one nor root. A folder is open to strangers if one owns it, or if its group or
 * everybody may write to it. A name is followed component by component, each opened once, relative
 * to the folder before it, and judged by its descriptor:
 *
 *   - in a folder that is open to strangers, no symbolic link is followed;
 *   - in one that everybody may write to, /tmp or not, only what is ours or root's is entered;
 *   - what is opened at the end is ours, as each function says.
 *
 * So a stranger who may change a folder above can take a name away, or have it refused. A group's
 * or another user's folder above is permitted for that reason: projects share folders so.
 *
 * All return -1 and set errno; descriptors are close-on-exec and above 2. No allocation, no lock:
 * from any thread, in forked children and signal handlers.
 */
#ifndef HMREG_CORE_BASE_OWN_PATH_H
#define HMREG_CORE_BASE_OWN_PATH_H

#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>

/* Room for a name, and for enough of one that is too long. */
#define OWN_NAME (NAME_MAX + 2)

/* A folder to make files in: ours, and no other user may write to it; or, as /tmp, ours or root's
 * with the sticky bit, where others can neither remove nor replace our files. The descriptor is
 * for openat(2) alone (O_PATH). */
int own_folder(const char *path);
/* Makes it first, for its user only. EEXIST: it is there. */
int own_folder_make(const char *path);
/* The folder above a path's last component, of whomever, and that component. */
int own_folder_above(const char *path, char name[OWN_NAME]);

/* Creates a file in a folder, for its user only, to be written and read. EEXIST: the name is
 * taken. */
int own_file_create(int folder, const char *name);
/* Opens a file there to be mapped: a regular one that is ours and has this length, and which no
 * stranger may write to, so that none can truncate it: that would be SIGBUS for the program. */
int own_file_open(int folder, const char *name, off_t length);
/* Opens a file there, of any folder, to be written from its beginning: a new one (*made), a regular
 * one that is ours and has no second name, or a device, such as /dev/null. Waits for no other
 * process, as a FIFO's opening would. */
int own_file_overwrite(int folder, const char *name, bool *made);

#endif
