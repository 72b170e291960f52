/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The parts of example 12. Each opens its own domains on lib; 0 or a negative error number.
 */
#ifndef PARTS_H
#define PARTS_H

#include <hmreg/hmreg.h>

int bound(struct hmreg *lib);     /* bound.c: endpoints, counters, event queues */
int raw(struct hmreg *lib);       /* raw.c: raw keys, refreshed pages */
int large(struct hmreg *lib);     /* large.c: regions of many pieces, in the background */
int tokens(struct hmreg *lib);    /* tokens.c: many tokens, tokens of rails */
int remember(struct hmreg *lib);  /* remember.c: a record for each buffer, ends of cached regions */
int lost(struct hmreg *lib);      /* lost.c: a NIC that is gone */
int member(struct hmreg *lib);    /* member.c: a group's member that is replaced */
int hibernate(struct hmreg *lib); /* hibernate.c: before and after a checkpoint */

/* 0 if what must be so is so. */
static inline int expect(int so)
{
    return so ? 0 : -EBADMSG;
}

#endif
