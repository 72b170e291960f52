/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The proof: allocates and registers memory on the device; the fabric, connected to itself, writes
 * to it and reads from it; each time the bytes are compared with those that the device runtime's
 * own copy yields. The result is "proven", "failed", "wrong-bytes" or "untried".
 */
#include "tools/proof.h"

#include "tools/loop.h"
#include "tools/signals.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BYTES 65536u
#define TOKEN 1024

struct proof {
    struct hmreg *lib;
    struct hmreg_domain *domain;
    const struct loop_ops *ops;
    struct loop *loop;
    bool tie;
    enum hmreg_mem_kind kind;
    bool cached;
    bool all_refused; /* registration failed on every path to the device's memory */
    char *host;       /* local buffer: half to send from, half to compare with */
    void *device;
    struct hmreg_mr *host_mr, *device_mr;
    struct hmreg_remote *remote;
    uint64_t addr, key;
    const char *result;
    struct loop_why why;
    int error; /* the failed call's errno value; 0: none */
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
    proof->error = -hmreg_last_error()->code;
    return end_as(proof, "failed", "%s: %s", step, hmreg_last_error()->text);
}

/* ---- preparing -------------------------------------------------------------------------- */

static int register_one(struct proof *proof, void *memory, uint64_t access, struct hmreg_mr **out)
{
    struct loop_why why;
    uint64_t key;
    int rc;

    if (loop_choose_key(proof->domain, &key, &why))
        return end_as(proof, "untried", "%s", why.text);
    rc = hmreg_mr_reg(proof->domain, memory, BYTES, access, 0, key, 0, out, NULL);
    if (rc) {
        proof->all_refused = rc == -EOPNOTSUPP && memory == proof->device;
        return failed(proof, memory == proof->device ? "its memory was not registered"
                                                     : "host memory was not registered");
    }
    if (proof->tie && proof->ops->tie && proof->ops->tie(proof->loop, *out, &why))
        return end_as(proof, "failed", "a region could not be bound to the endpoint: %s", why.text);
    return 0;
}

/* Gets a region of the device's memory twice. If it is cached, both gets return one region. */
static int get_cached(struct proof *proof)
{
    struct hmreg_mr_info info = {.size = sizeof(info)};
    struct hmreg_mr *again;
    bool other;
    int rc = hmreg_mr_get(proof->domain, proof->device, BYTES, HMREG_ACCESS_ALL, &proof->device_mr);

    if (rc) {
        proof->all_refused = rc == -EOPNOTSUPP;
        return failed(proof, "its memory was not registered for the cache");
    }
    hmreg_mr_query(proof->device_mr, &info);
    if (hmreg_mr_get(proof->domain, proof->device, BYTES, HMREG_ACCESS_ALL, &again))
        return failed(proof, "no second region of its memory was returned");
    other = info.cached && again != proof->device_mr;
    hmreg_mr_put(again);
    return other ? end_as(proof, "failed", "the cache did not find its region") : 0;
}

static int prepare_remote(struct proof *proof)
{
    char token[TOKEN];
    size_t size = sizeof(token);
    int rc = hmreg_mr_pack(proof->device_mr, token, &size);

    rc = rc ? rc : hmreg_remote_open(proof->domain, token, size, &proof->remote);
    rc = rc ? rc : hmreg_remote_addr(proof->remote, 0, BYTES, &proof->addr, &proof->key);
    return rc ? failed(proof, "the region's token could not be opened") : 0;
}

static int prepare(struct proof *proof, enum hmreg_iface iface, int device)
{
    int rc;

    if (signals_after(
            hmreg_mem_alloc(proof->lib, iface, device, proof->kind, BYTES, &proof->device)))
        return end_as(proof, "untried", "no memory of the device could be allocated: %s",
                      hmreg_last_error()->text);
    proof->host = aligned_alloc((size_t)sysconf(_SC_PAGESIZE), 2 * BYTES);
    if (!proof->host)
        return end_as(proof, "untried", "no host memory was left");
    rc = proof->cached ? get_cached(proof)
                       : register_one(proof, proof->device, HMREG_ACCESS_ALL, &proof->device_mr);
    rc = rc ? rc : register_one(proof, proof->host, HMREG_ACCESS_LOCAL, &proof->host_mr);
    return rc ? rc : prepare_remote(proof);
}

/* A failure here makes a successful proof fail. */
static void clean_up(struct proof *proof, json_t *described)
{
    int rc;

    hmreg_remote_close(proof->remote);
    rc = hmreg_mr_close(proof->host_mr);
    if (proof->cached)
        hmreg_mr_put(proof->device_mr);
    else
        rc |= hmreg_mr_close(proof->device_mr);
    rc |= hmreg_mem_free(proof->lib, proof->device);
    free(proof->host);
    if (!rc || strcmp(proof->result, "proven"))
        return;
    doc_set(described, "result", doc_text("failed"));
    doc_set(described, "text",
            doc_format("bytes arrived, but its memory could not be deregistered or freed: %s",
                       hmreg_last_error()->text));
}

/* ---- bytes ------------------------------------------------------------------------------ */

static int compare(struct proof *proof, const char *found, unsigned seed, const char *what)
{
    struct loop_why why;

    return loop_compare(found, BYTES, seed, what, &why)
               ? end_as(proof, "wrong-bytes", "%s", why.text)
               : 0;
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

/* After a write's completion the bytes may still be on their way, where the device's own copies do
 * not see them. By the ordering of PCI Express a read pushes them there. */
static int prove_write(struct proof *proof)
{
    char *found = proof->host + BYTES;
    int rc;

    memset(found, 0, BYTES);
    if (hmreg_copy(proof->lib, proof->device, found, BYTES))
        return failed(proof, "the device's memory could not be cleared");
    loop_fill(proof->host, BYTES, 1);
    rc = transfer(proof, true);
    rc = rc ? rc : transfer(proof, false);
    if (!rc && hmreg_copy(proof->lib, found, proof->device, BYTES))
        return failed(proof, "the device's memory could not be read");
    return rc ? rc : compare(proof, found, 1, "after the RMA write");
}

static int prove_read(struct proof *proof)
{
    char *source = proof->host + BYTES;
    int rc;

    loop_fill(source, BYTES, 2);
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
    json_t *described =
        doc_pack("{s:s, s:o, s:s, s:o, s:n, s:n, s:[]}", "result", proof->result, "text",
                 doc_text(proof->why.text), "fault", loop_fault_name(proof->why.fault), "errno",
                 proof->error > 0 ? doc_count((uint64_t)proof->error, 0) : json_null(), "path",
                 "way", "ways");

    if (ran && proof->device_mr && !hmreg_mr_query(proof->device_mr, &info)) {
        doc_set(described, "path", doc_text(hmreg_path_name(info.path)));
        if (info.way)
            doc_set(described, "way", doc_text(hmreg_way_name(info.way)));
    }
    return described;
}

/* Adds the reasons of the refused paths, if registration was refused on all. */
static void describe_refusals(const struct proof *proof, json_t *described)
{
    struct hmreg_explanation why = {.size = sizeof(why)};
    json_t *refused = doc_array();

    if ((proof->device_mr || proof->all_refused) && !hmreg_mr_explain(proof->device_mr, &why))
        for (uint32_t i = 0; i < why.refused; i++) {
            json_t *reason = doc_reason(&why.reasons[i]);

            doc_set(reason, "path", doc_text(hmreg_path_name(why.reasons[i].path)));
            doc_add(refused, reason);
        }
    doc_set(described, "refused", refused);
    if (why.asks_why[0])
        doc_set(described, "asks_why", doc_text(why.asks_why));
}

static json_t *prove(struct proof proof, struct proof_subject *subject)
{
    json_t *described;
    int rc = prepare(&proof, subject->iface, subject->device);

    subject->address = (uint64_t)(uintptr_t)proof.device;
    rc = rc ? rc : prove_write(&proof);
    rc = rc ? rc : prove_read(&proof);
    if (!rc) {
        proof.result = "proven";
        snprintf(proof.why.text, sizeof(proof.why.text), "%u bytes written, read back and compared",
                 BYTES);
    }
    described = describe(&proof, true);
    describe_refusals(&proof, described);
    clean_up(&proof, described);
    return described;
}

/* ---- one fabric ------------------------------------------------------------------------- */

static void describe_modes(struct proof *proof)
{
    struct hmreg_domain_info info = {.size = sizeof(info)};

    hmreg_domain_query(proof->domain, &info);
    proof->tie = info.mr_mode & HMREG_MR_ENDPOINT;
}

static enum hmreg_iface iface_of(const json_t *memory)
{
    int iface = HMREG_IFACE_SYSTEM;

    while (strcmp(hmreg_iface_name((enum hmreg_iface)iface), doc_words(memory, "iface")))
        iface++;
    return (enum hmreg_iface)iface;
}

/* A failed operation breaks the connection, so each memory gets a new one. */
json_t *proof_of(struct hmreg *lib, const struct fabric *fabric, struct hmreg_domain *domain,
                 struct proof_subject *subject)
{
    struct proof proof = {.lib = lib,
                          .domain = domain,
                          .ops = fabric->loop,
                          .kind = subject->kind,
                          .cached = subject->cached};
    json_t *described;

    if (signals_after(loop_open_self(fabric->loop, fabric, domain, &proof.loop, &proof.why))) {
        proof.result = "untried";
        return describe(&proof, false);
    }
    describe_modes(&proof);
    described = prove(proof, subject);
    fabric->loop->close(proof.loop);
    return described;
}

/* The reason of the first path that is refused. */
static const char *why_refused(const json_t *memory)
{
    json_t *paths = json_object_get(memory, "paths"), *path;
    const char *name;

    json_object_foreach(paths, name, path)
        if (doc_words(path, "text")[0])
            return doc_words(path, "text");
    return "every path is refused, see hmreg info";
}

json_t *proof_try(struct hmreg *lib, const struct fabric *fabric, struct hmreg_domain *domain,
                  const json_t *memory)
{
    struct proof proof = {.result = NULL};
    struct proof_subject subject = {.iface = iface_of(memory),
                                    .device = (int)doc_number(memory, "device")};

    if (doc_equals(memory, "best", "none")) {
        end_as(&proof, "untried", why_refused(memory));
        return describe(&proof, false);
    }
    subject.kind = subject.iface == HMREG_IFACE_SYSTEM ? HMREG_MEM_HOST : HMREG_MEM_DEVICE;
    return proof_of(lib, fabric, domain, &subject);
}

/* ---- one way ---------------------------------------------------------------------------- */

static json_t *way_proof(enum hmreg_way way, const char *result, const char *text)
{
    return doc_pack("{s:s, s:s, s:o}", "way", hmreg_way_name(way), "result", result, "text",
                    doc_text(text));
}

/* Runs the proof on a domain that allows this way only. */
static json_t *way_on(struct hmreg *lib, const struct fabric *fabric, struct hmreg_domain *domain,
                      const json_t *memory, enum hmreg_way way)
{
    struct hmreg_explanation why = {.size = sizeof(why)};
    json_t *proof, *described;
    const json_t *reason;

    if (hmreg_domain_explain(domain, iface_of(memory), (int)doc_number(memory, "device"), &why))
        return way_proof(way, "untried", hmreg_last_error()->text);
    if (why.path == HMREG_PATH_NONE)
        return way_proof(way, "refused", why.reasons[0].text);
    proof = proof_try(lib, fabric, domain, memory);
    reason = json_array_get(json_object_get(proof, "refused"), 0);
    if (reason && !doc_has(proof, "path"))
        described = way_proof(way, "refused", doc_words(reason, "text"));
    else
        described = way_proof(way, doc_words(proof, "result"), doc_words(proof, "text"));
    json_decref(proof);
    return described;
}

json_t *proof_try_way(struct hmreg *lib, const struct fabric *fabric, const json_t *memory,
                      enum hmreg_way way)
{
    struct hmreg_domain_config config = {
        .size = sizeof(config), .order = {HMREG_PATH_DMABUF}, .ways = {way}};
    struct hmreg_domain *domain;
    json_t *described;

    if (fabric->open(fabric, lib, &config, &domain))
        return way_proof(way, "untried", hmreg_last_error()->text);
    described = way_on(lib, fabric, domain, memory, way);
    hmreg_domain_close(domain);
    return described;
}
