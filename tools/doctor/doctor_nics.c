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

/* Words that mark a driver's counter as an error counter. */
static bool counts_errors(const char *name)
{
    static const char *const words[] = {"err",      "discard", "drop",         "downed",
                                        "recovery", "timeout", "retry",        "out_of_s",
                                        "overrun",  "nak",     "out_of_buffer"};

    for (size_t i = 0; i < COUNT(words); i++)
        if (strstr(name, words[i]))
            return !strstr(name, "flush"); /* as queue pairs end */
    return false;
}

static void add_errors(json_t *errors, const char *nic, const char *port, const char *folder)
{
    json_t *names = root_list("/sys/class/infiniband/%s/ports/%s/%s", nic, port, folder), *name;

    doc_each(name, names) {
        const char *counter = json_string_value(name);
        json_t *count = !counts_errors(counter)
                            ? NULL
                            : root_number_fact("/sys/class/infiniband/%s/ports/%s/%s/%s", nic, port,
                                               folder, counter);

        if (json_integer_value(count) > 0)
            doc_set(errors, counter, json_incref(count));
        json_decref(count);
    }
    json_decref(names);
}

json_t *port_errors(const char *nic, const char *port)
{
    json_t *errors = doc_object();

    add_errors(errors, nic, port, "counters");
    add_errors(errors, nic, port, "hw_counters");
    return errors;
}

/* "4: ACTIVE", "5: LinkUp": the word. */
static json_t *state_fact(const char *nic, const char *port, const char *file)
{
    char state[48] = "", *words;

    root_read(state, sizeof(state), "/sys/class/infiniband/%s/ports/%s/%s", nic, port, file);
    words = strstr(state, ": ");
    return doc_text(words ? words + 2 : state);
}

static json_t *describe_port(const char *nic, const char *port)
{
    json_t *described = doc_pack("{s:i}", "port", atoi(port));

    doc_set(described, "state", state_fact(nic, port, "state"));
    doc_set(described, "physical", state_fact(nic, port, "phys_state"));
    doc_set(described, "link",
            root_text_fact("/sys/class/infiniband/%s/ports/%s/link_layer", nic, port));
    doc_set(described, "rate", root_text_fact("/sys/class/infiniband/%s/ports/%s/rate", nic, port));
    doc_set(described, "errors", port_errors(nic, port));
    return described;
}

static json_t *ports(const char *nic)
{
    json_t *list = doc_array(), *name;
    json_t *names = root_list("/sys/class/infiniband/%s/ports", nic);
    size_t i;

    json_array_foreach(names, i, name)
        doc_add(list, describe_port(nic, json_string_value(name)));
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

json_t *port_errors_risen(const json_t *before, const json_t *now)
{
    json_t *risen = doc_object(), *count;
    const char *counter;

    json_object_foreach((json_t *)(uintptr_t)now, counter, count)
        if (json_integer_value(count) > (json_int_t)doc_number(before, counter))
            doc_set(risen, counter,
                    doc_made(json_integer(json_integer_value(count) -
                                          (json_int_t)doc_number(before, counter))));
    return risen;
}

void nics_look_again(json_t *nics)
{
    json_t *nic, *port;
    char number[24];

    doc_each(nic, nics)
        doc_each(port, json_object_get(nic, "ports")) {
            json_t *errors;

            snprintf(number, sizeof(number), "%" PRIu64, doc_number(port, "port"));
            errors = port_errors(doc_words(nic, "name"), number);
            doc_set(port, "risen", port_errors_risen(json_object_get(port, "errors"), errors));
            doc_set(port, "errors", errors);
        }
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
        snprintf(words, size, "not accessible to this user");
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

/* Has the NIC's library said so in the proof? */
static bool was_down(const json_t *fabric)
{
    const json_t *memory;

    doc_each(memory, json_object_get(fabric, "memory"))
        if (doc_equals(json_object_get(memory, "proof"), "fault", "port-down"))
            return true;
    return false;
}

/* Whether no port is active, by name of each NIC. A container's sysfs may have none of them. */
static json_t *down_by_name(const json_t *facts)
{
    json_t *names = doc_object();
    const json_t *nic, *fabric;

    doc_each(nic, json_object_get(facts, "nics"))
        doc_set(names, doc_words(nic, "name"), json_boolean(is_down(nic)));
    doc_each(fabric, json_object_get(facts, "fabrics")) {
        const char *name = doc_words(fabric, "nic");

        if (doc_has(fabric, "nic") && (was_down(fabric) || !json_object_get(names, name)))
            doc_set(names, name, json_boolean(was_down(fabric)));
    }
    return names;
}

static void judge_ports(const json_t *facts, json_t *findings)
{
    json_t *names = down_by_name(facts), *down;
    const char *name, *code = "no-port";

    json_object_foreach(names, name, down)
        if (!json_is_true(down))
            code = "port-down";
    json_object_foreach(names, name, down)
        if (json_is_true(down))
            finding_add_about(
                findings,
                &(struct found){.code = code,
                                .where = doc_find(json_object_get(facts, "nics"), "name", name)
                                             ? "/sys/class/infiniband/*/ports/*/state"
                                             : "ibv_query_port()",
                                .nic = name,
                                .lead = "No port is active on ",
                                .rest = "."});
    json_decref(names);
}

void port_errors_name(const json_t *risen, struct names *names)
{
    const char *counter;
    char words[80];
    json_t *more;

    json_object_foreach((json_t *)(uintptr_t)risen, counter, more) {
        snprintf(words, sizeof(words), "%.48s by %" PRIu64, counter,
                 (uint64_t)json_integer_value(more));
        names_add(names, words);
    }
}

/* Errors of this command's transfers, or of others at that time. */
static void judge_errors(const json_t *facts, json_t *findings)
{
    const json_t *nic, *port;

    doc_each(nic, json_object_get(facts, "nics"))
        doc_each(port, json_object_get(nic, "ports")) {
            struct names names = {.count = 0};
            char rest[300];

            port_errors_name(json_object_get(port, "risen"), &names);
            snprintf(rest, sizeof(rest), " counted errors on port %" PRIu64 ": %s.",
                     doc_number(port, "port"), names_text(&names));
            if (names.count)
                finding_add_about(findings,
                                  &(struct found){.code = "port-errors",
                                                  .where = "/sys/class/infiniband/*/ports/*/"
                                                           "counters and hw_counters",
                                                  .nic = doc_words(nic, "name"),
                                                  .rest = rest});
        }
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
                 " can have %" PRIu64 " regions, but the cache of one domain holds up to %" PRIu64
                 ".",
                 regions, cached);
        finding_add_about(findings,
                          &(struct found){.code = "mr-count-low",
                                          .where = "ibv_query_device(), the cache's limit",
                                          .nic = doc_words(fabric, "nic"),
                                          .rest = rest});
    }
    if (size && size < memory) {
        snprintf(rest, sizeof(rest),
                 ": its regions have up to %s, but a device here has %s of memory.",
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
    judge_errors(facts, findings);
    judge_opened(facts, findings);
    doc_each(fabric, json_object_get(facts, "fabrics"))
        if (doc_has(fabric, "nic") && doc_is(fabric, "opened"))
            judge_limits(facts, fabric, findings);
}
