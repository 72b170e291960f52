/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Raw keys (FI_MR_RAW): the owner sends a key of more than 64 bits by itself, the peer maps it; and
 * pages that the owner declares valid (FI_MR_MMU_NOTIFY). A token of hmreg_mr_pack() hides the
 * first.
 */
#include "parts.h"

#include <hmreg/loopback.h>
#include <stdio.h>
#include <string.h>

static char buffer[4096];

/* The remote is the way to the peer's domain; address and key are those that the owner sent. */
static int write_raw(struct hmreg_domain *peer, struct hmreg_remote *remote,
                     const struct hmreg_mr *mr)
{
    uint8_t raw_key[64];
    uint64_t base, key;
    size_t size = sizeof(raw_key);
    int unmapped, rc = hmreg_mr_raw_attr(mr, &base, raw_key, &size, 0);

    rc = rc ? rc : hmreg_domain_map_raw(peer, base, raw_key, size, &key, 0);
    if (rc)
        return rc;
    rc = hmreg_loopback_write(remote, "raw", 3, NULL, base, key);
    unmapped = hmreg_domain_unmap_raw(peer, key);
    return rc ? rc : unmapped;
}

static int transfer(struct hmreg_domain *domain, struct hmreg_domain *peer)
{
    struct hmreg_remote *remote = NULL;
    struct hmreg_mr *mr = NULL;
    char token[256];
    size_t size = sizeof(token);
    int rc = hmreg_mr_reg(domain, buffer, sizeof(buffer), HMREG_REMOTE_WRITE, 0, HMREG_KEY_ANY, 0,
                          &mr, NULL);

    rc = rc ? rc : hmreg_mr_refresh(mr, NULL, 0, 0); /* all its pages are there */
    rc = rc ? rc : hmreg_mr_pack(mr, token, &size);
    rc = rc ? rc : hmreg_remote_open(peer, token, size, &remote);
    rc = rc ? rc : write_raw(peer, remote, mr);
    hmreg_remote_close(remote);
    hmreg_mr_close(mr);
    return rc ? rc : expect(!memcmp(buffer, "raw", 3));
}

int raw(struct hmreg *lib)
{
    const struct hmreg_loopback_config modes = {
        .size = sizeof(modes), .mr_mode = HMREG_MR_RAW | HMREG_MR_VIRT_ADDR | HMREG_MR_MMU_NOTIFY};
    struct hmreg_domain *domain = NULL, *peer = NULL;
    int rc = hmreg_domain_open_loopback(lib, &modes, NULL, &domain);

    rc = rc ? rc : hmreg_domain_open_loopback(lib, &modes, NULL, &peer);
    rc = rc ? rc : transfer(domain, peer);
    hmreg_domain_close(peer);
    hmreg_domain_close(domain);
    if (!rc)
        printf("raw: written by a key that the peer has mapped\n");
    return rc;
}
