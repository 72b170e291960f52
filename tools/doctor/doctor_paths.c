/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Pairs of an RDMA device and a device with memory: the path that registration takes, the better
 * paths that are refused and why, and the proof's result. If several libraries offer the same NIC,
 * the pair describes the one with the better path.
 */
#include "tools/doctor/doctor.h"
#include "tools/doctor/findings.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- pairs ------------------------------------------------------------------------------ */

/* The place of a refusal that the fabric or the runtime reported. */
#define TRIED "the registration that was tried (hmreg info lists each path)"

static const char *const path_order[] = {"dmabuf", "peermem", "mapped"};

/* 0 is the best path; "none" is last. */
static size_t rank(const char *path)
{
    size_t i = 0;

    while (i < COUNT(path_order) && strcmp(path_order[i], path))
        i++;
    return i;
}

/* The path that the proof's registration took; without one, the expected path. */
static const char *path_of(const json_t *memory)
{
    const json_t *proof = json_object_get(memory, "proof");

    if (doc_has(proof, "path"))
        return doc_words(proof, "path");
    return json_array_size(json_object_get(proof, "refused")) ? "none" : doc_words(memory, "best");
}

/* The vendor's code is the kernel's errno value if the library's own only means that the path is
 * refused. */
static int error_of(const json_t *reason)
{
    int code = (int)json_integer_value(json_object_get(reason, "code"));
    int vendor = (int)json_integer_value(json_object_get(reason, "vendor_code"));

    return vendor ? abs(vendor) : -code;
}

static json_t *refusal(const char *path, const json_t *reason)
{
    return doc_pack("{s:s, s:s, s:s, s:i}", "path", path, "slug", doc_words(reason, "slug"), "text",
                    doc_words(reason, "text"), "error", error_of(reason));
}

/* The refusals of better paths: from the proof's registration, else the expected ones. */
static json_t *refusals(const json_t *memory)
{
    const json_t *made = json_object_get(json_object_get(memory, "proof"), "refused"), *reason;
    json_t *list = doc_array();
    size_t i, best = rank(path_of(memory));

    json_array_foreach(made, i, reason)
        doc_add(list, refusal(doc_words(reason, "path"), reason));
    for (i = 0; !json_array_size(made) && i < COUNT(path_order) && i < best; i++) {
        reason = json_object_get(json_object_get(memory, "paths"), path_order[i]);
        if (reason && !doc_is(reason, "usable"))
            doc_add(list, refusal(path_order[i], reason));
    }
    return list;
}

static const char *distance_of(const json_t *facts, const char *nic, const char *device)
{
    const json_t *between, *topology = json_object_get(facts, "topology");

    doc_each(between, json_object_get(topology, "distances")) {
        const char *one = doc_words(between, "one"), *other = doc_words(between, "other");

        if ((!strcmp(one, nic) && !strcmp(other, device)) ||
            (!strcmp(one, device) && !strcmp(other, nic)))
            return doc_words(between, "distance");
    }
    return "?";
}

static json_t *pair(const json_t *facts, const json_t *fabric, const json_t *memory)
{
    const char *nic = doc_words(fabric, "nic");
    char name[32];

    doc_device_words(memory, name);
    return doc_pack("{s:s, s:s, s:b, s:s, s:s, s:s, s:o, s:O?}", "nic", nic, "device", name,
                    "simulated", doc_is(memory, "simulated"), "fabric", doc_words(fabric, "fabric"),
                    "path", path_of(memory), "distance", distance_of(facts, nic, name), "refused",
                    refusals(memory), "proof", json_object_get(memory, "proof"));
}

const char *proof_result(const json_t *described)
{
    return doc_words(json_object_get(described, "proof"), "result");
}

static bool is_better(const json_t *one, const json_t *other)
{
    size_t mine = rank(doc_words(one, "path")), theirs = rank(doc_words(other, "path"));

    return mine < theirs || (mine == theirs && (!strcmp(proof_result(one), "proven") ||
                                                strcmp(proof_result(other), "proven")));
}

/* Takes ownership of the pair. Of two pairs with equal NIC and device the better stays, else the
 * later: so libibverbs, listed last, represents a NIC unless libfabric is better. */
static void add_pair(json_t *pairs, json_t *pair)
{
    const json_t *other;
    size_t i;

    json_array_foreach(pairs, i, other) {
        if (!doc_equals(other, "nic", doc_words(pair, "nic")) ||
            !doc_equals(other, "device", doc_words(pair, "device")))
            continue;
        if (is_better(pair, other))
            json_array_set_new(pairs, i, pair);
        else
            json_decref(pair);
        return;
    }
    doc_add(pairs, pair);
}

json_t *paths_pairs(const json_t *facts)
{
    json_t *pairs = doc_array();
    const json_t *fabric, *memory;

    doc_each(fabric, json_object_get(facts, "fabrics"))
        doc_each(memory, json_object_get(fabric, "memory"))
            if (doc_has(fabric, "nic") && doc_has(memory, "device"))
                add_pair(pairs, pair(facts, fabric, memory));
    return pairs;
}

/* ---- presence of devices ---------------------------------------------------------------- */

static void judge_devices(const json_t *facts, json_t *findings)
{
    struct names asked = {.count = 0};
    const json_t *runtime;

    if (json_array_size(json_object_get(facts, "devices")))
        return;
    doc_each(runtime, json_object_get(facts, "runtimes"))
        if (!doc_equals(runtime, "iface", "system"))
            names_add(&asked, doc_words(runtime, "iface"));
    finding_add(findings, "no-device", "the runtimes' libraries",
                "No runtime has a device: not %s. hmreg info says why.", names_text(&asked));
}

static void judge_nics(const json_t *facts, json_t *findings)
{
    const json_t *library;
    char why[600] = "";

    if (nics_count(facts))
        return;
    doc_each(library, json_object_get(facts, "fabric_libraries")) {
        size_t used = strlen(why);

        if (doc_words(library, "why")[0])
            snprintf(why + used, sizeof(why) - used, " %s: %s.", doc_words(library, "library"),
                     doc_words(library, "why"));
    }
    finding_add(findings, "no-nic", "ibv_get_device_list(), fi_getinfo(), /sys/class/infiniband",
                "No library has an RDMA device.%s", why);
}

static void judge_simulated(const json_t *facts, json_t *findings)
{
    struct names names = {.count = 0};
    const json_t *device;

    doc_each(device, json_object_get(facts, "devices")) {
        char name[32];

        if (doc_is(device, "simulated"))
            names_add(&names, doc_device_words(device, name));
    }
    if (names.count)
        finding_add(findings, "simulated", "the runtimes' libraries",
                    "%s: simulated by a test's library, no hardware.", names_text(&names));
}

/* ---- pairs that have no path, or not the best ------------------------------------------- */

/* Does a CPU-driven fabric that reaches other machines register this device's memory? */
static bool cpu_moves(const json_t *facts, const char *device)
{
    const json_t *fabric, *memory;
    char name[32];

    doc_each(fabric, json_object_get(facts, "fabrics")) {
        if (doc_has(fabric, "nic") || !doc_equals(fabric, "provider", "ofi") ||
            !strncmp(doc_words(fabric, "fabric"), "shm", 3))
            continue;
        doc_each(memory, json_object_get(fabric, "memory"))
            if (!strcmp(doc_device_words(memory, name), device) &&
                !doc_equals(memory, "best", "none"))
                return true;
    }
    return false;
}

/* Is it the refusal of a path that NICs use? Only the CPU uses the path "mapped". */
static bool is_of_nic(const json_t *reason)
{
    return !doc_equals(reason, "path", "mapped");
}

/* " Refused: dmabuf (no-dmabuf-export), peermem (no-peer-memory)." */
static void describe_refused(const json_t *pair, char *words, size_t size)
{
    struct names names = {.count = 0};
    const json_t *reason;
    char name[128];

    doc_each(reason, json_object_get(pair, "refused")) {
        if (!is_of_nic(reason))
            continue;
        snprintf(name, sizeof(name), "%.16s (%.64s)", doc_words(reason, "path"),
                 doc_words(reason, "slug"));
        names_add(&names, name);
    }
    snprintf(words, size, "%s%s%s", names.count ? " Refused: " : "", names_text(&names),
             names.count ? "." : "");
}

/* nic: NULL: no NIC has a pair with the device. */
static void report_none(const json_t *facts, const char *nic, const char *device,
                        const char *refused, json_t *findings)
{
    bool slow = cpu_moves(facts, device);
    char rest[400];

    snprintf(rest, sizeof(rest), "%s.%s",
             slow ? "; the CPU can move the bytes, over another fabric" : "", refused);
    finding_add_about(findings, &(struct found){.code = slow ? "path-through-cpu" : "no-path",
                                                .where = TRIED,
                                                .nic = nic,
                                                .device = device,
                                                .lead = "No path leads from NIC to device for ",
                                                .rest = rest});
}

static void judge_none(const json_t *facts, json_t *findings)
{
    const json_t *pair, *device, *pairs = json_object_get(facts, "pairs");
    char refused[300], name[32];

    doc_each(pair, pairs) {
        if (!doc_equals(pair, "path", "none"))
            continue;
        describe_refused(pair, refused, sizeof(refused));
        report_none(facts, doc_words(pair, "nic"), doc_words(pair, "device"), refused, findings);
    }
    doc_each(device, json_object_get(facts, "devices"))
        if (nics_count(facts) && !doc_find(pairs, "device", doc_device_words(device, name)))
            report_none(facts, NULL, name, "", findings);
}

/* The call or file from which the library derived a reason; for other reasons the query itself. */
static const char *source_of(const char *slug)
{
    static const char *const sources[][2] = {
        {"nic-imports-no-dmabuf", "ibv_reg_dmabuf_mr() with descriptor -1"},
        {"dmabuf-probe-failed", "ibv_reg_dmabuf_mr() with descriptor -1"},
        {"kernel-too-old", "ibv_reg_dmabuf_mr() with descriptor -1"},
        {"libibverbs-too-old", "dlsym(), ibv_reg_dmabuf_mr"},
        {"dmabuf-import-failed", "ibv_reg_dmabuf_mr() with memory of the device"},
        {"no-data-direct", "mlx5dv_get_data_direct_sysfs_path()"},
        {"rdma-core-too-old", "dlsym(), mlx5dv_reg_dmabuf_mr"},
        {"data-direct-refused", "mlx5dv_reg_dmabuf_mr() with memory of the device"},
        {"peer-memory-refused", "ibv_reg_mr() with memory of the device"},
        {"no-peer-memory", "/sys/kernel/mm/memory_peers, /sys/module/nvidia_peermem, "
                           "/sys/module/nv_peer_mem, /sys/module/efa_nv_peermem"},
        {"no-dmabuf-export", "the runtime's answer for the device (hmreg info)"},
        {"libfabric-too-old", "fi_version()"},
        {"no-fi-hmem", "fi_getinfo()"},
    };

    for (size_t i = 0; i < COUNT(sources); i++)
        if (!strcmp(sources[i][0], slug))
            return sources[i][1];
    return TRIED;
}

static void report_reason(const json_t *pair, const json_t *reason, json_t *findings)
{
    const char *slug = doc_words(reason, "slug");
    char lead[640];

    snprintf(lead, sizeof(lead), "%s (", doc_words(reason, "text"));
    finding_add_about(findings, &(struct found){.code = slug,
                                                .where = source_of(slug),
                                                .nic = doc_words(pair, "nic"),
                                                .device = doc_words(pair, "device"),
                                                .lead = lead,
                                                .rest = ").",
                                                .key = slug,
                                                .error = (int)doc_number(reason, "error")});
}

static void judge_reasons(const json_t *facts, json_t *findings)
{
    const json_t *pair, *reason;

    doc_each(pair, json_object_get(facts, "pairs"))
        doc_each(reason, json_object_get(pair, "refused"))
            if (doc_words(reason, "slug")[0] && is_of_nic(reason))
                report_reason(pair, reason, findings);
}

/* ---- versions and options that may be the cause ----------------------------------------- */

static bool any_refused(const json_t *facts, const char *path)
{
    const json_t *pair, *reason;

    doc_each(pair, json_object_get(facts, "pairs"))
        doc_each(reason, json_object_get(pair, "refused"))
            if (doc_equals(reason, "path", path) && !doc_equals(pair, "path", path))
                return true;
    return false;
}

static void judge_options(const json_t *facts, json_t *findings)
{
    const json_t *kernel = json_object_get(facts, "kernel"), *value;
    struct names off = {.count = 0};
    const char *name;

    json_object_foreach(json_object_get(kernel, "options"), name, value)
        if (!strcmp(json_string_value(value), "n"))
            names_add(&off, name);
    if (off.count && any_refused(facts, "dmabuf"))
        finding_add(findings, "kernel-option-off", doc_words(kernel, "options_read_at"),
                    "A dmabuf path is refused, and the kernel's config has these off: %s.",
                    names_text(&off));
}

static void judge_libfabric(const json_t *facts, json_t *findings)
{
    const json_t *library;
    unsigned major, minor;

    if (!nics_count(facts))
        return;
    doc_each(library, json_object_get(facts, "fabric_libraries")) {
        const char *version = doc_words(library, "version");

        if (!doc_equals(library, "provider", "ofi") ||
            sscanf(version, "%u.%u", &major, &minor) != 2 || major > 1 || minor >= 20)
            continue;
        finding_add(findings, "libfabric-no-dmabuf", "fi_version()",
                    "libfabric is of version %s; dmabufs came with 1.20.", version);
    }
}

void paths_judge(const json_t *facts, json_t *findings)
{
    judge_devices(facts, findings);
    judge_nics(facts, findings);
    judge_none(facts, findings);
    judge_reasons(facts, findings);
    judge_options(facts, findings);
    judge_libfabric(facts, findings);
    judge_simulated(facts, findings);
}
