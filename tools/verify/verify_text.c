/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The report as text: one line for each check, so that two reports can be compared by diff(1).
 */
#include "tools/verify/verify.h"

#include <inttypes.h>

void verify_print_check(const json_t *check, FILE *out)
{
    fprintf(out, "  %-7s %6" PRIu64 " ms  %s%s: %s\n", doc_words(check, "result"),
            doc_number(check, "ms"), doc_words(check, "name"),
            doc_is(check, "simulated") ? ", simulated" : "", doc_words(check, "text"));
}

static void print_head(const json_t *report, FILE *out)
{
    const json_t *system = json_object_get(json_object_get(report, "inventory"), "system");
    const json_t *counts = json_object_get(report, "counts");

    fprintf(out, "hmreg verify %s on Linux %s %s: %s\n", doc_words(report, "hmreg"),
            doc_words(system, "kernel"), doc_words(system, "machine"),
            doc_words(report, "verdict"));
    fprintf(out, "  %" PRIu64 " ok, %" PRIu64 " failed, %" PRIu64 " skipped in %" PRIu64 " s\n",
            doc_number(counts, "ok"), doc_number(counts, "failed"), doc_number(counts, "skipped"),
            doc_number(report, "seconds"));
    if (doc_is(report, "simulated"))
        fprintf(
            out,
            "  Devices here are simulated: checks with this mark say nothing about hardware.\n");
}

void verify_print_summary(const json_t *report, FILE *out)
{
    const json_t *checks = json_object_get(report, "checks"), *check;

    print_head(report, out);
    if (doc_find(checks, "result", "failed"))
        fprintf(out, "\nFailed\n");
    doc_each(check, checks)
        if (doc_equals(check, "result", "failed"))
            verify_print_check(check, out);
}

static void print_machine(const json_t *inventory, FILE *out)
{
    const json_t *item;

    fprintf(out, "\nRuntimes\n");
    doc_each(item, json_object_get(inventory, "runtimes"))
        fprintf(out, "  %s: %s%s%s%s\n", doc_words(item, "iface"),
                doc_is(item, "usable") ? "usable " : "not usable", doc_words(item, "version"),
                *doc_words(item, "why") ? ": " : "", doc_words(item, "why"));
    fprintf(out, "\nDevices\n");
    doc_each(item, json_object_get(inventory, "devices"))
        fprintf(out, "  %s %" PRIu64 ": %s, at %s%s%s\n", doc_words(item, "iface"),
                doc_number(item, "device"), doc_words(item, "name"),
                doc_has(item, "pci") ? doc_words(item, "pci") : "an unknown PCI address",
                doc_is(item, "dmabuf") ? ", exports dmabufs" : "",
                doc_is(item, "simulated") ? ", simulated" : "");
    fprintf(out, "\nFabrics\n");
    doc_each(item, json_object_get(inventory, "fabrics"))
        fprintf(out, "  %s %s%s%s: %s\n", doc_words(item, "provider"), doc_words(item, "fabric"),
                doc_has(item, "nic") ? ", NIC " : "", doc_words(item, "nic"),
                !doc_is(item, "opened")   ? doc_words(item, "why")
                : doc_has(item, "checks") ? doc_words(item, "checks")
                                          : "not checked, because others represent it");
    fprintf(out, "\nEnvironment\n");
}

void verify_print(const json_t *report, FILE *out)
{
    json_t *inventory = json_object_get(report, "inventory"), *value;
    const json_t *check;
    const char *key;

    verify_print_summary(report, out);
    print_machine(inventory, out);
    json_object_foreach(json_object_get(inventory, "environment"), key, value)
        fprintf(out, "  %s=%s\n", key, json_string_value(value));
    fprintf(out, "\nChecks\n");
    doc_each(check, json_object_get(report, "checks"))
        verify_print_check(check, out);
}
