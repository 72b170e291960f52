/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The owner: registers a buffer of every kind, sends its token, and checks every byte after the
 * peer wrote a few. It reads device memory through the vendor's runtime.
 */
#include "demo.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define AGAIN 1000 /* gets of a cached region, for the mean */

struct owner {
    struct side side;
    int pipe;
    bool corrupt;
    unsigned char *wanted, *found; /* DEMO_BYTES of host memory each */
};

/* One buffer under test. */
struct buffer {
    void *memory;
    struct hmreg_mr *mr;
    struct row row;
};

static uint64_t now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* ---- the buffer ------------------------------------------------------------------------- */

static void name(struct owner *owner, struct row *row)
{
    struct hmreg_device_info device = {.size = sizeof(device)};

    snprintf(row->buffer, sizeof(row->buffer), "host memory");
    if (row->device < 0 || hmreg_device_query(owner->side.lib, row->iface, row->device, &device))
        return;
    snprintf(row->buffer, sizeof(row->buffer), "%.47s", device.name);
    row->pci = device.pci;
}

/* The library finds all attributes from the pointer alone. */
static int query(struct owner *owner, struct buffer *buffer)
{
    struct hmreg_mem_info info = {.size = sizeof(info)};
    int rc = hmreg_query(owner->side.lib, buffer->memory, DEMO_BYTES, &info);

    if (rc || (info.iface == buffer->row.iface && info.device == buffer->row.device))
        return rc;
    snprintf(buffer->row.text, sizeof(buffer->row.text), "it was taken for memory of %s device %d",
             hmreg_iface_name(info.iface), info.device);
    return -EBADMSG;
}

/* ---- registering ------------------------------------------------------------------------ */

static int measure_again(struct owner *owner, struct buffer *buffer)
{
    uint64_t start = now();

    for (int i = 0; i < AGAIN; i++) {
        struct hmreg_mr *mr;
        int rc =
            hmreg_mr_get(owner->side.domain, buffer->memory, DEMO_BYTES, HMREG_ACCESS_REMOTE, &mr);

        if (rc)
            return rc;
        hmreg_mr_put(mr);
    }
    buffer->row.again_ns = (now() - start) / AGAIN;
    return 0;
}

/* Registers the buffer; a refusal of every path is a result, not a failure. */
static int reg(struct owner *owner, struct buffer *buffer)
{
    struct hmreg_explanation why = {.size = sizeof(why)};
    struct hmreg_mr_info info = {.size = sizeof(info)};
    struct row *row = &buffer->row;
    uint64_t start = now();
    int rc = hmreg_mr_get(owner->side.domain, buffer->memory, DEMO_BYTES, HMREG_ACCESS_REMOTE,
                          &buffer->mr);

    row->first_ns = now() - start;
    if (rc && rc != -EOPNOTSUPP)
        return rc;
    row->verdict = rc ? REFUSED : VERIFIED;
    rc = hmreg_mr_explain(buffer->mr, &why);
    if (rc)
        return rc;
    row->path = why.path;
    row->refused = why.refused;
    memcpy(row->reasons, why.reasons, sizeof(row->reasons));
    if (row->verdict == REFUSED)
        return 0;
    rc = hmreg_mr_query(buffer->mr, &info);
    row->cached = info.cached;
    return rc ? rc : measure_again(owner, buffer);
}

/* ---- writing and reading ---------------------------------------------------------------- */

static int order_peer(struct owner *owner, struct buffer *buffer, struct order *order)
{
    struct answer answer = {.code = -EPIPE};
    size_t size = sizeof(answer);
    int rc;

    order->token_size = sizeof(order->token);
    rc = hmreg_mr_pack(buffer->mr, order->token, &order->token_size);
    rc = rc ? rc : side_send(&owner->side, order, sizeof(*order));
    rc = rc ? rc : side_receive(&owner->side, &answer, &size);
    if (rc || !answer.code)
        return rc;
    memcpy(buffer->row.text, answer.text, sizeof(answer.text));
    return answer.code;
}

/* Checks all bytes of the buffer: those that the peer wrote, and their neighbours. */
static int verify(struct owner *owner, struct buffer *buffer, const struct order *order)
{
    int rc = hmreg_copy(owner->side.lib, owner->found, buffer->memory, DEMO_BYTES);

    if (rc)
        return rc;
    for (uint64_t i = order->offset; i < order->offset + order->len; i++)
        owner->wanted[i] = demo_byte(order->seed, i);
    for (uint64_t i = 0; i < DEMO_BYTES; i++) {
        if (owner->found[i] == owner->wanted[i])
            continue;
        snprintf(buffer->row.text, sizeof(buffer->row.text),
                 "byte %llu is %#x, not %#x, after the peer wrote %llu bytes at %llu",
                 (unsigned long long)i, owner->found[i], owner->wanted[i],
                 (unsigned long long)order->len, (unsigned long long)order->offset);
        return -EBADMSG;
    }
    return 0;
}

/* The owner fills the whole buffer, and the peer reads it at odd offsets; the peer writes there,
 * and the owner checks those bytes and that no others changed. */
static int exercise(struct owner *owner, struct buffer *buffer)
{
    static const struct {
        uint64_t offset, len;
    } places[] = {{1, 1}, {4097, 777}, {65535, 131073}, {DEMO_BYTES - 1, 1}};
    unsigned char byte;
    int rc = 0;

    for (uint64_t i = 0; i < DEMO_BYTES; i++)
        owner->wanted[i] = demo_byte(1, i);
    rc = hmreg_copy(owner->side.lib, buffer->memory, owner->wanted, DEMO_BYTES);
    for (unsigned i = 0; i < sizeof(places) / sizeof(places[0]) && !rc; i++) {
        struct order order = {
            .kind = ORDER_READ, .seed = 1, .offset = places[i].offset, .len = places[i].len};

        rc = order_peer(owner, buffer, &order);
        order.kind = ORDER_WRITE;
        order.seed = 2 + i;
        rc = rc ? rc : order_peer(owner, buffer, &order);
        byte = (unsigned char)~demo_byte(order.seed, order.offset);
        if (owner->corrupt && !rc)
            rc = hmreg_copy(owner->side.lib, (char *)buffer->memory + order.offset, &byte, 1);
        rc = rc ? rc : verify(owner, buffer, &order);
    }
    return rc;
}

/* ---- one buffer ------------------------------------------------------------------------- */

static int use(struct owner *owner, struct buffer *buffer)
{
    enum hmreg_mem_kind kind = buffer->row.device < 0 ? HMREG_MEM_HOST : HMREG_MEM_DEVICE;
    int rc = hmreg_mem_alloc(owner->side.lib, buffer->row.iface, buffer->row.device, kind,
                             DEMO_BYTES, &buffer->memory);

    rc = rc ? rc : query(owner, buffer);
    rc = rc ? rc : reg(owner, buffer);
    if (!rc && buffer->row.verdict != REFUSED)
        rc = exercise(owner, buffer);
    return rc;
}

static int report(struct owner *owner, enum hmreg_iface iface, int device)
{
    struct buffer buffer = {.row = {.iface = iface, .device = device}};
    struct row *row = &buffer.row;
    int rc;

    name(owner, row);
    rc = use(owner, &buffer);
    if (rc) {
        row->verdict = FAILED;
        if (!row->text[0])
            snprintf(row->text, sizeof(row->text), "%s", failure_text(rc));
    }
    hmreg_mr_put(buffer.mr);
    hmreg_mem_free(owner->side.lib, buffer.memory);
    return write(owner->pipe, row, sizeof(*row)) == sizeof(*row) ? 0 : -EPIPE;
}

static int report_all(struct owner *owner)
{
    int rc = report(owner, HMREG_IFACE_SYSTEM, -1);

    for (int n = HMREG_IFACE_CUDA; n < HMREG_IFACE_COUNT; n++) {
        enum hmreg_iface iface = (enum hmreg_iface)n;
        struct hmreg_runtime_info runtime = {.size = sizeof(runtime)};

        rc = rc ? rc : hmreg_runtime_query(owner->side.lib, iface, &runtime);
        for (int i = 0; !rc && runtime.present && i < runtime.devices; i++)
            rc = report(owner, iface, i);
    }
    return rc;
}

int owner_run(int socket, const char *provider, int pipe, bool corrupt)
{
    struct owner owner = {.pipe = pipe, .corrupt = corrupt};
    int rc = side_open(socket, provider, 0, NULL, &owner.side);

    owner.wanted = (unsigned char *)malloc(DEMO_BYTES);
    owner.found = (unsigned char *)malloc(DEMO_BYTES);
    if (!rc && (!owner.wanted || !owner.found))
        rc = -ENOMEM;
    rc = rc ? rc : report_all(&owner);
    if (rc)
        fprintf(stderr, "owner on %s: %s\n", provider, failure_text(rc));
    free(owner.wanted);
    free(owner.found);
    return side_close(&owner.side) || rc;
}
