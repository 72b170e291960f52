/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See fabrics.h. Loopback is here; each other library has a separate file.
 */
#include "tools/fabrics.h"

#include "tools/loop.h"

#include <hmreg/loopback.h>
#include <stdio.h>
#include <string.h>

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
        if (!list->provider || !strcmp(list->provider, libraries[i].provider))
            doc_add(described, describe_library(&libraries[i], list));
    doc_set(document, "fabric_libraries", described);
    doc_set(document, "fabrics", list->fabrics);
}

/* ---- order ------------------------------------------------------------------------------ */

/* Does the NIC itself reach device memory? By path mapped the CPU does. */
static bool reaches_devices(const json_t *fabric)
{
    const json_t *memory;

    doc_each(memory, json_object_get(fabric, "memory"))
        if (doc_equals(memory, "best", "dmabuf") || doc_equals(memory, "best", "peermem"))
            return true;
    return false;
}

enum rank { RDMA_DEVICE, OVER_RDMA_DEVICE, REACHES_DEVICES, SOFTWARE, LOOPBACK, RANKS };

static enum rank rank_of(const json_t *fabric)
{
    if (doc_equals(fabric, "provider", "verbs"))
        return RDMA_DEVICE;
    if (doc_has(fabric, "nic"))
        return OVER_RDMA_DEVICE;
    if (doc_equals(fabric, "provider", "loopback"))
        return LOOPBACK;
    return reaches_devices(fabric) ? REACHES_DEVICES : SOFTWARE;
}

static void order(json_t *document, const char *key)
{
    json_t *list = json_object_get(document, key), *one, *ordered = doc_array();
    size_t i;

    for (enum rank rank = RDMA_DEVICE; rank < RANKS; rank++)
        json_array_foreach(list, i, one)
            if (rank_of(one) == rank)
                doc_add(ordered, json_incref(one));
    doc_set(document, key, ordered);
}

void fabrics_order(json_t *document)
{
    order(document, "fabrics");
    order(document, "fabric_libraries");
}

/* ---- --fabric --------------------------------------------------------------------------- */

const char *fabrics_take_name(const char *value, void *options)
{
    ((struct fabric_options *)options)->fabric = value;
    return value[0] ? NULL : "a name in the columns fabric and domain of hmreg info is accepted";
}

void fabrics_fail_if_none(json_t *document, const struct fabric_options *options,
                          const json_t *fabrics)
{
    if (options->fabric && !json_array_size(fabrics))
        doc_add(json_object_get(document, "failures"),
                doc_format("there is no fabric %s here; hmreg info lists the fabrics",
                           options->fabric));
}
