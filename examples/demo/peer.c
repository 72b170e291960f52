/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The peer: opens tokens, writes and reads as ordered, and checks what it reads. It has only the
 * token, and no GPU's runtime.
 */
#include "demo.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

unsigned char demo_byte(unsigned seed, uint64_t place)
{
    return (unsigned char)(seed * 89 + place * 7 + (place >> 8) * 3 + 1);
}

static int check(const struct order *order, const unsigned char *bytes, struct answer *answer)
{
    for (uint64_t i = 0; i < order->len; i++) {
        unsigned char wanted = demo_byte(order->seed, order->offset + i);

        if (bytes[i] == wanted)
            continue;
        snprintf(answer->text, sizeof(answer->text),
                 "the peer read %llu bytes at %llu, and byte %llu is %#x, not %#x",
                 (unsigned long long)order->len, (unsigned long long)order->offset,
                 (unsigned long long)i, bytes[i], wanted);
        return -EBADMSG;
    }
    return 0;
}

static int move(struct side *side, const struct order *order, unsigned char *bytes,
                struct hmreg_remote *remote, const struct hmreg_mr *mr)
{
    uint64_t addr, key;
    int rc = hmreg_remote_addr(remote, order->offset, order->len, &addr, &key);

    if (rc)
        return rc;
    if (order->kind == ORDER_READ)
        return endpoint_read(&side->endpoint, bytes, order->len, hmreg_mr_desc(mr), addr, key);
    return endpoint_write(&side->endpoint, bytes, order->len, hmreg_mr_desc(mr), addr, key);
}

static int carry_out(struct side *side, const struct order *order, struct answer *answer)
{
    unsigned char *bytes = (unsigned char *)calloc(1, order->len);
    struct hmreg_remote *remote = NULL;
    struct hmreg_mr *mr = NULL;
    int rc = bytes ? 0 : -ENOMEM;

    for (uint64_t i = 0; bytes && order->kind == ORDER_WRITE && i < order->len; i++)
        bytes[i] = demo_byte(order->seed, order->offset + i);
    rc = rc ? rc : hmreg_remote_open(side->domain, order->token, order->token_size, &remote);
    rc = rc ? rc
            : hmreg_mr_reg(side->domain, bytes, order->len, HMREG_READ | HMREG_WRITE, 0,
                           HMREG_KEY_ANY, 0, &mr, NULL);
    rc = rc ? rc : move(side, order, bytes, remote, mr);
    if (rc)
        snprintf(answer->text, sizeof(answer->text), "the peer: %s", failure_text(rc));
    else if (order->kind == ORDER_READ)
        rc = check(order, bytes, answer);
    hmreg_mr_close(mr);
    hmreg_remote_close(remote);
    free(bytes);
    return rc;
}

int peer_run(int socket, const char *provider)
{
    struct hmreg_config host_only = {.size = sizeof(host_only),
                                     .ifaces = HMREG_IFACE_BIT(HMREG_IFACE_SYSTEM)};
    struct side side;
    struct order order;
    int rc = side_open(socket, provider, 0, &host_only, &side);

    if (rc)
        fprintf(stderr, "peer on %s: %s\n", provider, failure_text(rc));
    while (!rc) {
        struct answer answer = {0};
        size_t size = sizeof(order);

        if (side_receive(&side, &order, &size)) /* the owner is done */
            break;
        answer.code = carry_out(&side, &order, &answer);
        rc = side_send(&side, &answer, sizeof(answer));
    }
    return side_close(&side) || rc;
}
