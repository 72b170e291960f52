/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * hmreg plan: how ranges of given sizes would be registered on each fabric, and what does not fit.
 */
#include "tools/command.h"
#include "tools/fabrics.h"
#include "tools/notes.h"
#include "tools/table.h"

#include <hmreg/plan.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define MOST_SIZES 32
#define MOST_SIZE  (UINT64_C(1) << 60)
#define USUAL_SIZE (UINT64_C(1) << 30)

struct options {
    bool json;
    enum hmreg_iface iface;
    int device;
    uint64_t sizes[MOST_SIZES];
    size_t count;
};

/* ---- document --------------------------------------------------------------------------- */

struct planner {
    struct fabric_list list; /* first: a visit gets its address */
    const struct options *options;
    json_t *plans, *failures;
};

static json_t *describe_limits(const struct hmreg_plan *plan)
{
    json_t *limits = doc_array();

    for (int i = 0; i < HMREG_PLAN_KINDS; i++) {
        const struct hmreg_plan_limit *limit = &plan->limits[i];

        doc_add(limits,
                doc_pack("{s:s, s:o, s:o, s:o, s:o}", "limit",
                         hmreg_plan_kind_name((enum hmreg_plan_kind)i), "value",
                         doc_count(limit->limit, HMREG_LIMIT_NONE), "needed",
                         doc_count(limit->needed, UINT64_MAX), "fits",
                         doc_count(limit->fits, UINT64_MAX), "text", doc_text(limit->text)));
    }
    return limits;
}

static json_t *describe_plan(const struct fabric *fabric, const struct hmreg_plan *plan)
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
    doc_set(described, "limits", describe_limits(plan));
    return described;
}

static void plan_fabric(struct fabric_list *list, const struct fabric *fabric,
                        struct hmreg_domain *domain, json_t *unused)
{
    struct planner *planner = (struct planner *)list;
    const struct options *options = planner->options;

    for (size_t i = 0; i < options->count; i++) {
        struct hmreg_plan plan = {.size = sizeof(plan)};

        if (hmreg_domain_plan(domain, options->iface, options->device, options->sizes[i], &plan)) {
            doc_add(planner->failures,
                    doc_format("%s: %s", fabric->name, hmreg_last_error()->text));
            return; /* no size would do */
        }
        doc_add(planner->plans, describe_plan(fabric, &plan));
    }
}

static json_t *describe(struct hmreg *lib, const void *given)
{
    struct planner planner = {.list = {.lib = lib, .visit = plan_fabric}, .options = given};
    json_t *document = doc_new("plan"), *fabrics = doc_object();

    planner.plans = doc_array();
    planner.failures = doc_array();
    fabrics_visit(&planner.list, fabrics);
    json_decref(fabrics);
    doc_set(document, "iface", doc_text(hmreg_iface_name(planner.options->iface)));
    doc_set(document, "device",
            planner.options->iface == HMREG_IFACE_SYSTEM ? json_null()
                                                         : doc_device(planner.options->device));
    doc_set(document, "plans", planner.plans);
    doc_set(document, "failures", planner.failures);
    return document;
}

/* ---- text ------------------------------------------------------------------------------- */

#define KIND(name)  (1u << HMREG_PLAN_##name)
#define REGISTERING (KIND(MAX_MR) | KIND(MEMLOCK) | KIND(DESCRIPTORS) | KIND(MEMORY))
#define CACHING     (KIND(CACHE_REGIONS) | KIND(CACHE_BYTES))

/* "all", "4 MiB", "none", with the notes of those of the kinds of limits that leave less. */
static void add_fitting(struct table *table, const json_t *plan, const char *key, unsigned kinds,
                        json_t *notes)
{
    uint64_t size = doc_number(plan, "size"), fits = doc_number(plan, key);
    const json_t *limits = json_object_get(plan, "limits");
    char cell[256], bytes[32];
    size_t used;

    used = (size_t)snprintf(cell, sizeof(cell), "%s",
                            fits == size ? "all"
                            : fits       ? doc_bytes_words(fits, bytes)
                                         : "none");
    for (int i = 0; i < HMREG_PLAN_KINDS; i++) {
        const json_t *limit = json_array_get(limits, (size_t)i);
        const char *text = doc_words(limit, "text");

        if (kinds & 1u << i && doc_number(limit, "fits") < size)
            used += (size_t)snprintf(cell + used, sizeof(cell) - used, " [%zu]",
                                     note_number(notes, text, text));
    }
    if (!strcmp(doc_words(plan, "path"), "none") && kinds == REGISTERING)
        snprintf(cell + used, sizeof(cell) - used, " [%zu]",
                 note_number(notes, "path", "every path is refused: hmreg info has the reasons"));
    table_add(table, "%s", cell);
}

static void add_plan(struct table *table, const json_t *plan, json_t *notes)
{
    char bytes[32];

    table_add(table, "%s", doc_words(plan, "fabric"));
    table_add(table, "%s", doc_words(plan, "domain"));
    table_add(table, "%s", doc_bytes_words(doc_number(plan, "size"), bytes));
    table_add(table, "%s", doc_words(plan, "path"));
    table_add(table, "%" PRIu64, doc_number(plan, "regions"));
    table_add(table, "%s", doc_bytes_words(doc_number(plan, "region_len"), bytes));
    table_add(table, "%" PRIu64, doc_number(plan, "exports"));
    add_fitting(table, plan, "fits", REGISTERING, notes);
    add_fitting(table, plan, "cacheable", CACHING, notes);
}

static void print_text(const json_t *document)
{
    struct table *table = table_new("fabric", "domain", ">size", "path", ">regions", ">of up to",
                                    ">exports", "fits", "cacheable", NULL);
    json_t *notes = doc_array();
    const json_t *plan, *failure;
    char name[32];

    print_line("Memory: %s", doc_device_words(document, name));
    doc_each(plan, json_object_get(document, "plans"))
        add_plan(table, plan, notes);
    table_print(table);
    print_notes(notes);
    doc_each(failure, json_object_get(document, "failures"))
        print_paragraph("", "%s", json_string_value(failure));
    json_decref(notes);
}

/* ---- the command ------------------------------------------------------------------------ */

static int status_of(const json_t *document)
{
    return json_array_size(json_object_get(document, "failures")) ? EXIT_FAILED : EXIT_GOOD;
}

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

static const char *take_device(const char *value, void *options)
{
    long device;

    if (!options_number(value, 0, 4096, &device))
        return "a device's index is accepted, from 0";
    ((struct options *)options)->device = (int)device;
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
    {"iface", "NAME", "memory of this iface: system (host), cuda, rocr, ze", take_iface},
    {"device", "INDEX", "memory of the iface's device with this index; 0 unless said", take_device},
    {"json", NULL, "JSON instead of tables; its keys are in hmreg-plan(1)", options_take_json},
    {0},
};

const struct command command_plan = {
    .name = "plan",
    .summary = "show how large ranges would be registered, and what does not fit",
    .description = "Shows for each fabric how a range of SIZE bytes (1G unless said) would be\n"
                   "registered: in how many regions of which length, with how many exports of\n"
                   "dmabufs, how much of it fits, how much of it a cache holds, and which limit\n"
                   "says so. No range is allocated or registered.\n",
    .examples = "  hmreg plan 64G 500G\n"
                "  hmreg plan --iface cuda --device 1 80G\n"
                "  hmreg plan --json 1T | jq '.plans[] | select(.fits < .size) | .fabric'\n",
    .failed = "there is no such device, or the library could not be opened",
    .operand = "SIZE...",
    .take_operand = take_size,
    .operands = true,
    .options = options,
    .run = run,
    .describe = describe,
    .print = print_text,
    .status = status_of,
};
