/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * RDMA devices, as the kernel lists them and as the fabric libraries open them; and the kernel's
 * peer-memory clients for them.
 */
#include "tools/doctor/doctor.h"
#include "tools/doctor/findings.h"
#include "tools/root.h"

#include <errno.h>
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
    doc_set(described, "file_access", file[0] ? root_access(file) : json_null());
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

/* "root:rdma 0660, and you are ann (uid 1000); its group rdma may open it" */
static const char *access_words(const json_t *nic, const json_t *process, char *words, size_t size)
{
    const json_t *access = json_object_get(nic, "file_access");
    const char *group = doc_words(access, "group");
    bool may = (strtoul(doc_words(access, "mode"), NULL, 8) & 060) == 060 && strcmp(group, "root");

    if (doc_has(nic, "file_access"))
        snprintf(words, size, "%.32s:%.32s %.8s, and you are %.32s (uid %" PRIu64 ")%s%.32s%s",
                 doc_words(access, "owner"), group, doc_words(access, "mode"),
                 doc_words(process, "user"), doc_number(process, "uid"), may ? "; its group " : "",
                 may ? group : "", may ? " may open it" : "");
    else
        snprintf(words, size, "closed to this user");
    return words;
}

static void judge_files(const json_t *facts, json_t *findings)
{
    const json_t *nic;

    doc_each(nic, json_object_get(facts, "nics")) {
        const char *file = doc_words(nic, "file"), *state = doc_words(nic, "file_state");

        bool closed = !strcmp(state, "closed");
        char rest[400], access[200];

        if (!strcmp(state, "good"))
            continue;
        snprintf(rest, sizeof(rest), ": the file %.120s is %s.",
                 file[0] ? file : "/dev/infiniband/uverbs*",
                 closed
                     ? access_words(nic, json_object_get(facts, "process"), access, sizeof(access))
                     : "missing");
        finding_add_about(
            findings,
            &(struct found){.code = "nic-no-node",
                            .where = closed ? file
                                            : "/sys/class/infiniband, "
                                              "/sys/class/infiniband_verbs, /dev/infiniband",
                            .nic = doc_words(nic, "name"),
                            .rest = rest,
                            .key = closed ? access : "missing",
                            .error = closed ? EACCES : ENOENT});
    }
}

static bool is_down(const json_t *nic)
{
    return !doc_find(json_object_get(nic, "ports"), "state", "ACTIVE");
}

static void judge_ports(const json_t *facts, json_t *findings)
{
    const json_t *nic, *nics = json_object_get(facts, "nics");
    size_t down = 0;

    doc_each(nic, nics)
        down += is_down(nic);
    doc_each(nic, nics)
        if (is_down(nic))
            finding_add_about(
                findings,
                &(struct found){.code = down == json_array_size(nics) ? "no-port" : "port-down",
                                .where = "/sys/class/infiniband/*/ports/*/state",
                                .nic = doc_words(nic, "name"),
                                .lead = "No port is active of ",
                                .rest = "."});
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
    char rest[900];

    doc_each(fabric, json_object_get(facts, "fabrics")) {
        const char *nic = doc_words(fabric, "nic"), *name = doc_words(fabric, "fabric");
        const json_t *error = json_object_get(fabric, "error");
        bool other = strcmp(nic, name) != 0;

        if (!nic[0] || any_opened(facts, nic))
            continue;
        snprintf(rest, sizeof(rest), " could not be opened%s%.64s%s: %s.", other ? " (" : "",
                 other ? name : "", other ? ")" : "", doc_words(error, "text"));
        finding_add_about(findings, &(struct found){.code = "nic-not-opened",
                                                    .where = doc_words(fabric, "provider"),
                                                    .nic = nic,
                                                    .rest = rest,
                                                    .error = -(int)json_integer_value(
                                                        json_object_get(error, "code"))});
    }
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
    char longest[32], all[32], rest[160];

    if (regions && cached && regions < cached) {
        snprintf(rest, sizeof(rest),
                 " can have %" PRIu64 " regions, the cache of one domain holds up to %" PRIu64 ".",
                 regions, cached);
        finding_add_about(findings,
                          &(struct found){.code = "mr-count-low",
                                          .where = "ibv_query_device(), the cache's limit",
                                          .nic = doc_words(fabric, "nic"),
                                          .rest = rest});
    }
    if (size && size < memory) {
        snprintf(rest, sizeof(rest), ": regions of up to %s, and a device here has %s of memory.",
                 doc_bytes_words(size, longest), doc_bytes_words(memory, all));
        finding_add_about(findings, &(struct found){.code = "mr-size-low",
                                                    .where = "the domain's limits (max_mr_size)",
                                                    .nic = doc_words(fabric, "nic"),
                                                    .rest = rest});
    }
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
