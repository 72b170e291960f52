/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The process that serves one peer, which has proven the secret to the command. Its standard input
 * is the connection; its standard output goes to the command, which prints it.
 *
 *     peer    {"do": "list"}                     server  {"list": [...]}
 *     peer    {"do": "pair", "fabric": ID}       then both run their part of the pair, and
 *             send its messages as {"say": ...} and its end as {"end": WHY, "risen": ERRORS}
 */
#include "tools/command.h"
#include "tools/doctor/peer.h"
#include "tools/foreign.h"
#include "tools/verify/verify.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct session {
    struct peer_link link;
    int patience;
    json_t *fabrics; /* the list; NULL: not asked for yet */
    unsigned pairs;
    bool lost;
};

static void send_list(struct session *session)
{
    struct loop_why why = {.text = ""};
    char address[64];

    peer_link_address(&session->link, address);
    json_decref(session->fabrics);
    session->fabrics = peer_part_run("list", address, session->patience, &why);
    session->lost =
        peer_link_send(&session->link,
                       doc_pack("{s:o, s:o}", "list",
                                session->fabrics ? json_incref(session->fabrics) : json_null(),
                                "why", doc_text(why.text))) != 0;
}

/* Only a name of the list reaches a process. */
static void serve_pair(struct session *session, const char *fabric)
{
    json_t *listed = (json_t *)(uintptr_t)doc_find(session->fabrics, "id", fabric);
    struct loop_why why;

    if (!listed || session->pairs++ == PEER_PAIRS) {
        session->lost =
            peer_link_send(&session->link, doc_pack("{s:s}", "end", "it refused this pair"));
        return;
    }
    json_decref(
        peer_relay(&session->link, "serve", listed, session->patience, &why, &session->lost));
}

static bool serve_one(struct session *session, int64_t end)
{
    int64_t idle = verify_now() + PEER_IDLE * 1000LL;
    json_t *message = peer_link_receive(&session->link, idle < end ? idle : end);

    if (!message)
        return false;
    if (doc_equals(message, "do", "list"))
        send_list(session);
    else if (doc_equals(message, "do", "pair"))
        serve_pair(session, doc_words(message, "fabric"));
    json_decref(message);
    return !session->lost;
}

static bool take_nonces(const char *text, struct wire *wire)
{
    unsigned byte;

    if (strlen(text) != 2 * sizeof(wire->nonces) ||
        strspn(text, "0123456789abcdef") != 2 * sizeof(wire->nonces))
        return false;
    for (size_t i = 0; i < sizeof(wire->nonces); i++) {
        sscanf(text + 2 * i, "%2x", &byte);
        wire->nonces[i] = (uint8_t)byte;
    }
    return true;
}

int peer_part(int argc, char **argv)
{
    long patience;

    if (argc == 2)
        return peer_child(argv[0], argv[1]);
    if (argc == 4 && !strcmp(argv[0], "session") && options_number(argv[3], 1, 3600, &patience))
        return peer_session(argv[1], argv[2], (int)patience);
    print_error("hmreg doctor: " PEER_PART " is for hmreg's own processes only");
    return EXIT_ERROR;
}

int peer_session(const char *secret_file, const char *nonces, int patience)
{
    static struct session session;
    static struct peer_secret secret;
    int64_t end = verify_now() + PEER_SESSION * 1000LL;

    session.patience = patience;
    session.link.fd = STDIN_FILENO;
    if (!take_nonces(nonces, &session.link.wire) || peer_secret_read(secret_file, &secret))
        return EXIT_ERROR;
    wire_resume(&session.link.wire, &secret);
    while (serve_one(&session, end))
        continue;
    json_decref(session.fabrics);
    /* Prints before the connection closes: the command can then serve another peer. */
    printf("proved %u pairs\n", session.pairs);
    return EXIT_GOOD;
}
