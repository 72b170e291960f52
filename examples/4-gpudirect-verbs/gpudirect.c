/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Example 4: GPUDirect RDMA over verbs. The client's GPU memory is written into the server's by
 * RDMA WRITE, and read back by RDMA READ; no byte of it passes through a host's memory.
 *
 *     4-gpudirect-verbs IFACE             the server; IFACE: cuda, rocr, ze, or system
 *     4-gpudirect-verbs IFACE SERVER      the client; the two ifaces may differ
 */
#include "../common/pair.h"

#include <errno.h>
#include <hmreg/verbs.h>
#include <stdio.h>
#include <string.h>

#define BYTES 100000

struct side {
    struct pair pair;
    struct hmreg *lib;
    struct hmreg_domain *domain;
    char *memory; /* on the device */
    struct hmreg_mr *mr;
};

/* A token, in a message of fixed size. */
struct letter {
    uint64_t size;
    unsigned char token[512];
};

static int parse_iface(const char *name, enum hmreg_iface *out)
{
    for (int i = 0; i < HMREG_IFACE_COUNT; i++)
        if (!strcmp(name, hmreg_iface_name((enum hmreg_iface)i))) {
            *out = (enum hmreg_iface)i;
            return 0;
        }
    return -EINVAL;
}

static int open_side(struct side *side, const char *host, enum hmreg_iface iface)
{
    enum hmreg_mem_kind kind = iface == HMREG_IFACE_SYSTEM ? HMREG_MEM_HOST : HMREG_MEM_DEVICE;
    /* The client starts RDMA from and to its memory, the server's is where it goes. */
    uint64_t access = host ? HMREG_READ | HMREG_WRITE : HMREG_REMOTE_READ | HMREG_REMOTE_WRITE;
    struct hmreg_mr_info info = {.size = sizeof(info)};
    void *memory = NULL;
    int rc = pair_open(host, &side->pair);

    rc = rc ? rc : hmreg_open(NULL, &side->lib);
    rc = rc ? rc : hmreg_domain_open_verbs(side->lib, side->pair.pd, NULL, &side->domain);
    rc = rc ? rc : hmreg_mem_alloc(side->lib, iface, 0, kind, BYTES, &memory);
    side->memory = (char *)memory;
    rc = rc ? rc : hmreg_mr_reg(side->domain, memory, BYTES, access, 0, 0, 0, &side->mr, NULL);
    rc = rc ? rc : hmreg_mr_query(side->mr, &info);
    if (!rc)
        printf("%s: %s memory, path %s\n", host ? "client" : "server", hmreg_iface_name(info.iface),
               hmreg_path_name(info.path));
    return rc;
}

static void close_side(struct side *side)
{
    hmreg_mr_close(side->mr);
    hmreg_mem_free(side->lib, side->memory);
    hmreg_domain_close(side->domain);
    hmreg_close(side->lib);
    pair_close(&side->pair);
}

static void fill(char *bytes, int seed)
{
    for (int i = 0; i < BYTES; i++)
        bytes[i] = (char)(i * 7 + seed);
}

/* Does device memory hold what fill() makes? */
static int compare(struct side *side, int seed)
{
    static char found[BYTES], expected[BYTES];
    int rc = hmreg_copy(side->lib, found, side->memory, BYTES);

    fill(expected, seed);
    return rc ? rc : memcmp(found, expected, BYTES) ? -EBADMSG : 0;
}

/* Sends the token of its memory, waits, and checks the bytes. */
static int serve(struct side *side)
{
    struct letter letter = {.size = sizeof(letter.token)};
    char done;
    size_t size = sizeof(letter.token);
    int rc = hmreg_mr_pack(side->mr, letter.token, &size);

    letter.size = size;
    rc = rc ? rc : pair_send(&side->pair, &letter, sizeof(letter));
    rc = rc ? rc : pair_receive(&side->pair, &done, 1);
    rc = rc ? rc : compare(side, 1);
    if (!rc)
        printf("server: the client's bytes are in its memory\n");
    return rc;
}

static int transfer(struct side *side, const struct hmreg_remote *remote)
{
    static char bytes[BYTES];
    uint64_t addr, key;
    int rc = hmreg_remote_addr(remote, 0, BYTES, &addr, &key);

    fill(bytes, 1);
    rc = rc ? rc : hmreg_copy(side->lib, side->memory, bytes, BYTES);
    rc = rc ? rc
            : pair_rdma(&side->pair, IBV_WR_RDMA_WRITE, side->memory, BYTES,
                        hmreg_mr_lkey(side->mr), addr, (uint32_t)key);
    memset(bytes, 0, BYTES);
    rc = rc ? rc : hmreg_copy(side->lib, side->memory, bytes, BYTES);
    rc = rc ? rc
            : pair_rdma(&side->pair, IBV_WR_RDMA_READ, side->memory, BYTES, hmreg_mr_lkey(side->mr),
                        addr, (uint32_t)key);
    return rc ? rc : compare(side, 1);
}

static int visit(struct side *side)
{
    struct hmreg_remote *remote = NULL;
    struct letter letter;
    int rc = pair_receive(&side->pair, &letter, sizeof(letter));

    rc = rc ? rc : hmreg_remote_open(side->domain, letter.token, letter.size, &remote);
    rc = rc ? rc : transfer(side, remote);
    rc = rc ? rc : pair_send(&side->pair, "!", 1);
    hmreg_remote_close(remote);
    if (!rc)
        printf("client: written to the server's memory, and read back\n");
    return rc;
}

int main(int argc, char **argv)
{
    struct side side = {.pair = {.socket = -1}};
    const char *host = argc > 2 ? argv[2] : NULL;
    enum hmreg_iface iface;
    int rc;

    if (argc < 2 || parse_iface(argv[1], &iface)) {
        fprintf(stderr, "usage: 4-gpudirect-verbs cuda|rocr|ze|system [SERVER]\n");
        return 2;
    }
    rc = open_side(&side, host, iface);
    rc = rc ? rc : host ? visit(&side) : serve(&side);
    if (rc)
        fprintf(stderr, "4-gpudirect-verbs: %s\n",
                hmreg_last_error()->code == rc ? hmreg_last_error()->text : hmreg_strerror(rc));
    close_side(&side);
    return rc != 0;
}
