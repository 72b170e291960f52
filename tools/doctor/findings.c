/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See findings.h.
 */
#include "tools/doctor/findings.h"

#include "tools/document.h"
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

const char *severity_name(enum severity severity)
{
    static const char *const names[SEVERITIES] = {"note", "degraded", "broken"};

    return names[severity];
}

/* ---- a list of findings ----------------------------------------------------------------- */

void finding_add(json_t *findings, const char *code, const char *where, const char *format, ...)
{
    /* For a reason from a library newer than this table. */
    static const struct finding unknown = {.severity = SEVERITY_DEGRADED, .remedy = ""};
    const struct finding *finding = finding_find(code);
    char text[1024];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    if (!strncmp(text, "the ", 4)) /* the library's texts begin in lower case */
        text[0] = 'T';
    finding = finding ? finding : &unknown;
    doc_add(findings, doc_pack("{s:s, s:s, s:o, s:s, s:o}", "code", code, "severity",
                               severity_name(finding->severity), "text", doc_text(text), "remedy",
                               finding->remedy, "read_at", doc_text(where)));
}

static enum severity severity_of(const json_t *found)
{
    const char *name = doc_words(found, "severity");
    int severity = SEVERITY_BROKEN;

    while (severity > SEVERITY_NOTE && strcmp(severity_name((enum severity)severity), name))
        severity--;
    return (enum severity)severity;
}

void findings_sort(json_t *findings)
{
    json_t *sorted = doc_array();
    const json_t *found;

    for (int severity = SEVERITY_BROKEN; severity >= SEVERITY_NOTE; severity--) {
        doc_each(found, findings)
            if ((int)severity_of(found) == severity)
                doc_add(sorted, json_incref((json_t *)(uintptr_t)found));
    }
    json_array_clear(findings);
    json_array_extend(findings, sorted);
    json_decref(sorted);
}

enum severity findings_worst(const json_t *findings)
{
    enum severity worst = SEVERITY_NOTE;
    const json_t *found;

    doc_each(found, findings)
        if (severity_of(found) > worst)
            worst = severity_of(found);
    return worst;
}

/* ---- explaining ------------------------------------------------------------------------- */

void findings_print_codes(void)
{
    static const struct column columns[] = {
        COLUMN("code", "code"), COLUMN("severity", "severity"), COLUMN("means", "title"), {0}};
    json_t *rows = doc_array();

    for (const struct finding *finding = all_findings; finding->code; finding++)
        doc_add(rows, doc_pack("{s:s, s:s, s:s}", "code", finding->code, "severity",
                               severity_name(finding->severity), "title", finding->title));
    print_rows(columns, rows);
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
    return 1;
}
