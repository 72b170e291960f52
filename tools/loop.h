/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * An endpoint of a fabric, connected to itself or to another process's: blocking RMA operations
 * through the fabric. Every operation returns 0, or -1 with an error text in *why.
 */
#ifndef HMREG_TOOLS_LOOP_H
#define HMREG_TOOLS_LOOP_H

#include <hmreg/hmreg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LOOP_TIMEOUT 5 /* timeout, seconds; a working operation takes microseconds */
#define LOOP_ADDRESS 256

struct fabric;
struct loop;

/* Faults of a network. */
enum loop_fault { LOOP_OTHER, LOOP_PORT_DOWN, LOOP_NO_ROUTE, LOOP_REFUSED, LOOP_TIMED_OUT };

struct loop_why {
    enum loop_fault fault;
    char text[1024]; /* the error and its context */
};

/* Sets *why and returns -1. */
int loop_fail(struct loop_why *why, const char *format, ...) __attribute__((format(printf, 2, 3)));
int loop_fail_as(struct loop_why *why, enum loop_fault fault, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The network's fault behind an errno value, of libfabric's too. */
enum loop_fault loop_fault_of(int error);
/* "other", "port-down", "no-route", "refused", "timeout"; and back. */
const char *loop_fault_name(enum loop_fault fault);
enum loop_fault loop_fault_named(const char *name);

/* The deadline LOOP_TIMEOUT seconds from now; has it passed? */
int64_t loop_deadline(void);
bool loop_is_over(int64_t deadline);

struct loop_address {
    uint8_t bytes[LOOP_ADDRESS];
    size_t size;
};

struct loop_move {
    bool write; /* local to remote; else remote to local */
    void *local;
    const struct hmreg_mr *mr; /* the region of local */
    size_t len;
    struct hmreg_remote *remote; /* the other side, opened on the same domain */
    uint64_t addr, key;          /* from hmreg_remote_addr() */
};

struct loop_ops {
    int (*open)(const struct fabric *fabric, struct hmreg_domain *domain, struct loop **out,
                struct loop_why *why);
    /* address(): the address by which another endpoint connects to this one. connect(): connects to
     * an address, which may come from any host. NULL: it needs no connection. */
    int (*address)(struct loop *loop, struct loop_address *out, struct loop_why *why);
    int (*connect)(struct loop *loop, const struct loop_address *address, struct loop_why *why);
    /* Lets others' operations on this process's memory progress; NULL: they need no help. */
    void (*serve)(struct loop *loop);
    int (*move)(struct loop *loop, const struct loop_move *move, struct loop_why *why);
    /* Binds a region to the endpoint before its first use (HMREG_MR_ENDPOINT); may be NULL. */
    int (*tie)(struct loop *loop, struct hmreg_mr *mr, struct loop_why *why);
    void (*close)(struct loop *loop);
};

/* Opens an endpoint that is connected with itself. */
int loop_open_self(const struct loop_ops *ops, const struct fabric *fabric,
                   struct hmreg_domain *domain, struct loop **out, struct loop_why *why);

/* ---- memory ----------------------------------------------------------------------------- */

/* Fills memory with bytes that depend on their place; and compares them, with `what` in the error
 * text. */
void loop_fill(char *bytes, size_t len, unsigned seed);
int loop_compare(const char *found, size_t len, unsigned seed, const char *what,
                 struct loop_why *why);

/* A key for a region of the domain, if its users choose keys; else 0. A process that reaches the
 * endpoint and guesses the key could write to the region. */
int loop_choose_key(struct hmreg_domain *domain, uint64_t *key, struct loop_why *why);

extern const struct loop_ops loop_loopback_ops;
extern const struct loop_ops loop_ofi_ops;
extern const struct loop_ops loop_verbs_ops;

#endif
