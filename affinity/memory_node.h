/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The NUMA node of host memory.
 */
#ifndef HMREG_AFFINITY_MEMORY_NODE_H
#define HMREG_AFFINITY_MEMORY_NODE_H

#include <stddef.h>

/* The node with the most pages, of up to 64 pages spread over the range; -1: unknown. Writes a
 * phrase with their number, or the reason why it is unknown. Touches no page. */
int memory_node(const void *addr, size_t len, char *words, size_t size);

#endif
