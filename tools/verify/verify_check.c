/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Runs checks, in a separate process; runtimes and memory are checked here. A fabric is checked
 * while its list function has it open.
 */
#include "tools/command.h"
#include "tools/fabrics.h"
#include "tools/foreign.h"
#include "tools/signals.h"
#include "tools/verify/verify.h"

#include <errno.h>
#include <string.h>
#include <time.h>
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
        verdict_set(verdict, "failed", "bytes copied to it and back are others");
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

/* ---- running checks --------------------------------------------------------------------- */

struct checks {
    struct fabric_list list; /* first: visit() gets it */
    const json_t *names;
    json_t *memories, *named; /* named: fabrics */
    FILE *out;
    size_t done;
    bool failed, json;
};

static int64_t now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* As JSON, or as text: of a check that begins, which has no result, nothing. */
static void write_line(struct checks *checks, json_t *line)
{
    if (checks->json) {
        json_dumpf(line, checks->out, JSON_COMPACT);
        fputc('\n', checks->out);
    } else if (doc_has(line, "result")) {
        verify_print_check(line, checks->out);
    }
    fflush(checks->out);
    json_decref(line);
}

static void write_end(struct checks *checks, const char *name, const struct verdict *verdict,
                      int64_t since)
{
    write_line(checks,
               doc_pack("{s:s, s:s, s:o, s:I}", "name", name, "result", verdict->result, "text",
                        doc_text(verdict->text), "ms", (json_int_t)(now_ms() - since)));
    checks->failed = !strcmp(verdict->result, "failed");
    checks->done++;
}

/* The check of this name, without a fabric or on this open one; false: it is another's. */
static bool run_one(struct checks *checks, const char *name, const struct fabric *fabric,
                    const char *fabric_name)
{
    size_t prefix = strlen(fabric_name), length = strlen(name);
    struct verdict verdict = {.result = NULL};
    char memory_name[VERIFY_NAME];
    const char *path = strrchr(name, '/');
    const json_t *memory;
    int64_t since = now_ms();

    if (length <= prefix || strncmp(name, fabric_name, prefix) != 0 || name[prefix] != '/')
        return false;
    write_line(checks, doc_pack("{s:s}", "name", name));
    snprintf(memory_name, sizeof(memory_name), "%.*s",
             (int)((fabric ? (size_t)(path - name) : length) - prefix) - 1, name + prefix + 1);
    memory = doc_find(checks->memories, "name", memory_name);
    if (!strcmp(fabric_name, "runtime"))
        check_runtime(checks->list.lib, memory_name, &verdict);
    else if (memory && fabric)
        verify_on_fabric(checks->list.lib, fabric, memory, path + 1, &verdict);
    else if (memory)
        check_memory(checks->list.lib, memory, &verdict);
    if (!verdict.result)
        verdict_set(&verdict, "failed", "there is no such memory here; hmreg verify --list");
    write_end(checks, name, &verdict, since);
    return true;
}

static void run_of(struct checks *checks, const struct fabric *fabric, const char *fabric_name)
{
    const json_t *name;

    doc_each(name, checks->names) {
        if (checks->failed)
            return;
        run_one(checks, json_string_value(name), fabric, fabric_name);
    }
}

static void run_on_fabric(struct fabric_list *list, const struct fabric *fabric,
                          struct hmreg_domain *domain, json_t *described)
{
    struct checks *checks = (struct checks *)list;
    char name[VERIFY_NAME];

    if (!verify_fabric_name(fabric, checks->named, name))
        return;
    doc_add(checks->named, doc_text(name));
    run_of(checks, fabric, name);
}

int verify_run_checks(const json_t *names, bool json, FILE *out)
{
    struct checks checks = {.names = names,
                            .json = json,
                            .out = out,
                            .named = doc_array(),
                            .list.visit = run_on_fabric};
    json_t *document = doc_object();
    int rc = signals_after(hmreg_open(NULL, &checks.list.lib));

    if (rc) {
        print_error("hmreg verify: %s", hmreg_last_error()->text);
    } else {
        checks.memories = verify_memories(checks.list.lib);
        run_of(&checks, NULL, "runtime");
        run_of(&checks, NULL, "memory");
        if (checks.done < json_array_size(names) && !checks.failed)
            fabrics_visit(&checks.list, document);
        rc = hmreg_close(checks.list.lib);
        json_decref(checks.memories);
    }
    json_decref(checks.named);
    json_decref(document);
    return rc || checks.failed || checks.done < json_array_size(names) ? EXIT_FAILED : EXIT_GOOD;
}
