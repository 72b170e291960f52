/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See fabric.h. Support for host memory is tested by registering a page. Device memory is not
 * allocated for a test (a CUDA allocation costs a context of hundreds of megabytes): for each path
 * we call hmreg_domain_explain() on a domain that allows only this path.
 */
#include "tools/fabric.h"

#include "tools/machine.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const enum hmreg_path device_paths[] = {HMREG_PATH_DMABUF, HMREG_PATH_PEERMEM,
                                               HMREG_PATH_MAPPED};

/* Domains on one fabric: one with defaults, and one for each path of device memory. */
struct domains {
    struct hmreg_domain *usual;
    struct hmreg_domain *only[COUNT(device_paths)];
};

static int domains_open(struct hmreg *lib, const struct fabric *fabric, struct domains *out)
{
    struct hmreg_domain_config config = {.size = sizeof(config)};
    int rc = fabric->open(fabric, lib, &config, &out->usual);

    for (size_t i = 0; i < COUNT(device_paths) && !rc; i++) {
        config.order[0] = device_paths[i];
        rc = fabric->open(fabric, lib, &config, &out->only[i]);
    }
    return rc;
}

static void domains_close(struct domains *domains)
{
    for (size_t i = 0; i < COUNT(device_paths); i++)
        hmreg_domain_close(domains->only[i]);
    hmreg_domain_close(domains->usual);
}

/* ---- one memory on one fabric ----------------------------------------------------------- */

static json_t *usable(void)
{
    return doc_pack("{s:b}", "usable", 1);
}

static json_t *refused(json_t *reason)
{
    doc_set(reason, "usable", json_false());
    return reason;
}

static json_t *host_memory(const struct domains *domains)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    void *memory = aligned_alloc(page, page);
    struct hmreg_mr *mr = NULL;
    json_t *paths = doc_object();
    int rc = hmreg_mr_reg(domains->usual, memory, page, HMREG_ACCESS_ALL, 0, 0, 0, &mr, NULL);

    doc_set(paths, "system", rc ? refused(doc_error(hmreg_last_error())) : usable());
    hmreg_mr_close(mr);
    free(memory);
    return doc_pack("{s:s, s:n, s:b, s:s, s:o}", "iface", "system", "device", "simulated", 0,
                    "best", rc ? "none" : "system", "paths", paths);
}

static json_t *path_outlook(struct hmreg_domain *domain, enum hmreg_iface iface, int device)
{
    struct hmreg_explanation explanation = {.size = sizeof(explanation)};

    if (hmreg_domain_explain(domain, iface, device, &explanation))
        return refused(doc_error(hmreg_last_error()));
    if (explanation.path != HMREG_PATH_NONE)
        return usable();
    return refused(doc_reason(&explanation.reasons[0]));
}

static json_t *device_memory(struct hmreg *lib, const struct domains *domains,
                             enum hmreg_iface iface, int device)
{
    struct hmreg_explanation best = {.size = sizeof(best)};
    struct hmreg_device_info info = {.size = sizeof(info)};
    json_t *paths = doc_object();

    hmreg_device_query(lib, iface, device, &info);
    hmreg_domain_explain(domains->usual, iface, device, &best);
    for (size_t i = 0; i < COUNT(device_paths); i++)
        doc_set(paths, hmreg_path_name(device_paths[i]),
                path_outlook(domains->only[i], iface, device));
    return doc_pack("{s:s, s:i, s:b, s:s, s:o}", "iface", hmreg_iface_name(iface), "device", device,
                    "simulated", !!(info.flags & HMREG_DEVICE_SIMULATED), "best",
                    hmreg_path_name(best.path), "paths", paths);
}

static json_t *all_memory(struct hmreg *lib, const struct domains *domains)
{
    json_t *list = doc_array();

    doc_add(list, host_memory(domains));
    for (int iface = HMREG_IFACE_SYSTEM + 1; iface < HMREG_IFACE_COUNT; iface++)
        for (int i = 0; i < machine_device_count(lib, iface); i++)
            doc_add(list, device_memory(lib, domains, iface, i));
    return list;
}

/* ---- one fabric ------------------------------------------------------------------------- */

static json_t *mode_names(uint32_t mode)
{
    static const struct {
        uint32_t bit;
        const char *name;
    } modes[] = {
        {HMREG_MR_LOCAL, "local"},         {HMREG_MR_RAW, "raw"},
        {HMREG_MR_VIRT_ADDR, "virt_addr"}, {HMREG_MR_ALLOCATED, "allocated"},
        {HMREG_MR_PROV_KEY, "prov_key"},   {HMREG_MR_MMU_NOTIFY, "mmu_notify"},
        {HMREG_MR_RMA_EVENT, "rma_event"}, {HMREG_MR_ENDPOINT, "endpoint"},
        {HMREG_MR_HMEM, "hmem"},
    };
    json_t *names = doc_array();

    for (size_t i = 0; i < COUNT(modes); i++)
        if (mode & modes[i].bit)
            doc_add(names, doc_text(modes[i].name));
    return names;
}

static json_t *fabric_named(const struct fabric *fabric)
{
    return doc_pack("{s:s, s:o, s:o, s:o}", "provider", fabric->provider, "fabric",
                    doc_text(fabric->name), "domain", doc_text(fabric->domain), "nic",
                    fabric->nic ? doc_text(fabric->nic) : json_null());
}

static void describe_domain(const struct domains *domains, json_t *described)
{
    struct hmreg_domain_info info = {.size = sizeof(info)};

    hmreg_domain_query(domains->usual, &info);
    doc_set(described, "mr_mode", mode_names(info.mr_mode));
    doc_set(described, "key_size", doc_count(info.key_size, 0));
    doc_set(described, "iov_limit", doc_count(info.iov_limit, 0));
    doc_set(described, "max_mr_size", doc_count(info.max_len, UINT64_MAX));
}

static bool has_layer(const char *name, const char *layer)
{
    size_t length = strlen(layer);

    for (; *name; name += strcspn(name, ";"), name += *name == ';')
        if (strcspn(name, ";") == length && !strncmp(name, layer, length))
            return true;
    return false;
}

bool fabric_wanted(struct fabric_list *list, const struct fabric *fabric)
{
    const char *only = list->only;

    if (list->wants && !list->wants(list, fabric))
        return false;
    return !only || !strcmp(fabric->name, only) || has_layer(fabric->name, only) ||
           !strcmp(fabric->provider, only) || !strcmp(fabric->domain, only) ||
           (fabric->nic && !strcmp(fabric->nic, only));
}

void fabric_add(struct fabric_list *list, const struct fabric *fabric)
{
    struct domains domains = {0};
    json_t *described;
    int rc;

    if (!fabric_wanted(list, fabric))
        return;
    described = fabric_named(fabric);
    rc = domains_open(list->lib, fabric, &domains);
    doc_set(described, "opened", json_boolean(rc == 0));
    doc_set(described, "error", rc ? doc_error(hmreg_last_error()) : json_null());
    if (!rc) {
        describe_domain(&domains, described);
        doc_set(described, "max_mr", doc_count(fabric->max_mr, 0));
        doc_set(described, "memory", all_memory(list->lib, &domains));
        if (list->visit)
            list->visit(list, fabric, domains.usual, described);
    }
    domains_close(&domains);
    doc_add(list->fabrics, described);
}

void fabric_add_failed(struct fabric_list *list, const struct fabric *fabric, int code,
                       const char *words)
{
    struct hmreg_error error = {.code = code, .source = fabric->provider, .vendor_code = code};
    json_t *described = fabric_named(fabric);

    snprintf(error.text, sizeof(error.text), "%s", words);
    doc_set(described, "opened", json_false());
    doc_set(described, "error", doc_error(&error));
    doc_add(list->fabrics, described);
}
