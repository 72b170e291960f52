/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The doctor's possible findings: a table of stable codes, each with its severity, its remedy and
 * an explanatory paragraph. The judges (doctor.h) add findings by code to a list, each with a
 * sentence about this machine and the source of the fact.
 */
#ifndef HMREG_TOOLS_DOCTOR_FINDINGS_H
#define HMREG_TOOLS_DOCTOR_FINDINGS_H

#include <jansson.h>
#include <stddef.h>

enum severity {
    SEVERITY_NOTE,     /* worth knowing; the verdict does not depend on it */
    SEVERITY_DEGRADED, /* works, but worse than it could */
    SEVERITY_BROKEN,   /* does not work */
};
#define SEVERITIES 3

struct finding {
    const char *code;
    enum severity severity;
    const char *title;  /* for lists of codes */
    const char *remedy; /* what to do */
    const char *background;
};

/* Ended by a NULL code. From FIRST_REASON on the codes are hmreg(7)'s reasons. */
extern const struct finding all_findings[];
#define FIRST_REASON "no-dmabuf-export"

/* NULL: unknown code. */
const struct finding *finding_find(const char *code);

/* "note", "degraded", "broken" */
const char *severity_name(enum severity severity);

/* Appends a finding to an array. where: the file, call or device that shows it. */
void finding_add(json_t *findings, const char *code, const char *where, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* Worst first; findings of equal severity stay in order. */
void findings_sort(json_t *findings);
enum severity findings_worst(const json_t *findings);

/* --explain CODE; "list" or an unknown code prints all codes. Returns whether the code is known. */
int finding_explain(const char *code);
void findings_print_codes(void);

#endif
