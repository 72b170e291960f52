/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * hmreg doctor: why GPUDirect RDMA works on this machine or does not. Gathers facts, runs proofs,
 * judges, and prints what to do.
 */
#include "tools/doctor/doctor.h"

#include "tools/command.h"
#include "tools/fabrics.h"
#include "tools/foreign.h"
#include "tools/doctor/doctor_picture.h"
#include "tools/doctor/findings.h"
#include "tools/doctor/peer.h"
#include "tools/machine.h"
#include "tools/root.h"
#include "tools/topology.h"
#include "tools/verify/verify.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PATIENCE 60 /* seconds, default */

struct options {
    bool json, no_proof, verbose, brief, metrics;
    int patience; /* seconds */
    const char *explain, *picture, *compare;
    const char *serve, *peer, *secret;
    const json_t *earlier; /* NULL: none is given */
    bool *drawn;           /* NULL: no picture is asked for */
};

/* ---- facts ------------------------------------------------------------------------------ */

static json_t *gather(struct hmreg *lib, const struct options *options)
{
    json_t *facts = doc_object(), *fabric;

    doc_set(facts, "root", doc_text(root_prefix()));
    doc_set(facts, "kernel", kernel_facts());
    doc_set(facts, "process", process_facts(lib));
    doc_set(facts, "cache", machine_cache_limits(lib));
    doc_set(facts, "runtimes", machine_runtimes(lib));
    doc_set(facts, "devices", machine_devices(lib));
    doc_set(facts, "gpus", gpus_facts());
    doc_set(facts, "nvidia", nvidia_facts(json_object_get(facts, "runtimes")));
    doc_set(facts, "nics", nics_facts());
    doc_set(facts, "peer_memory", peers_facts());
    doc_set(facts, "topology",
            topology_facts(json_object_get(facts, "devices"), json_object_get(facts, "nics")));
    verify_fabrics(lib, facts, options->patience);
    if (!options->no_proof)
        proof_run(facts, options->patience);
    nics_look_again(json_object_get(facts, "nics"));
    doc_each(fabric, json_object_get(facts, "fabrics"))
        json_object_del(fabric, "checks");
    fabrics_order(facts); /* NICs as libibverbs lists them: libfabric often has them reversed */
    doc_set(facts, "pairs", paths_pairs(facts));
    return facts;
}

static json_t *describe(struct hmreg *lib, const void *given)
{
    static const char *const verdicts[SEVERITIES] = {"good", "degraded", "broken"};
    const struct options *options = given;
    json_t *document = doc_new("doctor"), *facts = gather(lib, options);
    json_t *findings = doctor_judge(facts);

    doc_set(document, "verdict", doc_text(verdicts[findings_worst(findings)]));
    doc_set(document, "summary", doctor_summary(facts, findings));
    doc_set(document, "findings", findings);
    doc_set(document, "facts", facts);
    if (options->earlier)
        doc_set(document, "compared", doctor_compare(options->earlier, document));
    if (options->drawn)
        *options->drawn = picture_write(options->picture, document);
    return document;
}

/* ---- the command ------------------------------------------------------------------------ */

static int explain(const char *code)
{
    if (finding_explain(code))
        return EXIT_GOOD;
    if (strcmp(code, "list")) {
        findings_print_near(code);
        return EXIT_ERROR;
    }
    findings_print_codes();
    return EXIT_GOOD;
}

static int status_of(const json_t *document)
{
    return (int)findings_worst(json_object_get(document, "findings"));
}

/* Shows the document as --brief, --openmetrics, JSON or text. */
static int show_as(const struct command *self, const struct options *options)
{
    struct command shown = *self;

    if (options->brief)
        shown.print = doctor_print_brief;
    else if (options->metrics)
        shown.print = doctor_print_metrics;
    return command_show(&shown, options);
}

static int show_drawn(const struct command *self, struct options *options)
{
    bool drawn = false;
    int status;

    if (!picture_try(options->picture))
        return EXIT_ERROR;
    options->drawn = &drawn;
    status = show_as(self, options);
    return drawn ? status : EXIT_ERROR;
}

/* Runs --peer or --serve. */
static int meet(const struct options *options)
{
    const struct peer_options peer = {
        .serve = options->serve,
        .peer = options->peer,
        .secret = options->secret,
        .patience = options->patience,
        .json = options->json,
        .print = options->brief ? doctor_print_brief : doctor_print_text,
    };

    if ((options->serve && options->peer) || options->picture || options->compare ||
        options->no_proof || options->metrics || options->explain || !options->secret) {
        print_error("hmreg doctor: --serve or --peer needs --secret, and goes with --patience, "
                    "--verbose; --peer also with --json, --brief");
        return EXIT_ERROR;
    }
    doctor_print_all(options->verbose);
    return options->serve ? peer_serve(&peer) : peer_ask(&peer);
}

static int act(const struct command *self, struct options *options)
{
    json_t *earlier = NULL;
    int status;

    if (!!options->explain + options->json + options->brief + options->metrics > 1) {
        print_error("hmreg doctor: --explain, --json, --brief, --openmetrics: one of them is "
                    "accepted");
        return EXIT_ERROR;
    }
    if (options->serve || options->peer || options->secret)
        return meet(options);
    if (options->explain)
        return explain(options->explain);
    doctor_print_all(options->verbose);
    if (options->compare && !(earlier = doctor_read_earlier(options->compare)))
        return EXIT_ERROR;
    options->earlier = earlier;
    status = options->picture ? show_drawn(self, options) : show_as(self, options);
    json_decref(earlier);
    return status;
}

static int run(const struct command *self, int argc, char **argv)
{
    struct options options = {.patience = PATIENCE};
    int status;

    if (argc > 1 && !strcmp(argv[1], PEER_PART))
        return peer_part(argc - 2, argv + 2);
    status = options_parse(self, argc, argv, &options);
    if (status == EXIT_CONTINUE)
        status = act(self, &options);
    if (status == EXIT_ERROR && options.brief)
        doctor_print_unknown();
    return status;
}

/* ---- options ---------------------------------------------------------------------------- */

static const char *take_picture(const char *value, void *options)
{
    ((struct options *)options)->picture = value;
    return picture_is_name(value) ? NULL : "a file that ends in .svg or .dot is accepted";
}

static const char *take_serve(const char *value, void *options)
{
    ((struct options *)options)->serve = value ? value : "";
    return NULL;
}

static const struct option_def options[] = {
    OPTION_TEXT("explain", "CODE", "teach about a finding; \"list\" has all codes",
                offsetof(struct options, explain), "a finding's code is accepted, or list"),
    OPTION_FLAG("no-proof", "allocate nothing on devices and transfer nothing",
                offsetof(struct options, no_proof)),
    OPTION_NUMBER("patience", "SECONDS", "how long one proof may take, 1 to 3600; 60 unless said",
                  offsetof(struct options, patience), 1, 3600,
                  "seconds are accepted, from 1 to 3600"),
    OPTION("picture", "FILE", "draw devices, NICs and paths into FILE.svg (Graphviz)",
           take_picture),
    OPTION_TEXT("compare", "FILE", "begin with differences from FILE, an earlier --json",
                offsetof(struct options, compare), "a file is accepted"),
    OPTION("serve", "[=ADDRESS]", "let the doctor of another node prove pairs of NICs", take_serve),
    OPTION_TEXT("peer", "HOST", "prove pairs of NICs with a node that serves",
                offsetof(struct options, peer), "HOST or HOST:PORT is accepted"),
    OPTION_TEXT("secret", "FILE", "the secret of both nodes, mode 600, for --serve and --peer",
                offsetof(struct options, secret), "a file is accepted"),
    OPTION_FLAG("brief", "one line, as a Nagios plugin prints", offsetof(struct options, brief)),
    OPTION_FLAG("openmetrics", "metrics for Prometheus instead of text",
                offsetof(struct options, metrics)),
    OPTION_FLAG("verbose", "print all lines; 60 at most unless said",
                offsetof(struct options, verbose)),
    OPTION_JSON("JSON instead of text; its keys are in hmreg-doctor(1)"),
    {0},
};

const struct command command_doctor = {
    .name = "doctor",
    .summary = "say why GPUDirect works here or not, and prove it by transfers",
    .description =
        "Looks at everything GPUDirect rests on: runtimes, drivers, kernel modules, RDMA\n"
        "devices, the PCI tree, limits, permissions. For each pair of device and NIC it\n"
        "reports the path registration takes, why better ones are refused, and proves\n"
        "it: memory is allocated on the device and registered, the NIC, connected with\n"
        "itself, writes and reads it, and the bytes are compared.\n"
        "\n"
        "Needs no root, and names what only root can read. Changes nothing. Each finding\n"
        "has a code that stays, a sentence, a remedy, and where it was seen.\n",
    .examples = "  hmreg doctor\n"
                "  hmreg doctor --picture machine.svg\n"
                "  hmreg doctor --explain no-peer-memory\n"
                "  hmreg doctor --json | jq -r '.findings[] | .code + \": \" + .remedy'\n",
    .statuses = "  0  good: every pair has its best path\n"
                "  1  degraded: it works, but worse than it could\n"
                "  2  broken: no GPU, no RDMA device, no path, or a proof that failed\n"
                "  3  no verdict: the command line is wrong, the library cannot be opened,\n"
                "     or the output or the picture cannot be written\n",
    .error_status = EXIT_ERROR,
    .options = options,
    .run = run,
    .describe = describe,
    .print = doctor_print_text,
    .status = status_of,
};
