/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Between the client's files.
 */
#ifndef TESTS_KFI_CLIENT_H
#define TESTS_KFI_CLIENT_H

#include "calls.h"
#include "hmreg_kfi.h"

#include <linux/dma-buf.h>

#define REGIONS 40
#define PIECES  8

struct region {
    struct kfid_mr *mr;
    u32 index;
    /* What is registered, as the CPU reaches it; `vectors` where that is by pages. */
    struct kvec piece[PIECES];
    int pieces;
    size_t length;
    void *kmalloced, *vmalloced;
    struct page *pages[PIECES]; /* allocated, or a program's, pinned */
    int pinned;
    struct bio_vec *vectors;
    int count; /* of vectors, or of the list's mapped elements */
    struct sg_table list;
    struct dma_buf *dmabuf;
    struct dma_buf_attachment *attachment;
    struct sg_table *attached;
};

/* client.c */
extern struct ib_device *client_device;
extern struct ib_pd *client_pd;
extern struct kfid_domain *client_domain;
extern struct region client_regions[REGIONS];

/* memories.c: what a region of that kind consists of, and its end */
int memory_make(struct region *region, struct client_reg *reg);
void memory_end(struct region *region);
u64 memory_bytes(struct region *region, u32 seed, bool compare);
int memories_init(void);
void memories_exit(void);

/* handler.c: what the handler of an event queue does */
kfi_event_handler handler_begin(enum client_handler which);
void handler_expect(void);  /* one call more is to come */
bool handler_is_done(void); /* as many calls as expected have returned */
void handler_wake(void);    /* those that sleep */
void handler_wake_later(void);
void handler_wake_now(void); /* after it */
int handler_calls(int *rc);  /* that have returned; 0 or an error of one */

/* fuzz.c */
void fuzz_init(void);
void fuzz(const struct client_fuzz *call);
int fuzz_end(u32 *counts); /* NULL, or what was done */

/* wrong.c: the result of a call with wrong arguments; -EBADE: it changed its output */
int wrong_call(struct kfid_domain *domain, enum client_wrong_call call);

/* connection.c: the client's queue pair */
extern struct ib_qp *client_qp;
int connection_open(struct client_connect *connect);
int connection_push(struct kfid_mr *mr, struct client_push *push);
void connection_close(void);

/* iwarp.c */
static inline bool client_is_iwarp(void)
{
    return rdma_protocol_iwarp(client_device, 1);
}

struct ib_qp *iwarp_own(void);
int iwarp_expect(void);
void iwarp_close(void);

#endif
