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
    int window; /* has the server's memory one? The kernel binds none to a dmabuf */
};

/* A token, in a message of fixed size. */
struct letter {
    uint64_t size;
    unsigned char token[512];
    uint64_t window; /* 1: the key of a window follows */
};

/* Of host memory: the address and key of its first WINDOW bytes alone. */
#define WINDOW 1000
struct key {
    uint64_t addr;
    uint32_t rkey;
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
    const struct hmreg_domain_config config = {.size = sizeof(config),
                                               .flags = HMREG_VERBS_MEMORY_WINDOWS};
    struct hmreg_mr_info info = {.size = sizeof(info)};
    void *memory = NULL;
    int rc = pair_open(host, &side->pair);

    rc = rc ? rc : hmreg_open(NULL, &side->lib);
    rc = rc ? rc : hmreg_domain_open_verbs(side->lib, side->pair.pd, &config, &side->domain);
    rc = rc ? rc : hmreg_mem_alloc(side->lib, iface, 0, kind, BYTES, &memory);
    side->memory = (char *)memory;
    rc = rc ? rc
            : hmreg_mr_reg(side->domain, memory, BYTES, access, 0, HMREG_KEY_ANY, 0, &side->mr,
                           NULL);
    rc = rc ? rc : hmreg_mr_query(side->mr, &info);
    side->window = info.path == HMREG_PATH_SYSTEM;
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

/* Lets the client write by a key of its own, which ends before the region does. */
static int serve_window(struct side *side)
{
    struct hmreg_window *window = NULL;
    struct key key;
    char done;
    int rc = hmreg_window_open(side->mr, side->memory, WINDOW, HMREG_REMOTE_WRITE, side->pair.qp,
                               IBV_MW_TYPE_2, 0, &window);

    if (rc)
        return rc;
    rc = pair_complete(&side->pair); /* from here on the key is valid */
    key.addr = hmreg_mr_remote_addr(side->mr, 0, side->memory);
    key.rkey = hmreg_window_rkey(window);
    rc = rc ? rc : pair_send(&side->pair, &key, sizeof(key));
    rc = rc ? rc : pair_receive(&side->pair, &done, 1);
    hmreg_window_close(window);
    if (!rc)
        printf("server: %d bytes came through a window, which is closed\n", WINDOW);
    return rc;
}

/* Sends the token of its memory, waits, and checks the bytes. */
static int serve(struct side *side)
{
    struct letter letter = {.window = (uint64_t)side->window};
    char done;
    size_t size = sizeof(letter.token);
    int rc = hmreg_mr_pack(side->mr, letter.token, &size);

    letter.size = size;
    rc = rc ? rc : pair_send(&side->pair, &letter, sizeof(letter));
    rc = rc ? rc : pair_receive(&side->pair, &done, 1);
    rc = rc ? rc : compare(side, 1);
    if (!rc)
        printf("server: the client's bytes are in its memory\n");
    return rc || !side->window ? rc : serve_window(side);
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
                        hmreg_mr_head_of(side->mr)->keys->lkey, addr, (uint32_t)key);
    memset(bytes, 0, BYTES);
    rc = rc ? rc : hmreg_copy(side->lib, side->memory, bytes, BYTES);
    rc = rc ? rc
            : pair_rdma(&side->pair, IBV_WR_RDMA_READ, side->memory, BYTES,
                        hmreg_mr_head_of(side->mr)->keys->lkey, addr, (uint32_t)key);
    return rc ? rc : compare(side, 1);
}

static int visit_window(struct side *side)
{
    struct key key;
    int rc = pair_receive(&side->pair, &key, sizeof(key));

    rc = rc ? rc
            : pair_rdma(&side->pair, IBV_WR_RDMA_WRITE, side->memory, WINDOW,
                        hmreg_mr_head_of(side->mr)->keys->lkey, key.addr, key.rkey);
    return rc ? rc : pair_send(&side->pair, "!", 1);
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
    return rc || !letter.window ? rc : visit_window(side);
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
