/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Facts about a good machine (one GPU, one NIC below one switch, a proven dmabuf path), and changes
 * to them.
 */
#ifndef TESTS_TOOLS_MACHINE_H
#define TESTS_TOOLS_MACHINE_H

#include <jansson.h>

/* Freed after the case. */
json_t *machine_good(void);

/* Sets the value at a path like "devices/0/memory"; value: JSON with ' for ". */
void machine_set(json_t *facts, const char *path, const char *value);

/* JSON with ' for ". The caller owns the result. */
json_t *json_of(const char *words);

#endif
