/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Builds and reads the JSON document of a command. Unknown values are null. Addresses and
 * identities are hexadecimal strings, since they need all 64 bits; byte counts are numbers. None of
 * these functions returns NULL: without memory the program exits.
 */
#ifndef HMREG_TOOLS_DOCUMENT_H
#define HMREG_TOOLS_DOCUMENT_H

#include <hmreg/hmreg.h>
#include <jansson.h>
#include <stdbool.h>

/* A document with the fields that begin every command's document. */
json_t *doc_new(const char *command);

/* Returns value; exits if it is NULL (no memory). */
json_t *doc_made(json_t *value);
/* Prints that memory is exhausted, and ends the program. */
_Noreturn void doc_no_memory(void);
#define doc_array()   doc_made(json_array())
#define doc_object()  doc_made(json_object())
#define doc_pack(...) doc_made(json_pack(__VA_ARGS__))
void doc_set(json_t *object, const char *key, json_t *value);
void doc_add(json_t *array, json_t *value);

json_t *doc_text(const char *words); /* as foreign_text() makes it */
json_t *doc_format(const char *format, ...) __attribute__((format(printf, 1, 2)));
json_t *doc_hex(uint64_t number);
json_t *doc_count(uint64_t number, uint64_t none); /* null for none */
json_t *doc_pci(const struct hmreg_pci *pci);
json_t *doc_device(int device); /* null for "no device" */
json_t *doc_error(const struct hmreg_error *error);
json_t *doc_reason(const struct hmreg_reason *reason);

/* Readers: "" and 0 for null and for absent keys. */
const char *doc_words(const json_t *object, const char *key);
uint64_t doc_number(const json_t *object, const char *key);
bool doc_is(const json_t *object, const char *key);
bool doc_has(const json_t *object, const char *key); /* present and not null */
bool doc_equals(const json_t *object, const char *key, const char *words);
/* The first item of an array for which doc_equals(); NULL: none. */
const json_t *doc_find(const json_t *list, const char *key, const char *words);

/* "cuda 0"; "host" for a description without a device. */
const char *doc_device_words(const json_t *object, char buf[32]);

/* "16 GiB", "640 B"; and a count as text, "no limit" for null. */
const char *doc_bytes_words(uint64_t bytes, char buf[32]);

/* A list of names in a sentence: "mlx5_0, mlx5_1 and 6 more". */
struct names {
    char text[160];
    size_t count, left_out;
};
void names_add(struct names *names, const char *name);
void names_add_list(struct names *names, const json_t *list); /* of strings */
const char *names_text(struct names *names);

/* for (each item of an array); item: a variable. */
#define doc_each(item, list)                                                                       \
    for (size_t item##_i = 0; ((item) = json_array_get(list, item##_i)); item##_i++)

#define COUNT(list) (sizeof(list) / sizeof((list)[0]))

/* Prints to stdout. */
void doc_print_json(const json_t *document);

#endif
