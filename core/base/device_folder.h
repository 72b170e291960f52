/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A device's folder in /sys. A provider finds by it that its NIC is gone. The inode number
 * distinguishes the folder from a later device's with the same name.
 */
#ifndef HMREG_CORE_BASE_DEVICE_FOLDER_H
#define HMREG_CORE_BASE_DEVICE_FOLDER_H

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/stat.h>

struct device_folder {
    char path[320]; /* "": the device has none, such as where /sys is not mounted */
    ino_t number;
};

/* False: there is none. */
static inline bool device_folder_find(struct device_folder *folder, const char *parent,
                                      const char *name)
{
    struct stat file;
    int len = snprintf(folder->path, sizeof(folder->path), "%s%s", parent, name);

    if (*name && len > 0 && (size_t)len < sizeof(folder->path) && !stat(folder->path, &file)) {
        folder->number = file.st_ino;
        return true;
    }
    folder->path[0] = '\0';
    return false;
}

/* Preserves errno. */
static inline bool device_folder_is_gone(const struct device_folder *folder)
{
    int before = errno;
    struct stat file;
    bool gone = *folder->path && (stat(folder->path, &file) ? errno == ENOENT || errno == ENODEV
                                                            : file.st_ino != folder->number);

    errno = before;
    return gone;
}

/* The folder of a NIC, which may be a network interface. */
static inline void device_folder_find_nic(struct device_folder *folder, const char *name)
{
    if (!device_folder_find(folder, "/sys/class/infiniband/", name))
        (void)device_folder_find(folder, "/sys/class/net/", name);
}

/* provider_ops.gone: did the registration fail because the device is gone? Other faults return
 * these errors too, so the folder decides.
 */
static inline bool device_folder_tells(const struct device_folder *folder, int rc, char *why,
                                       size_t size)
{
    if ((rc != -EIO && rc != -ENODEV && rc != -ENETDOWN) || !device_folder_is_gone(folder))
        return false;
    snprintf(why, size, "a registration failed (error %d), and %s is gone", -rc, folder->path);
    return true;
}

#endif
