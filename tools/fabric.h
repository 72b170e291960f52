/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * One fabric and what it can register, as JSON; hmreg(1) documents the keys. A fabric library's
 * list function calls fabric_add() for each of its fabrics, opened.
 */
#ifndef HMREG_TOOLS_FABRIC_H
#define HMREG_TOOLS_FABRIC_H

#include "tools/document.h"

struct fabric;
struct loop_ops;

/* The list under construction. */
struct fabric_list {
    struct hmreg *lib;
    json_t *fabrics;
    const char *only;     /* the fabrics of this name (fabric_wanted()); NULL: all */
    const char *provider; /* the fabrics of this library, and no other is called; NULL: all */
    /* True: open this fabric. May be called repeatedly for a fabric. NULL: open every fabric. */
    bool (*wants)(struct fabric_list *list, const struct fabric *fabric);
    /* Called before libfabric looks for its fabrics (nic: NULL), and before a NIC of libibverbs is
     * opened. Returns why this process must not do so, or NULL. NULL: it does. */
    const char *(*refuses)(struct fabric_list *list, const struct fabric *nic);
    /* Called for each fabric that could be opened, while it is open, with its JSON description,
     * which the callback may extend; may be NULL. */
    void (*visit)(struct fabric_list *list, const struct fabric *fabric,
                  struct hmreg_domain *domain, json_t *described);
};

/* One fabric, opened: `native` and `info` are what open() needs. */
struct fabric {
    const char *provider; /* hmreg's provider: "ofi" */
    const char *name;     /* "tcp;ofi_rxm" */
    const char *domain;   /* the network interface or NIC */
    const char *address;  /* libfabric's source address, in text, without a port; NULL: none */
    const char *nic;      /* the RDMA device that moves the bytes; NULL: the CPU does */
    uint64_t max_mr;      /* limit of regions; 0: unknown */
    const struct loop_ops *loop; /* how to connect it to itself; NULL: impossible */
    void *native;
    const void *info;
    int (*open)(const struct fabric *self, struct hmreg *lib,
                const struct hmreg_domain_config *config, struct hmreg_domain **out);
};

/* Is the fabric in the list's selection? list->wants() accepts it, and list->only is its name, a
 * layer of that ("tcp" in "tcp;ofi_rxm"), its provider, its domain or its RDMA device. */
bool fabric_wanted(struct fabric_list *list, const struct fabric *fabric);

/* Adds it if it is wanted. */
void fabric_add(struct fabric_list *list, const struct fabric *fabric);

/* Adds a fabric that could not be opened, with the library's error code and text. */
void fabric_add_failed(struct fabric_list *list, const struct fabric *fabric, int code,
                       const char *words);

/* The fabric libraries, if built in. list() returns NULL, or why there is no fabric; version()
 * gives the loaded library's version; lacks() lists the features that it is too old for, each with
 * the version that introduced it. */
const char *ofi_list(struct fabric_list *list);
void ofi_lacks(json_t *names);
void ofi_version(char *buf, size_t size);
const char *verbs_list(struct fabric_list *list);
void verbs_lacks(json_t *names);
void verbs_version(char *buf, size_t size);

#endif
