/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The checks on fabrics: memory is registered by one path, and the doctor's proof has bytes written
 * and read; then regions of the cache are proven the same way while the memory is freed and
 * allocated again. A stale region would leave the new memory without the bytes.
 */
#include "tools/loop.h"
#include "tools/proof.h"
#include "tools/signals.h"
#include "tools/verify/verify.h"

#include <errno.h>
#include <stdarg.h>
#include <string.h>

#define ROUNDS      4  /* allocations to prove by cached regions, */
#define MOST_ROUNDS 16 /* or more, until one gets the address of the last one */

/* ---- verdicts --------------------------------------------------------------------------- */

void verdict_set(struct verdict *verdict, const char *result, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(verdict->text, sizeof(verdict->text), format, args);
    va_end(args);
    verdict->result = result;
}

void verdict_error(struct verdict *verdict, const char *result, const char *step)
{
    verdict_set(verdict, result, "%s: %s", step, hmreg_last_error()->text);
}

/* ---- paths ------------------------------------------------------------------------------ */

static const struct {
    const char *name;
    enum hmreg_path path;
    enum hmreg_way way;
} paths[] = {
    {"usual", HMREG_PATH_NONE, HMREG_WAY_NONE},
    {"dmabuf-plain", HMREG_PATH_DMABUF, HMREG_WAY_PLAIN},
    {"dmabuf-data-direct", HMREG_PATH_DMABUF, HMREG_WAY_DATA_DIRECT},
    {"dmabuf-pcie", HMREG_PATH_DMABUF, HMREG_WAY_PCIE},
    {"dmabuf-data-direct-pcie", HMREG_PATH_DMABUF, HMREG_WAY_DATA_DIRECT_PCIE},
    {"peermem", HMREG_PATH_PEERMEM, HMREG_WAY_NONE},
    {"mapped", HMREG_PATH_MAPPED, HMREG_WAY_NONE},
};

const char *const *verify_paths(enum hmreg_mem_kind kind, bool nic)
{
    static const char *const usual[] = {"usual", NULL};
    static const char *const by_cpu[] = {"usual", "dmabuf-plain", "peermem", "mapped", NULL};
    static const char *all[COUNT(paths) + 1];

    for (size_t i = 0; i < COUNT(paths); i++)
        all[i] = paths[i].name;
    if (kind != HMREG_MEM_DEVICE)
        return usual;
    return nic ? all : by_cpu;
}

/* ---- names ------------------------------------------------------------------------------ */

static bool is_given(json_t *names, const char *name)
{
    const char *key;
    json_t *given;

    json_object_foreach(names, key, given)
        if (json_is_string(given) && !strcmp(json_string_value(given), name))
            return true;
    return false;
}

static size_t count_given(json_t *names, const char *provider)
{
    size_t count = 0;
    const char *key;
    json_t *given;

    json_object_foreach(names, key, given)
        count += json_is_string(given) && !strncmp(key, provider, strlen(provider));
    return count;
}

/* A NIC's name may contain its GUID or the host's name: its number replaces such a name. */
static void name_nic(const struct fabric *fabric, json_t *names, char name[VERIFY_NAME])
{
    if (strcmp(fabric->provider, "ofi") != 0)
        snprintf(name, VERIFY_NAME, "%s:%.64s", fabric->provider, fabric->name);
    else
        snprintf(name, VERIFY_NAME, "ofi:%.64s:%.64s", fabric->name, fabric->domain);
    if (verify_is_secret(name) || is_given(names, name) || strchr(name, '/'))
        snprintf(name, VERIFY_NAME, "%s:%zu", fabric->provider,
                 count_given(names, fabric->provider));
    for (char *at = name; *at; at++)
        if (*at == ';')
            *at = '+';
}

static bool name_fabric(const struct fabric *fabric, json_t *names, char name[VERIFY_NAME])
{
    /* Since libfabric 1.18 "tcp" has reliable datagrams itself, and comes first. */
    static const char *const cpu[][2] = {{"tcp", "tcp"}, {"tcp;ofi_rxm", "tcp"}, {"shm", "shm"}};

    if (!fabric->loop)
        return false;
    if (fabric->nic) {
        name_nic(fabric, names, name);
        return true;
    }
    snprintf(name, VERIFY_NAME, "%s", fabric->provider);
    if (!strcmp(name, "loopback"))
        return true;
    for (size_t i = 0; i < COUNT(cpu); i++) {
        if (strcmp(fabric->name, cpu[i][0]) != 0)
            continue;
        snprintf(name, VERIFY_NAME, "%s", cpu[i][1]);
        return !is_given(names, name);
    }
    return false;
}

const char *verify_fabric_name(const struct fabric *fabric, json_t *names)
{
    char key[512], name[VERIFY_NAME];

    snprintf(key, sizeof(key), "%s %s %s", fabric->provider, fabric->name, fabric->domain);
    if (!json_object_get(names, key))
        doc_set(names, key, name_fabric(fabric, names, name) ? doc_text(name) : json_null());
    return json_string_value(json_object_get(names, key));
}

/* ---- one check -------------------------------------------------------------------------- */

static bool open_domain(struct hmreg *lib, const struct fabric *fabric, const char *path,
                        struct hmreg_domain **out)
{
    struct hmreg_domain_config config = {.size = sizeof(config), .flags = HMREG_DOMAIN_EXACT};

    for (size_t i = 0; i < COUNT(paths); i++) {
        if (strcmp(paths[i].name, path) != 0)
            continue;
        config.order[0] = paths[i].path;
        config.ways[0] = paths[i].way;
    }
    return !fabric->open(fabric, lib, &config, out);
}

/* A refusal that says "not here"; any other error of the fabric is a failure. */
static bool is_unsupported(const json_t *reason)
{
    int64_t code = (int64_t)doc_number(reason, "vendor_code");

    code = code ? code : (int64_t)doc_number(reason, "code");
    code = code < 0 ? -code : code;
    return code == ENOSYS || code == EOPNOTSUPP;
}

/* One check on a fabric. */
struct attempt {
    struct hmreg *lib;
    const struct fabric *fabric;
    struct hmreg_domain *domain;
    const char *path;
    struct proof_subject subject;
    struct verdict *verdict;
};

/* A NIC may register a dmabuf with the PCIe mapping and then not transfer by it: see
 * HMREG_EXPORT_PCIE. */
static bool may_not_transfer(const struct attempt *attempt, const json_t *proof)
{
    return !strcmp(attempt->path, "dmabuf-pcie") && doc_has(proof, "path") &&
           doc_equals(proof, "result", "failed");
}

/* Sets the verdict of a proof that did not succeed. expected: the path is not known to be
 * refused. */
static void judge(const struct attempt *attempt, const json_t *proof, const char *step,
                  bool expected)
{
    const json_t *reason = json_array_get(json_object_get(proof, "refused"), 0);
    const char *text = doc_words(proof, "text");
    bool refused = reason && !doc_has(proof, "path");

    if (refused)
        text = doc_words(reason, "text");
    if (doc_equals(proof, "result", "untried") ||
        (refused && (!expected || is_unsupported(reason))))
        verdict_set(attempt->verdict, "skipped", "%s", text);
    else if (may_not_transfer(attempt, proof))
        verdict_set(attempt->verdict, "skipped",
                    "the NIC registers the PCIe mapping, but transfers through it only with data "
                    "direct: %s",
                    text);
    else
        verdict_set(attempt->verdict, "failed", "%s: %s", step, text);
}

/* Proves cached regions. Returns whether all are proven; *same: how many allocations reused an
 * address. asks: "", or that hits ask the runtime, and why. */
static bool prove_cached(const struct attempt *attempt, int *same, char *asks, size_t size)
{
    struct proof_subject subject = attempt->subject;
    uint64_t before = 0;
    json_t *proof;

    *same = 0;
    asks[0] = '\0';
    subject.cached = true;
    for (int round = 0; round < ROUNDS || (!*same && round < MOST_ROUNDS); round++) {
        proof = proof_of(attempt->lib, attempt->fabric, attempt->domain, &subject);
        if (!doc_equals(proof, "result", "proven"))
            judge(attempt, proof, round ? "memory allocated again, by the cache" : "by the cache",
                  true);
        if (*doc_words(proof, "asks_why"))
            snprintf(asks, size, "; each hit asks the runtime: %s", doc_words(proof, "asks_why"));
        json_decref(proof);
        if (attempt->verdict->result)
            return false;
        *same += round && subject.address == before;
        before = subject.address;
    }
    return true;
}

static void prove(struct attempt *attempt)
{
    struct hmreg_domain_info info = {.size = sizeof(info)};
    json_t *proof = proof_of(attempt->lib, attempt->fabric, attempt->domain, &attempt->subject);
    const char *path = doc_words(proof, "path"), *way = doc_words(proof, "way");
    char asks[320];
    int same;

    hmreg_domain_query(attempt->domain, &info);
    if (!doc_equals(proof, "result", "proven"))
        judge(attempt, proof, "by a region", attempt->subject.kind == HMREG_MEM_DEVICE);
    else if (info.mr_mode & HMREG_MR_ENDPOINT)
        verdict_set(attempt->verdict, "ok",
                    "bytes proven by path %s%s%s; not by the cache, which needs endpoints here",
                    path, *way ? ", way " : "", way);
    else if (prove_cached(attempt, &same, asks, sizeof(asks)))
        verdict_set(attempt->verdict, "ok",
                    "bytes proven by path %s%s%s, and by the cache, with %d reused addresses%s",
                    path, *way ? ", way " : "", way, same, asks);
    json_decref(proof);
}

/* Is the path of device memory known to be refused? */
static bool is_refused(struct hmreg_domain *domain, const struct proof_subject *subject,
                       struct verdict *verdict)
{
    struct hmreg_explanation why = {.size = sizeof(why)};

    if (subject->kind != HMREG_MEM_DEVICE)
        return false;
    if (hmreg_domain_explain(domain, subject->iface, subject->device, &why))
        verdict_error(verdict, "failed", "hmreg_domain_explain() did not explain its path");
    else if (why.path == HMREG_PATH_NONE)
        verdict_set(verdict, "skipped", "%s",
                    why.refused ? why.reasons[0].text : "no path is left");
    return verdict->result;
}

/* Does the vendor have this kind of memory? */
static bool is_absent(struct hmreg *lib, const struct proof_subject *subject,
                      struct verdict *verdict)
{
    void *memory;
    int rc = signals_after(
        hmreg_mem_alloc(lib, subject->iface, subject->device, subject->kind, 4096, &memory));

    if (rc)
        verdict_error(verdict, rc == -EOPNOTSUPP ? "skipped" : "failed", "no memory was allocated");
    else if (hmreg_mem_free(lib, memory))
        verdict_error(verdict, "failed", "memory was not freed");
    return verdict->result;
}

void verify_on_fabric(struct hmreg *lib, const struct fabric *fabric, const json_t *memory,
                      const char *path, struct verdict *verdict)
{
    struct attempt attempt = {
        .lib = lib,
        .fabric = fabric,
        .path = path,
        .subject = {.iface = (enum hmreg_iface)doc_number(memory, "iface"),
                    .device = (int)doc_number(memory, "device"),
                    .kind = (enum hmreg_mem_kind)doc_number(memory, "kind")},
        .verdict = verdict,
    };

    if (is_absent(lib, &attempt.subject, verdict))
        return;
    if (!open_domain(lib, fabric, path, &attempt.domain)) {
        verdict_error(verdict, "failed", "no domain was opened");
        return;
    }
    if (!is_refused(attempt.domain, &attempt.subject, verdict))
        prove(&attempt);
    if (hmreg_domain_close(attempt.domain) && strcmp(verdict->result, "failed") != 0)
        verdict_error(verdict, "failed", "its domain could not be closed");
}
