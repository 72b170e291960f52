/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * RDMA devices, as the kernel lists them and as the fabric libraries open them; and the kernel's
 * peer-memory clients for them.
 */
#include "tools/doctor/doctor.h"
#include "tools/doctor/findings.h"
#include "tools/root.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- facts ------------------------------------------------------------------------------ */

static json_t *ports(const char *nic)
{
    json_t *list = doc_array(), *name;
    json_t *names = root_list("/sys/class/infiniband/%s/ports", nic);
    size_t i;

    json_array_foreach(names, i, name) {
        const char *port = json_string_value(name);
        char state[32] = "", *words;

        /* "4: ACTIVE" */
        root_read(state, sizeof(state), "/sys/class/infiniband/%s/ports/%s/state", nic, port);
        words = strchr(state, ' ') ? strchr(state, ' ') + 1 : state;
        doc_add(list, doc_pack("{s:i, s:o}", "port", atoi(port), "state", doc_text(words)));
    }
    json_decref(names);
    return list;
}

/* The device's file, "" if the kernel created none. */
static void find_file(const char *nic, char *buf, size_t size)
{
    json_t *names = root_list("/sys/class/infiniband_verbs"), *name;

    buf[0] = '\0';
    doc_each(name, names) {
        const char *verbs = json_string_value(name);
        char owner[64];

        if (root_read(owner, sizeof(owner), "/sys/class/infiniband_verbs/%s/ibdev", verbs) &&
            !strcmp(owner, nic))
            snprintf(buf, size, "/dev/infiniband/%s", verbs);
    }
    json_decref(names);
}

static json_t *describe_nic(const char *nic)
{
    json_t *described = doc_object();
    char file[128];

    find_file(nic, file, sizeof(file));
    doc_set(described, "name", doc_text(nic));
    /* Software devices such as Soft-RoCE are on no bus. */
    doc_set(described, "pci", root_target_fact("/sys/class/infiniband/%s/device", nic));
    doc_set(described, "firmware", root_text_fact("/sys/class/infiniband/%s/fw_ver", nic));
    doc_set(described, "ports", ports(nic));
    doc_set(described, "file", doc_text(file));
    doc_set(described, "file_state", doc_text(file[0] ? root_state(file) : "missing"));
    return described;
}

json_t *nics_facts(void)
{
    json_t *nics = doc_array(), *names = root_list("/sys/class/infiniband"), *name;

    doc_each(name, names)
        doc_add(nics, describe_nic(json_string_value(name)));
    json_decref(names);
    return nics;
}

json_t *peers_facts(void)
{
    static const char *const modules[] = {"nvidia_peermem", "nv_peer_mem", "efa_nv_peermem"};
    json_t *loaded = doc_array();

    for (size_t i = 0; i < COUNT(modules); i++)
        if (root_exists("/sys/module/%s", modules[i]))
            doc_add(loaded, doc_text(modules[i]));
    return doc_pack("{s:o, s:o}", "clients", root_list("/sys/kernel/mm/memory_peers"), "modules",
                    loaded);
}

/* ---- judging ---------------------------------------------------------------------------- */

/* Counts the RDMA devices behind the libraries' fabrics, each device once. */
size_t nics_count(const json_t *facts)
{
    json_t *seen = doc_object();
    const json_t *fabric;
    size_t count;

    doc_each(fabric, json_object_get(facts, "fabrics"))
        if (doc_has(fabric, "nic"))
            doc_set(seen, doc_words(fabric, "nic"), json_true());
    count = json_object_size(seen);
    json_decref(seen);
    return count;
}

static void judge_files(const json_t *facts, json_t *findings)
{
    const json_t *nic;

    doc_each(nic, json_object_get(facts, "nics")) {
        const char *file = doc_words(nic, "file"), *state = doc_words(nic, "file_state");

        if (!strcmp(state, "good"))
            continue;
        finding_add(findings, "nic-no-node",
                    "/sys/class/infiniband, /sys/class/infiniband_verbs, /dev/infiniband",
                    "The kernel has the RDMA device %s, and its file %s is %s.",
                    doc_words(nic, "name"), file[0] ? file : "/dev/infiniband/uverbs*",
                    !strcmp(state, "closed") ? "closed to this user" : "missing");
    }
}

static void judge_ports(const json_t *facts, json_t *findings)
{
    struct names down = {.count = 0};
    const json_t *nic;

    doc_each(nic, json_object_get(facts, "nics"))
        if (!doc_find(json_object_get(nic, "ports"), "state", "ACTIVE"))
            names_add(&down, doc_words(nic, "name"));
    if (down.count)
        finding_add(findings, "port-down", "/sys/class/infiniband/*/ports/*/state",
                    "No port is active of %s.", names_text(&down));
}

static bool any_opened(const json_t *facts, const char *nic)
{
    const json_t *fabric;

    doc_each(fabric, json_object_get(facts, "fabrics"))
        if (doc_equals(fabric, "nic", nic) && doc_is(fabric, "opened"))
            return true;
    return false;
}

/* Reports a NIC only if no fabric of any library opens it. */
static void judge_opened(const json_t *facts, json_t *findings)
{
    const json_t *fabric;

    doc_each(fabric, json_object_get(facts, "fabrics"))
        if (doc_has(fabric, "nic") && !any_opened(facts, doc_words(fabric, "nic")))
            finding_add(findings, "nic-not-opened", doc_words(fabric, "provider"),
                        "%s could not be opened (%s): %s.", doc_words(fabric, "nic"),
                        doc_words(fabric, "fabric"),
                        doc_words(json_object_get(fabric, "error"), "text"));
}

/* ---- limits ----------------------------------------------------------------------------- */

static uint64_t most_memory(const json_t *facts)
{
    const json_t *device;
    uint64_t most = 0;

    doc_each(device, json_object_get(facts, "devices"))
        if (doc_number(device, "memory") > most)
            most = doc_number(device, "memory");
    return most;
}

static void judge_limits(const json_t *facts, const json_t *fabric, json_t *findings)
{
    uint64_t cached = doc_number(json_object_get(facts, "cache"), "regions");
    uint64_t regions = doc_number(fabric, "max_mr"), size = doc_number(fabric, "max_mr_size");
    uint64_t memory = most_memory(facts);
    char longest[32], all[32];

    if (regions && cached && regions < cached)
        finding_add(findings, "mr-count-low", "ibv_query_device(), the cache's limit",
                    "%s can have %" PRIu64 " regions, the cache of one domain holds up to %" PRIu64
                    ".",
                    doc_words(fabric, "nic"), regions, cached);
    if (size && size < memory)
        finding_add(findings, "mr-size-low", "the domain's limits (max_mr_size)",
                    "%s takes regions of up to %s, and a device here has %s of memory.",
                    doc_words(fabric, "nic"), doc_bytes_words(size, longest),
                    doc_bytes_words(memory, all));
}

void nics_judge(const json_t *facts, json_t *findings)
{
    const json_t *fabric;

    judge_files(facts, findings);
    judge_ports(facts, findings);
    judge_opened(facts, findings);
    doc_each(fabric, json_object_get(facts, "fabrics"))
        if (doc_has(fabric, "nic") && doc_is(fabric, "opened"))
            judge_limits(facts, fabric, findings);
}
