/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The proof: allocates and registers memory on the device; the fabric, connected to itself, writes
 * to it and reads from it; each time the bytes are compared with those that the device runtime's
 * own copy yields. The result is "proven", "failed", "wrong-bytes" or "untried".
 */
#include "tools/prover.h"

#include "tools/loop.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BYTES     65536u
#define TOKEN     1024
#define KEY_HERE  0x686d0001 /* of the local region, if the user chooses keys */
#define KEY_THERE 0x686d0002

struct proof {
    struct hmreg *lib;
    struct hmreg_domain *domain;
    const struct loop_ops *ops;
    struct loop *loop;
    bool choose_keys, tie;
    bool all_refused; /* registration failed on every path to the device's memory */
    char *host;       /* local buffer: half to send from, half to compare with */
    void *device;
    struct hmreg_mr *host_mr, *device_mr;
    struct hmreg_remote *remote;
    uint64_t addr, key;
    const char *result;
    struct loop_why why;
};

/* ---- ending ----------------------------------------------------------------------------- */

static int end_as(struct proof *proof, const char *result, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(proof->why.text, sizeof(proof->why.text), format, args);
    va_end(args);
    proof->result = result;
    return -1;
}

/* Ends the proof with the library's error of a step. */
static int failed(struct proof *proof, const char *step)
{
    return end_as(proof, "failed", "%s: %s", step, hmreg_last_error()->text);
}

/* ---- preparing -------------------------------------------------------------------------- */

static int register_one(struct proof *proof, void *memory, uint64_t access, uint64_t key,
                        struct hmreg_mr **out)
{
    struct loop_why why;
    int rc = hmreg_mr_reg(proof->domain, memory, BYTES, access, 0, proof->choose_keys ? key : 0, 0,
                          out, NULL);

    if (rc) {
        proof->all_refused = rc == -EOPNOTSUPP && memory == proof->device;
        return failed(proof, memory == proof->device ? "its memory was not registered"
                                                     : "host memory was not registered");
    }
    if (proof->tie && proof->ops->tie && proof->ops->tie(proof->loop, *out, &why))
        return end_as(proof, "failed", "a region could not be tied to the endpoint: %s", why.text);
    return 0;
}

static int prepare_remote(struct proof *proof)
{
    char token[TOKEN];
    size_t size = sizeof(token);
    int rc = hmreg_mr_pack(proof->device_mr, token, &size);

    rc = rc ? rc : hmreg_remote_open(proof->domain, token, size, &proof->remote);
    rc = rc ? rc : hmreg_remote_addr(proof->remote, 0, BYTES, &proof->addr, &proof->key);
    return rc ? failed(proof, "the region's token did not open") : 0;
}

static int prepare(struct proof *proof, enum hmreg_iface iface, int device)
{
    enum hmreg_mem_kind kind = iface == HMREG_IFACE_SYSTEM ? HMREG_MEM_HOST : HMREG_MEM_DEVICE;
    int rc;

    if (hmreg_mem_alloc(proof->lib, iface, device, kind, BYTES, &proof->device))
        return end_as(proof, "untried", "no memory of the device was had: %s",
                      hmreg_last_error()->text);
    proof->host = aligned_alloc((size_t)sysconf(_SC_PAGESIZE), 2 * BYTES);
    if (!proof->host)
        return end_as(proof, "untried", "no host memory was left");
    rc = register_one(proof, proof->device, HMREG_ACCESS_ALL, KEY_THERE, &proof->device_mr);
    rc = rc ? rc : register_one(proof, proof->host, HMREG_ACCESS_LOCAL, KEY_HERE, &proof->host_mr);
    return rc ? rc : prepare_remote(proof);
}

static void clean_up(struct proof *proof)
{
    hmreg_remote_close(proof->remote);
    hmreg_mr_close(proof->host_mr);
    hmreg_mr_close(proof->device_mr);
    hmreg_mem_free(proof->lib, proof->device);
    free(proof->host);
}

/* ---- bytes ------------------------------------------------------------------------------ */

static void fill(char *bytes, unsigned seed)
{
    for (unsigned i = 0; i < BYTES; i++)
        bytes[i] = (char)(i * 31 + i / 251 + seed);
}

static int compare(struct proof *proof, const char *found, unsigned seed, const char *what)
{
    for (unsigned i = 0; i < BYTES; i++) {
        char expected = (char)(i * 31 + i / 251 + seed);

        if (found[i] != expected)
            return end_as(proof, "wrong-bytes", "%s: byte %u of %u is %#x, not %#x", what, i, BYTES,
                          (unsigned char)found[i], (unsigned char)expected);
    }
    return 0;
}

static int transfer(struct proof *proof, bool write)
{
    struct loop_why why;
    struct loop_move move = {
        .write = write,
        .local = proof->host,
        .mr = proof->host_mr,
        .len = BYTES,
        .remote = proof->remote,
        .addr = proof->addr,
        .key = proof->key,
    };

    if (!proof->ops->move(proof->loop, &move, &why))
        return 0;
    return end_as(proof, "failed", "the RMA %s: %s", write ? "write" : "read", why.text);
}

static int prove_write(struct proof *proof)
{
    char *found = proof->host + BYTES;
    int rc;

    memset(found, 0, BYTES);
    if (hmreg_copy(proof->lib, proof->device, found, BYTES))
        return failed(proof, "the device's memory could not be cleared");
    fill(proof->host, 1);
    rc = transfer(proof, true);
    if (!rc && hmreg_copy(proof->lib, found, proof->device, BYTES))
        return failed(proof, "the device's memory could not be looked at");
    return rc ? rc : compare(proof, found, 1, "after the RMA write");
}

static int prove_read(struct proof *proof)
{
    char *source = proof->host + BYTES;
    int rc;

    fill(source, 2);
    if (hmreg_copy(proof->lib, proof->device, source, BYTES))
        return failed(proof, "the device's memory could not be filled");
    memset(proof->host, 0, BYTES);
    rc = transfer(proof, false);
    return rc ? rc : compare(proof, proof->host, 2, "after the RMA read");
}

/* ---- one memory ------------------------------------------------------------------------- */

static json_t *describe(const struct proof *proof, bool ran)
{
    struct hmreg_mr_info info = {.size = sizeof(info)};
    json_t *described = doc_pack("{s:s, s:o, s:o}", "result", proof->result, "text",
                                 doc_text(proof->why.text), "path", json_null());

    if (ran && proof->device_mr && !hmreg_mr_query(proof->device_mr, &info))
        doc_set(described, "path", doc_text(hmreg_path_name(info.path)));
    return described;
}

/* Adds the reasons of the refused paths, if registration was refused on all. */
static void describe_refusals(const struct proof *proof, json_t *described)
{
    struct hmreg_explanation why = {.size = sizeof(why)};
    json_t *refused = doc_array();

    if ((proof->device_mr || proof->all_refused) && !hmreg_explain(proof->device_mr, &why))
        for (uint32_t i = 0; i < why.refused; i++) {
            json_t *reason = doc_reason(&why.reasons[i]);

            doc_set(reason, "path", doc_text(hmreg_path_name(why.reasons[i].path)));
            doc_add(refused, reason);
        }
    doc_set(described, "refused", refused);
}

static json_t *prove(struct proof proof, enum hmreg_iface iface, int device)
{
    json_t *described;
    int rc = prepare(&proof, iface, device);

    rc = rc ? rc : prove_write(&proof);
    rc = rc ? rc : prove_read(&proof);
    if (!rc) {
        proof.result = "proven";
        snprintf(proof.why.text, sizeof(proof.why.text), "%u bytes written, read back and compared",
                 BYTES);
    }
    described = describe(&proof, true);
    describe_refusals(&proof, described);
    clean_up(&proof);
    return described;
}

/* ---- one fabric ------------------------------------------------------------------------- */

/* Reliable datagrams over TCP: since libfabric 1.18 "tcp" provides them itself and comes first. */
static bool is_tcp(const char *fabric)
{
    return !strcmp(fabric, "tcp") || !strcmp(fabric, "tcp;ofi_rxm");
}

/* Every NIC is worth a proof. Fabrics that move bytes with the CPU are alike: the first tcp, which
 * an application would get, on one interface, represents them. Loopback comes in addition. */
bool proof_is_worth_it(const struct fabric_list *list, const struct fabric *fabric)
{
    const json_t *before;

    if (!fabric->loop || fabric->nic)
        return fabric->loop;
    doc_each(before, list->fabrics)
        if (is_tcp(doc_words(before, "fabric")))
            return false;
    return !strcmp(fabric->provider, "loopback") || is_tcp(fabric->name);
}

static void describe_modes(struct proof *proof)
{
    struct hmreg_domain_info info = {.size = sizeof(info)};

    hmreg_domain_query(proof->domain, &info);
    proof->choose_keys = !(info.mr_mode & HMREG_MR_PROV_KEY);
    proof->tie = info.mr_mode & HMREG_MR_ENDPOINT;
}

/* A failed operation breaks the connection, so each memory gets a new one. */
json_t *proof_try(struct fabric_list *list, const struct fabric *fabric,
                  struct hmreg_domain *domain, const json_t *memory)
{
    struct proof proof = {.lib = list->lib, .domain = domain, .ops = fabric->loop};
    int iface = HMREG_IFACE_SYSTEM;
    json_t *described;

    while (strcmp(hmreg_iface_name((enum hmreg_iface)iface), doc_words(memory, "iface")))
        iface++;
    if (doc_equals(memory, "best", "none"))
        end_as(&proof, "untried", "no path is left to try");
    else if (fabric->loop->open(fabric, domain, &proof.loop, &proof.why))
        proof.result = "untried";
    if (proof.result)
        return describe(&proof, false);
    describe_modes(&proof);
    described = prove(proof, (enum hmreg_iface)iface, (int)doc_number(memory, "device"));
    fabric->loop->close(proof.loop);
    return described;
}
