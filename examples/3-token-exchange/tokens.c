/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Example 3: two processes. The owner registers a buffer and sends its token over a socket; the
 * peer opens the token and writes into the buffer. Then the owner offers another buffer in its
 * place, and the peer renews what it has.
 *
 *     3-token-exchange [PROVIDER]         PROVIDER of libfabric: tcp (the default), shm, ...
 */
#include "../common/side.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define BYTES 10000
static const char text[] = "written by another process";

/* Registers memory and sends a token of its last bytes, which lets the peer write these. */
static int offer(struct side *side, char *buffer)
{
    struct hmreg_mr *mr = NULL;
    char token[1024], done;
    size_t size = sizeof(token), one = 1;
    int rc = hmreg_mr_reg(side->domain, buffer, BYTES, HMREG_REMOTE_WRITE, 0, HMREG_KEY_ANY, 0, &mr,
                          NULL);

    rc = rc ? rc
            : hmreg_mr_pack_range(mr, buffer + BYTES - sizeof(text), sizeof(text), token, &size);
    rc = rc ? rc : side_send(side, token, size);
    rc = rc ? rc : side_receive(side, &done, &one);
    hmreg_mr_close(mr);
    return rc || !strcmp(buffer + BYTES - sizeof(text), text) ? rc : -EBADMSG;
}

/* Offers a buffer and then, in its place, another. */
static int own(struct side *side)
{
    static char buffers[2][BYTES];
    int rc = offer(side, buffers[0]);

    rc = rc ? rc : offer(side, buffers[1]);
    if (!rc)
        printf("%s: the owner finds \"%s\" in each of its buffers\n",
               side->endpoint.info->fabric_attr->prov_name, buffers[1] + BYTES - sizeof(text));
    return rc;
}

/* Writes what the token names, which describes it completely. */
static int write_there(struct side *side, const struct hmreg_remote *remote)
{
    struct hmreg_remote_info info = {.size = sizeof(info)};
    struct hmreg_mr *source = NULL;
    uint64_t addr, key;
    int rc = hmreg_remote_query(remote, &info);

    if (!rc && info.len != sizeof(text))
        rc = -EBADMSG;
    rc = rc ? rc : hmreg_remote_addr(remote, 0, (size_t)info.len, &addr, &key);
    rc = rc ? rc : hmreg_mr_get(side->domain, text, sizeof(text), HMREG_WRITE, &source);
    rc = rc ? rc
            : endpoint_write(&side->endpoint, text, sizeof(text), hmreg_mr_desc(source), addr, key);
    hmreg_mr_put(source);
    return rc ? rc : side_send(side, "!", 1);
}

/* Opens the first token; the second one says that the owner has registered anew. */
static int visit(struct side *side)
{
    enum hmreg_remote_state state = HMREG_REMOTE_CURRENT;
    struct hmreg_remote *remote = NULL;
    char token[1024];
    size_t size = sizeof(token);
    int rc = side_receive(side, token, &size);

    rc = rc ? rc : hmreg_remote_open(side->domain, token, size, &remote);
    rc = rc ? rc : write_there(side, remote);
    size = sizeof(token);
    rc = rc ? rc : side_receive(side, token, &size);
    rc = rc ? rc : hmreg_remote_check(remote, token, size, &state);
    if (!rc && state != HMREG_REMOTE_RENEWED)
        rc = -EBADMSG;
    rc = rc ? rc : hmreg_remote_renew(remote, token, size);
    rc = rc ? rc : write_there(side, remote);
    hmreg_remote_close(remote);
    return rc;
}

int main(int argc, char **argv)
{
    return side_run(argc > 1 ? argv[1] : "tcp", 0, own, visit);
}
