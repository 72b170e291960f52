/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See prover.h. The separate process executes this program again (neither CUDA nor libfabric
 * survives fork()). It writes to a pipe, one JSON object per line: first which proof begins, then
 * its result. Its standard output is not the doctor's, since libraries may print there.
 */
#include "tools/prover.h"

#include "tools/child.h"
#include "tools/command.h"
#include "tools/foreign.h"
#include "tools/fabrics.h"
#include "tools/signals.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PIPE_FD   3 /* in the separate process */
#define LINE_ROOM (1 << 16)

/* ---- in the separate process ------------------------------------------------------------ */

static FILE *parent;

/* Writes a line to the pipe. way: NONE if the proof is of none in particular. proof: NULL if it
 * begins, else its result. */
static void report(const struct fabric *fabric, size_t memory, enum hmreg_way way, json_t *proof)
{
    json_t *line = doc_pack("{s:s, s:s, s:o, s:o, s:i, s:o}", "way", hmreg_way_name(way),
                            "provider", fabric->provider, "fabric", doc_text(fabric->name),
                            "domain", doc_text(fabric->domain), "memory", (int)memory, "proof",
                            proof ? proof : json_null());

    json_dumpf(line, parent, JSON_COMPACT);
    fputc('\n', parent);
    fflush(parent);
    json_decref(line);
}

/* Does path dmabuf reach the device's memory from the NIC, as far as is known? */
static bool has_ways(const struct fabric *fabric, const json_t *memory)
{
    const json_t *paths = json_object_get(memory, "paths");

    return fabric->nic && doc_has(memory, "device") &&
           doc_is(json_object_get(paths, "dmabuf"), "usable");
}

static void visit(struct fabric_list *list, const struct fabric *fabric,
                  struct hmreg_domain *domain, json_t *described)
{
    const json_t *memory;
    size_t i;

    json_array_foreach(json_object_get(described, "memory"), i, memory) {
        if (!proof_is_worth_it(list, fabric))
            return;
        report(fabric, i, HMREG_WAY_NONE, NULL);
        report(fabric, i, HMREG_WAY_NONE, proof_try(list, fabric, domain, memory));
        for (int way = 1; way < HMREG_WAY_COUNT && has_ways(fabric, memory); way++) {
            report(fabric, i, (enum hmreg_way)way, NULL);
            report(fabric, i, (enum hmreg_way)way,
                   proof_try_way(list, fabric, memory, (enum hmreg_way)way));
        }
    }
}

int prover_main(void)
{
    struct fabric_list list = {.visit = visit};
    json_t *document = doc_object();

    parent = fcntl(PIPE_FD, F_GETFD) < 0 ? NULL : fdopen(PIPE_FD, "w");
    if (!parent || signals_after(hmreg_open(NULL, &list.lib))) {
        print_error("hmreg doctor: %s is the doctor's own", PROVER_ARGUMENT);
        return EXIT_ERROR;
    }
    fcntl(PIPE_FD, F_SETFD, FD_CLOEXEC);
    fabrics_visit(&list, document);
    json_decref(document);
    hmreg_close(list.lib);
    fclose(parent);
    return EXIT_GOOD;
}

/* ---- reading its lines ------------------------------------------------------------------ */

struct prover {
    pid_t pid;
    int fd;
    json_t *facts;
    json_t *pending; /* a proof that has begun, whose result has not arrived */
    char line[LINE_ROOM];
    size_t used;
};

static json_t *memory_of(const json_t *facts, const json_t *line)
{
    static const char *const keys[] = {"provider", "fabric", "domain"};
    const json_t *fabric;
    size_t k;

    doc_each(fabric, json_object_get(facts, "fabrics")) {
        for (k = 0; k < 3 && doc_equals(fabric, keys[k], doc_words(line, keys[k])); k++)
            continue;
        if (k == 3)
            return json_array_get(json_object_get(fabric, "memory"),
                                  (size_t)doc_number(line, "memory"));
    }
    return NULL;
}

static void set_proof(struct prover *prover, const json_t *line, json_t *proof)
{
    json_t *memory = memory_of(prover->facts, line);

    if (!memory)
        json_decref(proof);
    else if (doc_equals(line, "way", "none"))
        doc_set(memory, "proof", proof);
    else
        doc_add(json_object_get(json_object_get(memory, "proof"), "ways"), proof);
}

static void take_line(struct prover *prover, const char *text)
{
    json_t *line = json_loads(text, 0, NULL);

    json_decref(prover->pending);
    prover->pending = NULL;
    if (doc_has(line, "proof"))
        set_proof(prover, line, json_incref(json_object_get(line, "proof")));
    else
        prover->pending = json_incref(line);
    json_decref(line);
}

static void take_lines(struct prover *prover)
{
    char *start = prover->line, *end;

    prover->line[prover->used] = '\0';
    for (; (end = strchr(start, '\n')); start = end + 1) {
        *end = '\0';
        take_line(prover, start);
    }
    prover->used = strlen(start);
    memmove(prover->line, start, prover->used);
}

/* Reads lines until end of file: 0; -1: no line arrived within `patience` seconds. */
static int listen_to(struct prover *prover, int patience)
{
    struct pollfd ready = {.fd = prover->fd, .events = POLLIN};
    ssize_t got = 1;

    while (got > 0 && prover->used < LINE_ROOM - 1) {
        int rc = poll(&ready, 1, patience * 1000);

        if (rc <= 0)
            return rc < 0 && errno == EINTR ? listen_to(prover, patience) : -1;
        got = read(prover->fd, prover->line + prover->used, LINE_ROOM - 1 - prover->used);
        prover->used += got > 0 ? (size_t)got : 0;
        take_lines(prover);
    }
    return 0;
}

/* ---- its end ---------------------------------------------------------------------------- */

static bool ends_within(const struct prover *prover, int seconds, int *status)
{
    const struct timespec moment = {.tv_nsec = 10000000};
    pid_t ended = 0;

    for (int i = 0; i < seconds * 100; i++) {
        ended = waitpid(prover->pid, status, WNOHANG);
        if (ended)
            break;
        nanosleep(&moment, NULL);
    }
    return ended != 0;
}

/* Kills the process. If it is stuck in a driver and does not die within 2 s, gives up waiting. */
static void stop(const struct prover *prover)
{
    int status;

    kill(prover->pid, SIGKILL);
    ends_within(prover, 2, &status);
}

/* Marks the proof in progress at the process's end as failed. */
static void fail_pending(struct prover *prover, const char *why)
{
    const char *way = doc_words(prover->pending, "way");

    if (prover->pending && !strcmp(way, "none"))
        set_proof(prover, prover->pending,
                  doc_pack("{s:s, s:s, s:n, s:n, s:[], s:[]}", "result", "failed", "text", why,
                           "path", "way", "refused", "ways"));
    else if (prover->pending)
        set_proof(prover, prover->pending,
                  doc_pack("{s:s, s:s, s:s}", "way", way, "result", "failed", "text", why));
    json_decref(prover->pending);
}

/* Marks the memories of NICs that the process did not reach as untried. Fabrics without a NIC need
 * no proof. */
static void mark_untried(json_t *facts, const char *why)
{
    json_t *fabric, *memory;

    doc_each(fabric, json_object_get(facts, "fabrics")) {
        if (!doc_has(fabric, "nic"))
            continue;
        doc_each(memory, json_object_get(fabric, "memory")) {
            if (doc_has(memory, "proof"))
                continue;
            doc_set(memory, "proof",
                    doc_pack("{s:s, s:o, s:n, s:n, s:[], s:[]}", "result", "untried", "text",
                             doc_format("it was not come to: %s", why), "path", "way", "refused",
                             "ways"));
        }
    }
}

static void finish(struct prover *prover, int rc, int patience)
{
    char why[160];
    int status = 0;

    /* A driver may keep the process from its end after the last proof, too. */
    if (rc || !ends_within(prover, patience, &status)) {
        rc = -1;
        stop(prover);
        snprintf(why, sizeof(why), "it did not come to an end within %d s and was stopped",
                 patience);
    } else if (WIFSIGNALED(status)) {
        snprintf(why, sizeof(why), "the process that tried it was ended by signal %d (%s)",
                 WTERMSIG(status), strsignal(WTERMSIG(status)));
    } else {
        snprintf(why, sizeof(why), "the process that tried it exited with status %d",
                 WEXITSTATUS(status));
    }
    fail_pending(prover, why);
    if (rc || status)
        mark_untried(prover->facts, why);
}

/* ---- starting it ------------------------------------------------------------------------ */

static int start(struct prover *prover)
{
    char name[] = "hmreg", command[] = "doctor", argument[] = PROVER_ARGUMENT;
    char *argv[] = {name, command, argument, NULL};

    return -child_start(argv, PIPE_FD, &prover->pid, &prover->fd);
}

static void clear_proofs(json_t *facts)
{
    const json_t *fabric;
    json_t *memory;

    doc_each(fabric, json_object_get(facts, "fabrics"))
        doc_each(memory, json_object_get(fabric, "memory"))
            doc_set(memory, "proof", json_null());
}

void prover_run(json_t *facts, int patience)
{
    struct prover *prover = calloc(1, sizeof(*prover));
    int rc;

    clear_proofs(facts);
    if (!prover)
        return;
    prover->facts = facts;
    rc = start(prover);
    if (rc) {
        mark_untried(facts, hmreg_strerror(rc));
    } else {
        rc = listen_to(prover, patience);
        finish(prover, rc, patience);
        close(prover->fd);
    }
    free(prover);
}
