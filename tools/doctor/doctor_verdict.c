/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Derives the verdict from the facts: runs every judge, including the one for proofs, and writes
 * the summary sentence.
 */
#include "tools/doctor/doctor.h"
#include "tools/doctor/findings.h"

#include <stdio.h>
#include <string.h>

/* ---- proofs ----------------------------------------------------------------------------- */

static bool is_direct(const json_t *pair)
{
    return !doc_equals(pair, "path", "none") && !doc_equals(pair, "path", "mapped");
}

/* Has the proof no result because its fabric's process hung or crashed? See judge_stopped(). */
static bool is_stopped(const json_t *described)
{
    return doc_has(json_object_get(described, "proof"), "stopped");
}

/* Judges a pair's proof. Pairs without a direct path have other findings. */
static void judge_pair(const json_t *pair, json_t *findings)
{
    static const char *const codes[][2] = {
        {"failed", "loopback-failed"},
        {"wrong-bytes", "loopback-wrong-bytes"},
        {"untried", "loopback-untried"},
    };
    const json_t *proof = json_object_get(pair, "proof");

    for (size_t i = 0; i < 3; i++) {
        char where[160], rest[1200];

        if (!is_direct(pair) || is_stopped(pair) || strcmp(proof_result(pair), codes[i][0]))
            continue;
        snprintf(where, sizeof(where), "a transfer over %.120s", doc_words(pair, "fabric"));
        snprintf(rest, sizeof(rest), ", by %.16s: %s.", doc_words(pair, "path"),
                 doc_words(proof, "text"));
        finding_add_about(findings, &(struct found){.code = codes[i][1],
                                                    .where = where,
                                                    .nic = doc_words(pair, "nic"),
                                                    .device = doc_words(pair, "device"),
                                                    .rest = rest,
                                                    .error = (int)doc_number(proof, "errno")});
    }
}

/* The pair of this fabric's NIC and this memory, if it describes this fabric. */
static const json_t *pair_of(const json_t *facts, const json_t *fabric, const json_t *memory)
{
    const json_t *pair;
    char name[32];

    doc_device_words(memory, name);
    doc_each(pair, json_object_get(facts, "pairs"))
        if (doc_equals(pair, "nic", doc_words(fabric, "nic")) &&
            doc_equals(pair, "fabric", doc_words(fabric, "fabric")) &&
            doc_equals(pair, "device", name))
            return pair;
    return NULL;
}

static bool host_is_proven(const json_t *fabric)
{
    const json_t *memory;

    doc_each(memory, json_object_get(fabric, "memory"))
        if (!doc_has(memory, "device") && !strcmp(proof_result(memory), "proven"))
            return true;
    return false;
}

/* Has the transfer of host memory succeeded on any library's fabric of this NIC? */
static bool nic_is_proven(const json_t *facts, const char *nic)
{
    const json_t *fabric;

    doc_each(fabric, json_object_get(facts, "fabrics"))
        if (doc_equals(fabric, "nic", nic) && host_is_proven(fabric))
            return true;
    return false;
}

/* Does a fabric's failure need a finding although no pair describes the memory? Yes for host memory
 * on a NIC if it fails with every library, and for any memory on loopback. */
static bool is_of_others(const json_t *facts, const json_t *fabric, const json_t *memory)
{
    if (doc_has(fabric, "nic"))
        return !doc_has(memory, "device") && !nic_is_proven(facts, doc_words(fabric, "nic"));
    return doc_equals(fabric, "provider", "loopback");
}

/* Does the proof need a finding of its own because no pair describes it? Wrong bytes always do. */
static bool needs_finding(const json_t *facts, const json_t *fabric, const json_t *memory)
{
    const char *result = proof_result(memory);

    if (!strcmp(result, "wrong-bytes"))
        return !pair_of(facts, fabric, memory);
    return !strcmp(result, "failed") && !is_stopped(memory) && is_of_others(facts, fabric, memory);
}

static void judge_others(const json_t *facts, const json_t *fabric, json_t *findings)
{
    const json_t *memory;
    char where[160], lead[64], rest[1200];

    snprintf(where, sizeof(where), "a transfer over %.120s", doc_words(fabric, "fabric"));
    doc_each(memory, json_object_get(fabric, "memory")) {
        const json_t *proof = json_object_get(memory, "proof");
        bool failed = !strcmp(proof_result(memory), "failed");

        if (!needs_finding(facts, fabric, memory))
            continue;
        snprintf(lead, sizeof(lead), "%.32s memory over ",
                 doc_has(memory, "device") ? doc_words(memory, "iface") : "Host");
        snprintf(rest, sizeof(rest), ": %s.", doc_words(proof, "text"));
        finding_add_about(
            findings, &(struct found){.code = failed ? "loopback-failed" : "loopback-wrong-bytes",
                                      .where = where,
                                      .nic = doc_words(fabric, "fabric"),
                                      .lead = lead,
                                      .rest = rest,
                                      .error = (int)doc_number(proof, "errno")});
    }
}

/* One finding for a fabric whose process hung or crashed, if a pair or a fabric of its own is then
 * without a proof. */
static void judge_stopped(const json_t *facts, const json_t *fabric, json_t *findings)
{
    struct names untested = {.count = 0};
    char name[32], where[160], at[80] = "", rest[400];
    const char *nic = doc_words(fabric, doc_has(fabric, "nic") ? "nic" : "fabric"), *text = "";
    const json_t *memory, *pair;
    bool matters = false;

    doc_each(memory, json_object_get(fabric, "memory")) {
        if (!is_stopped(memory))
            continue;
        pair = pair_of(facts, fabric, memory);
        matters |= pair ? is_direct(pair) : is_of_others(facts, fabric, memory);
        text = doc_words(json_object_get(memory, "proof"), "stopped");
        doc_device_words(memory, name);
        if (strcmp(proof_result(memory), "failed"))
            names_add(&untested, name);
        else
            snprintf(at, sizeof(at), " with %s %.32s",
                     doc_has(memory, "device") ? "memory of" : name,
                     doc_has(memory, "device") ? name : "memory");
    }
    snprintf(where, sizeof(where), "a transfer over %.120s", doc_words(fabric, "fabric"));
    if (!strncmp(text, nic, strlen(nic)))
        text += strlen(nic);
    snprintf(rest, sizeof(rest), "%.120s%s%s%s.", text, at, untested.count ? "; not tested: " : "",
             names_text(&untested));
    if (matters)
        finding_add_about(findings,
                          &(struct found){.code = at[0] ? "loopback-failed" : "loopback-untried",
                                          .where = where,
                                          .nic = nic,
                                          .rest = rest});
}

void proof_judge(const json_t *facts, json_t *findings)
{
    const json_t *pair, *fabric;

    doc_each(pair, json_object_get(facts, "pairs"))
        judge_pair(pair, findings);
    doc_each(fabric, json_object_get(facts, "fabrics")) {
        judge_stopped(facts, fabric, findings);
        judge_others(facts, fabric, findings);
    }
}

/* ---- the verdict ------------------------------------------------------------------------ */

json_t *doctor_judge(const json_t *facts)
{
    static void (*const judges[])(const json_t *, json_t *) = {
        paths_judge, proof_judge,    ways_judge,   nics_judge,
        gpus_judge,  topology_judge, kernel_judge, process_judge,
    };
    json_t *findings = doc_array(), *arranged;

    for (size_t i = 0; i < COUNT(judges); i++)
        judges[i](facts, findings);
    arranged = causes_arrange(findings, facts);
    json_decref(findings);
    return arranged;
}

struct count {
    size_t pairs, direct, proven, simulated;
    size_t devices, simulated_devices;
};

static struct count count_pairs(const json_t *facts)
{
    const json_t *pair, *device;
    struct count count = {0};

    doc_each(pair, json_object_get(facts, "pairs")) {
        count.pairs++;
        count.direct += is_direct(pair);
        count.proven += is_direct(pair) && !strcmp(proof_result(pair), "proven");
        count.simulated += doc_is(pair, "simulated");
    }
    doc_each(device, json_object_get(facts, "devices")) {
        count.devices++;
        count.simulated_devices += doc_is(device, "simulated");
    }
    return count;
}

/* The title of the first finding: it is broken, or the cause of a broken one. */
static const char *first_title(const json_t *findings)
{
    const json_t *first = json_array_get(findings, 0);
    const struct finding *finding = finding_find(doc_words(first, "code"));

    return finding ? finding->title : "";
}

/* Words about the pairs or, where there is none, about the devices. */
static const char *simulated_words(const struct count *count)
{
    size_t all = count->pairs ? count->pairs : count->devices;
    size_t simulated = count->pairs ? count->simulated : count->simulated_devices;

    return !simulated        ? ""
           : simulated < all ? " Some devices are simulated."
                             : " The devices are simulated.";
}

json_t *doctor_summary(const json_t *facts, const json_t *findings)
{
    struct count count = count_pairs(facts);
    const char *simulated = simulated_words(&count);
    char more[80];

    if (findings_worst(findings) == SEVERITY_BROKEN && !count.proven)
        return doc_format("GPUDirect is broken here: %s.%s", first_title(findings), simulated);
    if (findings_worst(findings) == SEVERITY_BROKEN)
        return doc_format("GPUDirect works for %zu of %zu pairs of device and NIC; broken: %s.%s",
                          count.proven, count.pairs, first_title(findings), simulated);
    if (!count.direct)
        return doc_format("No GPUDirect here: the CPU moves the memory of devices.%s", simulated);
    if (!count.proven)
        return doc_format("GPUDirect has a path for %zu of %zu pairs of device and NIC, not "
                          "proven by a transfer.%s",
                          count.direct, count.pairs, simulated);
    snprintf(more, sizeof(more), " %zu more %s a path, not proven by a transfer.",
             count.direct - count.proven, count.direct - count.proven == 1 ? "has" : "have");
    return doc_format("GPUDirect works for %zu of %zu pairs of device and NIC, proven by writing, "
                      "reading and comparing bytes.%s%s",
                      count.proven, count.pairs, count.proven < count.direct ? more : "",
                      simulated);
}
