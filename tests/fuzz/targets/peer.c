/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * What the other node of `hmreg doctor --peer` may send. The first byte chooses. Bytes of a
 * stranger: no answer proves the secret, and no frame opens but the one that was made. Or JSON of a
 * node that has the secret, a list and results: of any, pairs are made, and a report that reads
 * back.
 */
#include "tests/fuzz/targets/read_back.h"
#include "tests/fuzz/targets/target.h"
#include "tools/doctor/doctor.h"
#include "tools/doctor/peer.h"

#include <stdio.h>
#include <string.h>

static const struct peer_secret secret = {.bytes = "a secret of two nodes", .size = 21};

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    return !freopen("/dev/null", "w", stdout);
}

/* ---- a stranger ------------------------------------------------------------------------- */

static void try_answer(struct input *input)
{
    uint8_t greeting[WIRE_GREETING], answer[WIRE_ANSWER] = WIRE_MAGIC, proof[WIRE_PROOF];
    struct wire wire;

    PROMISED(wire_greet(&wire, greeting));
    input_patch(input, answer, sizeof(answer));
    PROMISED(!wire_prove(&wire, &secret, answer, proof));
}

static void try_frame(struct input *input)
{
    static const char payload[] = "{\"do\":\"list\"}";
    uint8_t frame[WIRE_HEADER + sizeof(payload) + PEER_MAC], made[sizeof(frame)];
    struct wire wire = {.sent = 0};
    size_t size = wire_seal(&wire, payload, sizeof(payload), frame), given;

    memcpy(made, frame, size);
    given = input_byte(input) & 1 ? input_byte(input) % size : size;
    input_patch(input, frame, size);
    PROMISED(wire_size(frame) <= WIRE_FRAME);
    PROMISED(wire_open(&wire, frame, given) == (given == size && !memcmp(made, frame, size)));
}

/* ---- a node that has the secret --------------------------------------------------------- */

static json_t *own_list(void)
{
    return json_pack("[{s:s, s:s, s:s, s:s, s:b, s:{s:s, s:s, s:i, s:i}}]", "id", "verbs a",
                     "provider", "verbs", "fabric", "a", "nic", "a", "cpu", 0, "port", "state",
                     "ACTIVE", "link", "Ethernet", "rated_mbps", 100000, "mtu", 1500);
}

static void judge(json_t *pairs)
{
    json_t *findings = json_array(), *document, *arranged;
    json_t *facts =
        json_pack("{s:{s:s, s:s}, s:O}", "peer", "host", "b", "port", "1", "pairs", pairs);

    peer_judge(facts, findings);
    arranged = causes_arrange(findings, facts);
    document = json_pack("{s:s, s:o, s:O, s:O}", "verdict", "broken", "summary",
                         peer_summary(facts), "findings", arranged, "facts", facts);
    must_read_back(document);
    doctor_print_text(document);
    json_decref(document);
    json_decref(arranged);
    json_decref(facts);
    json_decref(findings);
}

static void try_json(const char *text, size_t size)
{
    json_t *given = json_loadb(text, size, 0, NULL), *own = own_list(), *pairs, *pair;
    size_t i;

    pairs = peer_pairs(own, json_is_array(given) ? given : json_object_get(given, "list"));
    PROMISED(json_array_size(pairs) <= PEER_PAIRS);
    json_array_foreach(pairs, i, pair) {
        json_object_set(pair, "proof", json_object_get(given, "proof"));
        json_object_set(pair, "memories", json_object_get(given, "memories"));
    }
    judge(pairs);
    json_decref(pairs);
    json_decref(own);
    json_decref(given);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input input = {data, size};
    char words[300], host[256], port[16];

    switch (input_byte(&input) % 4) {
    case 0:
        try_answer(&input);
        break;
    case 1:
        try_frame(&input);
        break;
    case 2:
        input_text(&input, words, sizeof(words));
        if (peer_split(words, host, port))
            PROMISED(strspn(port, "0123456789") == strlen(port) && strstr(words, host));
        break;
    default:
        try_json((const char *)input.at, input.left);
    }
    return 0;
}
