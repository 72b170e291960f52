/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A fabric connected to itself: blocking RMA operations through the fabric to this process. Every
 * operation returns 0, or -1 with an error text in *why.
 */
#ifndef HMREG_TOOLS_LOOP_H
#define HMREG_TOOLS_LOOP_H

#include <hmreg/hmreg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LOOP_TIMEOUT 5 /* timeout, seconds; a working operation takes microseconds */

struct fabric;
struct loop;

struct loop_why {
    char text[1024]; /* an error's, and what is said of it */
};

/* Sets *why and returns -1. */
int loop_fail(struct loop_why *why, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The deadline LOOP_TIMEOUT seconds from now; has it passed? */
int64_t loop_deadline(void);
bool loop_is_over(int64_t deadline);

struct loop_move {
    bool write;                /* local to remote; else remote to local */
    void *local;               /* host memory */
    const struct hmreg_mr *mr; /* the region of local */
    size_t len;
    struct hmreg_remote *remote; /* the other side, opened on the same domain */
    uint64_t addr, key;          /* from hmreg_remote_addr() */
};

struct loop_ops {
    int (*open)(const struct fabric *fabric, struct hmreg_domain *domain, struct loop **out,
                struct loop_why *why);
    int (*move)(struct loop *loop, const struct loop_move *move, struct loop_why *why);
    /* Binds a region to the endpoint before its first use (HMREG_MR_ENDPOINT); may be NULL. */
    int (*tie)(struct loop *loop, struct hmreg_mr *mr, struct loop_why *why);
    void (*close)(struct loop *loop);
};

extern const struct loop_ops loop_loopback_ops;
extern const struct loop_ops loop_ofi_ops;
extern const struct loop_ops loop_verbs_ops;

#endif
