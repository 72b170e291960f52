/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Example 11: a KV cache that sleeps and wakes. The engine gives the physical memory of its cache
 * back to the device and maps other memory at the same addresses later, as torch_memory_saver does.
 * Its peer writes before and after, through one remote.
 *
 *     11-sleep [PROVIDER]                 PROVIDER of libfabric: tcp (the default), shm, ...
 */
#include "../common/side.h"
#include "../common/virtual.h"

#include <errno.h>
#include <hmreg/suspend.h>
#include <stdio.h>
#include <string.h>

#define BYTES ((size_t)8 << 20) /* whole granules */

static void send_token(struct hmreg_mr *mr, void *side)
{
    char token[1024];
    size_t size = sizeof(token);

    if (!hmreg_mr_pack(mr, token, &size))
        side_send((struct side *)side, token, size);
}

/* Waits until the peer has written, and prints what. */
static int await(struct side *side, uint64_t cache, const char *when)
{
    char block[32] = "", done;
    size_t one = 1;
    int rc = side_receive(side, &done, &one);

    rc = rc ? rc : hmreg_copy(side->lib, block, (void *)(uintptr_t)cache, sizeof(block));
    if (!rc)
        printf("%s: the cache has \"%s\"\n", when, block);
    return rc;
}

static int serve(struct side *side)
{
    struct hmreg_resume_config config = {
        .size = sizeof(config), .resumed = send_token, .context = side};
    struct hmreg_mr *mr = NULL;
    uint64_t cache = 0;
    int rc = virtual_reserve(BYTES, &cache);
    void *addr = (void *)(uintptr_t)cache;

    if (rc == -ENODEV)
        fprintf(stderr, "no CUDA driver here\n");
    rc = rc ? rc : virtual_map(cache, BYTES);
    rc = rc ? rc
            : hmreg_mr_reg(side->domain, addr, BYTES, HMREG_REMOTE_WRITE, 0, HMREG_KEY_ANY, 0, &mr,
                           NULL);
    if (!rc)
        send_token(mr, side);
    rc = rc ? rc : await(side, cache, "awake");
    rc = rc ? rc : hmreg_suspend(side->lib, addr, BYTES);
    rc = rc ? rc : virtual_unmap(cache, BYTES);
    if (!rc)
        printf("asleep: %zu MiB are the device's again\n", BYTES >> 20);
    rc = rc ? rc : virtual_map(cache, BYTES);
    rc = rc ? rc : hmreg_resume(side->lib, addr, BYTES, &config);
    rc = rc ? rc : await(side, cache, "awake again");
    hmreg_mr_close(mr);
    return rc;
}

static int write_block(struct side *side, const struct hmreg_remote *remote, const char *text)
{
    struct hmreg_mr *source = NULL;
    uint64_t addr, key;
    size_t len = strlen(text) + 1;
    int rc = hmreg_remote_addr(remote, 0, len, &addr, &key);

    rc = rc ? rc : hmreg_mr_get(side->domain, text, len, HMREG_WRITE, &source);
    rc = rc ? rc : endpoint_write(&side->endpoint, text, len, hmreg_mr_desc(source), addr, key);
    hmreg_mr_put(source);
    return rc ? rc : side_send(side, "!", 1);
}

static int fill(struct side *side)
{
    struct hmreg_remote *remote = NULL;
    char token[1024];
    size_t size = sizeof(token);
    int rc = side_receive(side, token, &size);

    rc = rc ? rc : hmreg_remote_open(side->domain, token, size, &remote);
    rc = rc ? rc : write_block(side, remote, "block of request 1");
    size = sizeof(token);
    rc = rc ? rc : side_receive(side, token, &size);
    rc = rc ? rc : hmreg_remote_renew(remote, token, size);
    rc = rc ? rc : write_block(side, remote, "block of request 2");
    hmreg_remote_close(remote);
    return rc;
}

int main(int argc, char **argv)
{
    return side_run(argc > 1 ? argv[1] : "tcp", FI_HMEM, serve, fill);
}
