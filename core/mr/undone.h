/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Ends native registrations, and lists a domain's registrations that must still end: registrations
 * of failed calls that the fabric is too busy to deregister (-EBUSY), and all registrations of a
 * lost domain (core/context/lost.h).
 *
 * Later calls of the domain deregister a failed call's registrations. A lost domain's fabric may
 * not return, so the domain's own thread, "hmreg-lost", calls it. If that thread cannot be started,
 * the registrations stay in the list, and later calls try again. If the fabric permits one thread
 * at a time, hmreg_domain_close() deregisters them.
 */
#ifndef HMREG_CORE_MR_UNDONE_H
#define HMREG_CORE_MR_UNDONE_H

#include "core/mr/mr.h"

void undone_init(struct undone *undone);
/* Called before the domain ends, with an empty list: joins its thread, if it has one. */
void undone_close(struct hmreg_domain *domain);

/* Deregisters one of the natives that is live, or of a failed call. -EBUSY: nothing changed. On a
 * lost domain puts it into the list instead, and returns 0. */
int native_end(struct natives *natives, size_t index, struct hmreg_domain *domain);
/* native_end() for a region without an extension: its keys, and the key that it has taken. -EBUSY
 * also: no memory to list it. */
int native_end_plain(struct hmreg_domain *domain, struct hmreg_mr_keys *made,
                     const struct iovec *range, bool key_taken, uint64_t key);
/* Takes the keys out of the public head. */
void native_hide(struct hmreg_mr_keys *made);

/* Puts a registration into the list, and hides its keys. */
void undone_keep(struct natives *natives, size_t index, struct hmreg_domain *domain);
/* Tries again to deregister at most `most` of a domain's list, for a group of each member's. Calls
 * that register or deregister on the domain call it; an empty list costs one load. Keeps the
 * thread's last error. */
void undone_retry(struct hmreg_domain *domain, unsigned most);
/* Wakes the thread of a lost domain, or of each lost member of a group, if it runs. */
void undone_wake(struct hmreg_domain *domain);
/* Deregisters a lost domain's list on the calling thread, where its fabric permits one thread. */
void undone_end_here(struct hmreg_domain *domain);
/* Is a listed registration in this range? */
bool undone_touch(struct hmreg_domain *domain, uint64_t start, uint64_t end);
/* The number of listed registrations that are still registered. */
unsigned undone_left(const struct hmreg_domain *domain);

#endif
