/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The fabrics of this machine, as JSON: all fabrics of every fabric library that is built in.
 */
#ifndef HMREG_TOOLS_FABRICS_H
#define HMREG_TOOLS_FABRICS_H

#include "tools/fabric.h"
#include "tools/table.h"

/* Sets "fabric_libraries" and "fabrics" of a document. The caller has set the rest of the list. */
void fabrics_visit(struct fabric_list *list, json_t *document);

/* Puts both into the order in which an operator looks for them: RDMA devices, other fabrics that
 * reach device memory, fabrics of the CPU. */
void fabrics_order(json_t *document);

/* The beginning of the options of a command with --fabric, and its take(). */
struct fabric_options {
    bool json;
    const char *fabric; /* NULL: all */
};
const char *fabrics_take_name(const char *value, void *options);
#define FABRICS_OPTION                                                                             \
    OPTION("fabric", "NAME", "only fabrics or RDMA devices of this name", fabrics_take_name)
/* If no fabric was listed, adds that to "failures". */
void fabrics_fail_if_none(json_t *document, const struct fabric_options *options,
                          const json_t *fabrics);

/* The library of an object with a "provider", such as a fabric: libfabric's verbs and libibverbs
 * are two fabrics of one NIC. */
const char *fabrics_library(const json_t *fabric);

/* fabrics_library(), as the cell of a column. */
const char *cell_library(const json_t *fabric, char buf[CELL], json_t *notes);

/* Prints "fabrics": the requirements of each, and the memory it can register. */
void fabrics_print_text(const json_t *fabrics);

#endif
