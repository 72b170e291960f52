/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A machine that hwloc reads from a file: two packages with a NUMA node each. The GPUs have the PCI
 * addresses of the devices of vendors.h.
 *
 *   node 0  pci0000:00 - 00:01.0 - switch 10:00.0 - 11:00.0 - GPU 01:00.0
 *                                                 - 11:01.0 - mlx5_1 13:00.0
 *                                                 - 11:02.0 - switch 14:00.0 - 15:00.0 - mlx5_0
 * 16:00.0
 *                      - 00:02.0 - mlx5_2 20:00.0, its network interface ens2
 *           pci0000:40 - 40:01.0 - mlx5_3 41:00.0
 *   node 1  pci0000:80 - 80:01.0 - GPU 02:00.0
 *                      - 80:02.0 - mlx5_4 82:00.0
 *   both    pci0000:c0 - mlx5_5 c1:00.0, of which the platform says no more
 */
#ifndef TESTS_SYNTHETIC_H
#define TESTS_SYNTHETIC_H

#define SYNTHETIC_NICS 6

/* Writes text to a new file, which the caller unlinks. */
void synthetic_write(char path[32], const char *text);
/* Writes that machine. far: the distance of its nodes; 10 on one node. */
void synthetic_machine(char path[32], unsigned far);
/* Writes a machine of four nodes, each with an RDMA device nic<node> below its own host bridge, and
 * the distances 10, 32, 12, 32 from node 0 to each. */
void synthetic_four_nodes(char path[32]);
/* Writes a machine of eight GPUs, 01:00.0 to 08:00.0, the first four on node 0. Each is below a PCI
 * switch with four NICs of 32: GPU g with g, g + 8, g + 16, g + 24, where NIC n is nic<n> at bus
 * 0x20 + n. */
void synthetic_rails(char path[32]);

#endif
