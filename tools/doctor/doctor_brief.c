/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Prints the doctor's document for the monitoring of many machines: in one line, and as metrics.
 */
#include "tools/doctor/doctor.h"
#include "tools/doctor/findings.h"
#include "tools/foreign.h"
#include "tools/metrics.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static size_t pairs_that(const json_t *facts, bool proven)
{
    const json_t *pair;
    size_t count = 0;

    doc_each(pair, json_object_get(facts, "pairs"))
        count += !proven || !strcmp(proof_result(pair), "proven");
    return count;
}

/* ---- one line ----------------------------------------------------------------------------- */

/* Prints words without '|': monitoring reads numbers after it. */
static void print_words(const char *words)
{
    for (; *words; words++)
        putchar(*words == '|' ? '/' : *words);
}

static void print_upper(const char *word)
{
    for (; *word; word++)
        putchar(toupper((unsigned char)*word));
}

void doctor_print_brief(const json_t *document)
{
    const json_t *facts = json_object_get(document, "facts");
    const json_t *first = json_array_get(json_object_get(document, "findings"), 0);
    const json_t *compared = json_object_get(document, "compared");
    bool good = doc_equals(document, "verdict", "good");

    print_words(doc_words(document, "host"));
    putchar(' ');
    print_upper(doc_words(document, "verdict"));
    putchar(' ');
    if (good || !first) {
        print_words(doc_words(document, "summary"));
    } else {
        printf("%s: ", doc_words(first, "code"));
        print_words(doc_words(first, "text"));
    }
    printf(" | pairs=%zu proven=%zu findings=%zu", pairs_that(facts, false),
           pairs_that(facts, true), json_array_size(json_object_get(document, "findings")));
    if (compared)
        printf(" broke=%zu", json_array_size(json_object_get(compared, "broke")));
    putchar('\n');
}

void doctor_print_unknown(void)
{
    json_t *document = doc_new("doctor");

    print_words(doc_words(document, "host"));
    printf(" UNKNOWN ");
    print_words(first_error());
    putchar('\n');
    json_decref(document);
}

/* ---- metrics ------------------------------------------------------------------------------ */

#define NONE ((struct metrics_labels){.count = 0})

static void print_findings(const json_t *findings)
{
    const json_t *finding;

    metrics_family("hmreg_doctor_finding", "gauge", "1 for each finding of the doctor.");
    doc_each(finding, findings) {
        struct metrics_labels labels = NONE;

        metrics_label(&labels, "code", doc_words(finding, "code"));
        metrics_label(&labels, "severity", doc_words(finding, "severity"));
        metrics_sample("hmreg_doctor_finding", "", &labels, 1);
    }
}

static void print_pairs(const json_t *pairs)
{
    const json_t *pair;

    metrics_family("hmreg_doctor_pair_proven", "gauge",
                   "1 where a transfer has proven a pair of device and NIC, else 0.");
    doc_each(pair, pairs) {
        struct metrics_labels labels = NONE;

        metrics_label(&labels, "device", doc_words(pair, "device"));
        metrics_label(&labels, "nic", doc_words(pair, "nic"));
        metrics_label(&labels, "fabric", doc_words(pair, "fabric"));
        metrics_label(&labels, "path", doc_words(pair, "path"));
        metrics_sample("hmreg_doctor_pair_proven", "", &labels,
                       !strcmp(proof_result(pair), "proven"));
    }
}

typedef void port_visitor(const struct metrics_labels *labels, const json_t *port);

static void visit_ports(const json_t *facts, port_visitor *visit)
{
    const json_t *nic, *port;
    char number[24];

    doc_each(nic, json_object_get(facts, "nics"))
        doc_each(port, json_object_get(nic, "ports")) {
            struct metrics_labels labels = NONE;

            snprintf(number, sizeof(number), "%" PRIu64, doc_number(port, "port"));
            metrics_label(&labels, "nic", doc_words(nic, "name"));
            metrics_label(&labels, "port", number);
            visit(&labels, port);
        }
}

static void print_active(const struct metrics_labels *labels, const json_t *port)
{
    metrics_sample("hmreg_nic_port_active", "", labels, doc_equals(port, "state", "ACTIVE"));
}

static void print_errors(const struct metrics_labels *labels, const json_t *port)
{
    const char *counter;
    json_t *count;

    json_object_foreach(json_object_get(port, "errors"), counter, count) {
        struct metrics_labels of = *labels;

        metrics_label(&of, "counter", counter);
        metrics_sample("hmreg_nic_port_errors", "_total", &of, json_number_value(count));
    }
}

void doctor_print_metrics(const json_t *document)
{
    const json_t *facts = json_object_get(document, "facts");
    const json_t *findings = json_object_get(document, "findings");
    const json_t *compared = json_object_get(document, "compared");

    metrics_family("hmreg_doctor_verdict", "gauge", "0 good, 1 degraded, 2 broken.");
    metrics_sample("hmreg_doctor_verdict", "", &NONE, (double)findings_worst(findings));
    print_findings(findings);
    if (compared) {
        metrics_family("hmreg_doctor_broke", "gauge",
                       "Facts that became worse since --compare's file.");
        metrics_sample("hmreg_doctor_broke", "", &NONE,
                       (double)json_array_size(json_object_get(compared, "broke")));
    }
    print_pairs(json_object_get(facts, "pairs"));
    metrics_family("hmreg_nic_port_active", "gauge", "1 where the port's link is up, else 0.");
    visit_ports(facts, print_active);
    metrics_family("hmreg_nic_port_errors", "counter",
                   "The NIC's error counters, by the kernel's names.");
    visit_ports(facts, print_errors);
    metrics_end();
}
