/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The parts of `hmreg doctor`. It first gathers all facts into one JSON object; then judges read
 * only these facts and add findings. So a test can give a judge the facts of any machine, and the
 * facts in a user's --json output can be judged again. hmreg-doctor(1) documents the keys.
 */
#ifndef HMREG_TOOLS_DOCTOR_DOCTOR_H
#define HMREG_TOOLS_DOCTOR_DOCTOR_H

#include "tools/document.h"

/* ---- facts ------------------------------------------------------------------------------ */

json_t *kernel_facts(void);
json_t *process_facts(struct hmreg *lib);
json_t *gpus_facts(void); /* GPUs on the PCI bus, known to a runtime or not */
json_t *nvidia_facts(const json_t *runtimes);
json_t *nics_facts(void); /* the kernel's RDMA devices, opened by a library or not */
/* Call after transfers: updates each port's "errors", and sets "risen", the increase. */
void nics_look_again(json_t *nics);
/* The port's error counters that are not 0; the increase of each since before; and in words. */
json_t *port_errors(const char *nic, const char *port);
json_t *port_errors_risen(const json_t *before, const json_t *now);
void port_errors_name(const json_t *risen, struct names *names);
json_t *peers_facts(void); /* peer memory */

/* Runs the proofs and sets "proof" in each memory of each fabric of the facts; null: no proof to
 * run. patience: seconds for one proof. */
void proof_run(json_t *facts, int patience);

/* ---- conclusions from the facts --------------------------------------------------------- */

/* One pair for each RDMA device and each device of a runtime: its path and its proof. */
json_t *paths_pairs(const json_t *facts);

/* Judges: each reads the facts, which include "pairs", and adds findings. */
void kernel_judge(const json_t *facts, json_t *findings);
void process_judge(const json_t *facts, json_t *findings);
void gpus_judge(const json_t *facts, json_t *findings);
void nics_judge(const json_t *facts, json_t *findings);
void topology_judge(const json_t *facts, json_t *findings);
void paths_judge(const json_t *facts, json_t *findings);
void proof_judge(const json_t *facts, json_t *findings);
void ways_judge(const json_t *facts, json_t *findings);

/* Arranges the judges' findings for the user: one for each fault; a finding follows its cause; the
 * worst come first. */
json_t *causes_arrange(json_t *findings, const json_t *facts);

/* Runs all judges, and arranges their findings. */
json_t *doctor_judge(const json_t *facts);
/* The verdict: one sentence that sums up facts and findings. */
json_t *doctor_summary(const json_t *facts, const json_t *findings);

/* ---- helpers of judges ------------------------------------------------------------------ */

/* The result of the proof of a pair or of a fabric's memory; "" without one. */
const char *proof_result(const json_t *described);
/* Writes which ways of path dmabuf move a pair's bytes. False: fewer than two were tried; then the
 * pair's path is enough. */
bool ways_describe(const json_t *pair, char *words, size_t size);
/* The number of RDMA devices that the fabric libraries list. */
size_t nics_count(const json_t *facts);

/* ---- text output ------------------------------------------------------------------------ */

/* True: print all lines; false: only the first ones. */
void doctor_print_all(bool all);
void doctor_print_text(const json_t *document);
/* One line: the host, the verdict, the first finding, numbers. */
void doctor_print_brief(const json_t *document);
/* Prints one line where there is no verdict: the host, UNKNOWN, the first error. */
void doctor_print_unknown(void);
/* Prints the document in OpenMetrics' text format. */
void doctor_print_metrics(const json_t *document);

/* ---- an earlier document ------------------------------------------------------------------ */

/* NULL: an error is printed. */
json_t *doctor_read_earlier(const char *file);
/* The document's "compared". */
json_t *doctor_compare(const json_t *earlier, const json_t *document);
void doctor_print_compared(const json_t *document);

#endif
