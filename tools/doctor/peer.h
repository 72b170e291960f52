/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * hmreg doctor --serve and --peer: a proof between two nodes. Three kinds of processes work on each
 * node, so that a driver that crashes or hangs costs one pair of NICs, and a stranger on the
 * network reaches no code of a fabric:
 *
 *   - the command: it asks (peer_ask.c), or waits for a peer (peer_serve.c);
 *   - on the node that serves, one for the peer that has proven the secret (peer_session.c);
 *   - one for each pair of NICs (peer_child.c), which alone calls vendors and fabrics. Its
 *     messages to the other node's process are lines of JSON on its standard output, which
 *     peer_relay.c moves.
 *
 * The nodes talk over TCP (peer_link.c) by frames that only a node with the secret can make
 * (peer_wire.c). A frame's authentication is checked before its content is read.
 */
#ifndef HMREG_TOOLS_DOCTOR_PEER_H
#define HMREG_TOOLS_DOCTOR_PEER_H

#include "tools/document.h"
#include "tools/loop.h"

#include <sys/types.h>

#define PEER_PORT    "18547"
#define PEER_PAIRS   1024        /* most pairs that a peer may request */
#define PEER_SESSION 3600        /* seconds that a peer may take */
#define PEER_IDLE    180         /* seconds that it may take between two requests */
#define PEER_FABRIC  512         /* bytes of a fabric's name */
#define PEER_PART    "--in-peer" /* the first argument of the processes that are not commands */
#define PEER_PROVEN  "proven"

/* ---- the secret (peer_secret.c) --------------------------------------------------------- */

struct peer_secret {
    uint8_t bytes[4096];
    size_t size;
};

/* Reads a regular file of this user's or root's that no other user may read or write. Returns NULL,
 * or what is wrong with it. */
const char *peer_secret_read(const char *file, struct peer_secret *out);

#define PEER_MAC 32

struct peer_part {
    const void *bytes;
    size_t size;
};
/* HMAC-SHA256 of all parts; a part with bytes NULL ends the list. */
void peer_mac(const void *key, size_t key_size, const struct peer_part *parts,
              uint8_t out[PEER_MAC]);
/* Compares in constant time. */
bool peer_mac_equals(const uint8_t one[PEER_MAC], const uint8_t other[PEER_MAC]);

/* ---- what is on the wire (peer_wire.c) -------------------------------------------------- */

#define WIRE_MAGIC    "hmreg-1\n"
#define WIRE_NONCE    32
#define WIRE_GREETING (8 + WIRE_NONCE)            /* the server's first words */
#define WIRE_ANSWER   (8 + WIRE_NONCE + PEER_MAC) /* the asker's answer, which proves its secret */
#define WIRE_PROOF    PEER_MAC                    /* the server's proof of its secret */
#define WIRE_HEADER   4                           /* bytes of a frame: the payload's length, */
#define WIRE_MOST     65536                       /* most bytes of a payload, */
#define WIRE_FRAME    (WIRE_HEADER + WIRE_MOST + PEER_MAC) /* and the authentication of both */

struct wire {
    uint8_t nonces[2 * WIRE_NONCE]; /* the server's, the asker's */
    uint8_t out_key[PEER_MAC], in_key[PEER_MAC];
    uint64_t sent, received; /* frames */
};

/* The server makes a greeting; later it checks the asker's answer and makes the proof. False: no
 * random bytes were available; the secrets differ. */
bool wire_greet(struct wire *wire, uint8_t greeting[WIRE_GREETING]);
bool wire_prove(struct wire *wire, const struct peer_secret *secret,
                const uint8_t answer[WIRE_ANSWER], uint8_t proof[WIRE_PROOF]);
/* The asker makes an answer, and checks the proof. False: the greeting is invalid; the secrets
 * differ. */
bool wire_answer(struct wire *wire, const struct peer_secret *secret,
                 const uint8_t greeting[WIRE_GREETING], uint8_t answer[WIRE_ANSWER]);
bool wire_trust(struct wire *wire, const struct peer_secret *secret,
                const uint8_t proof[WIRE_PROOF]);

/* The server continues in another process, which has only the nonces. */
void wire_resume(struct wire *wire, const struct peer_secret *secret);

/* Makes a frame of at most WIRE_MOST bytes. Returns its size. */
size_t wire_seal(struct wire *wire, const void *payload, size_t size, uint8_t *frame);
/* The size of the frame that begins so; 0: longer than any. */
size_t wire_size(const uint8_t header[WIRE_HEADER]);
/* Is the frame authentic, and the next one of the other side? */
bool wire_open(struct wire *wire, const uint8_t *frame, size_t size);

/* ---- the connection (peer_link.c) ------------------------------------------------------- */

struct peer_link {
    int fd;
    struct wire wire;
    struct loop_why why; /* of the failed call */
    uint8_t frame[WIRE_FRAME];
};

/* Splits HOST[:PORT] or [HOST]:PORT, IPv6 too. False: the text is invalid. */
bool peer_split(const char *words, char host[256], char port[16]);

/* Connects and proves the secret. -1: link->why has the reason. */
int peer_link_open(struct peer_link *link, const char *host, const char *port,
                   const struct peer_secret *secret);
/* This side's address, in text, as its interfaces have it. */
void peer_link_address(const struct peer_link *link, char address[64]);
/* Ends the conversation, and waits until the other side has closed: then it can serve another
 * peer. */
void peer_link_end(struct peer_link *link);
void peer_link_close(struct peer_link *link);
/* Sends the message, which it releases. */
int peer_link_send(struct peer_link *link, json_t *message);
/* An object; NULL: the connection has ended, or nothing came until the deadline (verify_now()). */
json_t *peer_link_receive(struct peer_link *link, int64_t deadline);

/* ---- processes (peer_relay.c) ----------------------------------------------------------- */

/* Runs a part of this program, and returns the JSON that it writes. NULL: *why says how it
 * failed. */
json_t *peer_part_run(const char *part, const char *argument, int patience, struct loop_why *why);

/* Runs this node's part of a pair, and moves messages between it and the other node's. fabric: of
 * the list, or the pair, with this node's "id", "nic" and "port"; sets "risen" and "peer_risen",
 * the increase of each error counter of both ports. Returns the part's result. NULL: *why says how
 * this or the other part failed. *lost: the connection broke. */
json_t *peer_relay(struct peer_link *link, const char *part, json_t *fabric, int patience,
                   struct loop_why *why, bool *lost);

/* The processes themselves: all arguments of the command. Return the exit status. */
int peer_part(int argc, char **argv);
int peer_child(const char *part, const char *argument);
int peer_session(const char *secret_file, const char *nonces, int patience);

/* ---- one side of a pair (peer_side.c) --------------------------------------------------- */

#define SIDE_SMALL 256u       /* bytes that fit into a packet of any network */
#define SIDE_LARGE 65536u     /* bytes that need packets of the path's MTU */
#define SIDE_BYTES (2u << 20) /* of the memory */

/* Memory that is registered, and an endpoint. */
struct side {
    struct hmreg *lib;
    const struct fabric *fabric;
    struct hmreg_domain *domain;
    struct loop *loop;
    void *memory;
    char *bytes; /* host buffer as large, to copy from and to */
    struct hmreg_mr *mr;
};

/* memory: as fabric.h describes it. */
int side_open(struct side *side, const json_t *memory, struct loop_why *why);
void side_close(struct side *side);
/* Fills the beginning of the memory with the bytes of a seed, or compares it with them. */
int side_fill(struct side *side, size_t len, unsigned seed, struct loop_why *why);
int side_compare(struct side *side, size_t len, unsigned seed, const char *what,
                 struct loop_why *why);

/* ---- the command ------------------------------------------------------------------------ */

struct peer_options {
    const char *peer, *serve, *secret; /* serve: "" for the default */
    int patience;
    bool json;
    void (*print)(const json_t *document);
};

int peer_serve(const struct peer_options *options);
int peer_ask(const struct peer_options *options);

/* Pairs of NICs to prove, from the lists of both nodes. */
json_t *peer_pairs(const json_t *own, const json_t *others);
/* Adds findings about the pairs of the facts. */
void peer_judge(const json_t *facts, json_t *findings);
json_t *peer_summary(const json_t *facts);
void peer_print(const json_t *facts);

#endif
