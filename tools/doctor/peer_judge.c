/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Judges the proofs between two nodes: findings, and a sentence that sums them up.
 */
#include "tools/doctor/doctor.h"
#include "tools/doctor/findings.h"
#include "tools/doctor/peer.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static void name_pair(const json_t *facts, const json_t *pair, char name[512])
{
    snprintf(name, 512, "%.100s with %.100s's %.100s%s%.64s%s", doc_words(pair, "nic"),
             doc_words(json_object_get(facts, "peer"), "host"), doc_words(pair, "peer_nic"),
             doc_equals(pair, "provider", "ofi") ? " (libfabric's " : "",
             doc_equals(pair, "provider", "ofi") ? doc_words(pair, "fabric") : "",
             doc_equals(pair, "provider", "ofi") ? ")" : "");
}

static void add(const json_t *facts, const json_t *pair, json_t *findings, const char *code,
                const char *rest)
{
    char name[512], where[64];

    name_pair(facts, pair, name);
    snprintf(where, sizeof(where), "a transfer over %.40s", doc_words(pair, "nic"));
    finding_add_about(findings,
                      &(struct found){.code = code, .where = where, .nic = name, .rest = rest});
}

/* ---- the connection --------------------------------------------------------------------- */

static void judge_meeting(const json_t *peer, json_t *findings)
{
    static const char *const means[][2] = {
        {"no-route",
         "no host answers at that address: its link or ours is down, or no route leads there"},
        {"port-down", "the interface that leads there is down"},
        {"refused", "the host answers, but no process listens on that port"},
        {"timeout", "no packet came back: the host or its link is down, or a filter drops packets"},
    };
    const char *meaning = "";
    char where[300];

    for (size_t i = 0; i < COUNT(means); i++)
        if (doc_equals(peer, "fault", means[i][0]))
            meaning = means[i][1];
    snprintf(where, sizeof(where), "connect() to %.200s, port %.15s", doc_words(peer, "host"),
             doc_words(peer, "port"));
    finding_add(findings, "peer-unreachable", where, "%s, port %s: %s: %s.",
                doc_words(peer, "host"), doc_words(peer, "port"), doc_words(peer, "error"),
                meaning);
}

/* ---- pairs ------------------------------------------------------------------------------ */

static const char *code_of(const json_t *pair)
{
    static const char *const codes[][2] = {
        {"port-down", "peer-port-down"}, {"no-route", "peer-no-route"}, {"refused", "peer-refused"},
        {"timeout", "peer-timeout"},     {"mtu", "peer-mtu"},
    };
    const json_t *proof = json_object_get(pair, "proof");

    if (doc_equals(proof, "result", "wrong-bytes"))
        return "peer-wrong-bytes";
    if (doc_equals(proof, "result", "untried"))
        return "peer-untried";
    for (size_t i = 0; i < COUNT(codes); i++)
        if (doc_equals(proof, "fault", codes[i][0]))
            return codes[i][1];
    return "peer-failed";
}

static void judge_failed(const json_t *facts, const json_t *pair, json_t *findings)
{
    const json_t *memory;
    char rest[1200];

    if (!json_array_size(json_object_get(pair, "memories"))) {
        snprintf(rest, sizeof(rest), ": %.1000s.",
                 doc_words(json_object_get(pair, "proof"), "text"));
        add(facts, pair, findings, code_of(pair), rest);
    }
    doc_each(memory, json_object_get(pair, "memories")) {
        json_t *of = doc_pack("{s:O}", "proof", memory);

        snprintf(rest, sizeof(rest), ", %.60s with %.60s: %.1000s.", doc_words(memory, "memory"),
                 doc_words(memory, "peer_memory"), doc_words(memory, "text"));
        if (!doc_equals(memory, "result", PEER_PROVEN))
            add(facts, pair, findings, code_of(of), rest);
        json_decref(of);
    }
}

static void judge_ports(const json_t *facts, const json_t *pair, json_t *findings)
{
    uint64_t own = doc_number(json_object_get(pair, "port"), "mtu");
    uint64_t theirs = doc_number(json_object_get(pair, "peer_port"), "mtu");
    char rest[128];

    if (!own || !theirs || own == theirs)
        return;
    snprintf(rest, sizeof(rest), ": the MTU is %" PRIu64 " here and %" PRIu64 " there.", own,
             theirs);
    add(facts, pair, findings, "peer-mtu-differs", rest);
}

static uint64_t rated(const json_t *pair)
{
    uint64_t own = doc_number(json_object_get(pair, "port"), "rated_mbps");
    uint64_t theirs = doc_number(json_object_get(pair, "peer_port"), "rated_mbps");

    return own < theirs ? own : theirs;
}

/* Judges NICs only: the CPU limits other fabrics. */
static void judge_rate(const json_t *facts, const json_t *pair, json_t *findings)
{
    const json_t *memory;
    bool slow = false;
    char rest[128];

    doc_each(memory, json_object_get(pair, "memories"))
        slow |= doc_equals(memory, "result", PEER_PROVEN) &&
                doc_number(memory, "write_mbps") < rated(pair) / 2;
    snprintf(rest, sizeof(rest), ": less than half of the rated %.1f Gb/s.",
             (double)rated(pair) / 1000);
    if (slow && !doc_is(pair, "cpu"))
        add(facts, pair, findings, "peer-slow", rest);
}

/* A failed transfer is repeated, and the repetition counted; its own finding says what failed. */
static void judge_errors(const json_t *facts, const json_t *pair, json_t *findings)
{
    static const char *const sides[][2] = {{"risen", "here"}, {"peer_risen", "on the other node"}};

    for (size_t i = 0; i < COUNT(sides); i++) {
        struct names names = {.count = 0};
        char rest[400];

        port_errors_name(json_object_get(pair, sides[i][0]), &names);
        snprintf(rest, sizeof(rest), ": the port %s counted errors: %.300s.", sides[i][1],
                 names_text(&names));
        if (names.count)
            add(facts, pair, findings, "peer-errors", rest);
    }
}

void peer_judge(const json_t *facts, json_t *findings)
{
    const json_t *peer = json_object_get(facts, "peer"), *pairs = json_object_get(facts, "pairs");
    const json_t *pair;

    if (doc_has(peer, "error"))
        judge_meeting(peer, findings);
    else if (!json_array_size(pairs))
        finding_add(findings, "peer-no-pair", "the lists of both nodes",
                    "No fabric here has a counterpart of the same kind on %s.",
                    doc_words(peer, "host"));
    doc_each(pair, pairs) {
        if (strcmp(proof_result(pair), PEER_PROVEN) != 0)
            judge_failed(facts, pair, findings);
        else
            judge_errors(facts, pair, findings);
        judge_ports(facts, pair, findings);
        judge_rate(facts, pair, findings);
    }
}

json_t *peer_summary(const json_t *facts)
{
    const json_t *peer = json_object_get(facts, "peer"), *pairs = json_object_get(facts, "pairs");
    const json_t *pair;
    size_t proven = 0;

    if (doc_has(peer, "error"))
        return doc_format("%s was not reached.", doc_words(peer, "host"));
    doc_each(pair, pairs)
        proven += !strcmp(proof_result(pair), PEER_PROVEN);
    return doc_format("%zu of %zu pairs of NICs with %s proven by writing, reading and comparing "
                      "bytes.",
                      proven, json_array_size(pairs), doc_words(peer, "host"));
}
