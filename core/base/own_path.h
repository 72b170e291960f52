/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Opens folders and files to write or map only if they are this user's own; refuses all others.
 * Used in other users' programs (preload/) and by the command, root's too, whose names may lie in
 * folders that other users fill.
 *
 * "Ours": the effective user's, where no other user can have its number. A stranger: a user other
 * than the effective one and root. A folder is open to strangers if one owns it, or if its group or
 * all users may write to it. A name is followed component by component, each opened once, relative
 * to the folder before it, and judged by its descriptor:
 *
 *   - in a folder that is open to strangers, no symbolic link is followed;
 *   - in a folder that all users may write to, /tmp or not, only our and root's entries are
 * entered;
 *   - the file or folder at the end is ours, as each function says.
 *
 * So a stranger who may write to a folder above can only remove a name, or have it refused. Hence
 * folders above may belong to a group or another user: projects share folders so.
 *
 * All return -1 and set errno; descriptors are close-on-exec and above 2. No allocation, no lock:
 * from any thread, in forked children and signal handlers.
 */
#ifndef HMREG_CORE_BASE_OWN_PATH_H
#define HMREG_CORE_BASE_OWN_PATH_H

#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>

/* Room for a name, or for enough of too long a name to detect it. */
#define OWN_NAME (NAME_MAX + 2)

/* Opens a folder to make files in. Either it is ours and closed to writes of other users; or it is
 * ours or root's with the sticky bit, as /tmp, so that others can neither remove nor replace our
 * files. The descriptor is for openat(2) alone (O_PATH). */
int own_folder(const char *path);
/* As own_folder(), but makes the folder first, for its user only. EEXIST: it exists. */
int own_folder_make(const char *path);
/* Opens the folder above a path's last component, any user's. name: that component. */
int own_folder_above(const char *path, char name[OWN_NAME]);

/* Creates a file in a folder, for its user only, to be written and read. EEXIST: the name is
 * taken. */
int own_file_create(int folder, const char *name);
/* Opens a file there to be mapped: a regular file that is ours and has this length. No stranger may
 * write to it: truncating it would raise SIGBUS in the program. */
int own_file_open(int folder, const char *name, off_t length);
/* Opens a file in any folder, to write from its beginning: a new one (*made), a regular file that
 * is ours and has no second name, or a device, such as /dev/null. Waits for no other process, as
 * opening a FIFO would. */
int own_file_overwrite(int folder, const char *name, bool *made);

#endif
