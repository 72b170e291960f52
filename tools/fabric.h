/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * One fabric and what it can register, as JSON; hmreg(1) documents the keys. A library of fabrics
 * lists what it has by calling fabric_add() for each, opened.
 */
#ifndef HMREG_TOOLS_FABRIC_H
#define HMREG_TOOLS_FABRIC_H

#include "tools/document.h"

struct fabric;
struct loop_ops;

/* The list being made. */
struct fabric_list {
    struct hmreg *lib;
    json_t *fabrics;
    /* Called with each fabric that could be opened, while it is open, and with what is said about
     * it, which it may add to; may be NULL. */
    void (*visit)(struct fabric_list *list, const struct fabric *fabric,
                  struct hmreg_domain *domain, json_t *described);
};

/* One fabric, opened: `native` and `info` are what open() needs. */
struct fabric {
    const char *provider;        /* hmreg's: "ofi" */
    const char *name;            /* "tcp;ofi_rxm" */
    const char *domain;          /* the network interface or NIC */
    const char *nic;             /* the RDMA device that moves the bytes; NULL: the CPU does */
    uint64_t max_mr;             /* regions it can have; 0: it does not say */
    const struct loop_ops *loop; /* how it is connected with itself; NULL: not at all */
    void *native;
    const void *info;
    int (*open)(const struct fabric *self, struct hmreg *lib,
                const struct hmreg_domain_config *config, struct hmreg_domain **out);
};

void fabric_add(struct fabric_list *list, const struct fabric *fabric);

/* One that could not be opened: the library's own code and words. */
void fabric_add_failed(struct fabric_list *list, const struct fabric *fabric, int code,
                       const char *words);

/* The libraries of fabrics, where they are built in. list() returns why there is none, or NULL;
 * version() is of the library loaded, lacks() names what it is too old for, with the version that
 * has it. */
const char *ofi_list(struct fabric_list *list);
void ofi_lacks(json_t *names);
void ofi_version(char *buf, size_t size);
const char *verbs_list(struct fabric_list *list);
void verbs_lacks(json_t *names);
void verbs_version(char *buf, size_t size);

#endif
