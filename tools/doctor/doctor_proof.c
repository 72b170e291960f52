/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The doctor's proofs: checks of verify's engine (tools/verify/verify.h), which has a process for
 * each NIC. A NIC that hangs or crashes leaves its own memories unproven and no others.
 */
#include "tools/doctor/doctor.h"

#include "tools/verify/verify.h"

#include <stdio.h>
#include <string.h>

/* ---- which ------------------------------------------------------------------------------ */

/* Every NIC gets a proof. Of the fabrics that move bytes with the CPU only tcp gets a proof,
 * because they are alike. Loopback comes in addition. */
static bool is_worth_it(const json_t *fabric)
{
    return doc_has(fabric, "checks") && !doc_equals(fabric, "checks", "shm");
}

/* Is no refusal of path dmabuf known for the NIC and the device's memory? */
static bool has_ways(const json_t *fabric, const json_t *memory)
{
    const json_t *paths = json_object_get(memory, "paths");

    return doc_has(fabric, "nic") && doc_has(memory, "device") &&
           doc_is(json_object_get(paths, "dmabuf"), "usable");
}

/* way: NONE for the path that registration takes. */
static const char *check_name(const json_t *fabric, const json_t *memory, enum hmreg_way way,
                              char name[2 * VERIFY_NAME])
{
    char memory_name[VERIFY_NAME];

    snprintf(name, 2 * VERIFY_NAME, "%s/%s/%s%s%s", doc_words(fabric, "checks"),
             verify_memory_name(memory, memory_name), VERIFY_PROOF, way ? "-" : "",
             way ? hmreg_way_name(way) : "");
    return name;
}

static void add_checks(json_t *checks, const json_t *fabric, const json_t *memory)
{
    int ways = has_ways(fabric, memory) ? HMREG_WAY_COUNT : 1;
    char name[2 * VERIFY_NAME];

    for (int way = HMREG_WAY_NONE; way < ways; way++)
        doc_add(checks,
                doc_pack("{s:s}", "name", check_name(fabric, memory, (enum hmreg_way)way, name)));
}

/* ---- results ---------------------------------------------------------------------------- */

/* The proof in which the process hung or crashed has failed; later proofs are untried. */
static json_t *stopped(const json_t *fabric, const json_t *result)
{
    const char *who = doc_words(fabric, doc_has(fabric, "nic") ? "nic" : "fabric");
    bool failed = doc_equals(result, "result", "failed");
    json_t *why = doc_format("%s %s", who, doc_words(result, "text"));

    return doc_pack("{s:s, s:o, s:n, s:n, s:[], s:[], s:o}", "result",
                    failed ? "failed" : "untried", "text",
                    doc_format("%s%s", failed ? "" : "not tested: ", json_string_value(why)),
                    "path", "way", "refused", "ways", "stopped", why);
}

static void add_way(json_t *ways, enum hmreg_way way, const json_t *result)
{
    const json_t *proof = json_object_get(result, "proof");

    if (proof)
        doc_add(ways, json_incref((json_t *)(uintptr_t)proof));
    else if (doc_equals(result, "result", "failed"))
        doc_add(ways, doc_pack("{s:s, s:s, s:o}", "way", hmreg_way_name(way), "result", "failed",
                               "text", json_incref(json_object_get(result, "text"))));
}

static void take_results(const json_t *fabric, json_t *memory, const json_t *results)
{
    char name[2 * VERIFY_NAME];
    const json_t *result =
        doc_find(results, "name", check_name(fabric, memory, HMREG_WAY_NONE, name));
    json_t *proof = json_object_get(result, "proof");

    proof = proof ? json_incref(proof) : stopped(fabric, result);
    doc_set(memory, "proof", proof);
    for (int way = HMREG_WAY_NONE + 1; way < HMREG_WAY_COUNT; way++)
        add_way(json_object_get(proof, "ways"), (enum hmreg_way)way,
                doc_find(results, "name", check_name(fabric, memory, (enum hmreg_way)way, name)));
}

void proof_run(json_t *facts, int patience)
{
    json_t *list = doc_array(), *results = doc_array(), *fabric, *memory;
    const struct checks checks = {.command = "doctor",
                                  .list = list,
                                  .patience = patience,
                                  .abandon = true,
                                  .results = results};

    doc_each(fabric, json_object_get(facts, "fabrics"))
        doc_each(memory, json_object_get(fabric, "memory"))
            if (is_worth_it(fabric))
                add_checks(list, fabric, memory);
    checks_run(&checks);
    doc_each(fabric, json_object_get(facts, "fabrics"))
        doc_each(memory, json_object_get(fabric, "memory"))
            if (is_worth_it(fabric))
                take_results(fabric, memory, results);
            else
                doc_set(memory, "proof", json_null());
    json_decref(results);
    json_decref(list);
}
