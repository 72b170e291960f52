/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Calls that prepare or make a peer's access: raw keys, tokens (whole, of a part, damaged),
 * remotes, and RMA by loopback.
 */
#include "tests/fuzz/call.h"

#include <string.h>

void fuzz_call_raw(struct fuzz *fuzz)
{
    uint8_t raw[64] = {0};
    uint64_t base = 0, key = 0;
    size_t size = fuzz_below(fuzz, sizeof(raw) + 1);
    struct hmreg_domain *domain = PICK(fuzz->domains);
    int rc = PLAIN(hmreg_mr_raw_attr(fuzz_region(fuzz), &base, raw, &size, fuzz_bits(fuzz, 0)));

    if (rc)
        size = fuzz_below(fuzz, sizeof(raw) + 1);
    if (fuzz_rarely(fuzz))
        raw[fuzz_below(fuzz, sizeof(raw))] ^= 1;
    if (CALL(hmreg_domain_map_raw(domain, base, raw, size, &key, fuzz_bits(fuzz, 0)), &key) == 0)
        MUST(PLAIN(hmreg_domain_unmap_raw(domain, key)) == 0);
    PLAIN(hmreg_domain_unmap_raw(domain, fuzz_key(fuzz)));
}

/* A region's token, one of a part of it, or several tokens. */
static int pack_any(struct fuzz *fuzz, uint8_t *token, size_t *size)
{
    struct hmreg_mr *mrs[3] = {fuzz_region(fuzz), fuzz_region(fuzz), fuzz_region(fuzz)};
    struct hmreg_mr_info info = {.size = sizeof(info)};
    const char *addr = fuzz_target(fuzz);

    switch (fuzz_below(fuzz, 3)) {
    case 0:
        if (mrs[0] && !fuzz_rarely(fuzz) && !PLAIN(hmreg_mr_query(mrs[0], &info)))
            addr = (const char *)(uintptr_t)(info.addr + fuzz_below(fuzz, 64));
        return hmreg_mr_pack_range(mrs[0], addr, fuzz_length(fuzz), token, size);
    case 1:
        return hmreg_mr_pack_many(mrs, fuzz_below(fuzz, 4), token, size);
    default:
        return hmreg_mr_pack(mrs[0], token, size);
    }
}

void fuzz_call_pack(struct fuzz *fuzz)
{
    uint8_t token[sizeof(fuzz->token)];
    size_t size = fuzz_rarely(fuzz) ? fuzz_below(fuzz, 300) : sizeof(token);

    if (PLAIN(pack_any(fuzz, token, &size)))
        return;
    MUST(size <= sizeof(token));
    memcpy(fuzz->token, token, size);
    fuzz->token_size = size;
}

/* Damaged tokens, alone or one after the other, of which all are opened or none. */
void fuzz_call_remote_open_many(struct fuzz *fuzz)
{
    struct hmreg_remote *remotes[6] = {NULL};
    uint8_t tokens[2 * FUZZ_BYTES];
    size_t once = fuzz->token_size, size = once * (1 + fuzz_below(fuzz, 2));
    size_t room = fuzz_rarely(fuzz) ? fuzz_below(fuzz, 7) : 6, count = room;

    if (once < 8)
        return;
    memcpy(tokens, fuzz->token, once);
    memcpy(tokens + once, fuzz->token, once);
    for (int i = 0; i < 3 && fuzz_below(fuzz, 2); i++)
        tokens[fuzz_below(fuzz, (unsigned)size)] = (uint8_t)fuzz_random(fuzz);
    if (fuzz_rarely(fuzz))
        size = fuzz_below(fuzz, (unsigned)size + 1);
    if (CALL(hmreg_remote_open_many(PICK(fuzz->domains), tokens, size, remotes, &count), &remotes))
        return;
    MUST(count && count <= room);
    while (count) {
        MUST(remotes[--count]);
        hmreg_remote_close(remotes[count]);
    }
}

void fuzz_call_remote_open(struct fuzz *fuzz)
{
    uint8_t token[FUZZ_BYTES] = {0};
    size_t size = fuzz->token_size;
    unsigned slot = SLOT;
    struct hmreg_remote *remote = fuzz->remotes[slot];

    if (remote || size < 8)
        return;
    memcpy(token, fuzz->token, size);
    for (int i = 0; i < 3 && fuzz_below(fuzz, 2); i++)
        token[fuzz_below(fuzz, (unsigned)size)] = (uint8_t)fuzz_random(fuzz);
    CALL(hmreg_remote_open(PICK(fuzz->domains), token, fuzz_size(fuzz, size), &remote), &remote);
    fuzz->remotes[slot] = remote;
}

/* Damages the token of one rail. */
static void damage_rail(struct fuzz *fuzz, uint8_t *token, size_t size)
{
    const void *found = NULL;
    size_t bytes = 0;

    if (PLAIN(hmreg_token_rail(token, size, fuzz_below(fuzz, 4), &found, &bytes)) || bytes < 8)
        return;
    MUST((const uint8_t *)found >= token && (const uint8_t *)found + bytes <= token + size);
    ((uint8_t *)(uintptr_t)found)[fuzz_below(fuzz, (unsigned)bytes)] ^= 1;
}

void fuzz_call_remote_open_rails(struct fuzz *fuzz)
{
    struct hmreg_domain *domain = PICK(fuzz->domains);
    struct hmreg_remote *remotes[HMREG_GROUP_MAX] = {NULL};
    uint8_t token[FUZZ_BYTES] = {0};
    size_t size = fuzz->token_size, count = fuzz_below(fuzz, FUZZ_MEMBERS);

    if (size < 8)
        return;
    memcpy(token, fuzz->token, size);
    if (fuzz_below(fuzz, 2))
        damage_rail(fuzz, token, size);
    if (fuzz_rarely(fuzz))
        token[fuzz_below(fuzz, (unsigned)size)] ^= 1;
    CALL(hmreg_remote_open_rails(domain, token, fuzz_size(fuzz, size), remotes, count), &remotes);
    for (size_t i = 0; i < FUZZ_MEMBERS; i++)
        hmreg_remote_close(remotes[i]);
}

void fuzz_call_rma(struct fuzz *fuzz)
{
    STRUCT(hmreg_remote_info, info);
    struct hmreg_remote *remote = PICK(fuzz->remotes);
    struct hmreg_remote_flat flat = {0};
    uint64_t addr = fuzz_random(fuzz), key = fuzz_key(fuzz);
    size_t len = fuzz_length(fuzz);
    void *desc = fuzz_below(fuzz, 2) ? hmreg_mr_desc(fuzz_region(fuzz))
                                     : (void *)(uintptr_t)(fuzz_rarely(fuzz) ? addr : 0);

    CALL(hmreg_remote_query(remote, &info.it), &info);
    CALL(hmreg_remote_flatten(remote, &flat), &flat);
    hmreg_remote_flat_addr(&flat, addr, len, &addr, &key);
    if (fuzz_below(fuzz, 4))
        PLAIN(hmreg_remote_addr(remote, fuzz_below(fuzz, 2) ? 0 : fuzz_below(fuzz, 9000), len,
                                &addr, &key));
    if (fuzz_below(fuzz, 2))
        PLAIN(hmreg_loopback_write(remote, fuzz_target(fuzz), len, desc, addr, key));
    else
        PLAIN(hmreg_loopback_read(remote, fuzz_target(fuzz), len, desc, addr, key));
}
