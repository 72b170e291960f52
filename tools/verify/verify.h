/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * hmreg verify: the parts of the command. The command itself calls no vendor and no fabric. It
 * starts processes that do, `hmreg verify --list` and `hmreg verify --check NAME...`, so that a
 * driver that crashes or hangs costs one check. The doctor's proofs are such checks.
 *
 * Names of checks, which stay:
 *     runtime/IFACE
 *     memory/MEMORY           MEMORY: "system/host", "cuda-0/device", "ze-1/managed", ...
 *     FABRIC/MEMORY/PATH      FABRIC: "loopback", "tcp", "shm", "verbs:mlx5_0", ...
 *                             PATH: "usual", "dmabuf-plain", "peermem", "mapped", ...
 *                             and of the doctor, in no list: "proof", or for a way of path dmabuf
 *                             "proof-plain", "proof-pcie", ...
 *     FABRIC/open             the doctor's, in no list
 * The word before the first '/' names the group: the checks of one group share a process.
 */
#ifndef HMREG_TOOLS_VERIFY_H
#define HMREG_TOOLS_VERIFY_H

#include "tools/document.h"
#include "tools/fabric.h"

#include <stdio.h>

#define VERIFY_NAME  192 /* bytes of a check's name */
#define VERIFY_LIMIT 280 /* seconds for the list and all checks together */
#define VERIFY_PROOF "proof"
#define VERIFY_OPEN  "open"
#define VERIFY_WHY   160 /* bytes that say how a process ended */

/* ---- in a separate process -------------------------------------------------------------- */

/* The result of a check while it runs: "ok", "failed" or "skipped", and why. */
struct verdict {
    const char *result;
    char text[1152]; /* what failed and why: a loop_why */
};

void verdict_set(struct verdict *verdict, const char *result, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Sets the verdict with the text "STEP: the library's last error". */
void verdict_error(struct verdict *verdict, const char *result, const char *step);

/* Every kind of memory of every device, harmless ones first: name ("cuda-0/device"), iface, device,
 * kind (numbers of hmreg.h), simulated. */
json_t *verify_memories(struct hmreg *lib);

/* The name, in names of checks, of a fabric's memory as fabric.h describes it. */
const char *verify_memory_name(const json_t *memory, char name[VERIFY_NAME]);

/* The names of the paths to try for memory of a kind on a NIC, or else on a fabric whose bytes the
 * CPU moves, ended by NULL. */
const char *const *verify_paths(enum hmreg_mem_kind kind, bool nic);

/* The name of a fabric in names of checks; NULL if it is not checked: it cannot reach itself, or
 * another one represents it (the CPU's: the first tcp and the first shm). names: an object that
 * keeps the names given, here and in other processes in the same order. */
const char *verify_fabric_name(const struct fabric *fabric, json_t *names);

/* Sets "fabric_libraries" and "fabrics" of a document, and "checks" of each fabric to its name.
 * patience: 0, or first opens each NIC of libibverbs, and libfabric, in a separate process, for so
 * many seconds. A NIC whose opening crashes or hangs counts as not opened. */
void verify_fabrics(struct hmreg *lib, json_t *document, int patience);

/* Checks one memory on an open fabric by one path. */
void verify_on_fabric(struct hmreg *lib, const struct fabric *fabric, const json_t *memory,
                      const char *path, struct verdict *verdict);

/* The machine's inventory, with its checks in order: "checks", each with name and simulated. */
json_t *verify_inventory(struct hmreg *lib);

/* Runs checks until one fails. Writes a line of text for each, or two of JSON: its name when it
 * begins, and name, result, text and ms when it has ended. Returns the exit status. */
int verify_run_checks(const json_t *names, bool json, FILE *out);

/* ---- in the command's process ----------------------------------------------------------- */

struct checks {
    const char *command; /* which shows its progress */
    const json_t *list;  /* the checks, each with name and simulated */
    int patience;        /* seconds for one check */
    int total;           /* seconds for all from `began` on; 0: no limit */
    int64_t began;       /* of verify_now() */
    bool abandon;        /* skip the rest of a group after a crash or hang */
    json_t *results;     /* name, result, simulated, ms and text of each are added; and proof */
};

/* Milliseconds. */
int64_t verify_now(void);

/* Runs checks. A check that crashes, hangs or is not reached has failed; its text says what its
 * process did ("hung after 3 s"). Checks abandoned after it are skipped. */
void checks_run(const struct checks *checks);

/* Opens a fabric in a separate process. True: that crashed or hung; why: how. */
bool verify_opening_ends(const char *fabric, int patience, char why[VERIFY_WHY]);

/* Sets "inventory" of the report to the output of `hmreg verify --list --json`. If that fails, adds
 * the failure to "checks" of the report, and lists without vendors' runtimes, which later processes
 * then do not start either. */
void verify_list(json_t *report, int patience);

/* Removes from every text of a value all that identifies people and machines: the host's and the
 * user's name, IP, MAC and GID addresses, serial numbers, paths outside of /usr and /sys. */
void verify_scrub(json_t *value);
/* Would verify_scrub() change this text? */
bool verify_is_secret(const char *text);

/* The line of one check, and the report as text. */
void verify_print_check(const json_t *check, FILE *out);
void verify_print(const json_t *report, FILE *out);
/* Prints the report's first lines and the failed checks. */
void verify_print_summary(const json_t *report, FILE *out);

#endif
