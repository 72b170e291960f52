/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A small model of fi_mr(3) for one domain: which regions are registered, in which state, and what
 * each call may return. It does not use the library: property.c drives both and compares. A call
 * that breaks several rules may report any of them, since the manual does not order them: a
 * prediction is the set of errors that would be right; the empty set means success.
 */
#ifndef TESTS_CONFORMANCE_MODEL_H
#define TESTS_CONFORMANCE_MODEL_H

#include <hmreg/loopback.h>
#include <stdbool.h>

#define MODEL_REGIONS 12
#define MODEL_OBJECTS 3 /* endpoints, and as many counters */
#define MODEL_MAPPED  6
#define MODEL_PAGES   16
#define MODEL_RANGES  4

/* Errors that a call may return. */
struct verdict {
    int codes[16];
    int count;
};

/* A range of the arena: offset and length in bytes. */
struct model_range {
    uint64_t offset, len;
};

struct model_region {
    bool open;
    struct model_range ranges[MODEL_RANGES];
    size_t count;
    uint64_t access, flags, key;
    bool enabled, pending;
    bool foreign; /* registered with an authorization key that the peer lacks */
    int ep;       /* -1: none */
    bool counters[MODEL_OBJECTS];
    bool known[MODEL_PAGES]; /* pages of the arena that the domain knows to be resident */
};

struct model {
    uint32_t mr_mode; /* BASIC and SCALABLE replaced by their bits */
    uint64_t max_key;
    uint32_t iov_limit;
    uint64_t max_len;
    uint64_t page;
    bool async;
    bool resident[MODEL_PAGES];
    struct model_region regions[MODEL_REGIONS];
    bool ep_open[MODEL_OBJECTS], counter_open[MODEL_OBJECTS];
    uint64_t counts[MODEL_OBJECTS];
    int queue[MODEL_REGIONS]; /* regions with unread events, oldest first */
    int queued;
    int mapped[MODEL_MAPPED];       /* the region of this raw key; -1: unused slot */
    uint64_t serial[MODEL_REGIONS]; /* number of the registration in a slot */
    uint64_t last_serial;
};

/* A registration call. */
struct model_reg {
    struct model_range ranges[MODEL_RANGES + 2];
    size_t count;
    uint64_t access, offset, key, flags;
    bool foreign;
};

/* An RMA call. region: the one whose key is used, -1: no region's. */
struct model_rma {
    bool write;
    int region;
    bool raw_mapped; /* the key was mapped (HMREG_MR_RAW) */
    uint64_t addr;   /* relative to the arena in HMREG_MR_VIRT_ADDR, else to the region */
    uint64_t len;
    int desc;                 /* region whose desc is passed, -1: NULL */
    struct model_range local; /* in the arena; len 0: outside of it */
};

void verdict_add(struct verdict *verdict, int code);
bool verdict_allows(const struct verdict *verdict, int code);

struct verdict model_reg(const struct model *model, const struct model_reg *reg);
void model_reg_done(struct model *model, int slot, const struct model_reg *reg, uint64_t key);
struct verdict model_close(const struct model *model, int slot);
void model_close_done(struct model *model, int slot);
struct verdict model_bind_ep(const struct model *model, int slot, uint64_t flags);
struct verdict model_bind_counter(const struct model *model, int slot, int counter, uint64_t flags);
struct verdict model_enable(const struct model *model, int slot);
struct verdict model_refresh(const struct model *model, int slot, const struct model_range *part,
                             uint64_t flags);
void model_refresh_done(struct model *model, int slot, const struct model_range *part);
struct verdict model_rma(const struct model *model, const struct model_rma *rma);
/* Where the bytes of a granted RMA go, piece by piece: the offset in the arena of its byte `at`. */
uint64_t model_rma_place(const struct model *model, const struct model_rma *rma, uint64_t at);
void model_rma_done(struct model *model, const struct model_rma *rma);
/* The result of hmreg_mr_key(). */
uint64_t model_key(const struct model *model, int slot);
void model_unbind_ep(struct model *model, int ep);
void model_unbind_counter(struct model *model, int counter);

#endif
