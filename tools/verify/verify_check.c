/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Runs checks, in a separate process; runtimes and memory are checked here. A fabric is checked
 * while its list function has it open.
 */
#include "tools/command.h"
#include "tools/fabrics.h"
#include "tools/foreign.h"
#include "tools/proof.h"
#include "tools/signals.h"
#include "tools/verify/verify.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#define BYTES (1u << 20)

/* ---- memory ----------------------------------------------------------------------------- */

static int check_export(struct hmreg *lib, char *memory, const struct hmreg_mem_info *info,
                        struct verdict *verdict)
{
    struct hmreg_dmabuf dmabuf;

    if (!(info->flags & HMREG_MEM_INFO_EXPORTABLE))
        return 0;
    if (hmreg_export_dmabuf(lib, memory + 1, BYTES - 2, 0, &dmabuf)) {
        verdict_error(verdict, "failed", "its export was expected to succeed");
        return -1;
    }
    close(dmabuf.fd);
    return 0;
}

/* Writes and reads by the runtime's own copy. */
static int check_copy(struct hmreg *lib, char *memory, struct verdict *verdict)
{
    static char before[4096], after[4096];

    memset(before, 0x5a, sizeof(before));
    if (hmreg_copy(lib, memory + 3, before, sizeof(before)) ||
        hmreg_copy(lib, after, memory + 3, sizeof(after)))
        verdict_error(verdict, "failed", "it was not copied");
    else if (memcmp(before, after, sizeof(before)) != 0)
        verdict_set(verdict, "failed", "bytes copied to it and back differ");
    else
        return 0;
    return -1;
}

static int check_query(struct hmreg *lib, const json_t *expected, char *memory,
                       struct hmreg_mem_info *info, struct verdict *verdict)
{
    uint64_t first = (uint64_t)(uintptr_t)memory + 1, end = first + BYTES - 2;

    if (hmreg_query(lib, memory + 1, BYTES - 2, info)) {
        verdict_error(verdict, "failed", "it was not found");
        return -1;
    }
    if (info->iface == doc_number(expected, "iface") &&
        info->kind == doc_number(expected, "kind") &&
        (info->kind != HMREG_MEM_DEVICE || info->device == (int)doc_number(expected, "device")) &&
        info->alloc_base <= first && end <= info->alloc_base + info->alloc_len)
        return 0;
    verdict_set(verdict, "failed", "it is found to be %s memory of %s, device %d",
                hmreg_mem_kind_name(info->kind), hmreg_iface_name(info->iface), info->device);
    return -1;
}

static void check_memory(struct hmreg *lib, const json_t *expected, struct verdict *verdict)
{
    struct hmreg_mem_info info = {.size = sizeof(info)};
    void *memory;
    int rc = signals_after(hmreg_mem_alloc(
        lib, (enum hmreg_iface)doc_number(expected, "iface"), (int)doc_number(expected, "device"),
        (enum hmreg_mem_kind)doc_number(expected, "kind"), BYTES, &memory));

    if (rc) {
        verdict_error(verdict, rc == -EOPNOTSUPP ? "skipped" : "failed", "no memory was allocated");
        return;
    }
    rc = check_query(lib, expected, memory, &info, verdict);
    rc = rc ? rc : check_export(lib, memory, &info, verdict);
    rc = rc ? rc : check_copy(lib, memory, verdict);
    if (hmreg_mem_free(lib, memory) && !rc)
        verdict_error(verdict, "failed", "it was not freed");
    else if (!rc)
        verdict_set(verdict, "ok", "found, %s, copied, freed",
                    info.flags & HMREG_MEM_INFO_EXPORTABLE ? "exported" : "no export expected");
}

static void check_runtime(struct hmreg *lib, const char *iface, struct verdict *verdict)
{
    struct hmreg_runtime_info info = {.size = sizeof(info)};
    int number;

    if (!options_iface(iface, &number) || hmreg_runtime_query(lib, (enum hmreg_iface)number, &info))
        return;
    if (info.present)
        verdict_set(verdict, "ok", "%s%s%d devices", info.version, *info.version ? ", " : "",
                    info.devices);
    else
        verdict_set(verdict, "skipped", "%s", info.why);
}

/* ---- the doctor's proof ----------------------------------------------------------------- */

/* The subject of checks: memory alone, or an open fabric. */
struct place {
    const char *name; /* "memory", "verbs:mlx5_0" */
    const struct fabric *fabric;
    struct hmreg_domain *domain;
    const json_t *described;
};

static const json_t *described_memory(const struct place *place, const char *wanted)
{
    char name[VERIFY_NAME];
    const json_t *memory;

    doc_each(memory, json_object_get(place->described, "memory"))
        if (!strcmp(verify_memory_name(memory, name), wanted))
            return memory;
    return NULL;
}

/* path: "proof", or "proof-" and the name of a way. NULL: there is no such memory or way. */
static json_t *prove(struct hmreg *lib, const struct place *place, const char *memory_name,
                     const char *path, struct verdict *verdict)
{
    const json_t *memory = described_memory(place, memory_name);
    json_t *proof = NULL;

    if (memory && !strcmp(path, VERIFY_PROOF))
        proof = proof_try(lib, place->fabric, place->domain, memory);
    for (int way = 1; memory && !proof && way < HMREG_WAY_COUNT; way++)
        if (!strcmp(path + strlen(VERIFY_PROOF "-"), hmreg_way_name((enum hmreg_way)way)))
            proof = proof_try_way(lib, place->fabric, memory, (enum hmreg_way)way);
    if (proof)
        verdict_set(verdict,
                    doc_equals(proof, "result", "proven") ? "ok"
                    : doc_equals(proof, "result", "untried") ||
                            doc_equals(proof, "result", "refused")
                        ? "skipped"
                        : "failed",
                    "%s", doc_words(proof, "text"));
    return proof;
}

/* ---- running checks --------------------------------------------------------------------- */

struct running {
    struct fabric_list list; /* first: its callbacks get it */
    const json_t *names;
    json_t *memories, *fabrics; /* fabrics: their names */
    FILE *out;
    size_t done;
    bool failed, stop, json;
};

/* Writes a line as JSON or as text. As text a check that begins, without a result, is not
 * written. */
static void write_line(struct running *running, json_t *line)
{
    if (running->json) {
        json_dumpf(line, running->out, JSON_COMPACT);
        fputc('\n', running->out);
    } else if (doc_has(line, "result")) {
        verify_print_check(line, running->out);
    }
    fflush(running->out);
    json_decref(line);
}

/* After a failed check of verify's own nothing more runs in this process. */
static void write_end(struct running *running, const char *name, const struct verdict *verdict,
                      int64_t since, json_t *proof)
{
    bool failed = !strcmp(verdict->result, "failed");

    write_line(running, doc_pack("{s:s, s:s, s:o, s:I, s:o*}", "name", name, "result",
                                 verdict->result, "text", doc_text(verdict->text), "ms",
                                 (json_int_t)(verify_now() - since), "proof", proof));
    running->failed |= failed;
    running->stop = failed && !proof;
    running->done++;
}

static bool is_at(const char *name, const char *place)
{
    size_t length = strlen(place);

    return !strncmp(name, place, length) && name[length] == '/';
}

static void run_one(struct running *running, const char *name, const struct place *place)
{
    const char *rest = name + strlen(place->name) + 1, *path = strrchr(name, '/') + 1;
    struct verdict verdict = {.result = NULL};
    char memory_name[VERIFY_NAME];
    int64_t since = verify_now();
    const json_t *memory;
    json_t *proof = NULL;

    write_line(running, doc_pack("{s:s}", "name", name));
    snprintf(memory_name, sizeof(memory_name), "%.*s",
             (int)(place->fabric && path > rest ? (size_t)(path - rest) - 1 : strlen(rest)), rest);
    memory = doc_find(running->memories, "name", memory_name);
    if (!strcmp(place->name, "runtime"))
        check_runtime(running->list.lib, memory_name, &verdict);
    else if (place->fabric && !strcmp(rest, VERIFY_OPEN))
        verdict_set(&verdict, "ok", "opened");
    else if (place->fabric && !strncmp(path, VERIFY_PROOF, strlen(VERIFY_PROOF)))
        proof = prove(running->list.lib, place, memory_name, path, &verdict);
    else if (memory && place->fabric)
        verify_on_fabric(running->list.lib, place->fabric, memory, path, &verdict);
    else if (memory)
        check_memory(running->list.lib, memory, &verdict);
    if (!verdict.result)
        verdict_set(&verdict, "failed", "there is no such memory here; hmreg verify --list");
    write_end(running, name, &verdict, since, proof);
}

static void run_at(struct running *running, const struct place *place)
{
    const json_t *name;

    doc_each(name, running->names)
        if (!running->stop && is_at(json_string_value(name), place->name))
            run_one(running, json_string_value(name), place);
}

/* The names "tcp" and "shm" are libfabric's; the other fabrics' begin with the provider. */
static bool is_of_provider(const char *name, const char *provider)
{
    size_t length = strlen(provider);

    if (!strcmp(provider, "ofi") && (is_at(name, "tcp") || is_at(name, "shm")))
        return true;
    return !strncmp(name, provider, length) && (name[length] == ':' || name[length] == '/');
}

/* Other fabrics are not opened, since one that is broken may hang. */
static bool has_checks(struct fabric_list *list, const struct fabric *fabric)
{
    struct running *running = (struct running *)list;
    const char *place = verify_fabric_name(fabric, running->fabrics);
    const json_t *name;

    doc_each(name, running->names)
        if (place && is_at(json_string_value(name), place))
            return true;
    return false;
}

static void run_on_fabric(struct fabric_list *list, const struct fabric *fabric,
                          struct hmreg_domain *domain, json_t *described)
{
    struct running *running = (struct running *)list;

    run_at(running, &(struct place){verify_fabric_name(fabric, running->fabrics), fabric, domain,
                                    described});
}

/* libfabric opens each NIC that it lists, so it is called for its own checks only. */
static void run_on_fabrics(struct running *running)
{
    static const char *const providers[] = {"loopback", "ofi", "verbs"};
    json_t *document = doc_object();
    const json_t *name;

    for (size_t i = 0; i < COUNT(providers); i++) {
        running->list.provider = providers[i];
        doc_each(name, running->names)
            if (is_of_provider(json_string_value(name), providers[i]))
                break;
        if (name && !running->stop)
            fabrics_visit(&running->list, document);
    }
    json_decref(document);
}

int verify_run_checks(const json_t *names, bool json, FILE *out)
{
    struct running running = {.names = names,
                              .json = json,
                              .out = out,
                              .fabrics = doc_object(),
                              .list = {.wants = has_checks, .visit = run_on_fabric}};
    int rc = signals_after(hmreg_open(NULL, &running.list.lib));

    if (rc) {
        print_error("hmreg verify: %s", hmreg_last_error()->text);
    } else {
        running.memories = verify_memories(running.list.lib);
        run_at(&running, &(struct place){.name = "runtime"});
        run_at(&running, &(struct place){.name = "memory"});
        run_on_fabrics(&running);
        rc = hmreg_close(running.list.lib);
        json_decref(running.memories);
    }
    json_decref(running.fabrics);
    return rc || running.failed || running.done < json_array_size(names) ? EXIT_FAILED : EXIT_GOOD;
}
