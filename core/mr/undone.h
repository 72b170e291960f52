/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The end of native registrations, and the domain's list of those that are still to be ended: what
 * failed calls leave that the fabric is too busy to deregister (-EBUSY), and all of a lost domain
 * (core/context/lost.h).
 *
 * What failed calls leave, later calls of the domain deregister. A lost domain's fabric may not
 * return: a thread of its own, "hmreg-lost", calls it. If that cannot be started, they stay in the
 * list, and later calls try to start it again. Where the fabric permits one thread at a time,
 * hmreg_domain_close() deregisters them.
 */
#ifndef HMREG_CORE_MR_UNDONE_H
#define HMREG_CORE_MR_UNDONE_H

#include "core/mr/mr.h"

void undone_init(struct undone *undone);
/* Before the domain ends, with nothing in the list: joins its thread, if it has one. */
void undone_close(struct hmreg_domain *domain);

/* Deregisters one of the natives, which is live, or of a failed call. -EBUSY: nothing changed. Of a
 * lost domain it is put into the list instead: 0. */
int native_end(struct natives *natives, size_t index, struct hmreg_domain *domain);
/* The same of a region without an extension, whose keys and taken key these are. -EBUSY also: no
 * memory to keep it. */
int native_end_plain(struct hmreg_domain *domain, struct hmreg_mr_keys *made,
                     const struct iovec *range, bool key_taken, uint64_t key);
/* Takes the keys out of the public head. */
void native_hide(struct hmreg_mr_keys *made);

/* Puts a registration into the list, and hides its keys. */
void undone_keep(struct natives *natives, size_t index, struct hmreg_domain *domain);
/* Tries again to deregister `most` of a domain's, on a group of each member's. Calls that register
 * on the domain or deregister do so; most of them find none, which costs one load. Keeps the
 * thread's last error. */
void undone_retry(struct hmreg_domain *domain, unsigned most);
/* Wakes the thread of a lost domain, on a group of each lost member, if it runs. */
void undone_wake(struct hmreg_domain *domain);
/* Deregisters a lost domain's list on the calling thread, where its fabric permits one thread. */
void undone_end_here(struct hmreg_domain *domain);
/* Is one of them in this range? */
bool undone_touch(struct hmreg_domain *domain, uint64_t start, uint64_t end);
/* How many are still registered. */
unsigned undone_left(const struct hmreg_domain *domain);

#endif
