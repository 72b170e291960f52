/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See side.h.
 */
#include "side.h"

#include <errno.h>
#include <poll.h>
#include <rdma/fi_errno.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static int exchange_addresses(struct side *side)
{
    char mine[ENDPOINT_ADDRESS_BYTES], theirs[ENDPOINT_ADDRESS_BYTES];
    size_t size = sizeof(mine), room = sizeof(theirs);
    int rc = endpoint_address(&side->endpoint, mine, &size);

    rc = rc ? rc : side_send(side, mine, size);
    rc = rc ? rc : side_receive(side, theirs, &room);
    return rc ? rc : endpoint_connect(&side->endpoint, theirs);
}

int side_open(int socket, const char *provider, uint64_t caps, const struct hmreg_config *config,
              struct side *out)
{
    struct endpoint_hints hints = {.provider = provider, .wishes = caps};
    /* A token covers its whole region, so get() must not return a larger one. */
    struct hmreg_domain_config exact = {.size = sizeof(exact), .flags = HMREG_DOMAIN_EXACT};
    int rc;

    memset(out, 0, sizeof(*out));
    out->socket = socket;
    rc = endpoint_open(&hints, &out->endpoint);
    rc = rc ? rc : hmreg_open(config, &out->lib);
    rc = rc ? rc
            : hmreg_domain_open_ofi(out->lib, out->endpoint.domain, out->endpoint.info, &exact,
                                    &out->domain);
    return rc ? rc : exchange_addresses(out);
}

int side_close(struct side *side)
{
    int rc = hmreg_domain_close(side->domain);

    rc = rc ? rc : hmreg_close(side->lib);
    endpoint_close(&side->endpoint);
    close(side->socket);
    return rc;
}

static int run(int socket, const char *provider, uint64_t caps, int (*part)(struct side *side))
{
    struct side side;
    int rc = side_open(socket, provider, caps, NULL, &side);

    rc = rc ? rc : part(&side);
    if (rc)
        fprintf(stderr, "%s: %s\n", provider, failure_text(rc));
    return side_close(&side) || rc;
}

int side_run(const char *provider, uint64_t caps, int (*one)(struct side *side),
             int (*other)(struct side *side))
{
    int sockets[2], failed, status = 0;
    pid_t peer;

    if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, sockets) || (peer = fork()) < 0)
        return 1;
    close(sockets[peer ? 1 : 0]);
    if (peer == 0)
        return run(sockets[1], provider, caps, other);
    failed = run(sockets[0], provider, caps, one);
    waitpid(peer, &status, 0);
    return failed || status;
}

int side_send(struct side *side, const void *message, size_t size)
{
    return send(side->socket, message, size, MSG_NOSIGNAL) == (ssize_t)size ? 0 : -EPIPE;
}

int side_receive(struct side *side, void *message, size_t *size)
{
    struct pollfd waiting = {.fd = side->socket, .events = POLLIN};
    ssize_t got;

    while (poll(&waiting, 1, 0) == 0) {
        endpoint_progress(&side->endpoint);
        sched_yield();
    }
    got = recv(side->socket, message, *size, 0);
    if (got <= 0)
        return -EPIPE;
    *size = (size_t)got;
    return 0;
}
