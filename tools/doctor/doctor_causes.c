/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Arranges the judges' findings for the user: merges findings of one fault, finds which finding
 * explains which, and lists each cause before the findings that it explains.
 */
#include "tools/doctor/doctor.h"
#include "tools/doctor/findings.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* ---- which finding explains which ------------------------------------------------------- */

/* The cause explains findings of the code, if both name the same NICs and devices or one names
 * none. error: only findings with this errno value; 0: any. */
static const struct rule {
    const char *cause; /* NULL: each reason of hmreg(7) */
    const char *code;
    int error;
    bool of_host; /* the cause is about host memory on the NIC */
} rules[] = {
    {"no-port", "loopback-untried", 0, false},
    {"port-down", "loopback-untried", 0, false},
    {"memlock-low", "loopback-failed", ENOMEM, false},
    {"memlock-low", "fabric-refused", ENOMEM, false},
    {"loopback-failed", "loopback-failed", 0, true},
    {"loopback-wrong-bytes", "loopback-wrong-bytes", 0, true},
    {"bar-small", "dmabuf-import-failed", ENOMEM, false},
    {"bar-small", "peer-memory-refused", ENOMEM, false},
    {"nic-no-node", "nic-not-opened", 0, false},
    {"nic-no-node", "no-nic", 0, false},
    {"nic-not-opened", "no-path", 0, false},
    {"nic-not-opened", "path-through-cpu", 0, false},
    {"driver-mismatch", "gpu-no-runtime", 0, false},
    {"gpu-no-driver", "no-device", 0, false},
    {"gpu-no-node", "no-device", 0, false},
    {"gpu-no-runtime", "no-device", 0, false},
    {"driver-mismatch", "no-device", 0, false},
    {"nvidia-closed-modules", "no-dmabuf-export", 0, false},
    {NULL, "no-path", 0, false},
    {NULL, "path-through-cpu", 0, false},
};

static bool is_cause(const struct rule *rule, const json_t *found)
{
    if (rule->of_host && (doc_has(found, "device") || !doc_has(found, "nic")))
        return false;
    if (rule->cause)
        return doc_equals(found, "code", rule->cause);
    return finding_is_reason(doc_words(found, "code")) && !doc_equals(found, "severity", "note");
}

static bool agree(const json_t *one, const json_t *other, const char *key)
{
    return !doc_has(one, key) || !doc_has(other, key) ||
           doc_equals(one, key, doc_words(other, key));
}

/* Adds the places of the findings that the rule says explain this one. */
static void add_causes(const struct rule *rule, const json_t *findings, const json_t *found,
                       json_t *causes)
{
    const json_t *cause;

    if (!doc_equals(found, "code", rule->code) || (rule->of_host && !doc_has(found, "device")) ||
        (rule->error && rule->error != (int)doc_number(found, "error")))
        return;
    doc_each(cause, findings)
        if (is_cause(rule, cause) && agree(cause, found, "nic") && agree(cause, found, "device") &&
            agree(cause, found, "iface"))
            doc_add(causes, doc_count(cause_i, UINT64_MAX));
}

static json_t *causes_of(const json_t *findings, const json_t *found)
{
    json_t *causes = doc_array();

    for (size_t i = 0; i < COUNT(rules); i++)
        add_causes(&rules[i], findings, found, causes);
    return causes;
}

/* ---- findings of one fault -------------------------------------------------------------- */

/* Findings with one key are merged: their code, words, error and causes are equal. */
static json_t *key_of(const json_t *findings, const json_t *found, const json_t *causes)
{
    json_t *key = doc_format("%s/%d/%s/", doc_words(found, "code"), (int)doc_number(found, "error"),
                             doc_words(found, "key"));
    const json_t *cause, *longer;

    doc_each(cause, causes) {
        const char *code =
            doc_words(json_array_get(findings, (size_t)json_integer_value(cause)), "code");

        if (strstr(json_string_value(key), code))
            continue;
        longer = key;
        key = doc_format("%s%s/", json_string_value(longer), code);
        json_decref((json_t *)(uintptr_t)longer);
    }
    return key;
}

/* Sets "group" in each finding, and returns the groups: arrays of the findings. */
static json_t *group(json_t *findings)
{
    json_t *groups = doc_array(), *places = doc_object(), *found;

    doc_each(found, findings)
        doc_set(found, "causes", causes_of(findings, found));
    doc_each(found, findings) {
        json_t *key = key_of(findings, found, json_object_get(found, "causes")), *place;

        place = json_object_get(places, json_string_value(key));
        if (!place) {
            doc_set(places, json_string_value(key), doc_count(json_array_size(groups), UINT64_MAX));
            place = json_object_get(places, json_string_value(key));
            doc_add(groups, doc_array());
        }
        doc_add(json_array_get(groups, (size_t)json_integer_value(place)), json_incref(found));
        doc_set(found, "group", json_incref(place));
        json_decref(key);
    }
    json_decref(places);
    return groups;
}

/* ---- what a finding is about ------------------------------------------------------------ */

/* All pairs whose nic, or device, has this name. */
static size_t pairs_with(const json_t *pairs, const char *key, const char *name)
{
    const json_t *pair;
    size_t count = 0;

    doc_each(pair, pairs)
        count += doc_equals(pair, key, name);
    return count;
}

/* The names for this key, if the group has all pairs of each, and that is more than one. */
static bool whole(const json_t *group, const json_t *pairs, const char *key, struct names *names)
{
    json_t *seen = doc_object();
    const json_t *found;
    size_t all = 0;

    doc_each(found, group) {
        const char *name = doc_words(found, key);

        if (json_object_get(seen, name))
            continue;
        doc_set(seen, name, json_true());
        names_add(names, name);
        all += pairs_with(pairs, key, name);
    }
    json_decref(seen);
    return all == json_array_size(group) && all > names->count;
}

/* "every device with mlx5_1", "cuda 0 with every RDMA device", or the pairs' names. */
static json_t *words_about(const json_t *group, const json_t *pairs, json_t *about)
{
    struct names nics = {.count = 0}, devices = {.count = 0}, names = {.count = 0};
    const json_t *first = json_array_get(group, 0);

    names_add_list(&names, about);
    if (!doc_has(first, "nic") || !doc_has(first, "device"))
        return doc_text(names_text(&names));
    if (json_array_size(pairs) > 1 && json_array_size(pairs) == json_array_size(group))
        return doc_text("every pair of device and NIC");
    if (whole(group, pairs, "nic", &nics))
        return doc_format("every device with %s", names_text(&nics));
    if (whole(group, pairs, "device", &devices))
        return doc_format("%s with every RDMA device", names_text(&devices));
    return doc_text(names_text(&names));
}

static json_t *about_of(const json_t *group)
{
    json_t *about = doc_array();
    const json_t *found;

    doc_each(found, group) {
        const char *nic = doc_words(found, "nic"), *device = doc_words(found, "device");

        if (nic[0] || device[0])
            doc_add(about, doc_format("%s%s%s", device, nic[0] && device[0] ? " with " : "", nic));
    }
    return about;
}

/* ---- one finding of a group ------------------------------------------------------------- */

/* "a transfer over mlx5_0 and 7 more" */
static json_t *read_at(const json_t *group)
{
    const char *first = doc_words(json_array_get(group, 0), "read_at");
    json_t *seen = doc_object();
    const json_t *found;
    size_t others;

    doc_each(found, group)
        doc_set(seen, doc_words(found, "read_at"), json_true());
    others = json_object_size(seen) - 1;
    json_decref(seen);
    return others ? doc_format("%s and %zu more", first, others) : doc_text(first);
}

/* A sentence that begins with the names, "every pair", has a capital. */
static json_t *sentence(const json_t *first, const char *about)
{
    const char *lead = doc_words(first, "lead");
    bool lower = !lead[0] && !strncmp(about, "every ", 6);

    return doc_format("%s%s%s%s", lead, lower ? "E" : "", about + lower, doc_words(first, "rest"));
}

static json_t *cause_codes(const json_t *groups, const json_t *causes)
{
    json_t *codes = doc_array();
    const json_t *cause;

    doc_each(cause, causes)
        doc_add(codes,
                doc_text(doc_words(
                    json_array_get(json_array_get(groups, (size_t)json_integer_value(cause)), 0),
                    "code")));
    return codes;
}

static json_t *finding_of(const json_t *groups, const json_t *group, const json_t *causes,
                          const json_t *facts)
{
    const json_t *first = json_array_get(group, 0);
    json_t *about = about_of(group), *finding;
    json_t *words = words_about(group, json_object_get(facts, "pairs"), about);

    finding = doc_pack(
        "{s:s, s:s, s:o, s:s, s:o, s:o, s:o}", "code", doc_words(first, "code"), "severity",
        doc_words(first, "severity"), "text", sentence(first, json_string_value(words)), "remedy",
        finding_remedy(doc_words(first, "code"), (int)doc_number(first, "error")), "read_at",
        read_at(group), "about", about, "causes", cause_codes(groups, causes));
    json_decref(words);
    return finding;
}

/* ---- order ------------------------------------------------------------------------------ */

/* The places of the groups that explain this one, each once. */
static json_t *group_causes(const json_t *findings, const json_t *group)
{
    json_t *causes = doc_array();
    const json_t *found, *cause, *known;

    doc_each(found, group)
        doc_each(cause, json_object_get(found, "causes")) {
            json_t *place = json_object_get(
                json_array_get(findings, (size_t)json_integer_value(cause)), "group");
            bool is_known = false;

            doc_each(known, causes)
                is_known |= json_equal(known, place) != 0;
            if (!is_known)
                doc_add(causes, json_incref(place));
        }
    return causes;
}

static bool has_cause(const json_t *causes, size_t place)
{
    const json_t *cause;

    doc_each(cause, causes)
        if ((size_t)json_integer_value(cause) == place)
            return true;
    return false;
}

/* A cause gets the severity of the worst finding that it explains. */
static enum severity rank(const json_t *groups, const json_t *causes, size_t place)
{
    const json_t *of;
    enum severity worst = finding_severity(json_array_get(json_array_get(groups, place), 0));

    doc_each(of, causes) {
        enum severity other = has_cause(of, place) ? rank(groups, causes, of_i) : SEVERITY_NOTE;

        worst = other > worst ? other : worst;
    }
    return worst;
}

/* Adds the group's finding, then the findings whose first cause it is. */
static void add_finding(json_t *list, const json_t *groups, const json_t *causes, size_t place,
                        const json_t *facts)
{
    const json_t *of, *mine = json_array_get(causes, place);

    doc_add(list, finding_of(groups, json_array_get(groups, place), mine, facts));
    doc_each(of, causes)
        if (json_array_size(of) && (size_t)json_integer_value(json_array_get(of, 0)) == place)
            add_finding(list, groups, causes, of_i, facts);
}

json_t *causes_arrange(json_t *findings, const json_t *facts)
{
    json_t *list = doc_array(), *groups = group(findings), *causes = doc_array();
    const json_t *of;

    doc_each(of, groups)
        doc_add(causes, group_causes(findings, of));
    for (int severity = SEVERITY_BROKEN; severity >= SEVERITY_NOTE; severity--)
        doc_each(of, causes)
            if (!json_array_size(of) && (int)rank(groups, causes, of_i) == severity)
                add_finding(list, groups, causes, of_i, facts);
    json_decref(causes);
    json_decref(groups);
    return list;
}
