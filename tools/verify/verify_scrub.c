/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Removes from texts all that identifies people and machines. Drivers and libraries write these
 * texts, so their form is unknown: a word is judged by its look, and in case of ambiguity removed.
 * A PCI address and a version of up to three numbers stay.
 */
#include "tools/verify/verify.h"

#include <ctype.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#define HEX    "0123456789abcdefABCDEF"
#define SERIAL 12 /* a row of this many hexadecimal digits may be an identity */

struct scrub {
    char host[256], host_first[256], user[256];
};

static void who(struct scrub *scrub)
{
    const struct passwd *user = getpwuid(getuid());

    memset(scrub, 0, sizeof(*scrub));
    gethostname(scrub->host, sizeof(scrub->host) - 1);
    snprintf(scrub->host_first, sizeof(scrub->host_first), "%.*s", (int)strcspn(scrub->host, "."),
             scrub->host);
    snprintf(scrub->user, sizeof(scrub->user), "%s", user ? user->pw_name : "");
}

/* ---- what a text begins with: its length, or 0 ------------------------------------------ */

static bool is_word(int character)
{
    return isalnum(character) || character == '_' || character == '-';
}

/* before: the character before the text. */
static size_t user_length(const char *text, const char *user, int before)
{
    size_t length = strlen(user);

    return length && !is_word(before) && before != '.' && !strncmp(text, user, length) &&
                   !is_word((unsigned char)text[length])
               ? length
               : 0;
}

/* Names of devices contain the host's: HOST-ib0, rxe_HOST. */
static size_t host_length(const char *text, const char *host, int before)
{
    size_t length = strlen(host);

    return length && !isalnum(before) && !strncasecmp(text, host, length) &&
                   !isalnum((unsigned char)text[length])
               ? length
               : 0;
}

static size_t path_length(const char *text)
{
    size_t length = strcspn(text, " \t\n\"'`,;()<>|");

    if (text[0] != '/' || length < 2 || (!isalnum((unsigned char)text[1]) && text[1] != '.'))
        return 0;
    if (!strstr(text, "..") && (!strncmp(text, "/usr/", 5) || !strncmp(text, "/sys/", 5)))
        return 0;
    return length;
}

/* IPv4 and IPv6, MAC and GID, GUID. */
static size_t address_length(const char *text)
{
    size_t length = strspn(text, HEX ":."), digits = strspn(text, "0123456789.");
    int colons = 0, dots = 0;

    for (size_t i = 0; i < length; i++)
        colons += text[i] == ':';
    for (size_t i = 0; i + 1 < digits; i++)
        dots += text[i] == '.' && isdigit((unsigned char)text[i + 1]);
    if (colons >= 3 || (colons == 2 && length > 3 && memmem(text, length, "::", 2)))
        return length;
    return isdigit((unsigned char)text[0]) && dots >= 3 ? digits : 0;
}

/* A run of that many digits, or groups joined by '-' with such a run (a UUID). */
static size_t serial_length(const char *text)
{
    size_t prefix = text[0] == '0' && (text[1] == 'x' || text[1] == 'X') ? 2 : 0;
    size_t length = strspn(text + prefix, HEX), most = length;

    while (length && text[prefix + length] == '-' && strspn(text + prefix + length + 1, HEX)) {
        size_t group = strspn(text + prefix + length + 1, HEX);

        most = group > most ? group : most;
        length += group + 1;
    }
    return most >= SERIAL ? prefix + length : 0;
}

/* ---- texts ------------------------------------------------------------------------------ */

/* The secret that a text begins with, and what replaces it; before: the character before it. */
static size_t secret_length(const struct scrub *scrub, const char *text, int before,
                            const char **instead)
{
    bool inside = is_word(before) || before == '.';
    size_t length;

    if ((length = serial_length(text))) {
        *instead = "(number)";
        return length;
    }
    if ((length = host_length(text, scrub->host, before)) ||
        (length = host_length(text, scrub->host_first, before))) {
        *instead = "(host)";
        return length;
    }
    if ((length = user_length(text, scrub->user, before))) {
        *instead = "(user)";
        return length;
    }
    if (!inside && (length = address_length(text))) {
        *instead = "(address)";
        return length;
    }
    *instead = "(path)";
    return inside ? 0 : path_length(text);
}

/* The text without secrets; the caller frees it. */
static char *scrubbed(const struct scrub *scrub, const char *text)
{
    size_t room = strlen(text) * 9 + 16; /* no secret is shorter than one byte */
    char *out = malloc(room), *end = out;
    int before = ' ';

    if (!out)
        doc_no_memory();
    while (*text) {
        const char *instead;
        size_t length = secret_length(scrub, text, before, &instead);

        if (length) {
            end = stpcpy(end, instead);
            text += length;
            before = ' ';
            continue;
        }
        before = (unsigned char)*text;
        *end++ = *text++;
    }
    *end = '\0';
    return out;
}

bool verify_is_secret(const char *text)
{
    struct scrub scrub;
    char *clean;
    bool secret;

    who(&scrub);
    clean = scrubbed(&scrub, text);
    secret = strcmp(clean, text) != 0;
    free(clean);
    return secret;
}

/* ---- values ----------------------------------------------------------------------------- */

static void scrub_value(const struct scrub *scrub, json_t *value)
{
    const char *key;
    json_t *item;
    char *clean;

    if (json_is_object(value))
        json_object_foreach(value, key, item)
            scrub_value(scrub, item);
    doc_each(item, json_is_array(value) ? value : NULL)
        scrub_value(scrub, item);
    if (!json_is_string(value))
        return;
    clean = scrubbed(scrub, json_string_value(value));
    if (json_string_set(value, clean)) {
        json_decref(doc_text(clean));
        json_string_set(value, "(not UTF-8)");
    }
    free(clean);
}

void verify_scrub(json_t *value)
{
    struct scrub scrub;

    who(&scrub);
    scrub_value(&scrub, value);
}
