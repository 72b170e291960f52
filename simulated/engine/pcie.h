/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * How simulated vendors mark a descriptor with the PCIe mapping, and simulated NICs recognize it:
 * by its number, which neither libhmreg nor any test otherwise reaches.
 */
#ifndef SIMULATED_PCIE_H
#define SIMULATED_PCIE_H

#include <fcntl.h>
#include <stdbool.h>

enum { FAKE_PCIE_FD = 700 };

static inline int fake_pcie_dup(int fd)
{
    return fcntl(fd, F_DUPFD_CLOEXEC, FAKE_PCIE_FD);
}

static inline bool fake_is_pcie(int fd)
{
    return fd >= FAKE_PCIE_FD;
}

#endif
