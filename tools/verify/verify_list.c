/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Lists what is here and the checks for it, in a separate process.
 */
#include "tools/fabrics.h"
#include "tools/machine.h"
#include "tools/verify/verify.h"
#include "tools/foreign.h"

#include <stdarg.h>
#include <string.h>

extern char **environ;

/* ---- memory ----------------------------------------------------------------------------- */

static void add_memory(json_t *list, struct hmreg *lib, enum hmreg_iface iface, int device,
                       enum hmreg_mem_kind kind)
{
    static const char *const kinds[] = {"host", "pinned", "device", "managed"};
    struct hmreg_device_info info = {.size = sizeof(info)};
    char name[64];

    if (iface == HMREG_IFACE_SYSTEM) {
        snprintf(name, sizeof(name), "system/%s", kinds[kind]);
    } else {
        snprintf(name, sizeof(name), "%s-%d/%s", hmreg_iface_name(iface), device, kinds[kind]);
        hmreg_device_query(lib, iface, device, &info);
    }
    doc_add(list, doc_pack("{s:s, s:i, s:i, s:i, s:b}", "name", name, "iface", (int)iface, "device",
                           device, "kind", (int)kind, "simulated",
                           !!(info.flags & HMREG_DEVICE_SIMULATED)));
}

json_t *verify_memories(struct hmreg *lib)
{
    json_t *list = doc_array();

    add_memory(list, lib, HMREG_IFACE_SYSTEM, 0, HMREG_MEM_HOST);
    for (int iface = HMREG_IFACE_SYSTEM + 1; iface < HMREG_IFACE_COUNT; iface++)
        for (int i = 0; i < machine_device_count(lib, iface); i++)
            for (int kind = HMREG_MEM_HOST_PINNED; kind <= HMREG_MEM_MANAGED; kind++)
                add_memory(list, lib, iface, i, kind);
    return list;
}

const char *verify_memory_name(const json_t *memory, char name[VERIFY_NAME])
{
    if (doc_has(memory, "device"))
        snprintf(name, VERIFY_NAME, "%s-%d/device", doc_words(memory, "iface"),
                 (int)doc_number(memory, "device"));
    else
        snprintf(name, VERIFY_NAME, "system/host");
    return name;
}

/* ---- fabrics and checks ----------------------------------------------------------------- */

struct listing {
    struct fabric_list list; /* first: its callbacks get it */
    json_t *names;
    int patience; /* seconds for an opening */
    char why[VERIFY_WHY + 40];
};

static bool name_fabric(struct fabric_list *list, const struct fabric *fabric)
{
    verify_fabric_name(fabric, ((struct listing *)list)->names);
    return true;
}

static void note_name(struct fabric_list *list, const struct fabric *fabric,
                      struct hmreg_domain *domain, json_t *described)
{
    const char *name = verify_fabric_name(fabric, ((struct listing *)list)->names);

    if (name)
        doc_set(described, "checks", doc_text(name));
}

/* libfabric opens the NICs itself, whichever of its fabrics is asked for. */
static const char *try_apart(struct fabric_list *list, const struct fabric *nic)
{
    struct listing *listing = (struct listing *)list;
    const char *name = nic ? verify_fabric_name(nic, listing->names) : "tcp";
    char how[VERIFY_WHY];

    if (!verify_opening_ends(name, listing->patience, how))
        return NULL;
    snprintf(listing->why, sizeof(listing->why), "a process that %s %s",
             nic ? "opened it" : "looked for its fabrics", how);
    return listing->why;
}

void verify_fabrics(struct hmreg *lib, json_t *document, int patience)
{
    struct listing listing = {.list = {.lib = lib,
                                       .wants = name_fabric,
                                       .refuses = patience ? try_apart : NULL,
                                       .visit = note_name},
                              .names = doc_object(),
                              .patience = patience};

    fabrics_visit(&listing.list, document);
    json_decref(listing.names);
}

static void add_check(json_t *checks, bool simulated, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static void add_check(json_t *checks, bool simulated, const char *format, ...)
{
    char name[VERIFY_NAME];
    va_list args;

    va_start(args, format);
    vsnprintf(name, sizeof(name), format, args);
    va_end(args);
    doc_add(checks, doc_pack("{s:o, s:b}", "name", doc_text(name), "simulated", simulated));
}

static bool is_simulated(const json_t *devices, const char *iface)
{
    return doc_is(doc_find(devices, "iface", iface), "simulated");
}

static void add_checks_of(json_t *checks, const char *fabric, bool nic, const json_t *memories)
{
    const json_t *memory;

    doc_each(memory, memories)
        for (const char *const *path =
                 verify_paths((enum hmreg_mem_kind)doc_number(memory, "kind"), nic);
             *path; path++)
            add_check(checks, doc_is(memory, "simulated"), "%s/%s/%s", fabric,
                      doc_words(memory, "name"), *path);
}

/* The fabrics in brief; without interfaces' names, which may contain MAC addresses. */
static json_t *fabrics_in_brief(const json_t *fabrics)
{
    json_t *list = doc_array();
    const json_t *fabric;

    doc_each(fabric, fabrics)
        doc_add(list,
                doc_pack("{s:s, s:s, s:o?, s:o?, s:b, s:s}", "provider",
                         doc_words(fabric, "provider"), "fabric", doc_words(fabric, "fabric"),
                         "nic", json_incref(json_object_get(fabric, "nic")), "checks",
                         doc_has(fabric, "checks") ? json_incref(json_object_get(fabric, "checks"))
                                                   : json_null(),
                         "opened", doc_is(fabric, "opened"), "why",
                         doc_words(json_object_get(fabric, "error"), "text")));
    return list;
}

/* Fabrics whose bytes the CPU moves come before NICs. */
static void add_fabric_checks(json_t *checks, const json_t *fabrics, const json_t *memories)
{
    const json_t *fabric;

    for (int nics = 0; nics < 2; nics++)
        doc_each(fabric, fabrics)
            if (doc_has(fabric, "checks") && doc_has(fabric, "nic") == nics)
                add_checks_of(checks, doc_words(fabric, "checks"), nics, memories);
}

/* The variables of this library and of libfabric only. */
static json_t *environment(void)
{
    json_t *set = doc_object();
    char name[64];

    for (char **at = environ; *at; at++) {
        size_t length = strcspn(*at, "=");

        if ((strncmp(*at, "HMREG_", 6) != 0 && strncmp(*at, "FI_", 3) != 0) ||
            length >= sizeof(name) || !(*at)[length])
            continue;
        snprintf(name, sizeof(name), "%.*s", (int)length, *at);
        doc_set(set, foreign_text(name), doc_text(*at + length + 1));
    }
    return set;
}

json_t *verify_inventory(struct hmreg *lib)
{
    json_t *document = doc_new("verify"), *found = doc_object(), *checks = doc_array();
    json_t *memories = verify_memories(lib), *devices = machine_devices(lib);
    const json_t *memory;

    verify_fabrics(lib, found, 0);
    for (int iface = HMREG_IFACE_SYSTEM + 1; iface < HMREG_IFACE_COUNT; iface++)
        add_check(checks, is_simulated(devices, hmreg_iface_name(iface)), "runtime/%s",
                  hmreg_iface_name(iface));
    doc_each(memory, memories)
        add_check(checks, doc_is(memory, "simulated"), "memory/%s", doc_words(memory, "name"));
    add_fabric_checks(checks, json_object_get(found, "fabrics"), memories);
    doc_set(document, "system", machine_system());
    doc_set(document, "runtimes", machine_runtimes(lib));
    doc_set(document, "devices", devices);
    doc_set(document, "fabric_libraries", json_incref(json_object_get(found, "fabric_libraries")));
    doc_set(document, "fabrics", fabrics_in_brief(json_object_get(found, "fabrics")));
    doc_set(document, "limits", machine_limits(lib));
    doc_set(document, "environment", environment());
    doc_set(document, "checks", checks);
    json_decref(memories);
    json_decref(found);
    return document;
}
