/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A simulated tree of /sys, /proc and /dev in a temporary folder, to which HMREG_DOCTOR_ROOT is
 * set until the case returns. Paths begin with '/'; the functions create missing folders.
 */
#ifndef TESTS_TOOLS_TREE_H
#define TESTS_TOOLS_TREE_H

#include <stddef.h>

/* A PCI device at this path below /sys/devices, e.g. "pci0000:40/0000:40:01.0": its class and
 * vendor as in sysfs ("0x030200", "0x10de"), its link in /sys/bus/pci/devices. */
void tree_pci(const char *path, const char *class, const char *vendor);
/* An RDMA device on that PCI device, with an active port and its file in /dev. */
void tree_nic(const char *name, const char *pci_path);

void tree_begin(void);
void tree_file(const char *path, const char *text);
void tree_bytes(const char *path, const void *bytes, size_t size);
/* target: relative to the link's folder. */
void tree_link(const char *path, const char *target);
void tree_folder(const char *path);
void tree_remove(const char *path);

#endif
