/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * hmreg doctor --peer: requests the other node's list of fabrics, pairs it with this node's, has
 * each pair proven, and makes the document.
 */
#include "tools/command.h"
#include "tools/doctor/doctor.h"
#include "tools/doctor/findings.h"
#include "tools/doctor/peer.h"
#include "tools/foreign.h"
#include "tools/progress.h"
#include "tools/verify/verify.h"

#include <stdio.h>
#include <string.h>

struct asking {
    const struct peer_options *options;
    struct peer_link link;
    char host[256];
    json_t *peer;         /* of the facts */
    json_t *own, *theirs; /* lists */
    bool lost;
};

/* ---- pairs ------------------------------------------------------------------------------ */

/* A port whose state the kernel does not report counts as up. */
static bool is_down(const json_t *pair, const char *key)
{
    const char *state = doc_words(json_object_get(pair, key), "state");

    return state[0] && strcmp(state, "ACTIVE") != 0;
}

static bool fit(const json_t *own, const json_t *theirs)
{
    const json_t *port = json_object_get(own, "port"), *other = json_object_get(theirs, "port");

    return doc_equals(own, "provider", doc_words(theirs, "provider")) &&
           doc_equals(own, "fabric", doc_words(theirs, "fabric")) &&
           doc_is(own, "cpu") == doc_is(theirs, "cpu") &&
           doc_equals(port, "link", doc_words(other, "link"));
}

/* libibverbs calls a device a fabric of its name; any two of them may be a pair. */
static json_t *kind_of(const json_t *fabric)
{
    json_t *kind = json_copy((json_t *)(uintptr_t)fabric);

    if (doc_equals(fabric, "provider", "verbs"))
        doc_set(doc_made(kind), "fabric", doc_text("verbs"));
    return doc_made(kind);
}

static json_t *copied(const json_t *object, const char *key)
{
    json_t *value = json_object_get(object, key);

    return value ? json_incref(value) : json_null();
}

static void add_pair(json_t *pairs, const json_t *own, const json_t *theirs)
{
    doc_add(pairs, doc_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "provider",
                            copied(own, "provider"), "fabric", copied(own, "fabric"), "cpu",
                            copied(own, "cpu"), "nic", copied(own, "nic"), "peer_nic",
                            copied(theirs, "nic"), "id", copied(own, "id"), "peer_id",
                            copied(theirs, "id"), "port", copied(own, "port"), "peer_port",
                            copied(theirs, "port")));
}

/* One pair of fabrics that move bytes with the CPU is enough. */
json_t *peer_pairs(const json_t *own, const json_t *others)
{
    json_t *pairs = doc_array();
    const json_t *mine, *theirs;
    bool cpu = false;

    doc_each(mine, own)
        doc_each(theirs, others) {
            json_t *one = kind_of(mine), *other = json_is_object(theirs) ? kind_of(theirs) : NULL;

            if (other && fit(one, other) && !(doc_is(mine, "cpu") && cpu) &&
                json_array_size(pairs) < PEER_PAIRS) {
                add_pair(pairs, one, other);
                cpu |= doc_is(mine, "cpu");
            }
            json_decref(one);
            json_decref(other);
        }
    return pairs;
}

/* ---- proofs ----------------------------------------------------------------------------- */

static json_t *proof(const char *result, const char *fault, const char *text)
{
    return doc_pack("{s:s, s:s?, s:o}", "result", result, "fault", fault, "text", doc_text(text));
}

/* The worst result of the pair's memories. */
static json_t *proof_of_memories(const json_t *memories)
{
    static const char *const worse[] = {"wrong-bytes", "failed", "untried", PEER_PROVEN};
    const json_t *found = NULL;

    for (size_t i = 0; !found && i < COUNT(worse); i++)
        found = doc_find(memories, "result", worse[i]);
    if (!found)
        return proof("failed", "other", "its process ended without a result");
    return proof(doc_words(found, "result"),
                 doc_has(found, "fault") ? doc_words(found, "fault") : NULL,
                 doc_words(found, "text"));
}

static void prove(struct asking *asking, json_t *pair)
{
    struct loop_why why = {.text = ""};
    json_t *memories;

    progress_show("hmreg doctor: %s with %s's %s", doc_words(pair, "nic"), asking->host,
                  doc_words(pair, "peer_nic"));
    asking->lost = peer_link_send(&asking->link, doc_pack("{s:s, s:s}", "do", "pair", "fabric",
                                                          doc_words(pair, "peer_id"))) != 0;
    if (asking->lost)
        why = asking->link.why;
    memories = asking->lost ? NULL
                            : peer_relay(&asking->link, "ask", pair, asking->options->patience,
                                         &why, &asking->lost);
    if (json_is_array(memories)) {
        doc_set(pair, "proof", proof_of_memories(memories));
        doc_set(pair, "memories", memories);
        return;
    }
    json_decref(memories);
    doc_set(pair, "proof", proof("failed", "other", why.text));
}

static void prove_all(struct asking *asking, json_t *pairs)
{
    json_t *pair;

    doc_each(pair, pairs) {
        doc_set(pair, "memories", doc_array());
        doc_set(pair, "risen", json_null());
        doc_set(pair, "peer_risen", json_null());
        if (asking->lost)
            doc_set(pair, "proof",
                    proof("untried", "other", "the connection broke before its turn"));
        else if (is_down(pair, "port") || is_down(pair, "peer_port"))
            doc_set(pair, "proof",
                    proof("failed", "port-down",
                          is_down(pair, "port") ? "the port here is not active"
                                                : "the port of the other node is not active"));
        else
            prove(asking, pair);
        json_object_del(pair, "id");
        json_object_del(pair, "peer_id");
    }
    progress_end();
}

/* ---- the other node --------------------------------------------------------------------- */

/* Receives the other node's list. False: there is no verdict; an error is printed. */
static bool take_list(struct asking *asking)
{
    int64_t deadline = verify_now() + (asking->options->patience + 5) * 1000LL;
    json_t *message = peer_link_receive(&asking->link, deadline);
    bool good = false;

    if (doc_is(message, "busy")) {
        print_error("hmreg doctor: --peer %s: it is serving another peer; try again later",
                    asking->options->peer);
    } else if (!message || !json_is_array(json_object_get(message, "list"))) {
        print_error("hmreg doctor: --peer %s: it sent no list of its fabrics: %s",
                    asking->options->peer,
                    message ? doc_words(message, "why") : asking->link.why.text);
    } else {
        asking->theirs = json_incref(json_object_get(message, "list"));
        good = true;
    }
    json_decref(message);
    return good;
}

static bool take_lists(struct asking *asking)
{
    struct loop_why why = {.text = ""};
    char address[64];

    progress_show("hmreg doctor: listing the fabrics of this node and %s", asking->host);
    peer_link_address(&asking->link, address);
    if (peer_link_send(&asking->link, doc_pack("{s:s}", "do", "list")))
        asking->lost = true;
    asking->own = peer_part_run("list", address, asking->options->patience, &why);
    progress_end();
    if (!asking->own) {
        print_error("hmreg doctor: --peer: this node's fabrics could not be listed: %s", why.text);
        return false;
    }
    return take_list(asking);
}

/* Connects. Only a fault of the network is a verdict; other failures print an error. */
static bool has_met(struct asking *asking, const struct peer_secret *secret)
{
    char port[16];

    if (!peer_split(asking->options->peer, asking->host, port) || !asking->host[0]) {
        print_error("hmreg doctor: --peer %s: HOST or HOST:PORT is accepted",
                    asking->options->peer);
        return false;
    }
    asking->peer = doc_pack("{s:o, s:s}", "host", doc_text(asking->host), "port", port);
    doc_set(asking->peer, "error", json_null());
    doc_set(asking->peer, "fault", json_null());
    if (!peer_link_open(&asking->link, asking->host, port, secret))
        return true;
    if (asking->link.why.fault == LOOP_OTHER) {
        print_error("hmreg doctor: --peer %s: %s", asking->options->peer, asking->link.why.text);
        return false;
    }
    doc_set(asking->peer, "error", doc_text(asking->link.why.text));
    doc_set(asking->peer, "fault", doc_text(loop_fault_name(asking->link.why.fault)));
    return true;
}

/* ---- the document ----------------------------------------------------------------------- */

static int show(struct asking *asking, json_t *pairs)
{
    static const char *const verdicts[SEVERITIES] = {"good", "degraded", "broken"};
    json_t *document = doc_new("doctor"), *found = doc_array(), *findings;
    json_t *facts = doc_pack("{s:O, s:o}", "peer", asking->peer, "pairs", pairs);
    int status;

    peer_judge(facts, found);
    findings = causes_arrange(found, facts);
    status = (int)findings_worst(findings);
    doc_set(document, "verdict", doc_text(verdicts[status]));
    doc_set(document, "summary", peer_summary(facts));
    doc_set(document, "findings", findings);
    doc_set(document, "facts", facts);
    if (asking->options->json)
        doc_print_json(document);
    else
        asking->options->print(document);
    json_decref(found);
    json_decref(document);
    return status;
}

int peer_ask(const struct peer_options *options)
{
    static struct asking asking;
    static struct peer_secret secret;
    const char *wrong = peer_secret_read(options->secret, &secret);
    int status = EXIT_ERROR;
    json_t *pairs;

    asking.options = options;
    asking.link.fd = -1;
    if (wrong)
        print_error("hmreg doctor: --secret %s: %s", options->secret, wrong);
    else if (has_met(&asking, &secret) && (asking.link.fd < 0 || take_lists(&asking))) {
        pairs = peer_pairs(asking.own, asking.theirs);
        prove_all(&asking, pairs);
        status = show(&asking, pairs);
    }
    peer_link_end(&asking.link);
    peer_link_close(&asking.link);
    json_decref(asking.own);
    json_decref(asking.theirs);
    json_decref(asking.peer);
    return status;
}
