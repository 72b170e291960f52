/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * hmreg plan: how ranges of given sizes would be registered on each fabric, and what does not fit.
 */
#include "tools/command.h"
#include "tools/fabrics.h"
#include "tools/table.h"

#include <hmreg/plan.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MOST_SIZES 32
#define MOST_SIZE  (UINT64_C(1) << 60)
#define USUAL_SIZE (UINT64_C(1) << 30)
#define LEAST_STEP 4096

struct options {
    struct fabric_options fabric;
    enum hmreg_iface iface;
    int device;
    uint64_t sizes[MOST_SIZES];
    size_t count;
};

/* ---- document --------------------------------------------------------------------------- */

struct planner {
    struct fabric_list list; /* must be first: visits get its address */
    const struct options *options;
    json_t *refusals; /* keyed by sentence: the names of the fabrics with this failure */
};

static const char *const limit_names[HMREG_PLAN_KINDS] = {
    "max_len", "max_mr", "memlock", "descriptors", "cache_regions", "cache_bytes", "memory"};

static json_t *describe_limits(const struct hmreg_plan *plan)
{
    json_t *limits = doc_array();

    for (int i = 0; i < HMREG_PLAN_KINDS; i++) {
        const struct hmreg_plan_limit *limit = &plan->limits[i];

        doc_add(limits,
                doc_pack("{s:s, s:o, s:o, s:o, s:o}", "limit", limit_names[i], "value",
                         doc_count(limit->limit, HMREG_LIMIT_NONE), "needed",
                         doc_count(limit->needed, UINT64_MAX), "fits",
                         doc_count(limit->fits, UINT64_MAX), "text", doc_text(limit->text)));
    }
    return limits;
}

/* A range that needs one region does not fit: the longest that does. */
struct longest {
    uint64_t fits, cacheable; /* bytes */
};

static uint64_t longest_by(struct hmreg_domain *domain, const struct options *options, uint64_t len,
                           bool cached)
{
    uint64_t good = 0, bad = len;

    while (bad - good > LEAST_STEP && bad - good > bad >> 10) {
        uint64_t middle = good + (bad - good) / 2;
        struct hmreg_plan plan = {.size = sizeof(plan)};
        int rc = hmreg_domain_plan(domain, options->iface, options->device, middle, &plan);

        if (!rc && (cached ? plan.cacheable : plan.fits) == middle)
            good = middle;
        else
            bad = middle;
    }
    return good;
}

static struct longest find_longest(struct hmreg_domain *domain, const struct options *options,
                                   const struct hmreg_plan *plan)
{
    struct longest longest = {.fits = plan->fits, .cacheable = plan->cacheable};

    if (!longest.fits && plan->path != HMREG_PATH_NONE)
        longest.fits = longest_by(domain, options, plan->len, false);
    if (!longest.cacheable && longest.fits)
        longest.cacheable = longest_by(domain, options, plan->len, true);
    return longest;
}

static json_t *describe_plan(const struct fabric *fabric, const struct hmreg_plan *plan,
                             struct longest longest)
{
    json_t *described = doc_pack("{s:s, s:o, s:o, s:s}", "provider", fabric->provider, "fabric",
                                 doc_text(fabric->name), "domain", doc_text(fabric->domain), "path",
                                 hmreg_path_name(plan->path));

    doc_set(described, "size", doc_count(plan->len, UINT64_MAX));
    doc_set(described, "regions", doc_count(plan->regions, UINT64_MAX));
    doc_set(described, "region_len", doc_count(plan->region_len, UINT64_MAX));
    doc_set(described, "last_len", doc_count(plan->last_len, UINT64_MAX));
    doc_set(described, "exports", doc_count(plan->exports, UINT64_MAX));
    doc_set(described, "pinned", doc_count(plan->pinned, UINT64_MAX));
    doc_set(described, "fits", doc_count(plan->fits, UINT64_MAX));
    doc_set(described, "cacheable", doc_count(plan->cacheable, UINT64_MAX));
    doc_set(described, "longest", doc_count(longest.fits, UINT64_MAX));
    doc_set(described, "longest_cacheable", doc_count(longest.cacheable, UINT64_MAX));
    doc_set(described, "limits", describe_limits(plan));
    return described;
}

static void add_refusal(json_t *refusals, const char *sentence, const char *name)
{
    json_t *text = doc_text(sentence);
    const char *key = json_string_value(text);

    if (!json_object_get(refusals, key))
        doc_set(refusals, key, doc_array());
    doc_add(json_object_get(refusals, key), doc_text(name));
    json_decref(text);
}

/* Names no fabric if all fabrics say the same. */
static void add_failures(json_t *failures, json_t *refusals, bool any_plan)
{
    const char *sentence;
    const json_t *fabrics;

    json_object_foreach(refusals, sentence, fabrics) {
        struct names names = {.count = 0};

        names_add_list(&names, fabrics);
        if (any_plan || json_object_size(refusals) > 1)
            doc_add(failures, doc_format("%s: %s", names_text(&names), sentence));
        else
            doc_add(failures, doc_text(sentence));
    }
}

static void plan_fabric(struct fabric_list *list, const struct fabric *fabric,
                        struct hmreg_domain *domain, json_t *described)
{
    struct planner *planner = (struct planner *)list;
    const struct options *options = planner->options;

    doc_set(described, "plans", doc_array());
    for (size_t i = 0; i < options->count; i++) {
        struct hmreg_plan plan = {.size = sizeof(plan)};

        if (hmreg_domain_plan(domain, options->iface, options->device, options->sizes[i], &plan)) {
            add_refusal(planner->refusals, hmreg_last_error()->text, fabric->name);
            return; /* no size fits */
        }
        doc_add(json_object_get(described, "plans"),
                describe_plan(fabric, &plan, find_longest(domain, options, &plan)));
    }
}

/* The size of the device's memory; null: unknown. */
static json_t *memory_of(struct hmreg *lib, const struct options *options)
{
    struct hmreg_device_info info = {.size = sizeof(info)};

    if (options->iface == HMREG_IFACE_SYSTEM)
        return doc_count((uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE), 0);
    if (hmreg_device_query(lib, options->iface, options->device, &info))
        return json_null();
    return doc_count(info.memory, 0);
}

static json_t *describe(struct hmreg *lib, const void *given)
{
    const struct options *options = given;
    struct planner planner = {
        .list = {.lib = lib, .visit = plan_fabric, .only = options->fabric.fabric},
        .options = options,
        .refusals = doc_object()};
    json_t *document = doc_new("plan"), *found = doc_object(), *plans = doc_array();
    const json_t *fabrics, *fabric;

    fabrics_visit(&planner.list, found);
    fabrics_order(found);
    fabrics = json_object_get(found, "fabrics");
    doc_each(fabric, fabrics)
        json_array_extend(plans, json_object_get(fabric, "plans"));
    doc_set(document, "iface", doc_text(hmreg_iface_name(options->iface)));
    doc_set(document, "device",
            options->iface == HMREG_IFACE_SYSTEM ? json_null() : doc_device(options->device));
    doc_set(document, "memory", memory_of(lib, options));
    doc_set(document, "plans", plans);
    doc_set(document, "failures", doc_array());
    add_failures(json_object_get(document, "failures"), planner.refusals, json_array_size(plans));
    fabrics_fail_if_none(document, &options->fabric, fabrics);
    json_decref(planner.refusals);
    json_decref(found);
    return document;
}

/* ---- text ------------------------------------------------------------------------------- */

#define KIND(name)  (1u << HMREG_PLAN_##name)
#define REGISTERING (KIND(MAX_MR) | KIND(MEMLOCK) | KIND(DESCRIPTORS) | KIND(MEMORY))
#define CACHING     (KIND(CACHE_REGIONS) | KIND(CACHE_BYTES))

/* Columns "size" and "of up to" share a unit in which each length has at most 7 digits. Without
 * such a unit each length has its own. */
struct unit {
    const char *name; /* NULL: none */
    unsigned shift;
};

static struct unit unit_of(const json_t *plans)
{
    static const char *const names[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
    uint64_t least = UINT64_MAX, most = 0;
    const json_t *plan;
    size_t unit = 0;

    doc_each(plan, plans) {
        uint64_t size = doc_number(plan, "size"), region = doc_number(plan, "region_len");

        most = size > most ? size : most;
        least = size < least ? size : least;
        least = region && region < least ? region : least;
    }
    while (unit + 1 < COUNT(names) && least >> 10 * (unit + 1))
        unit++;
    return (struct unit){most >> 10 * unit > 9999999 ? NULL : names[unit], 10 * (unsigned)unit};
}

static json_t *length_words(uint64_t bytes, struct unit unit)
{
    uint64_t rest = bytes & ((UINT64_C(1) << unit.shift) - 1);
    char words[32];

    if (!unit.name || !bytes)
        return doc_text(doc_bytes_words(bytes, words));
    if (rest)
        return doc_format("%" PRIu64 ".%" PRIu64 " %s", bytes >> unit.shift,
                          (rest >> (unit.shift - 10)) * 10 >> 10, unit.name);
    return doc_format("%" PRIu64 " %s", bytes >> unit.shift, unit.name);
}

/* A limit's text with "12 KiB" for "12288 bytes", and the used bytes likewise, as in the table. */
static void round_bytes(const char *text, char out[256])
{
    bool in_bytes = strstr(text, " bytes");
    size_t used = 0;
    char words[32];

    while (*text && used < 255) {
        size_t digits = strspn(text, "0123456789"), word = digits ? digits : strcspn(text, " ");
        const char *after = text + word;

        if (in_bytes && digits && (!strncmp(after, " bytes", 6) || !strncmp(after, " of it ", 7))) {
            used += (size_t)snprintf(out + used, 256 - used, "%s",
                                     doc_bytes_words(strtoull(text, NULL, 10), words));
            after += after[1] == 'b' ? 6 : 0;
        } else {
            used += (size_t)snprintf(out + used, 256 - used, "%.*s", (int)word, text);
        }
        text = after;
        if (*text == ' ' && used < 255)
            out[used++] = *text++;
    }
    out[used < 255 ? used : 255] = '\0';
}

/* A process's usage of a limit changes between fabrics: the first note serves for all. A fabric's
 * own limit (max_mr) has its own text. */
static size_t limit_note(json_t *notes, const json_t *limit)
{
    const char *kind = doc_words(limit, "limit"), *text = doc_words(limit, "text");
    char key[64], words[256];

    snprintf(key, sizeof(key), "%s %" PRIu64, kind, doc_number(limit, "value"));
    round_bytes(text, words);
    return note_number(notes, strcmp(kind, "max_mr") ? key : text, words);
}

/* "all", "4 MiB", "up to 4 MiB", "none", with notes on the limits that reduce it. */
static const char *fitting(const json_t *plan, bool cached, char buf[CELL], json_t *notes)
{
    unsigned kinds = cached ? CACHING : REGISTERING;
    uint64_t size = doc_number(plan, "size"),
             fits = doc_number(plan, cached ? "cacheable" : "fits");
    uint64_t longest = doc_number(plan, cached ? "longest_cacheable" : "longest");
    const json_t *limits = json_object_get(plan, "limits");
    char bytes[32];
    size_t used;

    used = (size_t)snprintf(buf, CELL, "%s%s", fits || !longest ? "" : "up to ",
                            fits == size ? "all"
                            : longest    ? doc_bytes_words(fits ? fits : longest, bytes)
                                         : "none");
    for (int i = 0; i < HMREG_PLAN_KINDS; i++) {
        const json_t *limit = json_array_get(limits, (size_t)i);

        if (kinds & 1u << i && doc_number(limit, "fits") < size)
            used += (size_t)snprintf(buf + used, CELL - used, " [%zu]", limit_note(notes, limit));
    }
    if (!strcmp(doc_words(plan, "path"), "none") && !cached)
        snprintf(buf + used, CELL - used, " [%zu]",
                 note_number(notes, "path", "every path is refused: hmreg info has the reasons"));
    return buf;
}

static const char *cell_fits(const json_t *plan, char buf[CELL], json_t *notes)
{
    return fitting(plan, false, buf, notes);
}

static const char *cell_cacheable(const json_t *plan, char buf[CELL], json_t *notes)
{
    return fitting(plan, true, buf, notes);
}

static bool any_is_longer(const json_t *plans, uint64_t bytes)
{
    const json_t *plan;

    doc_each(plan, plans)
        if (doc_number(plan, "size") > bytes)
            return true;
    return false;
}

/* Is there an "up to"? */
static bool any_would_be_shorter(const json_t *plans)
{
    const json_t *plan;

    doc_each(plan, plans)
        if ((!doc_number(plan, "fits") && doc_number(plan, "longest")) ||
            (!doc_number(plan, "cacheable") && doc_number(plan, "longest_cacheable")))
            return true;
    return false;
}

static void print_text(const json_t *document)
{
    static const struct column columns[] = {COLUMN("library", NULL, .cell = cell_library),
                                            COLUMN("fabric", "fabric"),
                                            COLUMN("domain", "domain"),
                                            COLUMN(">size", "size_words"),
                                            COLUMN("path", "path"),
                                            COLUMN(">regions", "regions"),
                                            COLUMN(">of up to", "region_words"),
                                            COLUMN(">exports", "exports"),
                                            COLUMN("fits", NULL, .cell = cell_fits),
                                            COLUMN("cacheable", NULL, .cell = cell_cacheable),
                                            {0}};
    const json_t *plans = json_object_get(document, "plans"), *failure;
    struct unit unit = unit_of(plans);
    json_t *rows = doc_array(), *row;
    char name[32], bytes[32];

    print_line("Memory: %s, %s in all", doc_device_words(document, name),
               doc_has(document, "memory") ? doc_bytes_words(doc_number(document, "memory"), bytes)
                                           : "unknown");
    doc_each(row, plans) {
        row = doc_made(json_copy(row));
        doc_set(row, "size_words", length_words(doc_number(row, "size"), unit));
        doc_set(row, "region_words", length_words(doc_number(row, "region_len"), unit));
        doc_add(rows, row);
    }
    print_rows(columns, rows);
    json_decref(rows);
    if (doc_has(document, "device") && doc_has(document, "memory") &&
        any_is_longer(plans, doc_number(document, "memory")))
        print_paragraph("", "%s has %s, so no longer range is possible.", name, bytes);
    if (any_would_be_shorter(plans))
        print_paragraph(
            "", "up to: the range must be one region but is too long; a range of this size fits.");
    doc_each(failure, json_object_get(document, "failures"))
        print_paragraph("", "%s", json_string_value(failure));
}

/* ---- the command ------------------------------------------------------------------------ */

static const char *take_size(const char *value, void *given)
{
    struct options *options = given;

    if (options->count == MOST_SIZES)
        return "unexpected argument; 32 are accepted";
    if (!options_size(value, 1, MOST_SIZE, &options->sizes[options->count]))
        return "bytes are accepted, from 1 to 1024P, with K, M, G, T or P for powers of 1024";
    options->count++;
    return NULL;
}

static const char *take_iface(const char *value, void *options)
{
    int iface;

    if (!options_iface(value, &iface))
        return OPTIONS_IFACES;
    ((struct options *)options)->iface = (enum hmreg_iface)iface;
    return NULL;
}

static int run(const struct command *self, int argc, char **argv)
{
    struct options options = {.iface = HMREG_IFACE_SYSTEM};
    int status = options_parse(self, argc, argv, &options);

    if (!options.count)
        options.sizes[options.count++] = USUAL_SIZE;
    return status == EXIT_CONTINUE ? command_show(self, &options) : status;
}

static const struct option_def options[] = {
    FABRICS_OPTION,
    OPTION("iface", "NAME", "memory of this iface: system (host), cuda, rocr, ze", take_iface),
    OPTION_NUMBER("device", "INDEX", "memory of the iface's device with this index; default 0",
                  offsetof(struct options, device), 0, 4096, OPTIONS_DEVICES),
    OPTION_JSON("JSON instead of tables; its keys are in hmreg-plan(1)"),
    {0},
};

const struct command command_plan = {
    .name = "plan",
    .summary = "show how much of a large range can be registered, and what limits it",
    .description = "Shows for each fabric how a range of SIZE bytes (1G unless said) would be\n"
                   "registered: in how many regions of which length, with how many exports of\n"
                   "dmabufs, how much of it fits, how much of it a cache holds, and which limit\n"
                   "says so. No range is allocated or registered.\n",
    .examples = "  hmreg plan 64G 500G\n"
                "  hmreg plan --iface cuda --device 1 -p mlx5_0 80G\n"
                "  hmreg plan --json 1T | jq '.plans[] | select(.fits < .size) | .fabric'\n",
    .failed = "there is no such device or fabric, or the library cannot be opened",
    .operand = "SIZE...",
    .take_operand = take_size,
    .operands = true,
    .options = options,
    .run = run,
    .describe = describe,
    .print = print_text,
    .status = command_failures,
};
