/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * hmreg info: what this machine offers, what is missing and why.
 */
#include "tools/command.h"
#include "tools/fabrics.h"
#include "tools/info_text.h"
#include "tools/machine.h"

#include <stdio.h>

struct options {
    bool json;
};

static const char *take_json(const char *value, void *options)
{
    ((struct options *)options)->json = true;
    return NULL;
}

static json_t *describe(struct hmreg *lib)
{
    json_t *document = doc_new("info");

    doc_set(document, "system", machine_system());
    doc_set(document, "runtimes", machine_runtimes(lib));
    doc_set(document, "devices", machine_devices(lib));
    fabrics_describe(lib, document);
    doc_set(document, "limits", machine_limits(lib));
    doc_set(document, "environment", machine_environment());
    return document;
}

static int run(const struct command *self, int argc, char **argv)
{
    struct options options = {0};
    int status = options_parse(self, argc, argv, &options);
    struct hmreg *lib;
    json_t *document;

    if (status != EXIT_GO_ON)
        return status;
    if (hmreg_open(NULL, &lib)) {
        fprintf(stderr, "hmreg info: %s\n", hmreg_last_error()->text);
        return EXIT_FAILED;
    }
    document = describe(lib);
    hmreg_close(lib);
    if (!options.json)
        info_print_text(document);
    else
        doc_print_json(document);
    json_decref(document);
    return EXIT_GOOD;
}

static const struct option_def options[] = {
    {"json", NULL, "JSON instead of tables; its keys are in hmreg(1)", take_json},
    {0},
};

const struct command command_info = {
    .name = "info",
    .summary = "show runtimes, devices, fabrics and limits, and why others are missing",
    .description =
        "Shows what the library finds on this machine:\n"
        "  runtimes  the vendors' libraries, and why one is not usable\n"
        "  devices   with PCI address; a test's fake is marked \"simulated\"\n"
        "  fabrics   of libfabric and libibverbs, each opened, and what each demands\n"
        "  memory    which path each fabric has to the memory of each device:\n"
        "              system   host memory by its address; a page of it is registered\n"
        "              dmabuf   the fabric imports a descriptor of device memory\n"
        "              peermem  the fabric reaches device memory by its address\n"
        "              mapped   the CPU reaches it through a mapping of the dmabuf\n"
        "            For devices \"yes\" means that nothing known speaks against it: no\n"
        "            device memory is registered here. A \"no\" has its reason below.\n"
        "  limits    of this process and of the cache of registrations\n",
    .examples = "  hmreg info\n"
                "  hmreg info --json | jq '.devices[] | {iface, device, pci, simulated}'\n"
                "  HMREG_IFACES=cuda FI_PROVIDER=tcp hmreg info    look at less\n",
    .failed = "the library could not be opened",
    .options = options,
    .run = run,
};
