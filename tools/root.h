/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Reading the kernel's files below a prefix: "" on a real machine; in tests the made-up tree that
 * HMREG_DOCTOR_ROOT names. Paths given and answered are those of the real machine, without the
 * prefix. What cannot be read is null, or false: a doctor does not stop at a missing file.
 */
#ifndef HMREG_TOOLS_ROOT_H
#define HMREG_TOOLS_ROOT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ROOT_FORMAT(at) __attribute__((format(printf, at, at + 1)))

/* "" or the tree's folder. */
const char *root_prefix(void);

bool root_exists(const char *format, ...) ROOT_FORMAT(1);
/* For reading and writing, by this process. */
bool root_opens(const char *format, ...) ROOT_FORMAT(1);

/* The text of a file without the white space at its end, cut at size; false: cannot be read. */
bool root_read(char *buf, size_t size, const char *format, ...) ROOT_FORMAT(3);
/* The bytes of a file; how many. */
size_t root_bytes(void *buf, size_t size, const char *format, ...) ROOT_FORMAT(3);
bool root_number(uint64_t *out, const char *format, ...) ROOT_FORMAT(2);

/* Where a path leads, links resolved; and the last name of that. */
bool root_real(char *buf, size_t size, const char *format, ...) ROOT_FORMAT(3);
bool root_target(char *buf, size_t size, const char *format, ...) ROOT_FORMAT(3);

/* The same as facts: a string, a number, or null. */
json_t *root_text_fact(const char *format, ...) ROOT_FORMAT(1);
json_t *root_number_fact(const char *format, ...) ROOT_FORMAT(1);
json_t *root_target_fact(const char *format, ...) ROOT_FORMAT(1);

/* Names in a folder, sorted, as an array of strings; empty where there is no such folder. */
json_t *root_list(const char *format, ...) ROOT_FORMAT(1);

#endif
