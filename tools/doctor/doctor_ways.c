/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The ways of path dmabuf (hmreg(7)), as the proofs found them: which of them move bytes between a
 * NIC and a device.
 */
#include "tools/doctor/doctor.h"
#include "tools/doctor/findings.h"

#include <stdio.h>
#include <string.h>

static const json_t *ways_of(const json_t *pair)
{
    return json_object_get(json_object_get(pair, "proof"), "ways");
}

static bool path_is_proven(const json_t *pair)
{
    return doc_equals(pair, "path", "dmabuf") && !strcmp(proof_result(pair), "proven");
}

void ways_judge(const json_t *facts, json_t *findings)
{
    const json_t *pair, *way;
    char rest[120];

    doc_each(pair, json_object_get(facts, "pairs")) {
        doc_each(way, ways_of(pair)) {
            if (path_is_proven(pair) || !doc_equals(way, "result", "proven"))
                continue;
            snprintf(rest, sizeof(rest),
                     ": way %.32s of path dmabuf moves the bytes, but was not chosen.",
                     doc_words(way, "way"));
            finding_add_about(findings,
                              &(struct found){.code = "other-way-works",
                                              .where = "a transfer by each way of path dmabuf",
                                              .nic = doc_words(pair, "nic"),
                                              .device = doc_words(pair, "device"),
                                              .rest = rest});
            break;
        }
    }
}

bool ways_describe(const json_t *pair, char *words, size_t size)
{
    static const struct {
        const char *name, *words;
        bool tried;
    } results[] = {{"proven", "bytes move by ", true},
                   {"failed", "fails by ", true},
                   {"wrong-bytes", "wrong bytes by ", true},
                   {"refused", "refused ", false},
                   {"untried", "not tried ", false}};
    const json_t *way;
    size_t used = 0, tried = 0;

    words[0] = '\0';
    for (size_t i = 0; i < COUNT(results); i++) {
        struct names names = {.count = 0};

        doc_each(way, ways_of(pair))
            if (doc_equals(way, "result", results[i].name))
                names_add(&names, doc_words(way, "way"));
        tried += results[i].tried ? names.count : 0;
        if (names.count && used < size)
            used += (size_t)snprintf(words + used, size - used, "%s%s%s", used ? "; " : "",
                                     results[i].words, names_text(&names));
    }
    return tried >= 2;
}
