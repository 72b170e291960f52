/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Reads the kernel's files below a prefix: "" on a real machine; in tests the simulated tree that
 * HMREG_DOCTOR_ROOT names. Arguments and results are paths without the prefix. A file that cannot
 * be read yields null or false: the doctor continues without it.
 */
#ifndef HMREG_TOOLS_ROOT_H
#define HMREG_TOOLS_ROOT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ROOT_FORMAT(at) __attribute__((format(printf, at, at + 1)))

/* "" or the simulated tree's folder. */
const char *root_prefix(void);

bool root_exists(const char *format, ...) ROOT_FORMAT(1);
/* Can this process open the file for reading and writing? */
bool root_opens(const char *format, ...) ROOT_FORMAT(1);
/* "good", "closed" to this process, or "missing". */
const char *root_state(const char *path);

/* {"owner": "root", "group": "rdma", "mode": "0660"}; null without the file. */
json_t *root_access(const char *path);

/* Reads a file's text without trailing white space, truncated to size; false: cannot be read. */
bool root_read(char *buf, size_t size, const char *format, ...) ROOT_FORMAT(3);
/* Reads a file's bytes; returns how many. */
size_t root_bytes(void *buf, size_t size, const char *format, ...) ROOT_FORMAT(3);

/* The target of the link at this absolute path; false: it cannot be read. */
bool root_link(char *buf, size_t size, const char *path);

/* A file's text or number, or the last component of a link's path; null without it. */
json_t *root_text_fact(const char *format, ...) ROOT_FORMAT(1);
json_t *root_number_fact(const char *format, ...) ROOT_FORMAT(1);
json_t *root_target_fact(const char *format, ...) ROOT_FORMAT(1);

/* The names in a folder, sorted, as an array of strings; empty if there is no such folder. */
json_t *root_list(const char *format, ...) ROOT_FORMAT(1);

#endif
