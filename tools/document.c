/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See document.h.
 */
#include "tools/document.h"

#include "tools/command.h"
#include "tools/foreign.h"

#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define FORMAT 1 /* raised when a key changes its meaning or is removed, not for a new key */

void doc_no_memory(void)
{
    fprintf(stderr, "hmreg: out of memory\n");
    exit(EXIT_FAILED);
}

json_t *doc_made(json_t *value)
{
    if (!value)
        doc_no_memory();
    return value;
}

void doc_set(json_t *object, const char *key, json_t *value)
{
    if (json_object_set_new(object, key, value))
        doc_no_memory();
}

void doc_add(json_t *array, json_t *value)
{
    if (json_array_append_new(array, value))
        doc_no_memory();
}

json_t *doc_new(const char *command)
{
    char host[HOST_NAME_MAX + 1] = "", words[64];
    time_t now = time(NULL);
    struct tm parts;

    gethostname(host, sizeof(host) - 1);
    gmtime_r(&now, &parts);
    strftime(words, sizeof(words), "%Y-%m-%dT%H:%M:%SZ", &parts);
    return doc_pack("{s:i, s:s, s:s, s:o, s:s}", "format", FORMAT, "hmreg", hmreg_version(),
                    "command", command, "host", doc_text(host), "time", words);
}

json_t *doc_text(const char *words)
{
    char *copy = strdup(words);
    json_t *text = doc_made(copy ? json_string(foreign_text(copy)) : NULL);

    free(copy);
    return text;
}

json_t *doc_format(const char *format, ...)
{
    char words[1024];
    va_list args;

    va_start(args, format);
    vsnprintf(words, sizeof(words), format, args);
    va_end(args);
    return doc_text(words);
}

json_t *doc_hex(uint64_t number)
{
    return doc_made(json_sprintf("0x%" PRIx64, number));
}

/* jansson's integers are signed; a number that does not fit counts as no limit. */
json_t *doc_count(uint64_t number, uint64_t none)
{
    return doc_made(number == none || number > INT64_MAX ? json_null()
                                                         : json_integer((json_int_t)number));
}

json_t *doc_pci(const struct hmreg_pci *pci)
{
    if (!pci->valid)
        return json_null();
    return doc_made(
        json_sprintf("%04x:%02x:%02x.%x", pci->domain, pci->bus, pci->device, pci->function));
}

json_t *doc_device(int device)
{
    return device < 0 ? json_null() : doc_made(json_integer(device));
}

static const char *error_name(int code)
{
    const char *name;

    switch (-code) {
    case HMREG_ETOOSMALL:
        return "HMREG_ETOOSMALL";
    case HMREG_EOPBADSTATE:
        return "HMREG_EOPBADSTATE";
    case HMREG_EBADFLAGS:
        return "HMREG_EBADFLAGS";
    case HMREG_ENOKEY:
        return "HMREG_ENOKEY";
    }
    name = strerrorname_np(-code);
    return name ? name : "?";
}

json_t *doc_error(const struct hmreg_error *error)
{
    return doc_pack("{s:i, s:s, s:s, s:I, s:o, s:o}", "code", error->code, "name",
                    error_name(error->code), "source", error->source, "vendor_code",
                    (json_int_t)error->vendor_code, "vendor_text", doc_text(error->vendor_text),
                    "text", doc_text(error->text));
}

json_t *doc_reason(const struct hmreg_reason *reason)
{
    return doc_pack("{s:i, s:s, s:I, s:o, s:o}", "code", reason->code, "name",
                    error_name(reason->code), "vendor_code", (json_int_t)reason->vendor_code,
                    "slug", doc_text(reason->slug), "text", doc_text(reason->text));
}

const char *doc_words(const json_t *object, const char *key)
{
    const char *words = json_string_value(json_object_get(object, key));

    return words ? words : "";
}

uint64_t doc_number(const json_t *object, const char *key)
{
    return (uint64_t)json_integer_value(json_object_get(object, key));
}

bool doc_is(const json_t *object, const char *key)
{
    return json_is_true(json_object_get(object, key));
}

bool doc_has(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);

    return value && !json_is_null(value);
}

bool doc_equals(const json_t *object, const char *key, const char *words)
{
    return !strcmp(doc_words(object, key), words);
}

const json_t *doc_find(const json_t *list, const char *key, const char *words)
{
    const json_t *item;

    doc_each(item, list)
        if (doc_equals(item, key, words))
            return item;
    return NULL;
}

const char *doc_device_words(const json_t *object, char buf[32])
{
    snprintf(buf, 32, doc_has(object, "device") ? "%s %" PRIu64 : "host",
             doc_words(object, "iface"), doc_number(object, "device"));
    return buf;
}

const char *doc_bytes_words(uint64_t bytes, char buf[32])
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
    uint64_t whole = bytes, rest = 0;
    size_t unit = 0;

    for (; whole >= 1024 && unit + 1 < COUNT(units); unit++) {
        rest = whole % 1024;
        whole /= 1024;
    }
    if (rest)
        snprintf(buf, 32, "%" PRIu64 ".%" PRIu64 " %s", whole, rest * 10 / 1024, units[unit]);
    else
        snprintf(buf, 32, "%" PRIu64 " %s", whole, units[unit]);
    return buf;
}

#define MOST_CHARACTERS 100

void names_add(struct names *names, const char *name)
{
    size_t used = strlen(names->text);

    names->count++;
    if (used && used + strlen(name) + 2 > MOST_CHARACTERS) {
        names->left_out++;
        return;
    }
    snprintf(names->text + used, sizeof(names->text) - used, "%s%.100s", used ? ", " : "", name);
}

void names_add_list(struct names *names, const json_t *list)
{
    const json_t *name;

    doc_each(name, list)
        names_add(names, json_string_value(name));
}

const char *names_text(struct names *names)
{
    size_t used = strlen(names->text);

    if (names->left_out)
        snprintf(names->text + used, sizeof(names->text) - used, " and %zu more", names->left_out);
    names->left_out = 0;
    return names->text;
}

void doc_print_json(const json_t *document)
{
    json_dumpf(document, stdout, JSON_INDENT(2));
    putchar('\n');
}
