/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See findings.h.
 */
#include "tools/doctor/findings.h"

#include "tools/document.h"
#include "tools/foreign.h"
#include "tools/nearest.h"
#include "tools/table.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const struct finding *finding_find(const char *code)
{
    for (const struct finding *finding = all_findings; finding->code; finding++)
        if (!strcmp(finding->code, code))
            return finding;
    return NULL;
}

bool finding_is_reason(const char *code)
{
    const struct finding *finding = finding_find(code);

    return !finding || finding >= finding_find(FIRST_REASON);
}

const char *finding_remedy(const char *code, int error)
{
    const struct finding *finding = finding_find(code);

    for (const struct remedy *remedy = all_remedies; remedy->code; remedy++)
        if (remedy->error == error && !strcmp(remedy->code, code))
            return remedy->remedy;
    return finding ? finding->remedy : "";
}

const char *severity_name(enum severity severity)
{
    static const char *const names[SEVERITIES] = {"note", "degraded", "broken"};

    return names[severity];
}

/* ---- a list of findings ----------------------------------------------------------------- */

void finding_add_about(json_t *findings, const struct found *found)
{
    /* unknown: a reason from a library newer than this table. */
    static const struct finding unknown = {.severity = SEVERITY_DEGRADED};
    const struct finding *finding = finding_find(found->code);
    const char *lead = found->lead ? found->lead : "", *rest = found->rest ? found->rest : "";
    json_t *words = doc_text(lead);
    const char *device = found->device ? found->device : "";
    char iface[16];
    bool lower = !strncmp(lead, "the ", 4); /* the library's texts begin in lower case */

    snprintf(iface, sizeof(iface), "%.*s", (int)strcspn(device, " "), device);
    finding = finding ? finding : &unknown;
    doc_add(findings,
            doc_pack("{s:s, s:s, s:o, s:o, s:s?, s:s?, s:s?, s:o, s:o, s:i}", "code", found->code,
                     "severity", severity_name(finding->severity), "lead",
                     doc_format("%s%s", lower ? "T" : "", json_string_value(words) + lower), "rest",
                     doc_text(rest), "nic", found->nic, "device", found->device, "iface",
                     found->iface ? found->iface
                     : iface[0]   ? iface
                                  : NULL,
                     "key", found->key ? doc_text(found->key) : doc_format("%s/%s", lead, rest),
                     "read_at", doc_text(found->where), "error", found->error));
    json_decref(words);
}

void finding_add(json_t *findings, const char *code, const char *where, const char *format, ...)
{
    char text[1024];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    finding_add_about(findings, &(struct found){.code = code, .where = where, .lead = text});
}

enum severity finding_severity(const json_t *finding)
{
    const char *name = doc_words(finding, "severity");
    int severity = SEVERITY_BROKEN;

    while (severity > SEVERITY_NOTE && strcmp(severity_name((enum severity)severity), name))
        severity--;
    return (enum severity)severity;
}

enum severity findings_worst(const json_t *findings)
{
    enum severity worst = SEVERITY_NOTE;
    const json_t *found;

    doc_each(found, findings)
        if (finding_severity(found) > worst)
            worst = finding_severity(found);
    return worst;
}

/* ---- explaining ------------------------------------------------------------------------- */

static void print_codes(const json_t *rows)
{
    static const struct column columns[] = {
        COLUMN("code", "code"), COLUMN("severity", "severity"), COLUMN("means", "title"), {0}};

    print_rows(columns, rows);
}

/* Rows of the codes that contain the word or are nearest to it, letter by letter; NULL: all rows.
 */
static json_t *codes_near(const char *word)
{
    struct nearest meant = {.typed = word, .length = word ? strlen(word) : 0};
    json_t *rows = doc_array();

    for (const struct finding *finding = all_findings; word && finding->code; finding++)
        nearest_try(&meant, finding->code);
    for (const struct finding *finding = all_findings; finding->code; finding++)
        if (!word || strstr(finding->code, word) || finding->code == meant.found)
            doc_add(rows, doc_pack("{s:s, s:s, s:s}", "code", finding->code, "severity",
                                   severity_name(finding->severity), "title", finding->title));
    return rows;
}

void findings_print_codes(void)
{
    json_t *rows = codes_near(NULL);

    print_codes(rows);
    json_decref(rows);
}

void findings_print_near(const char *typed)
{
    json_t *rows = codes_near(typed);

    if (json_array_size(rows)) {
        print_error("hmreg doctor: --explain %s: no such code; similar codes are:", typed);
        print_codes(rows);
    } else {
        print_error("hmreg doctor: --explain %s: no such code; accepted are list, and:", typed);
        findings_print_codes();
    }
    json_decref(rows);
}

int finding_explain(const char *code)
{
    const struct finding *finding = finding_find(code);

    if (!finding)
        return 0;
    print_width(PAGE_WIDTH);
    print_line("%s (%s): %s", code, severity_name(finding->severity), finding->title);
    print_heading("What it means");
    print_paragraph("", "%s", finding->background);
    print_heading("What to do");
    print_paragraph("", "%s", finding->remedy);
    for (const struct remedy *remedy = all_remedies; remedy->code; remedy++) {
        char mark[32];

        snprintf(mark, sizeof(mark), "%s (%d): ", remedy->name, remedy->error);
        if (!strcmp(remedy->code, code))
            print_paragraph(mark, "%s", remedy->remedy);
    }
    return 1;
}
