/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The table of `hmreg doctor --peer`: a row for each memory here and there of each pair of NICs.
 */
#include "tools/doctor/doctor.h"
#include "tools/doctor/peer.h"
#include "tools/table.h"

#include <stdio.h>
#include <string.h>

/* The value is in thousandths of the unit. */
static json_t *number(const json_t *object, const char *key, const char *unit)
{
    uint64_t value = doc_number(object, key);

    return value ? doc_format("%.1f %s", (double)value / 1000, unit) : doc_text("");
}

static void add_row(json_t *rows, const json_t *pair, const json_t *memory)
{
    const json_t *proof = memory ? memory : json_object_get(pair, "proof");

    doc_add(rows,
            doc_pack("{s:s, s:s, s:s, s:s, s:s, s:o, s:o, s:o, s:o}", "nic", doc_words(pair, "nic"),
                     "peer_nic", doc_words(pair, "peer_nic"), "fabric", doc_words(pair, "fabric"),
                     "memory", doc_words(memory, "memory"), "peer_memory",
                     doc_words(memory, "peer_memory"), "write",
                     number(memory, "write_mbps", "Gb/s"), "read",
                     number(memory, "read_mbps", "Gb/s"), "latency",
                     number(memory, "latency_ns", "us"), "result",
                     doc_format("%s%s%s", doc_words(proof, "result"),
                                doc_has(proof, "fault") ? ": " : "", doc_words(proof, "fault"))));
}

void peer_print(const json_t *facts)
{
    static const struct column columns[] = {COLUMN("NIC", "nic"),
                                            COLUMN("peer's", "peer_nic"),
                                            COLUMN("fabric", "fabric"),
                                            COLUMN("memory", "memory"),
                                            COLUMN("peer's", "peer_memory"),
                                            COLUMN(">write", "write"),
                                            COLUMN(">read", "read"),
                                            COLUMN(">latency", "latency"),
                                            COLUMN(">rated", "rated"),
                                            COLUMN("result", "result"),
                                            {0}};
    json_t *rows = doc_array();
    const json_t *pair, *memory;

    doc_each(pair, json_object_get(facts, "pairs")) {
        size_t first = json_array_size(rows);

        doc_each(memory, json_object_get(pair, "memories"))
            add_row(rows, pair, memory);
        if (first == json_array_size(rows))
            add_row(rows, pair, NULL);
        for (; first < json_array_size(rows); first++)
            doc_set(json_array_get(rows, first), "rated",
                    number(json_object_get(pair, "port"), "rated_mbps", "Gb/s"));
    }
    if (json_array_size(rows))
        print_heading("Pairs of NICs");
    print_rows(columns, rows);
    json_decref(rows);
}
