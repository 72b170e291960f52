/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The doctor's possible findings: a table of stable codes, each with its severity, its remedy and
 * an explanatory paragraph. The judges (doctor.h) add findings by code to a list, each with a
 * sentence about this machine and the source of the fact.
 */
#ifndef HMREG_TOOLS_DOCTOR_FINDINGS_H
#define HMREG_TOOLS_DOCTOR_FINDINGS_H

#include <jansson.h>
#include <stdbool.h>
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

/* Remedies that hold for one errno value. Ended by a NULL code. */
struct remedy {
    const char *code;
    int error;
    const char *name; /* the errno value's name; "": libc has none */
    const char *remedy;
};
extern const struct remedy all_remedies[];
#define FIRST_REASON "no-dmabuf-export"

/* NULL: unknown code. */
const struct finding *finding_find(const char *code);

/* Is it a reason of hmreg(7)? */
bool finding_is_reason(const char *code);
/* The remedy of a finding with this errno value; 0: any. Never NULL. */
const char *finding_remedy(const char *code, int error);

/* "note", "degraded", "broken" */
const char *severity_name(enum severity severity);

/* A judge's finding about a NIC, a device or a pair. causes_arrange() merges findings of one fault
 * into one that names all NICs and devices. */
struct found {
    const char *code;
    const char *where;        /* the file, call or device that shows it */
    const char *nic, *device; /* with the fault; NULL: none */
    const char *iface;        /* NULL: the first word of the device's name */
    const char *lead, *rest;  /* the sentence before and after their names; NULL: nothing */
    const char *key;          /* equal for one fault; NULL: lead and rest identify it */
    int error;                /* an errno value; 0: none */
};
void finding_add_about(json_t *findings, const struct found *found);

/* Appends a finding of the machine to an array. */
void finding_add(json_t *findings, const char *code, const char *where, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

enum severity finding_severity(const json_t *finding);
enum severity findings_worst(const json_t *findings);

/* --explain CODE. Returns whether the code is known. */
int finding_explain(const char *code);
void findings_print_codes(void);

/* An unknown code: says so, and prints the codes near it; if there are none, all. */
void findings_print_near(const char *typed);

#endif
