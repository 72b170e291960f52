/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See fabrics.h. Loopback is here; each other library has a separate file.
 */
#include "tools/fabrics.h"

#include "tools/loop.h"

#include <hmreg/loopback.h>
#include <stdio.h>

static int open_loopback(const struct fabric *self, struct hmreg *lib,
                         const struct hmreg_domain_config *config, struct hmreg_domain **out)
{
    return hmreg_domain_open_loopback(lib, NULL, config, out);
}

static const char *list_loopback(struct fabric_list *list)
{
    fabric_add(list, &(struct fabric){.provider = "loopback",
                                      .name = "loopback",
                                      .domain = "",
                                      .loop = &loop_loopback_ops,
                                      .open = open_loopback});
    return NULL;
}

static void own_version(char *buf, size_t size)
{
    snprintf(buf, size, "%s", hmreg_version());
}

#if !defined(HMREG_TOOL_OFI) || !defined(HMREG_TOOL_VERBS)
static void no_version(char *buf, size_t size)
{
    buf[0] = '\0';
}

static const char *not_built(struct fabric_list *list)
{
    return "this hmreg was built without it";
}
#endif

/* A fabric library. */
struct library {
    const char *provider;
    const char *name;
    void (*version)(char *buf, size_t size);
    const char *(*list)(struct fabric_list *list);
    void (*lacks)(json_t *names); /* features newer than the loaded version; may be NULL */
};

static const struct library libraries[] = {
    {"loopback", "libhmreg-loopback", own_version, list_loopback, NULL},
#ifdef HMREG_TOOL_OFI
    {"ofi", "libfabric", ofi_version, ofi_list, ofi_lacks},
#else
    {"ofi", "libfabric", no_version, not_built, NULL},
#endif
#ifdef HMREG_TOOL_VERBS
    {"verbs", "libibverbs", verbs_version, verbs_list, verbs_lacks},
#else
    {"verbs", "libibverbs", no_version, not_built, NULL},
#endif
};

static json_t *describe_library(const struct library *library, struct fabric_list *list)
{
    size_t before = json_array_size(list->fabrics);
    const char *why = library->list(list);
    json_t *lacks = doc_array();
    char version[32];

    library->version(version, sizeof(version));
    if (library->lacks)
        library->lacks(lacks);
    return doc_pack("{s:s, s:s, s:o, s:i, s:s, s:o}", "provider", library->provider, "library",
                    library->name, "version", doc_text(version), "fabrics",
                    (int)(json_array_size(list->fabrics) - before), "why", why ? why : "", "lacks",
                    lacks);
}

void fabrics_visit(struct fabric_list *list, json_t *document)
{
    json_t *described = doc_array();

    list->fabrics = doc_array();
    for (size_t i = 0; i < COUNT(libraries); i++)
        doc_add(described, describe_library(&libraries[i], list));
    doc_set(document, "fabric_libraries", described);
    doc_set(document, "fabrics", list->fabrics);
}

void fabrics_describe(struct hmreg *lib, json_t *document)
{
    fabrics_visit(&(struct fabric_list){.lib = lib}, document);
}
