/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * What fi_mr(3) binds: a region to an endpoint, and to a counter of remote writes, before it is
 * enabled; and a domain to the event queue in which its registrations complete.
 */
#include "parts.h"

#include <hmreg/loopback.h>
#include <stdio.h>
#include <string.h>

static char buffer[4096];

/* Writes to the region as a peer does, which has its token only. */
static int write_to(struct hmreg_domain *peer, const struct hmreg_mr *mr)
{
    struct hmreg_remote *remote = NULL;
    uint64_t addr, key;
    char token[256];
    size_t size = sizeof(token);
    int rc = hmreg_mr_pack(mr, token, &size);

    rc = rc ? rc : hmreg_remote_open(peer, token, size, &remote);
    rc = rc ? rc : hmreg_remote_addr(remote, 0, 5, &addr, &key);
    rc = rc ? rc : hmreg_loopback_write(remote, "bound", 5, NULL, addr, key);
    hmreg_remote_close(remote);
    return rc;
}

/* The peer's write fails until the region is bound and enabled; then it is counted. */
static int endpoint_and_counter(struct hmreg_domain *domain, struct hmreg_domain *peer)
{
    struct hmreg_loopback_ep *ep = NULL;
    struct hmreg_loopback_counter *counter = NULL;
    struct hmreg_mr *mr = NULL;
    int rc = hmreg_loopback_ep_open(domain, &ep);

    rc = rc ? rc : hmreg_loopback_counter_open(domain, &counter);
    rc = rc ? rc
            : hmreg_mr_reg(domain, buffer, sizeof(buffer), HMREG_REMOTE_WRITE, 0, HMREG_KEY_ANY,
                           HMREG_RMA_EVENT, &mr, NULL);
    rc = rc ? rc : hmreg_mr_bind(mr, ep, 0);
    rc = rc ? rc : hmreg_mr_bind(mr, counter, HMREG_REMOTE_WRITE);
    rc = rc ? rc : expect(write_to(peer, mr) == -EKEYREJECTED);
    rc = rc ? rc : hmreg_mr_enable(mr);
    rc = rc ? rc : write_to(peer, mr);
    rc = rc ? rc : expect(hmreg_loopback_counter_read(counter) == 1 && !memcmp(buffer, "bound", 5));
    hmreg_loopback_counter_close(counter);
    hmreg_loopback_ep_close(ep);
    hmreg_mr_close(mr);
    return rc;
}

/* The registering call returns at once; the key comes with the event. */
static int event_queue(struct hmreg_domain *domain)
{
    struct hmreg_loopback_event event = {.size = sizeof(event)};
    struct hmreg_loopback_eq *eq = NULL;
    struct iovec iov[2] = {{buffer, 100}, {buffer + 2048, 100}};
    struct hmreg_mr *mr = NULL;
    int rc = hmreg_loopback_eq_open(domain, &eq);

    rc = rc ? rc : hmreg_domain_bind(domain, eq, HMREG_BIND_REG_MR);
    rc = rc ? rc : hmreg_mr_regv(domain, iov, 2, HMREG_REMOTE_READ, 0, 7, 0, &mr, buffer);
    rc = rc ? rc : hmreg_loopback_eq_read(eq, &event, 1000);
    rc = rc ? rc : expect(event.mr == mr && event.context == buffer && hmreg_mr_key(mr) == 7);
    hmreg_mr_close(mr);
    hmreg_loopback_eq_close(eq);
    return rc;
}

int bound(struct hmreg *lib)
{
    const struct hmreg_loopback_config modes = {.size = sizeof(modes),
                                                .mr_mode = HMREG_MR_ENDPOINT | HMREG_MR_RMA_EVENT};
    struct hmreg_domain *domain = NULL, *peer = NULL;
    int rc = hmreg_domain_open_loopback(lib, &modes, NULL, &domain);

    rc = rc ? rc : hmreg_domain_open_loopback(lib, NULL, NULL, &peer);
    rc = rc ? rc : endpoint_and_counter(domain, peer);
    rc = rc ? rc : event_queue(peer);
    hmreg_domain_close(peer);
    hmreg_domain_close(domain);
    if (!rc)
        printf(
            "bound: reachable once it is enabled, 1 write counted, 1 registration by an event\n");
    return rc;
}
