/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Example 5: what example 4 does, over libfabric. The peer writes its device memory into the
 * owner's, and reads it back; the fabric determines the path.
 *
 *     5-gpudirect-libfabric IFACE [PROVIDER]      tcp is the default; verbs, shm, efa, ...
 */
#include "../common/side.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define BYTES 100000

struct buffer {
    struct hmreg *lib;
    char *memory;
    struct hmreg_mr *mr;
    struct hmreg_mr_info info;
};

static enum hmreg_iface iface;

static int parse_iface(const char *name)
{
    for (int i = 0; i < HMREG_IFACE_COUNT; i++)
        if (!strcmp(name, hmreg_iface_name((enum hmreg_iface)i))) {
            iface = (enum hmreg_iface)i;
            return 0;
        }
    return -EINVAL;
}

static int open_buffer(struct side *side, uint64_t access, struct buffer *out)
{
    enum hmreg_mem_kind kind = iface == HMREG_IFACE_SYSTEM ? HMREG_MEM_HOST : HMREG_MEM_DEVICE;
    void *memory = NULL;
    int rc = hmreg_mem_alloc(side->lib, iface, 0, kind, BYTES, &memory);

    *out = (struct buffer){
        .lib = side->lib, .memory = (char *)memory, .info = {.size = sizeof(out->info)}};
    rc =
        rc ? rc
           : hmreg_mr_reg(side->domain, memory, BYTES, access, 0, HMREG_KEY_ANY, 0, &out->mr, NULL);
    return rc ? rc : hmreg_mr_query(out->mr, &out->info);
}

static void close_buffer(struct buffer *buffer)
{
    hmreg_mr_close(buffer->mr);
    hmreg_mem_free(buffer->lib, buffer->memory);
}

static void fill(char *bytes)
{
    for (int i = 0; i < BYTES; i++)
        bytes[i] = (char)(i * 7 + 1);
}

static int compare(const struct buffer *buffer)
{
    static char found[BYTES], expected[BYTES];
    int rc = hmreg_copy(buffer->lib, found, buffer->memory, BYTES);

    fill(expected);
    return rc ? rc : memcmp(found, expected, BYTES) ? -EBADMSG : 0;
}

static int own(struct side *side)
{
    char token[1024], done;
    size_t size = sizeof(token), one = 1;
    struct buffer buffer;
    int rc = open_buffer(side, HMREG_REMOTE_READ | HMREG_REMOTE_WRITE, &buffer);

    rc = rc ? rc : hmreg_mr_pack(buffer.mr, token, &size);
    rc = rc ? rc : side_send(side, token, size);
    rc = rc ? rc : side_receive(side, &done, &one);
    rc = rc ? rc : compare(&buffer);
    if (!rc)
        printf("%s: the peer's bytes are in %s memory, path %s\n",
               side->endpoint.info->fabric_attr->prov_name, hmreg_iface_name(iface),
               hmreg_path_name(buffer.info.path));
    close_buffer(&buffer);
    return rc;
}

/* The address for local operations may differ from the device's: hmreg_mr_query() reports it. */
static int transfer(struct side *side, struct buffer *buffer, const struct hmreg_remote *remote)
{
    static char bytes[BYTES];
    void *local = (void *)(uintptr_t)buffer->info.local_addr, *desc = hmreg_mr_desc(buffer->mr);
    uint64_t addr, key;
    int rc = hmreg_remote_addr(remote, 0, BYTES, &addr, &key);

    fill(bytes);
    rc = rc ? rc : hmreg_copy(side->lib, buffer->memory, bytes, BYTES);
    rc = rc ? rc : endpoint_write(&side->endpoint, local, BYTES, desc, addr, key);
    memset(bytes, 0, BYTES);
    rc = rc ? rc : hmreg_copy(side->lib, buffer->memory, bytes, BYTES);
    rc = rc ? rc : endpoint_read(&side->endpoint, local, BYTES, desc, addr, key);
    return rc ? rc : compare(buffer);
}

static int visit(struct side *side)
{
    struct hmreg_remote *remote = NULL;
    char token[1024];
    size_t size = sizeof(token);
    struct buffer buffer;
    int rc = open_buffer(side, HMREG_READ | HMREG_WRITE, &buffer);

    rc = rc ? rc : side_receive(side, token, &size);
    rc = rc ? rc : hmreg_remote_open(side->domain, token, size, &remote);
    rc = rc ? rc : transfer(side, &buffer, remote);
    rc = rc ? rc : side_send(side, "!", 1);
    hmreg_remote_close(remote);
    close_buffer(&buffer);
    return rc;
}

int main(int argc, char **argv)
{
    if (argc < 2 || parse_iface(argv[1])) {
        fprintf(stderr, "usage: 5-gpudirect-libfabric cuda|rocr|ze|system [PROVIDER]\n");
        return 2;
    }
    /* Without FI_HMEM no provider imports a dmabuf. */
    return side_run(argc > 2 ? argv[2] : "tcp", FI_HMEM, own, visit);
}
