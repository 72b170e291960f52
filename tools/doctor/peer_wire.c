/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The bytes that two nodes exchange. Each makes a nonce, and proves the secret by a MAC of both
 * nonces. From the nonces and the secret each direction derives a key. Each frame's MAC covers its
 * number and its length, so frames recorded in any conversation cannot be replayed.
 */
#include "tools/doctor/peer.h"

#include <endian.h>
#include <string.h>
#include <sys/random.h>

#define NAME 16 /* bytes of a MAC's input */

static uint8_t *nonce_of(struct wire *wire, bool asker)
{
    return wire->nonces + (asker ? WIRE_NONCE : 0);
}

static void mac_of_nonces(const struct wire *wire, const struct peer_secret *secret,
                          const char name[NAME], uint8_t out[PEER_MAC])
{
    peer_mac(secret->bytes, secret->size,
             (struct peer_part[]){{name, NAME}, {wire->nonces, sizeof(wire->nonces)}, {NULL, 0}},
             out);
}

/* asker: the wire's owner is the asker. */
static void make_keys(struct wire *wire, const struct peer_secret *secret, bool asker)
{
    mac_of_nonces(wire, secret, "key of asker    ", asker ? wire->out_key : wire->in_key);
    mac_of_nonces(wire, secret, "key of server   ", asker ? wire->in_key : wire->out_key);
    wire->sent = wire->received = 0;
}

/* ---- proving the secret ----------------------------------------------------------------- */

static bool begin(struct wire *wire, bool asker, uint8_t *out)
{
    memcpy(out, WIRE_MAGIC, 8);
    if (getrandom(nonce_of(wire, asker), WIRE_NONCE, 0) != WIRE_NONCE)
        return false;
    memcpy(out + 8, nonce_of(wire, asker), WIRE_NONCE);
    return true;
}

bool wire_greet(struct wire *wire, uint8_t greeting[WIRE_GREETING])
{
    return begin(wire, false, greeting);
}

bool wire_answer(struct wire *wire, const struct peer_secret *secret,
                 const uint8_t greeting[WIRE_GREETING], uint8_t answer[WIRE_ANSWER])
{
    if (memcmp(greeting, WIRE_MAGIC, 8) != 0 || !begin(wire, true, answer))
        return false;
    memcpy(nonce_of(wire, false), greeting + 8, WIRE_NONCE);
    mac_of_nonces(wire, secret, "proof of asker  ", answer + 8 + WIRE_NONCE);
    return true;
}

bool wire_prove(struct wire *wire, const struct peer_secret *secret,
                const uint8_t answer[WIRE_ANSWER], uint8_t proof[WIRE_PROOF])
{
    uint8_t expected[PEER_MAC];

    memcpy(nonce_of(wire, true), answer + 8, WIRE_NONCE);
    mac_of_nonces(wire, secret, "proof of asker  ", expected);
    if (memcmp(answer, WIRE_MAGIC, 8) != 0 || !peer_mac_equals(expected, answer + 8 + WIRE_NONCE))
        return false;
    mac_of_nonces(wire, secret, "proof of server ", proof);
    make_keys(wire, secret, false);
    return true;
}

bool wire_trust(struct wire *wire, const struct peer_secret *secret,
                const uint8_t proof[WIRE_PROOF])
{
    uint8_t expected[PEER_MAC];

    mac_of_nonces(wire, secret, "proof of server ", expected);
    if (!peer_mac_equals(expected, proof))
        return false;
    make_keys(wire, secret, true);
    return true;
}

void wire_resume(struct wire *wire, const struct peer_secret *secret)
{
    make_keys(wire, secret, false);
}

/* ---- frames ----------------------------------------------------------------------------- */

/* Header and payload lie behind each other. */
static void mac_of_frame(const uint8_t key[PEER_MAC], uint64_t number, const uint8_t *frame,
                         size_t size, uint8_t out[PEER_MAC])
{
    uint64_t order = htobe64(number);

    peer_mac(key, PEER_MAC, (struct peer_part[]){{&order, sizeof(order)}, {frame, size}, {NULL, 0}},
             out);
}

size_t wire_seal(struct wire *wire, const void *payload, size_t size, uint8_t *frame)
{
    uint32_t length = htobe32((uint32_t)size);

    memcpy(frame, &length, sizeof(length));
    memcpy(frame + WIRE_HEADER, payload, size);
    mac_of_frame(wire->out_key, wire->sent++, frame, WIRE_HEADER + size,
                 frame + WIRE_HEADER + size);
    return WIRE_HEADER + size + PEER_MAC;
}

size_t wire_size(const uint8_t header[WIRE_HEADER])
{
    uint32_t length;

    memcpy(&length, header, sizeof(length));
    length = be32toh(length);
    return length > WIRE_MOST ? 0 : WIRE_HEADER + length + PEER_MAC;
}

bool wire_open(struct wire *wire, const uint8_t *frame, size_t size)
{
    uint8_t expected[PEER_MAC];

    if (size < WIRE_HEADER + PEER_MAC || wire_size(frame) != size)
        return false;
    mac_of_frame(wire->in_key, wire->received, frame, size - PEER_MAC, expected);
    if (!peer_mac_equals(expected, frame + size - PEER_MAC))
        return false;
    wire->received++;
    return true;
}
