/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Tokens: how a peer reaches a region. The owner packs a region's token and sends its bytes; a peer
 * opens them as a remote, which has the addresses and keys for its RMA calls. hmreg.h includes this
 * header, and its conventions hold here.
 */
#ifndef HMREG_REMOTE_H
#define HMREG_REMOTE_H

#include <errno.h>
#include <hmreg/hmreg.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* ---- the owner -------------------------------------------------------------------------- */

/*
 * Writes a region's token, which the caller sends to a peer. *size: in, the bytes available at buf;
 * out, the bytes needed. buf may be NULL if *size is 0. -HMREG_ETOOSMALL: *size is set, buf is not
 * written.
 * -EACCES: the region has no remote access. -EINVAL: mr or size is NULL. -EMSGSIZE: the region's
 * raw keys together exceed 65,535 bytes. -ENOMEM: possible only for regions of more than 64
 * segments, or more than 1,024 bytes of raw keys.
 */
int hmreg_mr_pack(const struct hmreg_mr *mr, void *buf, size_t *size);

/*
 * Writes a token for exactly [addr, addr+len) of the region, for instance if a cached region is
 * larger than the range of the get. The peer's offsets count from addr, and its remote is len bytes
 * long. addr: an address as it was registered. No fabric can enforce these bounds: the key reaches
 * all of the region, so a peer that computes other addresses can use them. Errors of
 * hmreg_mr_pack(), and -EINVAL: addr is NULL, len is 0 or the range wraps. -ERANGE: the bytes are
 * not all in the region, or are in ranges that do not follow each other in memory.
 */
int hmreg_mr_pack_range(const struct hmreg_mr *mr, const void *addr, size_t len, void *buf,
                        size_t *size);

/*
 * Writes the tokens of count regions one after the other, for hmreg_remote_open_many(). Each is a
 * token as from hmreg_mr_pack(): you may append or prepend tokens of other peers or of parts of
 * regions. The regions may be of different domains.
 * Errors of hmreg_mr_pack(), whose text names the region, and -EINVAL: mrs is NULL, count is 0, or
 * a region is a group's (pack the regions of one rail). -ENOMEM.
 */
int hmreg_mr_pack_many(struct hmreg_mr *const *mrs, size_t count, void *buf, size_t *size);

/* ---- the peer --------------------------------------------------------------------------- */

/*
 * Opens a peer's region on a local domain that has the peer's kind of provider. The call copies
 * token. Close the remote with hmreg_remote_close(). -EINVAL: an argument is NULL, or domain is a
 * group (use hmreg_remote_open_rails()). -EBADMSG: not a token, truncated, or damaged.
 * -EPROTONOSUPPORT: the token has a newer format. -EXDEV: the token is of another provider kind, or
 * of a group's region (use hmreg_token_rail()), or only one of the two domains has raw keys.
 * -EHOSTUNREACH: the token is of another process's loopback domain, or this process was restored
 * since it was made.
 */
int hmreg_remote_open(struct hmreg_domain *domain, const void *token, size_t size,
                      struct hmreg_remote **remote);

/*
 * Opens all tokens that follow each other in size bytes, in their order. *count: in, the entries
 * available at remotes; out, the number of tokens. remotes may be NULL if *count is 0.
 * -HMREG_ETOOSMALL: *count is set, nothing is opened. Close each remote with hmreg_remote_close().
 * Errors of hmreg_remote_open(), whose text names the token; no remote is then open.
 */
int hmreg_remote_open_many(struct hmreg_domain *domain, const void *tokens, size_t size,
                           struct hmreg_remote **remotes, size_t *count);

/* NULL is accepted. */
void hmreg_remote_close(struct hmreg_remote *remote);

struct hmreg_remote_info {
    size_t size;            /* sizeof(struct hmreg_remote_info) */
    uint64_t len;           /* bytes of the region */
    uint64_t access;        /* the remote access rights that the region grants */
    uint32_t segments;      /* ranges with separate addresses */
    enum hmreg_iface iface; /* of the peer's memory */
};

/* -EINVAL: an argument is NULL or out->size is too small. */
int hmreg_remote_query(const struct hmreg_remote *remote, struct hmreg_remote_info *out);

/*
 * Returns the address and key for an RMA operation on len bytes at offset of the region, for any
 * mr_mode and path of the peer. -EINVAL: remote, addr or key is NULL, or len is 0.
 * -ERANGE: the bytes are not all in the region. -EXDEV: the bytes are in the region but in two
 * segments, and need two operations; the text names the offset at which to split.
 */
int hmreg_remote_addr(const struct hmreg_remote *remote, uint64_t offset, size_t len,
                      uint64_t *addr, uint64_t *key);

/* ---- the owner's incarnation ------------------------------------------------------------ */

/* A token names the process that made it, an incarnation of that process (a restored process begins
 * a new one), and the registration. A later token of the buffer shows a remote's state: */
enum hmreg_remote_state {
    HMREG_REMOTE_CURRENT = 0, /* current: the registration is unchanged */
    HMREG_REMOTE_RENEWED = 1, /* the owner has registered the buffer anew: hmreg_remote_renew() */
    HMREG_REMOTE_DEAD = 2,    /* the owner's process has ended: the remote's keys may by now name
                                 other memory of another process, and must not be used */
    HMREG_REMOTE_OTHER_LIFE = 3, /* the token's process was restored from an image of the process
                                    that owned the remote's region. Treat the remote as DEAD,
                                    although the owner may still run where it was saved */
};

/*
 * Compares a remote with a token that its owner sent later, over any channel. Use it after a failed
 * transfer, or when the owner is back at its address. -EINVAL: an argument is NULL. -ESTALE: the
 * token is older than the remote. -EOPNOTSUPP: the new or the old token does not name its process
 * and registration. Errors of hmreg_remote_open() that concern the token.
 */
int hmreg_remote_check(const struct hmreg_remote *remote, const void *token, size_t size,
                       enum hmreg_remote_state *state);

/*
 * Updates a remote from a newer token: addresses, keys, length and rights. No other thread may use
 * the remote during the call; a key table is written under readers (<hmreg/table.h>).
 * -EOWNERDEAD: the token is of another process than the remote's, or of another incarnation.
 * -EMSGSIZE: the region has another number of segments. Errors of hmreg_remote_check() and
 * hmreg_remote_open(); the remote is then unchanged.
 */
int hmreg_remote_renew(struct hmreg_remote *remote, const void *token, size_t size);

/* ---- addresses without a call ----------------------------------------------------------- */

/* The fields of a one-segment remote that RMA needs. The caller owns the struct and may store it
 * anywhere, for instance in an array by peer. The values are valid while the peer's region is open
 * and, with HMREG_MR_RAW, until the remote is closed. */
struct hmreg_remote_flat {
    uint64_t base; /* the address of the first byte */
    uint64_t len;
    uint64_t key;
};

/* Fills *out. -EINVAL: an argument is NULL. -EXDEV: the region has several segments. */
int hmreg_remote_flatten(const struct hmreg_remote *remote, struct hmreg_remote_flat *out);

/*
 * hmreg_remote_addr() in the caller's code: a comparison and an addition. It checks no pointers and
 * records no error. -ERANGE: len is 0, or the bytes are not all in the region. HMREG_NO_INLINE
 * leaves it out, for parsers of declarations.
 */
#ifndef HMREG_NO_INLINE
static inline int hmreg_remote_flat_addr(const struct hmreg_remote_flat *flat, uint64_t offset,
                                         size_t len, uint64_t *addr, uint64_t *key);

static inline int hmreg_remote_flat_addr(const struct hmreg_remote_flat *flat, uint64_t offset,
                                         size_t len, uint64_t *addr, uint64_t *key)
{
    if (!len || len > flat->len || offset > flat->len - len)
        return -ERANGE;
    *addr = flat->base + offset;
    *key = flat->key;
    return 0;
}
#endif

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
