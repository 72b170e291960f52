/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Tokens: how a peer reaches a region. The owner packs a region's token and sends its bytes; a peer
 * opens them as a remote, which has the addresses and keys for its RMA calls. hmreg.h includes this
 * header, and its conventions hold here.
 */
#ifndef HMREG_REMOTE_H
#define HMREG_REMOTE_H

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
 * -EACCES: the region has no remote access. -EINVAL: mr or size is NULL.
 */
int hmreg_mr_pack(const struct hmreg_mr *mr, void *buf, size_t *size);

/* ---- the peer --------------------------------------------------------------------------- */

/*
 * Opens a peer's region on a local domain of the same provider kind as the peer's. The call copies
 * token. Close the remote with hmreg_remote_close().
 * -EINVAL: an argument is NULL, or domain is a group (use hmreg_remote_open_rails()).
 * -EBADMSG: not a token, truncated, or damaged. -EPROTONOSUPPORT: a token of a newer format.
 * -EXDEV: a token of another provider kind, or of a group's region (use hmreg_token_rail()), or
 * only one of the two domains has raw keys.
 */
int hmreg_remote_open(struct hmreg_domain *domain, const void *token, size_t size,
                      struct hmreg_remote **remote);

/* NULL is accepted. */
void hmreg_remote_close(struct hmreg_remote *remote);

struct hmreg_remote_info {
    size_t size;            /* sizeof(struct hmreg_remote_info) */
    uint64_t len;           /* bytes of the region */
    uint64_t access;        /* the remote access rights that it grants */
    uint32_t segments;      /* ranges with separate addresses */
    enum hmreg_iface iface; /* of the memory at the peer */
};

/* -EINVAL: an argument is NULL or out->size is too small. */
int hmreg_remote_query(const struct hmreg_remote *remote, struct hmreg_remote_info *out);

/*
 * Returns the address and key for an RMA operation on len bytes at offset of the region, for any
 * mr_mode and path of the peer. -EINVAL: remote, addr or key is NULL, or len is 0.
 * -ERANGE: the bytes are not all in the region. -EXDEV: they are, but cross the border of two
 * segments and need two operations; the text says at which offset to split.
 */
int hmreg_remote_addr(const struct hmreg_remote *remote, uint64_t offset, size_t len,
                      uint64_t *addr, uint64_t *key);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
