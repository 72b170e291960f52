/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Example 3: two processes. The owner registers a buffer and sends its token over a socket; the
 * peer opens the token and writes into the buffer.
 *
 *     3-token-exchange [PROVIDER]         PROVIDER of libfabric: tcp (the default), shm, ...
 */
#include "../common/side.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define BYTES 10000
static const char text[] = "written by another process";

/* Registers memory and sends its token, which lets the peer write it. */
static int own(struct side *side)
{
    static char buffer[BYTES];
    struct hmreg_mr *mr = NULL;
    char token[1024], done;
    size_t size = sizeof(token), one = 1;
    int rc = hmreg_mr_get(side->domain, buffer, BYTES, HMREG_REMOTE_WRITE, &mr);

    rc = rc ? rc : hmreg_mr_pack(mr, token, &size);
    rc = rc ? rc : side_send(side, token, size);
    rc = rc ? rc : side_receive(side, &done, &one);
    hmreg_mr_put(mr);
    if (rc)
        return rc;
    printf("%s: the owner finds \"%s\"\n", side->endpoint.info->fabric_attr->prov_name,
           buffer + BYTES - sizeof(text));
    return strcmp(buffer + BYTES - sizeof(text), text) ? -EBADMSG : 0;
}

/* Receives the token, which describes the owner's memory completely. */
static int visit(struct side *side)
{
    struct hmreg_remote_info info = {.size = sizeof(info)};
    struct hmreg_remote *remote = NULL;
    struct hmreg_mr *source = NULL;
    char token[1024];
    size_t size = sizeof(token);
    uint64_t addr, key;
    int rc = side_receive(side, token, &size);

    rc = rc ? rc : hmreg_remote_open(side->domain, token, size, &remote);
    rc = rc ? rc : hmreg_remote_query(remote, &info);
    /* The last bytes of the region. */
    rc = rc ? rc : hmreg_remote_addr(remote, info.len - sizeof(text), sizeof(text), &addr, &key);
    rc = rc ? rc : hmreg_mr_get(side->domain, text, sizeof(text), HMREG_WRITE, &source);
    rc = rc ? rc
            : endpoint_write(&side->endpoint, text, sizeof(text), hmreg_mr_desc(source), addr, key);
    rc = rc ? rc : side_send(side, "!", 1);
    hmreg_mr_put(source);
    hmreg_remote_close(remote);
    return rc;
}

static int run(int socket, const char *provider, int (*part)(struct side *side))
{
    struct side side;
    int rc = side_open(socket, provider, 0, NULL, &side);

    rc = rc ? rc : part(&side);
    if (rc)
        fprintf(stderr, "%s: %s\n", provider, failure_text(rc));
    return side_close(&side) || rc;
}

/* Neither libfabric nor a GPU's runtime survives fork(): fork before using them. */
int main(int argc, char **argv)
{
    const char *provider = argc > 1 ? argv[1] : "tcp";
    int sockets[2], failed, status = 0;
    pid_t peer;

    if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, sockets) || (peer = fork()) < 0)
        return 1;
    close(sockets[peer ? 1 : 0]);
    if (peer == 0)
        return run(sockets[1], provider, visit);
    failed = run(sockets[0], provider, own);
    waitpid(peer, &status, 0);
    return failed || status;
}
