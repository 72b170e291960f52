/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * hmreg doctor on a machine of which tests change one thing: simulated CUDA devices, RDMA devices
 * of a preloaded library, and a simulated tree of /sys, /proc and /dev.
 */
#ifndef TESTS_TOOLS_DOCTOR_TREE_H
#define TESTS_TOOLS_DOCTOR_TREE_H

#include "tests/tools/tool.h"
#include "tests/tools/tree.h"

#define SWITCH "pci0000:40/0000:40:01.0/0000:3e:00.0/"
#define GPU_0  SWITCH "0000:3f:00.0/0000:41:00.0"
#define GPU_1  "pci0001:80/0001:80:01.0/0001:81:01.0"
#define NIC_0  SWITCH "0000:3f:01.0/0000:42:00.0"
#define NIC_1  "pci0001:80/0001:80:01.0/0001:82:00.0"
#define CONFIG "/boot/config-6.8.0-test"
#define ACS_AT 0x100

/* A good machine, until the case returns. */
void doctor_begin(void);

/* A bridge at this path below /sys/devices, with its ACS control as root can read it; a GPU of
 * NVIDIA's with its driver. */
void doctor_bridge(const char *path, unsigned char control);
void doctor_gpu(const char *path);

/* Runs the doctor with one option or two; other: NULL, none. */
struct tool doctor_run(const char *option, const char *other);
/* The document, whatever the verdict; *status: the exit status. no_proof: "--no-proof" or NULL. */
json_t *doctor_examined(const char *no_proof, int *status);
json_t *doctor_document(int *status);
/* NULL: the document has none of this code. */
json_t *doctor_finding(const json_t *document, const char *code);

#endif
